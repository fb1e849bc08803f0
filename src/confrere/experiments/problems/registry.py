"""From a name in a specification to data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from confrere.experiments.problems.customers import customers_of_parties
from confrere.experiments.problems.devices import devices
from confrere.experiments.problems.hospitals import simulated_hospitals, states_as_hospitals
from confrere.experiments.problems.mnist import digits_apart, digits_transferred
from confrere.experiments.problems.news20 import science_or_talk
from confrere.experiments.spec import derived_seed

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
