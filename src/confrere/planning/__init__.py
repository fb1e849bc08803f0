"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.planning.forecast import Forecast, NoiseTerm, plan
from confrere.planning.price import FitPrice, price

__all__ = ["FitPrice", "Forecast", "NoiseTerm", "plan", "price"]
