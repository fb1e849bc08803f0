"""Values that say what is promised, and how promises add up."""

from confrere.guarantee.composition import Split, in_parallel, in_sequence, one_of, shares
from confrere.guarantee.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    check_bound,
    check_epsilon,
    check_positive,
)

__all__ = [
    "Guarantee",
    "Neighbours",
    "Split",
    "Unit",
    "check_bound",
    "check_epsilon",
    "check_positive",
    "in_parallel",
    "in_sequence",
    "one_of",
    "shares",
]
