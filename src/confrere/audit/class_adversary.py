"""Adversarial neighbours of more than two classes, and the exact loss of privacy on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.audit.adversary import LEADS, Norm, random_unit
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.streams import sum_zero_basis
from confrere.maths.logistic import log_density_softmax

SoftmaxNorm = Literal["one", "classes", "entries"]
_SOFTMAX_NORMS: dict[SoftmaxNorm, Norm] = {
    "one": lambda B: float(np.linalg.norm(B)),
    "classes": lambda B: float(np.linalg.norm(B, axis=1).sum()),
    "entries": lambda B: float(np.abs(B).sum()),
}


@dataclass(frozen=True)
class SoftmaxComparison:
    """Two data sets that differ in one record; a record is a row and its class code.

    ``second`` is None if the record is not there. ``W`` is where densities are compared.
    """

    common: tuple[Floats, NDArray[np.intp]]
    first: tuple[Floats, int]
    second: tuple[Floats, int] | None
    W: Floats

    def side(self, record: tuple[Floats, int] | None) -> tuple[Floats, NDArray[np.intp]]:
        """Return rows and codes of one of the data sets."""
        X, codes = self.common
        if record is None:
            return X, codes
        return np.vstack([X, record[0]]), np.append(codes, record[1])


def worst_softmax_loss(
    n_classes: int,
    d: int,
    *,
    rho: float,
    ridge: float,
    change: Neighbours = Neighbours.REPLACE_ONE,
    seed: int = 0,
    draws: int = 60,
    law: SoftmaxNorm = "one",
) -> float:
    """Return the largest loss, in both directions, over random and constructed cases.

    The density of the noise has one norm of the whole matrix in it, the sum of the ``"classes"``
    norms, or the sum of all entries' magnitudes, for rows that are one long in L1.
    """
    shaped = _softmax_cases(n_classes, d, change, seed, draws)
    return max(
        loss
        for case in (map(_shortened, shaped) if law == "entries" else shaped)
        for loss in _softmax_losses(case, _SOFTMAX_NORMS[law], rho, ridge)
    )


def worst_signed_softmax_loss(
    n_classes: int,
    d: int,
    *,
    rho: float,
    ridge: float,
    length: float,
    seed: int = 0,
    draws: int = 60,
) -> float:
    """Return the largest loss, first over second alone, of class-wise noise on shorter rows.

    Losses in one direction of several groups of features, which see the same records, add up.
    """
    cases = _softmax_cases(n_classes, d, Neighbours.REPLACE_ONE, seed, draws)
    return max(
        next(iter(_softmax_losses(case, _SOFTMAX_NORMS["classes"], rho, ridge)))
        for case in (_scaled(each, length) for each in cases)
    )


def _scaled(case: SoftmaxComparison, length: float) -> SoftmaxComparison:
    """Make all rows shorter, and scores what they were."""
    other = None if case.second is None else (length * case.second[0], case.second[1])
    common = length * case.common[0], case.common[1]
    return SoftmaxComparison(
        common, (length * case.first[0], case.first[1]), other, case.W / length
    )


def _shortened(case: SoftmaxComparison) -> SoftmaxComparison:
    """Bring all rows to length one in L1."""

    def short(X: Floats) -> Floats:
        return np.asarray(X / np.abs(X).sum(axis=-1, keepdims=True))

    other = None if case.second is None else (short(case.second[0]), case.second[1])
    common = short(case.common[0]), case.common[1]
    return SoftmaxComparison(common, (short(case.first[0]), case.first[1]), other, case.W)


def _softmax_losses(
    case: SoftmaxComparison, norm: Norm, rho: float, ridge: float
) -> Iterator[float]:
    """Yield the log ratio in both directions; a public centre makes one side need no noise."""
    basis = sum_zero_basis(len(case.W))
    pulls, log_dets = [], []
    for record in (case.first, case.second):
        X, codes = case.side(record)
        errors = special.softmax(X @ case.W.T, axis=1)
        errors[np.arange(len(codes)), codes] -= 1
        pulls.append(errors.T @ X)
        log_dets.append(log_density_softmax(case.W, X, codes, basis, rho=0.0, ridge=ridge))
    needed = rho * norm(pulls[0] - pulls[1])
    yield needed + log_dets[0] - log_dets[1]
    yield needed + log_dets[1] - log_dets[0]


def _softmax_cases(
    n_classes: int, d: int, change: Neighbours, seed: int, draws: int
) -> Iterator[SoftmaxComparison]:
    generator = np.random.default_rng(seed)
    basis = sum_zero_basis(n_classes)
    for _ in range(draws):
        n = int(generator.integers(0, 4))
        X = np.array([random_unit(generator, d) for _ in range(n)]).reshape(n, d)
        common = X, generator.integers(0, n_classes, size=n)
        first = random_unit(generator, d), int(generator.integers(n_classes))
        W = basis @ generator.normal(size=(n_classes - 1, d)) * 10 ** generator.uniform(-1, 2)
        yield _softmax_changed(common, first, random_unit(generator, d), W, change)
    nobody = np.zeros((0, d)), np.zeros(0, dtype=np.intp)
    size = 1000.0 if d > 1 else 1.0
    for lead in LEADS:
        # Both records are taken for the last class by ``lead`` and pull opposite ways.
        tilt = lead / size if d > 1 else 0.0
        x, other, W = np.zeros(d), np.zeros(d), np.zeros((n_classes, d))
        x[0], other[0] = np.cos(tilt), -np.cos(tilt)
        if d > 1:
            x[1] = other[1] = np.sin(tilt)
        W[-1, -1 if d == 1 else 1] = size if d > 1 else lead
        W -= W.mean(axis=0)
        yield _softmax_changed(nobody, (x, 0), other, W, change)


def _softmax_changed(
    common: tuple[Floats, NDArray[np.intp]],
    first: tuple[Floats, int],
    other: Floats,
    W: Floats,
    change: Neighbours,
) -> SoftmaxComparison:
    if change is Neighbours.ADD_REMOVE:
        return SoftmaxComparison(common, first, None, W)
    return SoftmaxComparison(common, first, (other, first[1]), W)
