"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.assurance.planning import choose, choose_votes, plan, plan_schema
from confrere.methods.geometry import BEST, ExpectedArea

__all__ = ["BEST", "ExpectedArea"]
__all__ += ["choose", "choose_votes", "plan", "plan_schema"]
