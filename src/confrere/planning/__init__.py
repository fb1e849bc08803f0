"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.planning.forecast import NoiseTerm, Plan, plan
from confrere.planning.price import Price, price

__all__ = ["NoiseTerm", "Plan", "Price", "plan", "price"]
