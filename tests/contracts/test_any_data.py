"""No record decides whether something fails: any finite rows fit, and neighbours fare alike."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    Ledger,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.catalogue import CATALOGUE
from confrere.estimators import ReleasedClassifier, designed
from confrere.evaluation import evaluate

N, D = 24, 5
PARTY = np.arange(N) % 4
AUXILIARY = np.random.default_rng(0).normal(size=(9, D))

#: Numbers that a column may hold: all are finite, and doubles.
LARGEST = np.finfo(np.float64).max
EDGES = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 1 / 3, 1 + 2**-52, 1 - 2**-53),
        *(5e-324, -5e-324, 1e-310, 1e-160, 1e16, 1e154, -1e155, 1e200, -1e300, LARGEST, -LARGEST),
    ]
)


@cache
def linear_source():
    rows = np.random.default_rng(1).normal(size=(60, D))
    return PrivateLogisticRegression(epsilon=1.0).fit(rows, rows[:, 0] > 0).to_release()


@cache
def stacked_source():
    rows = np.random.default_rng(1).normal(size=(60, D))
    model = FeatureStackingClassifier(epsilon=1.0, n_groups=2)
    return model.fit(rows, rows[:, 0] > 0).to_release()


@dataclass(frozen=True)
class Data:
    """Rows and labels, and how many classes are declared."""

    X: Any
    y: np.ndarray
    classes: list[int]


@dataclass
class Way:
    """One way to touch private rows: ``act(data, ledger, seed, draw)`` returns a fitted model."""

    act: Any
    sparse: bool = False
    n_classes: int = 2
    leaves_out: bool = False


def fitted(make, **given):
    def act(data, ledger, seed, draw):
        model = make(draw).set_params(budget=ledger, random_state=seed, classes=data.classes)
        return model.fit(data.X, data.y, **given)

    return act


def common(draw):
    """Settings that every classifier of rows has, some of them extreme."""
    return {
        "epsilon": float(draw.choice([0.05, 1.0, 1e4])),
        "data_norm": float(draw.choice([1e-6, 1.0, 2.0, 1e9])),
    }


def constant(draw):
    return float(draw.choice([1e-3, 0.4, 0.99, 0.9999, 1 - 2**-53]))


def plr(draw, **more):
    ridges = "auto" if draw.random() < 0.5 else draw.choice([1e-9, 1.0, 1e12], size=D)
    return designed(
        PrivateLogisticRegression(**common(draw), alpha=ridges, **more),
        intercept_scale=constant(draw),
    )


def stack(draw):
    return designed(
        FeatureStackingClassifier(
            **common(draw),
            n_groups=int(draw.integers(1, D + 1)),
            combiner=str(draw.choice(["stack", "vote", "weighted_vote"])),
        ),
        intercept_scale=constant(draw),
        clipping=str(draw.choice(["joint", "separate"])),
    )


def parts(draw):
    return designed(
        SampleStackingClassifier(
            **common(draw),
            n_groups=int(draw.integers(1, 4)),
            combiner=str(draw.choice(["stack", "vote"])),
        ),
        intercept_scale=constant(draw),
    )


def several(make):
    """Return the same without what is for two classes alone."""

    def made(draw):
        model = make(draw)
        return model.set_params(prior=None) if hasattr(model, "prior") else model

    return made


def together(method, draw):
    return designed(CATALOGUE[method].make(**common(draw)), intercept_scale=constant(draw))


def votes(method, draw):
    return designed(
        MultipartyClassifier(
            **common(draw), method=method, local_alpha=float(draw.choice([1e-12, 0.0001, 1.0]))
        ),
        intercept_scale=constant(draw),
    )


def judged(data, ledger, seed, draw):
    source = linear_source() if draw.random() < 0.5 else stacked_source()
    evaluate(
        ReleasedClassifier(source=source).fit(),
        data.X,
        data.y.astype(bool),
        epsilon=1.0,
        metrics=["accuracy", "confusion", "auc", "calibration"],
        budget=ledger,
        random_state=seed,
    )


def ways():
    """Return every method of the catalogue that fits, and what else reads private rows."""
    found = {
        "plr": Way(fitted(plr), sparse=True),
        "plr, delta": Way(fitted(lambda draw: plr(draw, delta=1e-3)), sparse=True),
        "plr, classes": Way(fitted(plr), sparse=True, n_classes=3),
        "pst-s": Way(fitted(parts)),
        "pst-f": Way(fitted(stack)),
        "simcomb": Way(fitted(lambda draw: TransferClassifier(source=linear_source(), eta=0.0))),
        "transfer": Way(fitted(lambda draw: TransferClassifier(source=linear_source()))),
        "pst-h": Way(fitted(lambda draw: TransferStackingClassifier(source=stacked_source()))),
    }
    for name, method in CATALOGUE.items():
        if method.shape == "together":
            found[name] = Way(fitted(lambda draw, name=name: together(name, draw), party=PARTY))
        elif method.shape == "votes":
            make = fitted(
                lambda draw, name=name: votes(name, draw), party=PARTY, auxiliary=AUXILIARY
            )
            found[name] = Way(make, sparse=True, leaves_out=True)
        elif name not in found and method.proof is not None:
            found[name] = Way(fitted(lambda draw, method=method: method.make(**common(draw))))
    found["pst-s, classes"] = Way(fitted(several(parts)), n_classes=4)
    found["pst-f, classes"] = Way(fitted(several(stack)), n_classes=4)
    for name in ("average", "ofpa", "ofaa", "sums"):
        make = fitted(lambda draw, name=name: together(name, draw), party=PARTY)
        found[f"{name}, classes"] = Way(make, n_classes=4)
    make = fitted(lambda draw: votes("weights", draw), party=PARTY)
    found["multiparty weights"] = Way(make, sparse=True, n_classes=3, leaves_out=True)
    found["evaluation"] = Way(judged)
    return found


WAYS = ways()


def test_every_method_is_tried():
    spending = {name for name, method in CATALOGUE.items() if method.proof is not None}
    assert spending <= set(WAYS)
    tried = {type(CATALOGUE[name].make()) for name in spending}
    assert {CollaborativeClassifier, MultipartyClassifier, PrivateLogisticRegression} <= tried


def any_row(draw, others):
    """Return one row of any kind."""
    kind = draw.integers(6)
    if kind == 0:
        return draw.normal(size=D)
    if kind == 1:
        return draw.choice(EDGES, size=D)
    if kind == 2:
        return np.full(D, draw.choice(EDGES))
    if kind == 3:  # at the bound, or a last digit off
        row = draw.normal(size=D)
        return row / np.linalg.norm(row) * draw.choice([1.0, 1 + 2**-52, 1 - 2**-53, 2.0])
    if kind == 4:  # nearly another one
        return others[draw.integers(len(others))] * (1 + draw.choice([0, 1e-15, 1e-9, 1e-6]))
    return draw.normal(size=D) * 10.0 ** draw.uniform(-320, 307)


def any_rows(draw):
    rows = draw.normal(size=(N, D))
    kind = draw.integers(5)
    if kind == 1:
        rows = draw.choice(EDGES, size=(N, D))
    elif kind == 2:
        rows[:] = rows[0]
    elif kind == 3:
        rows *= 10.0 ** draw.uniform(-320, 305, size=(N, 1))
    with np.errstate(all="ignore"):
        for k in draw.integers(N, size=draw.integers(4)):
            rows[k] = np.clip(any_row(draw, rows), -LARGEST, LARGEST)
    return rows


def neighbours(way, seed):
    """Return finite data, the same with one row replaced, and that with a NaN or an infinity."""
    draw = np.random.default_rng(seed)
    rows = any_rows(draw)
    classes = list(range(way.n_classes))
    y = draw.integers(way.n_classes, size=N)
    if draw.random() < 0.3:
        y[:] = draw.integers(way.n_classes)
    other, labels = rows.copy(), y.copy()
    k = draw.integers(N)
    with np.errstate(all="ignore"):
        other[k] = np.clip(any_row(draw, rows), -LARGEST, LARGEST)
    labels[k] = draw.integers(way.n_classes)
    broken = other.copy()
    broken[k, draw.integers(D)] = draw.choice([np.nan, np.inf, -np.inf])
    form = draw.integers(4)
    if way.sparse and form == 0:
        rows, other, broken = (sparse.csr_array(each) for each in (rows, other, broken))
    elif way.leaves_out and form == 1:
        with np.errstate(over="ignore"):
            rows, other, broken = (np.clip(each, -3e38, 3e38) for each in (rows, other, broken))
            rows, other, broken = (each.astype(np.float32) for each in (rows, other, broken))
    return Data(rows, y, classes), Data(other, labels, classes), Data(broken, labels, classes)


def outcome(way, data, seed, ledger):
    """Return the class of the error, if any, how the ledger says that it ended, and the error."""
    before = ledger.count()
    try:
        model = way.act(data, ledger, seed, np.random.default_rng(seed))
        error, told = None, ""
    except Exception as caught:
        model, error, told = None, type(caught).__name__, str(caught)
    if model is not None:
        rows = data.X if np.all(np.isfinite(getattr(data.X, "data", data.X))) else AUXILIARY
        probabilities = model.predict_proba(rows)
        assert np.all((probabilities >= 0) & (probabilities <= 1))
    charges = ledger.entries(last=ledger.count() - before)
    return error, [each.state for each in charges], told


def check(name, seed, ledger):
    way = WAYS[name]
    first, second, broken = neighbours(way, seed)
    where = f"{name}, data set {seed}"
    for data in (first, second):
        assert outcome(way, data, seed, ledger) == (None, ["released"], ""), where
    error, states, told = outcome(way, broken, seed, ledger)
    if way.leaves_out:
        assert (error, states) == (None, ["released"]), where
    else:
        assert states == [], where
        assert error in ("ValueError", "InvalidData"), where
        assert "X has NaN" in told or "X must be finite" in told, where


@pytest.mark.parametrize("name", WAYS)
def test_any_data_fit_and_neighbours_fare_alike(name):
    ledger = Ledger()
    for seed in range(12):
        check(name, seed, ledger)


#: Different data sets for every way, this many in all.
DATA_SETS = 10_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WAYS)
def test_ten_thousand_data_sets(name):
    ledger = Ledger()
    for seed in range(1000 + list(WAYS).index(name), 1000 + DATA_SETS, len(WAYS)):
        check(name, seed, ledger)
