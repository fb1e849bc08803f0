"""Outcomes that are no classes: amounts and counts.

Amounts in declared bounds are learned with a loss that is a square near them and a magnitude far
from them, counts with the Poisson loss up to a cap; both with the noise, geometry and budgets of
classes.
"""

from confrere.outcomes.kinds import Count, Quantity
from confrere.outcomes.losses import Huber, LogCosh, Poisson
from confrere.outcomes.regression import PrivateLinearRegression, PrivatePoissonRegression
from confrere.outcomes.times import TimeToEvent
from confrere.outcomes.together import CollaborativeRegression

__all__ = [
    "CollaborativeRegression",
    "Count",
    "Huber",
    "LogCosh",
    "Poisson",
    "PrivateLinearRegression",
    "PrivatePoissonRegression",
    "Quantity",
    "TimeToEvent",
]
