"""A small release of each kind, with a ledger behind it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.release import (
    Clip,
    Group,
    Linear,
    PlainModel,
    Release,
    Stack,
    generate_key,
    register_kind,
)

GUARANTEE = Guarantee(
    epsilon=1.0,
    theorem="docs/proofs/objective_perturbation.md",
    public=("number of records", "label set"),
    assumptions=("each person is in at most one record",),
)
FACTS = {
    "classes": ["no", "yes"],
    "features": ["age", "bmi", "Glu0"],
    "data_norm": 1.5,
    "schema_fingerprint": "ab12",
}


def linear_plain(release: Release) -> dict:
    return PlainModel(
        predictor=Linear(release.arrays["coef"], release.arrays["intercept"]),
        classes=tuple(release.facts["classes"]),
        features=tuple(release.facts["features"]),
        clip=Clip(release.facts["data_norm"]),
    ).to_dict()


def stack_plain(release: Release) -> dict:
    groups = tuple(
        Group(tuple(features), release.arrays[f"coef_{k}"], clip=Clip(bound=0.5, radius=0.5))
        for k, features in enumerate(release.facts["groups"])
    )
    return PlainModel(
        predictor=Stack(groups, release.arrays["high"], meta_scale=1 / np.sqrt(len(groups))),
        classes=tuple(release.facts["classes"]),
        features=tuple(release.facts["features"]),
        clip=Clip(release.facts["data_norm"]),
    ).to_dict()


register_kind("test-linear", linear_plain)
register_kind("test-stack", stack_plain)


@pytest.fixture
def ledger() -> Ledger:
    own = Ledger()
    own.open_account("checkups", epsilon=3.0)
    own.charge("checkups", Guarantee(epsilon=0.5), purpose="an earlier one")
    return own


@pytest.fixture
def receipt(ledger: Ledger) -> Receipt:
    return ledger.charge("checkups", GUARANTEE, purpose="diabetes")


@pytest.fixture
def guarantee() -> Guarantee:
    return GUARANTEE


@pytest.fixture
def make_release(receipt: Receipt) -> Callable[..., Release]:
    def make(**changes: object) -> Release:
        parts: dict = {
            "kind": "test-linear",
            "arrays": {"coef": np.array([0.3, -2.0, 1.1]), "intercept": np.array(0.2)},
            "facts": FACTS,
            "guarantee": GUARANTEE,
            "receipt": receipt,
            "simulated": False,
        }
        return Release(**{**parts, **changes})

    return make


@pytest.fixture
def release(make_release: Callable[..., Release]) -> Release:
    return make_release()


@pytest.fixture
def stack_release(make_release: Callable[..., Release]) -> Release:
    return make_release(
        kind="test-stack",
        arrays={
            "coef_0": np.array([1.0, -2.0]),
            "coef_1": np.array([3.0]),
            "high": np.array([1.5, -0.5]),
        },
        facts={**FACTS, "groups": [[0, 2], [1]]},
    )


@pytest.fixture
def key_pair(tmp_path):
    public = generate_key(tmp_path / "party_key", "main")
    return tmp_path / "party_key", public
