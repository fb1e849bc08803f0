"""Times to an event: curves of noised counts, and a regression of hazards."""

from confrere.outcomes.curve import SurvivalCurve
from confrere.outcomes.survival import PrivateSurvivalRegression
from confrere.outcomes.times import TimeToEvent

__all__ = ["PrivateSurvivalRegression", "SurvivalCurve", "TimeToEvent"]
