"""A small item that needs no data: one party, drawn from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from confrere.experiments import runner, spec
from confrere.experiments.problems import registry
from confrere.experiments.problems.shapes import OneParty, Rows

FACTS = {
    "item": "X1",
    "title": "a toy",
    "source": "nobody (2000)",
    "problem": "toy",
    "repeats": 3,
    "quick_repeats": 1,
    "epsilons": [1.0, 8.0],
    "data": {"n": 400},
    "methods": [
        {"name": "PLR", "variant": "sound", "run": "plr"},
        {
            "name": "PLR",
            "variant": "printed",
            "run": "printed plr",
            "options": {"alphas": [0.01, 0.1]},
        },
        {"name": "clear", "variant": "ceiling", "run": "ceiling"},
    ],
    "claims": [
        {"kind": "above", "method": ["clear", "ceiling"], "than": ["PLR", "sound"], "at": [1.0]}
    ],
}


def toy(data, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * data["n"], 5))
    y = (X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0).astype(np.int64)
    return OneParty(
        Rows(X[: data["n"]], y[: data["n"]]), Rows(X[data["n"] :], y[data["n"] :]), np.ones(5)
    )


@pytest.fixture
def toy_spec(monkeypatch):
    """Register the toy and return its specification."""
    registry._cached.cache_clear()
    monkeypatch.setitem(registry.PROBLEMS, "toy", toy)
    read = spec.read_spec(FACTS)
    monkeypatch.setattr(runner, "load_spec", lambda item: {"X1": read}[item])
    return read
