"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.planning.forecast import plan
from confrere.planning.price import price

__all__ = ["plan", "price"]
