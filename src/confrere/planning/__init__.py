"""What epsilon, records, features and parties will bring, before any data are touched."""

from confrere.planning.forecast import plan
from confrere.planning.many_parties import choose_votes, plan_votes
from confrere.planning.paths import recommend
from confrere.planning.price import price
from confrere.planning.schema_forecast import plan_schema
from confrere.planning.together import choose

__all__ = ["choose", "choose_votes", "plan", "plan_schema", "plan_votes", "price", "recommend"]
