"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.planning.forecast import plan, plan_schema
from confrere.planning.many_parties import choose_votes, plan_votes
from confrere.planning.paths import choose, recommend
from confrere.planning.price import price

__all__ = ["choose", "choose_votes", "plan", "plan_schema", "plan_votes", "price", "recommend"]
