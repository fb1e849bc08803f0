"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.methods.geometry import BEST, ExpectedArea
from confrere.planning.forecast import (
    choose,
    choose_votes,
    plan,
    plan_schema,
    plan_votes,
    privacy_cost,
)

__all__ = ["BEST", "ExpectedArea"]
__all__ += ["choose", "choose_votes", "plan", "plan_schema", "plan_votes", "privacy_cost"]
