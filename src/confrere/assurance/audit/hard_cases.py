"""For every classifier the hardest settings, and neighbours, that expose it.

A promise holds for all settings and all data, so an audit may choose both. Where the loss is the
logistic one, a declared base rate near zero makes every positive record a bad misfit: two of them
that pull opposite ways spend the whole of epsilon. Where slopes are capped at one half, a strong
ridge does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from confrere.arrays import Floats
from confrere.assurance.audit.pairs import Pair, worst_pairs
from confrere.errors import InvalidParameter
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
    designed,
)
from confrere.estimators.base import PrivateEstimator
from confrere.ledger import Ledger
from confrere.methods.average import LINEAR_SHARE, worst_angle

_Model = TypeVar("_Model", bound=PrivateEstimator)
_Stack = SampleStackingClassifier | FeatureStackingClassifier

#: Log-odds of the declared base rate: at them a positive record's residual is one.
_RARE = -30.0
#: The constant that carries them; what it takes of the bound is lost to the audit.
_CONSTANT = 0.05
#: A ridge that keeps weights next to zero; the automatic one has no end as labels get rare.
_STRONG = 100.0
#: Angle of a row to its mirror, in radians, where a prior makes both misfits.
_TILT = 0.1
#: Runs of further cases: the faults they are for show soon.
_FEWER = 10_000
_SUMMED = 8  # parties of one record: of more, the one share that is too many hides less
#: Importances of two groups, of which one has nearly all of epsilon.
_LOPSIDED = (1.0, 1e-4)
#: Where one column's row goes from 1 so that both coefficients of the expanded loss move most:
#: ``s (1 + x)/2 + (1 - s) (1 - x^2)/sqrt(2)`` is largest, s being the linear part's share.
_TURNED = -math.sqrt(2) / 4 * LINEAR_SHARE / (1 - LINEAR_SHARE)
#: With a second column, the angle by which the row turns: more is lost, as densities show.
_ANGLE = worst_angle(LINEAR_SHARE)


@dataclass(frozen=True)
class Case:
    """A classifier, with the settings under which it is audited, and pairs of data sets for it.

    ``runs`` are as many as show the faults that a case is for; None is what :func:`audit` does.
    """

    estimator: Any
    pairs: list[Pair]
    runs: int | None = None


def hardest_case(estimator: Any) -> Case:
    """Return the same classifier with the settings, and the neighbours, that expose it most.

    Parameters
    ----------
    estimator : private classifier
        As for :func:`audit_cases`, of which this is the first.
    """
    return audit_cases(estimator)[0]


def audit_cases(estimator: Any) -> list[Case]:
    """Return the hardest case, and others that expose other faults.

    In the hardest case nothing is left to hide behind: one party, one group, as few columns as
    there can be. Noise that is shared between parties or groups, a law of the wrong norm and a
    constant outside the bound show only where there are several of them. More classes and bodies
    are in :mod:`confrere.assurance`, which needs no events.

    Parameters
    ----------
    estimator : private classifier
        Its epsilon, method and purpose are kept; settings that the guarantee holds for whatever
        they are may be changed, and a source is made up where one is needed. A classifier that no
        case is made for is tried as it is, on :func:`worst_pairs`.
    """
    for kind, make in _CASES:
        if type(estimator) is kind:
            return make(clone(estimator).set_params(classes=[0, 1]))
    if not hasattr(estimator, "prepare"):
        raise InvalidParameter(
            f"estimator: no case is made for {type(estimator).__name__}, which is no private "
            "classifier; give audit() a pair."
        )
    return [Case(clone(estimator), worst_pairs(estimator))]


def _rare(
    model: PrivateLogisticRegression | SampleStackingClassifier | FeatureStackingClassifier,
) -> dict[str, object]:
    """Return the settings under which every positive record is as bad a misfit as it can be."""
    alpha = _STRONG if model.purpose == "prediction" else model.alpha
    return {"intercept_scale": _CONSTANT, "prior_intercept": _RARE, "alpha": alpha}


def _logistic(model: PrivateLogisticRegression) -> list[Case]:
    rare = _with(model, **_rare(model))
    wide = _turned_row("a misfit turned round in four columns", np.full(4, 0.5), 3)
    a, b = math.cos(_TILT), math.sin(_TILT)
    flipped = Pair.of_rows(
        "a misfit and its mirror", ([[a, b]], np.ones(1, int)), ([[a, -b]], np.zeros(1, int))
    )
    believed = {"prior": [0.0, _RARE / _TILT], "prior_check": False, "purpose": "inference"}
    constant = _with(model, intercept_scale=0.9, **believed)
    return [
        Case(rare, _record_pairs(3, 1)),
        Case(rare, [wide], _FEWER),
        Case(constant, [flipped], _FEWER),
    ]


def _transfer(model: TransferClassifier) -> list[Case]:
    source = designed(PrivateLogisticRegression(budget=Ledger()), **_SURE).fit(*_background(4, 1))
    told = {"source": source.to_release(), "eta": model.eta or 0.0}  # a fit in any case
    made = _with(model, **told, intercept_scale=_CONSTANT, alpha=_STRONG)
    pairs = _record_pairs(3, 1)
    return [Case(_with(made, prior_check=False), pairs), Case(made, pairs[:1], _FEWER)]


def _sample_stack(model: SampleStackingClassifier) -> list[Case]:
    made = _with(model, n_groups=2, split_seed=None, **_rare(model))
    return [Case(made, _record_pairs(8, 1, positions=(0, 7)))]


def _feature_stack(model: FeatureStackingClassifier) -> list[Case]:
    made = _with(model, split_seed=None, **_rare(model), **_GROUPS)
    return [
        Case(made, _record_pairs(8, 2, positions=(0, 7))),
        Case(_with(made, importance=(1.0, 1.0), alpha=_STRONG), [_BOTH_GROUPS], _FEWER),
    ]


def _transfer_stack(model: TransferStackingClassifier) -> list[Case]:
    def made(**settings: object) -> TransferStackingClassifier:
        source = FeatureStackingClassifier(budget=Ledger(), classes=[0, 1])
        source = designed(source, **_SURE | _GROUPS | settings).fit(*_background(8, 2))
        unchecked = {"split_seed": None, "alpha": _STRONG, "prior_check": False}
        return _with(model, source=source.to_release(), **unchecked)

    return [
        Case(made(), _record_pairs(8, 2, positions=(0, 7)), _FEWER),
        Case(made(importance=(1.0, 1.0)), [_BOTH_GROUPS], _FEWER),
    ]


def _collaborative(model: CollaborativeClassifier) -> list[Case]:
    designed(model, fit_intercept=False)
    y = np.ones(1, dtype=np.intp)
    turned = np.array([[1.0], [1.0]]), np.array([[-1.0], [1.0]])
    parties = Pair.of_rows(
        "a record of one of two parties", *((X, np.ones(2, int)) for X in turned), party=["a", "b"]
    )
    if model.method == "ofaa":
        across = [[math.cos(_ANGLE), math.sin(_ANGLE)]]
        alone = [
            Pair.of_rows("a record turned round", ([[1.0]], y), ([[_TURNED]], y)),
            Pair.of_rows("a record turned aside", ([[1.0, 0.0]], y), (across, y)),
        ]
        return [Case(model, alone), Case(model, [parties], _FEWER)]
    model.set_params(alpha=_STRONG)
    if model.method == "sums":
        return [Case(model, _record_pairs(_SUMMED, 1, party=np.arange(_SUMMED)))]
    return [Case(model, _record_pairs(1, 1)), Case(model, [parties], _FEWER)]


def _multiparty(model: MultipartyClassifier) -> list[Case]:
    """Return three parties, of whom the first decides, with one record or three; one public row."""
    pairs, named = [], (("one party turned", 1), ("a party of three records turned", 3))
    for name, size in named[: 2 if model.method == "cells" else 1]:
        public: Any = {"party": np.repeat(np.arange(3), (size, 1, 1)), "auxiliary": np.ones((1, 1))}
        labels = (np.repeat([first, 1, 0], (size, 1, 1)) for first in (1, 0))
        pairs.append(Pair.of_rows(name, *((np.ones((size + 2, 1)), y) for y in labels), **public))
    made = designed(model, fit_intercept=False, alpha=10.0)
    return [Case(made, pairs)]


def _record_pairs(
    n: int, d: int, positions: tuple[int, ...] = (0,), **public: ArrayLike
) -> list[Pair]:
    """Return pairs in which one positive record changes among ``n``."""
    X, y = _background(n, d)
    pairs = []
    for position in positions:
        changed, positive = X.copy(), y.copy()
        changed[position] = X[0]
        positive[position] = 1
        turned, long = changed.copy(), changed.copy()
        turned[position] *= -1
        long[position] *= 1000
        where = f" at row {position}" if len(positions) > 1 else ""
        pairs += [
            Pair.of_rows(f"a misfit {how}{where}", (changed, positive), (other, positive), **public)
            for how, other in (("turned round", turned), ("a thousand times longer", long))
        ]
    return pairs


def _turned_row(name: str, row: Floats, n: int) -> Pair:
    """Return a positive record that turns round, among negative ones that pull both ways."""
    X, y = np.outer(np.where(np.arange(n) % 2, -1.0, 1.0), row), np.zeros(n, dtype=np.intp)
    y[0] = 1
    other = X.copy()
    other[0] *= -1
    return Pair.of_rows(name, (X, y), (other, y))


def _with(model: _Model, **settings: object) -> _Model:
    own: _Model = clone(model)
    return designed(own, **settings)


def _background(n: int, d: int) -> tuple[Floats, NDArray[np.intp]]:
    """Return negative records at the declared bound, pointing both ways."""
    signs = np.where(np.arange(n) % 2, -1.0, 1.0)
    importance = np.sqrt(np.array(_LOPSIDED[:d]))
    return np.outer(signs, importance / np.linalg.norm(importance)), np.zeros(n, dtype=np.intp)


_GROUPS: dict[str, object] = {"groups": [[0], [1]], "importance": _LOPSIDED}

#: Settings of made-up sources: hardly any noise, whatever the epsilon, and the same every time.
_SURE: dict[str, object] = {"intercept_scale": _CONSTANT, "prior_intercept": _RARE, "alpha": 1e4}
_SURE |= {"random_state": 0}

_BOTH_GROUPS = _turned_row("a misfit turned round in both groups", np.full(2, 0.5**0.5), 8)

_CASES: tuple[tuple[type[Any], Callable[[Any], list[Case]]], ...] = (
    (PrivateLogisticRegression, _logistic),
    (TransferClassifier, _transfer),
    (SampleStackingClassifier, _sample_stack),
    (FeatureStackingClassifier, _feature_stack),
    (TransferStackingClassifier, _transfer_stack),
    (CollaborativeClassifier, _collaborative),
    (MultipartyClassifier, _multiparty),
)
