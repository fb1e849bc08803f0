"""Times to an event: curves of noised counts."""

from confrere.survival.curve import SurvivalCurve
from confrere.survival.kinds import TimeToEvent

__all__ = ["SurvivalCurve", "TimeToEvent"]
