"""Whose data the demonstration is about: simulated patients, or survey rows where there are any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.demo.simulated_hospitals import ruijin_like
from confrere.extras import has_research, research
from confrere.schema import PublicSchema

Labels = NDArray[np.int64]
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Centre:
    """One organisation's table, and the rows kept aside to see how well it learned."""

    name: str
    X: pd.DataFrame
    y: Labels
    X_test: pd.DataFrame
    y_test: Labels

    def __len__(self) -> int:
        return len(self.y) + len(self.y_test)


@dataclass(frozen=True)
class World:
    """A main hospital and its branches.

    Attributes
    ----------
    people : str
        Who they are: "simulated patients".
    warning : str
        What must be said loudly about them.
    basis : {"synthetic data", "public data"}
        Why their scores may be shown.
    schema : PublicSchema
    main : Centre
    branches : tuple of Centre
    """

    people: str
    warning: str
    basis: Literal["synthetic data", "public data"]
    schema: PublicSchema
    main: Centre
    branches: tuple[Centre, ...]

    @property
    def centres(self) -> tuple[Centre, ...]:
        """All organisations, the main one first."""
        return (self.main, *self.branches)

    def __len__(self) -> int:
        return len(self.main) + sum(map(len, self.branches))


def open_world(seed: int) -> World:
    """Return the survey's states if they can be loaded, else simulated hospitals.

    Surveys are loaded by ``confrere-research``, from where ``CONFRERE_DATA`` says they lie.
    """
    surveyed = os.environ.get("CONFRERE_DATA") and has_research()
    return _survey(seed) if surveyed else _simulated(seed)


def _simulated(seed: int) -> World:
    hospitals = ruijin_like(seed)
    named = {"main": hospitals.main, **hospitals.branches}
    tables = [(name.removeprefix("simulated "), rows.X, rows.y) for name, rows in named.items()]
    main, *branches = _centres(tables, seed)
    return World(
        people="simulated patients",
        warning="SIMULATED PATIENTS: nobody in this demonstration exists. Sizes and importances "
        "are those published for a main hospital and sixteen branches; all else is made up. The "
        "noise is real: unseeded, from the operating system.",
        basis="synthetic data",
        schema=hospitals.schema,
        main=main,
        branches=tuple(branches),
    )


def _survey(seed: int) -> World:
    survey = research("loaders").load_brfss2022()
    found = research("organisations").brfss_organisations(survey.train.X, seed=seed)
    parts = {found.main_name: found.main, **found.branches}
    tables = [
        (name, survey.train.X.iloc[rows], survey.train.y[rows]) for name, rows in parts.items()
    ]
    main, *branches = _centres(tables, seed)
    return World(
        people="people of the BRFSS 2022 survey",
        warning="PUBLIC SURVEY DATA: states stand for hospitals, with the published sizes. These "
        "answers are public already; the noise is real all the same.",
        basis="public data",
        schema=survey.schema,
        main=main,
        branches=tuple(branches),
    )


def _centres(tables: list[tuple[str, pd.DataFrame, Labels]], seed: int) -> Iterator[Centre]:
    streams = np.random.default_rng(seed).spawn(len(tables))
    for (name, X, y), stream in zip(tables, streams, strict=True):
        order = stream.permutation(len(y))
        cut = int(TEST_SHARE * len(y))
        test, train = order[:cut], order[cut:]
        yield Centre(name, X.iloc[train], y[train], X.iloc[test], y[test])
