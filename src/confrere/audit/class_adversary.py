"""Adversarial neighbours of more than two classes, and the exact loss of privacy on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.audit.adversary import LEADS, corner_rows, opposed_corners, random_unit
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.norms import L1, Body, Norm
from confrere.kernel.streams import sum_zero_basis


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
    norm: Norm,  # Of the rows; the noise's density has it of every class, summed
    *,
    rho: float,
    ridge: float,
    change: Neighbours = Neighbours.REPLACE_ONE,
    one_norm: bool = False,  # Whether the density has one L2 norm of the whole matrix instead
    length: float = 1.0,  # Of the rows, where groups share a row's length
    # Whether the loss counts first over second alone, as losses of groups that see the same
    # records add up in one direction; else in both.
    signed: bool = False,
    # ``seed``, ``draws``: of the random cases.
    seed: int = 0,
    draws: int = 60,
) -> float:
    """Return the largest loss over random and constructed cases."""

    def needed(B: Floats) -> float:
        return rho * float(np.linalg.norm(B) if one_norm else norm.of(B).sum())

    cases = (_scaled(case, length) for case in _softmax_cases(n_classes, norm, change, seed, draws))
    losses = (_softmax_losses(case, needed, ridge) for case in cases)
    return max(first if signed else max(first, second) for first, second in losses)


def log_density_softmax(
    W: Floats,
    X: Floats,
    codes: NDArray[np.intp],
    basis: Floats,
    *,
    rho: float,
    ridge: float,
) -> float:
    """Return the multinomial log density at ``W = basis C`` of the sum-zero subspace.

    ``basis`` is ``(K, K-1)`` with orthonormal columns that sum to zero.
    """
    P = special.softmax(X @ W.T, axis=1)
    errors = P.copy()
    errors[np.arange(len(codes)), codes] -= 1
    b = -(errors.T @ X) - ridge * W
    reduced = P @ basis
    size = basis.shape[1] * X.shape[1]
    hessian = ridge * np.eye(size)
    for x, p, r in zip(X, P, reduced, strict=True):
        block = (basis.T * p) @ basis - np.outer(r, r)
        hessian += np.kron(block, np.outer(x, x))
    _, log_det = np.linalg.slogdet(hessian)
    return float(-rho * np.linalg.norm(b) + log_det)


def _scaled(case: SoftmaxComparison, length: float) -> SoftmaxComparison:
    """Make all rows shorter, and scores what they were."""
    other = None if case.second is None else (length * case.second[0], case.second[1])
    common = length * case.common[0], case.common[1]
    return SoftmaxComparison(
        common, (length * case.first[0], case.first[1]), other, case.W / length
    )


def _softmax_losses(
    case: SoftmaxComparison, needed: Callable[[Floats], float], ridge: float
) -> tuple[float, float]:
    """Return the log ratio in both directions; a public centre makes one side need no noise."""
    basis = sum_zero_basis(len(case.W))
    pulls, log_dets = [], []
    for record in (case.first, case.second):
        X, codes = case.side(record)
        errors = special.softmax(X @ case.W.T, axis=1)
        errors[np.arange(len(codes)), codes] -= 1
        pulls.append(errors.T @ X)
        log_dets.append(log_density_softmax(case.W, X, codes, basis, rho=0.0, ridge=ridge))
    moved = needed(pulls[0] - pulls[1])
    return moved + log_dets[0] - log_dets[1], moved + log_dets[1] - log_dets[0]


def _softmax_cases(
    n_classes: int, norm: Norm, change: Neighbours, seed: int, draws: int
) -> Iterator[SoftmaxComparison]:
    generator = np.random.default_rng(seed)
    basis = sum_zero_basis(n_classes)
    d = norm.size
    for _ in range(draws):
        n = int(generator.integers(0, 4))
        common = _rows(norm, generator, n), generator.integers(0, n_classes, size=n)
        first, other = _rows(norm, generator, 2)
        code = int(generator.integers(n_classes))
        W = basis @ generator.normal(size=(n_classes - 1, d)) * 10 ** generator.uniform(-1, 2)
        second = None if change is Neighbours.ADD_REMOVE else (other, code)
        yield SoftmaxComparison(common, (first, code), second, W)
    nobody = np.zeros((0, d)), np.zeros(0, dtype=np.intp)
    for first, other, towards in _opposed(norm):
        second = None if change is Neighbours.ADD_REMOVE else (other, 0)
        for lead in LEADS:
            # Both records are taken for the last class by ``lead`` and pull opposite ways.
            W = np.zeros((n_classes, d))
            W[-1] = lead * towards
            yield SoftmaxComparison(nobody, (first, 0), second, W - W.mean(axis=0))


def _rows(norm: Norm, generator: np.random.Generator, count: int) -> Floats:
    """Return rows on the edge of what a norm allows."""
    if isinstance(norm, Body):
        return corner_rows(norm, generator, count)
    rows = np.array([random_unit(generator, norm.size) for _ in range(count)])
    rows = rows.reshape(count, norm.size)
    return rows / np.abs(rows).sum(axis=1, keepdims=True) if isinstance(norm, L1) else rows


def _opposed(norm: Norm) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield two rows that are opposed, all but, and the weights that score both of them one."""
    if isinstance(norm, Body):
        first, other = opposed_corners(norm)
        yield first, other, np.linalg.pinv(np.array([first, other])) @ np.ones(2)
        return
    d = norm.size
    tilt = 1e-3 if d > 1 else 0.0
    first, other, towards = np.zeros(d), np.zeros(d), np.zeros(d)
    first[0], other[0] = np.cos(tilt), -np.cos(tilt)
    if d > 1:
        first[1] = other[1] = np.sin(tilt)
    if isinstance(norm, L1):
        first, other = first / np.abs(first).sum(), other / np.abs(other).sum()
    towards[1 if d > 1 else 0] = 1 / first[1] if d > 1 else 1.0
    yield first, other, towards
