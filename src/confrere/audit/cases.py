"""For every classifier, the public settings and the neighbours under which it tells most.

A promise holds for all settings and all data, so an audit may choose both. Where the loss is the
logistic one, a declared base rate near zero makes every positive record a bad misfit: two of them
that pull opposite ways spend the whole of epsilon. Where slopes are capped at one half, a strong
ridge does the same. Rows have as few columns as possible: noise in more dimensions hides more from
whoever counts events, at the same epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from confrere.audit.pairs import Pair, worst_pairs
from confrere.errors import InvalidParameter
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.ledger import Ledger
from confrere.mechanisms.functional import LINEAR_SHARE, worst_angle

#: Log-odds of the declared base rate: at them a positive record's residual is one.
_RARE = -30.0
#: The constant that carries them; what it takes of the bound is lost to the audit.
_CONSTANT = 0.05
#: A ridge that keeps weights next to zero.
_STRONG = 100.0
#: Importances of two groups, of which one has nearly all of epsilon.
_LOPSIDED = (1.0, 1e-4)
#: Where one column's row goes from 1 so that both coefficients of the expanded loss move most:
#: ``s (1 + x)/2 + (1 - s) (1 - x^2)/sqrt(2)`` is largest, s being the linear part's share.
_TURNED = -math.sqrt(2) / 4 * LINEAR_SHARE / (1 - LINEAR_SHARE)
#: With a second column, the angle by which the row turns. More is lost, in more dimensions, which
#: densities show and counting does not.
_ANGLE = worst_angle(LINEAR_SHARE)


#: Parties of one record each in a sum. The more, the less does the one share hide that is there
#: besides those which the promise counts on.
_SUMMED = 8


@dataclass(frozen=True)
class Case:
    """A classifier, with the settings under which it is audited, and pairs of data sets for it."""

    estimator: Any
    pairs: list[Pair]


def hardest_case(estimator: Any) -> Case:
    """Return the same classifier with the settings, and the neighbours, that expose it most.

    Parameters
    ----------
    estimator : private classifier
        Its epsilon, method and loss are kept; settings that the guarantee holds for whatever they
        are may be changed, and a source is made up where one is needed. A classifier that no case
        is made for is tried as it is, on :func:`worst_pairs`.
    """
    for kind, make in _CASES:
        if type(estimator) is kind:
            return make(clone(estimator).set_params(classes=[0, 1]))
    if not hasattr(estimator, "prepare"):
        raise InvalidParameter(
            f"estimator: no case is made for {type(estimator).__name__}, which is no private "
            "classifier; give audit() a pair."
        )
    return Case(clone(estimator), worst_pairs(estimator))


def _logistic(model: Any) -> Case:
    model.set_params(intercept_scale=_CONSTANT, prior_intercept=_RARE)
    return Case(model, _record_pairs(3, 1))


def _transfer(model: Any) -> Case:
    source = PrivateLogisticRegression(
        intercept_scale=_CONSTANT, prior_intercept=_RARE, alpha=1e4, ledger=Ledger()
    ).fit(*_background(4, 1))
    return Case(
        model.set_params(source=source.to_release(), intercept_scale=_CONSTANT),
        _record_pairs(3, 1),
    )


def _sample_stack(model: Any) -> Case:
    model.set_params(n_groups=2, split_seed=None, intercept_scale=_CONSTANT, prior_intercept=_RARE)
    return Case(model, _record_pairs(8, 1, positions=(0, 7)))


def _feature_stack(model: Any) -> Case:
    model.set_params(**_GROUPS, split_seed=None, prior_intercept=_RARE)
    return Case(model, _record_pairs(8, 2, positions=(0, 7)))


def _transfer_stack(model: Any) -> Case:
    source = FeatureStackingClassifier(
        **_GROUPS, alpha=1e4, prior_intercept=_RARE, ledger=Ledger(), classes=[0, 1]
    ).fit(*_background(8, 2))
    model.set_params(source=source.to_release(), split_seed=None)
    return Case(model, _record_pairs(8, 2, positions=(0, 7)))


def _collaborative(model: Any) -> Case:
    model.set_params(fit_intercept=False)
    if model.method == "sums":
        return Case(
            model.set_params(alpha=_STRONG), _record_pairs(_SUMMED, 1, party=np.arange(_SUMMED))
        )
    if model.method == "ofaa":
        y = np.ones(1, dtype=np.intp)
        across = [[math.cos(_ANGLE), math.sin(_ANGLE)]]
        return Case(
            model,
            [
                Pair.of_rows("a record turned round", ([[1.0]], y), ([[_TURNED]], y)),
                Pair.of_rows("a record turned aside", ([[1.0, 0.0]], y), (across, y)),
            ],
        )
    return Case(model.set_params(alpha=_STRONG), _record_pairs(1, 1))


def _multiparty(model: Any) -> Case:
    """Return three parties of one record, of whom the first decides, and one auxiliary row."""
    public = {"party": np.arange(3), "auxiliary": np.ones((1, 1))}
    X = np.ones((3, 1))
    pair = Pair.of_rows(
        "one party turned", (X, np.array([1, 1, 0])), (X, np.array([0, 1, 0])), **public
    )
    return Case(model.set_params(fit_intercept=False, alpha=10.0), [pair])


def _record_pairs(n: int, d: int, positions: tuple[int, ...] = (0,), **public: Any) -> list[Pair]:
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


def _background(n: int, d: int) -> tuple[Any, Any]:
    """Return negative records at the declared bound, pointing both ways."""
    signs = np.where(np.arange(n) % 2, -1.0, 1.0)
    importance = np.sqrt(np.array(_LOPSIDED[:d]))
    return np.outer(signs, importance / np.linalg.norm(importance)), np.zeros(n, dtype=np.intp)


_GROUPS: dict[str, Any] = {
    "groups": [[0], [1]],
    "importance": _LOPSIDED,
    "intercept_scale": _CONSTANT,
}

_CASES: tuple[tuple[type[Any], Callable[[Any], Case]], ...] = (
    (PrivateLogisticRegression, _logistic),
    (TransferClassifier, _transfer),
    (SampleStackingClassifier, _sample_stack),
    (FeatureStackingClassifier, _feature_stack),
    (TransferStackingClassifier, _transfer_stack),
    (CollaborativeClassifier, _collaborative),
    (MultipartyClassifier, _multiparty),
)
