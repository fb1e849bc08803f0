"""A small item that needs no data, small files instead of published ones, and where those lie."""

import dataclasses
import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from confrere_research import problems, runner, spec
from confrere_research.loaders.published_files import PublishedFile
from confrere_research.problems.shapes import OneParty, Rows

# The real data are published but not part of the project: CONFRERE_DATA says where they lie.
collect_ignore = (
    [] if os.environ.get("CONFRERE_DATA") else ["test_real_data.py", "test_reproduce_real.py"]
)

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
        {"name": "PLR", "variant": "corrected", "run": "plr"},
        {
            "name": "PLR",
            "variant": "as published",
            "run": "printed plr",
            "options": {"alphas": [0.01, 0.1]},
        },
        {"name": "clear", "variant": "ceiling", "run": "ceiling"},
    ],
    "claims": [
        {"kind": "above", "method": ["clear", "ceiling"], "than": ["PLR", "corrected"], "at": [1.0]}
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
    problems._cached.cache_clear()
    monkeypatch.setitem(problems.PROBLEMS, "toy", toy)
    read = spec.read_spec(FACTS)
    monkeypatch.setattr(runner, "load_spec", lambda item: {"X1": read}[item])
    return read


Publish = Callable[..., PublishedFile]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Write small content where a loader looks for the real one; return the file pinned to it."""

    def write(
        published: PublishedFile, content: bytes, *, sha256: str | None = None, packed: bool = True
    ) -> PublishedFile:
        folder = tmp_path / published.folder
        folder.mkdir(exist_ok=True)
        if packed:
            (folder / f"{published.file}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / published.file).write_bytes(content)
        return dataclasses.replace(published, sha256=sha256 or hashlib.sha256(content).hexdigest())

    return write
