"""The data of an item, split as its paper says; the same split for every method."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from confrere_research.problems.customers_and_devices import customers_of_parties, devices
from confrere_research.problems.digits_and_news import (
    digits_apart,
    digits_transferred,
    science_or_talk,
)
from confrere_research.problems.hospitals import simulated_hospitals, states_as_hospitals
from confrere_research.spec import derived_seed

__all__ = ["PROBLEMS", "make_problem"]

#: Every problem: settings of the data and a seed in, data out.
PROBLEMS: dict[str, Callable[[Mapping[str, Any], int], Any]] = {
    "customers of parties": customers_of_parties,
    "devices": devices,
    "digits apart": digits_apart,
    "digits transferred": digits_transferred,
    "science or talk": science_or_talk,
    "simulated hospitals": simulated_hospitals,
    "states as hospitals": states_as_hospitals,
}


def make_problem(name: str, data: Mapping[str, Any], repeat: int) -> Any:
    """Return the data of one repeat; the split depends on the problem and the repeat alone."""
    return _cached(name, json.dumps(data, sort_keys=True), repeat)


@lru_cache(maxsize=4)
def _cached(name: str, data: str, repeat: int) -> Any:
    return PROBLEMS[name](json.loads(data), derived_seed(name, repeat))
