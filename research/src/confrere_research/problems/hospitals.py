"""A main hospital and its branches: states of the BRFSS survey, or simulated patients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from confrere.arrays import Floats
from confrere.demo import SimulatedHospitals, ruijin_like
from confrere.schema import PublicSchema
from confrere_research.loaders import load_brfss2022
from confrere_research.organisations import brfss_organisations
from confrere_research.problems.shapes import Labels, Rows, SourceAndTargets, Split, encoded_rows


def states_as_hospitals(data: Mapping[str, Any], seed: int) -> SourceAndTargets:
    """Return BRFSS 2022: Washington and sixteen states, with the published sizes."""
    survey = _survey()
    found = brfss_organisations(survey.train.X, seed=seed)
    centres = [found.main, *found.branches.values()]
    frame = survey.train.X.iloc[np.concatenate(centres)]
    labels = survey.train.y[np.concatenate(centres)]
    sizes = [len(rows) for rows in centres]
    return _encoded(frame, labels, sizes, survey.schema, data, seed)


def simulated_hospitals(data: Mapping[str, Any], seed: int) -> SourceAndTargets:
    """Return simulated patients with the published sizes; none of them exists."""
    world = _world(seed)
    centres = [world.main, *world.branches.values()]
    frame = pd.concat([centre.X.to_pandas() for centre in centres], ignore_index=True)
    labels = np.concatenate([centre.y for centre in centres])
    return _encoded(frame, labels, [len(c) for c in centres], world.schema, data, seed)


@lru_cache(maxsize=1)
def _world(seed: int) -> SimulatedHospitals:
    return ruijin_like(seed)


@lru_cache(maxsize=1)
def _survey() -> Any:
    return load_brfss2022()


def _encoded(
    frame: pd.DataFrame,
    labels: Labels,
    sizes: list[int],
    schema: PublicSchema,
    data: Mapping[str, Any],
    seed: int,
) -> SourceAndTargets:
    """Encode, and split every centre 80 to 20.

    ``encoding`` is "public" (declared means and deviations), "weighted" (those times importances)
    or "range" (each column to [0, 1] by its own range: the papers' way, and a leak);
    ``branches`` says which ones to keep, all if it is missing.
    """
    X, norm = encoded_rows(frame, schema, data["encoding"])
    ends = np.cumsum(sizes)
    streams = np.random.default_rng(seed).spawn(len(sizes))
    centres = [
        _split(X[end - size : end], labels[end - size : end], stream)
        for end, size, stream in zip(ends, sizes, streams, strict=True)
    ]
    kept = data.get("branches", range(1, len(centres)))
    encoder = schema.encoder(weighted=data["encoding"] == "weighted")
    prior = encoder.expert_prior()
    rate = schema.outcome.base_rate if schema.outcome else None
    return SourceAndTargets(
        source=centres[0].train,
        targets=tuple(centres[int(branch)] for branch in kept),
        importance=schema.importances(),
        norm=norm,
        base_log_odds=0.0 if rate is None else math.log(rate / (1 - rate)),
        expert=prior / np.linalg.norm(prior),
        expert_prior=prior,
    )


def _split(X: Floats, y: Labels, rng: np.random.Generator) -> Split:
    order = rng.permutation(len(y))
    train, test = np.split(order, [round(0.8 * len(y))])
    return Split(Rows(X[train], y[train]), Rows(X[test], y[test]))
