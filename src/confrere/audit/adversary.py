"""Neighbours built to lose the most privacy, and the exact loss on them.

A minimiser of a sum of losses with a ridge and a random linear term has the density of its noise at
the noise that it needs, times the Hessian's determinant: the map from noise to minimiser is a
bijection because the ridge is positive. So the loss at a point is a number and not an estimate: it
shows an error of a few per cent, which no sampling does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from confrere.arrays import Floats, sum_zero_basis
from confrere.audit.densities import norms_of
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.norms import L1, Body, Norm
from confrere.solver.descent import curvature, residual

Length = Callable[[Floats], float]

#: Margins of the changed record that are tried: from well fitted to badly fitted.
_MARGINS = np.linspace(-4, 8, 41)

#: How far the wrong class leads at the changed records: the Jacobian counts most at small ones.
LEADS = np.linspace(-2, 12, 29)


def log_density(
    w: ArrayLike,
    X: Floats,
    y: Floats,
    *,
    rho: float,
    ridge: float,
    centre: Floats | float = 0.0,
    cap: float = 1.0,
) -> float:
    """Return ``-rho ||b(w)|| + log det A(w)`` for labels in {-1, +1} and dense rows."""
    weights = np.asarray(w, dtype=np.float64)
    margins = y * (X @ weights)
    b = X.T @ (y * residual(margins, cap)) - ridge * (weights - centre)
    hessian = (X * curvature(margins, cap)[:, None]).T @ X + ridge * np.eye(len(weights))
    _, log_det = np.linalg.slogdet(hessian)
    return float(-rho * np.linalg.norm(b) + log_det)


def l2_norm(b: Floats) -> float:
    return float(np.linalg.norm(b))


def l1_norm(b: Floats) -> float:
    return float(np.abs(b).sum())


@dataclass(frozen=True)
class Comparison:
    """Two data sets that differ in one record, and a point at which to compare densities."""

    common: Floats  #: Signed rows ``y x`` of the records that both have
    #: ``first``, ``second``: signed row of the record that changes; None if it is not there.
    first: Floats | None
    second: Floats | None
    w: Floats  #: The released weights at which the densities are compared

    def swapped(self) -> Comparison:
        """Return the same two data sets the other way round."""
        return replace(self, first=self.second, second=self.first)

    def scaled(self, length: float) -> Comparison:
        """Return it for rows ``length`` times as long, with the same margins."""
        first, second = (None if x is None else x * length for x in (self.first, self.second))
        return Comparison(self.common * length, first, second, self.w / length)

    def rows(self, changed: Floats | None) -> Floats:
        """Return all signed rows of one of the data sets."""
        return self.common if changed is None else np.vstack([self.common, changed])


def signed_loss(
    case: Comparison, *, rho: float, ridge: float, cap: float = 1.0, norm: Length = l2_norm
) -> float:
    """Return the log density ratio at ``w``, first over second, for the worst public centre."""
    pulls, log_dets = [], []
    for changed in (case.first, case.second):
        rows = case.rows(changed)
        pulls.append(rows.T @ residual(rows @ case.w, cap))
        # At rate zero the density is the Hessian's determinant.
        ones = np.ones(len(rows))
        log_dets.append(log_density(case.w, rows, ones, rho=0.0, ridge=ridge, cap=cap))
    needed = norm(pulls[1] - pulls[0])
    return rho * needed + log_dets[0] - log_dets[1]


def loss_of_privacy(
    case: Comparison, *, rho: float, ridge: float, cap: float = 1.0, norm: Length = l2_norm
) -> float:
    """Return the larger of the two directions' losses."""
    return max(
        abs(signed_loss(each, rho=rho, ridge=ridge, cap=cap, norm=norm))
        for each in (case, case.swapped())
    )


def random_unit(generator: np.random.Generator, d: int) -> Floats:
    x = generator.normal(size=d)
    return np.asarray(x / np.linalg.norm(x))


def random_case(
    generator: np.random.Generator,
    d: int,
    *,
    change: Neighbours = Neighbours.REPLACE_ONE,
    n_common: int = 2,
) -> Comparison:
    """Return rows on or in the ball and a point that makes residuals large."""
    common = np.array(
        [random_unit(generator, d) * generator.uniform() for _ in range(n_common)]
    ).reshape(n_common, d)
    first = random_unit(generator, d)
    w = random_unit(generator, d) * 10 ** generator.uniform(-1, 2)
    if change is Neighbours.ADD_REMOVE:
        return Comparison(common, first, None, w)
    return Comparison(common, first, random_unit(generator, d), w)


def opposed_case(
    d: int,
    *,
    tilt: float,
    size: float,
    tilt_second: float | None = None,
    change: Neighbours = Neighbours.REPLACE_ONE,
) -> Comparison:
    """Return the worst construction known: both records badly fitted, pulling opposite ways."""
    tilt_second = tilt if tilt_second is None else tilt_second
    first, second, w = np.zeros(d), np.zeros(d), np.zeros(d)
    if d == 1:
        first[0], second[0], w[0] = -1.0, 1.0, size
    else:
        first[:2] = -np.cos(tilt), -np.sin(tilt)
        second[:2] = np.cos(tilt_second), -np.sin(tilt_second)
        w[1] = size
    nobody = np.zeros((0, d))
    if change is Neighbours.ADD_REMOVE:
        return Comparison(nobody, first, None, w)
    return Comparison(nobody, first, second, w)


def adversarial_cases(
    d: int,
    *,
    cap: float = 1.0,
    change: Neighbours = Neighbours.REPLACE_ONE,
    seed: int = 0,
    draws: int = 60,
) -> Iterator[Comparison]:
    """Yield random cases and a grid of opposed ones."""
    generator = np.random.default_rng(seed)
    for _ in range(draws):
        yield random_case(generator, d, change=change, n_common=int(generator.integers(0, 4)))
    # Where a cap bends the loss, the worst residual sits just below the bend.
    bends = [float(np.log(c / (1 - c))) - 1e-9 for c in {cap, 1 - cap} if 0 < c < 1]
    for size in (300.0, 1000.0) if d > 1 else (1.0,):
        for margin in [*_MARGINS, *bends]:
            tilt, length = (margin / size, size) if d > 1 else (0.0, margin)
            yield opposed_case(d, tilt=tilt, size=length, change=change)
            yield opposed_case(d, tilt=tilt, tilt_second=12 / size, size=length, change=change)


def worst_loss(
    d: int,
    *,
    rho: float,
    ridge: float,
    cap: float = 1.0,
    change: Neighbours = Neighbours.REPLACE_ONE,
    order: int = 2,
    seed: int = 0,
    draws: int = 60,
) -> float:
    """Return the largest loss over all cases; with ``order=1`` of Laplace noise in the L1 ball."""
    cases = adversarial_cases(d, cap=cap, change=change, seed=seed, draws=draws)
    norm = l2_norm
    if order == 1:
        cases, norm = (_in_l1_ball(case) for case in cases), l1_norm
    return max(loss_of_privacy(case, rho=rho, ridge=ridge, cap=cap, norm=norm) for case in cases)


def worst_body_loss(
    body: Body,
    *,
    rho: float,
    ridge: float,
    cap: float = 1.0,
    change: Neighbours = Neighbours.REPLACE_ONE,
    seed: int = 0,
    draws: int = 60,
) -> float:
    """Return the largest loss over rows at corners of a body, with noise of its gauge."""
    generator = np.random.default_rng(seed)
    bends = [float(np.log(c / (1 - c))) - 1e-9 for c in {cap, 1 - cap} if 0 < c < 1]
    # A signed row is badly fitted where its margin is negative; -12 is as badly as can be.
    margins = [*-_MARGINS[::4], *(-bend for bend in bends)]
    nobody = np.zeros((0, body.size))
    pairs = [(nobody, opposed_corners(body))]
    for _ in range(draws):
        common = corner_rows(body, generator, int(generator.integers(0, 3)))
        pairs.append((common, corner_rows(body, generator, 2)))
    worst = 0.0
    for common, (first, other) in pairs:
        second = None if change is Neighbours.ADD_REMOVE else other
        both = np.array([first, other] if change is Neighbours.REPLACE_ONE else [first])
        inverse = np.linalg.pinv(both)
        for margin in margins:
            for far in (margin, -margin, -12.0):
                w = inverse @ np.array([margin, far])[: len(both)]
                case = Comparison(common, first, second, w)
                loss = loss_of_privacy(
                    case, rho=rho, ridge=ridge, cap=cap, norm=lambda b: float(norms_of(body, b)[0])
                )
                worst = max(worst, loss)
    return worst


def opposed_corners(body: Body) -> Floats:
    """Return the longest signed row, in coordinates, and one that is opposed in every group."""
    rows = np.zeros((2, body.size))
    turned: set[int] = set()
    order = sorted(range(len(body.roots)), key=lambda k: -body.sizes[k])
    for k in order:
        part, group = body.parts[k], body.groups[k]
        longest = int(np.argmax(np.square(body.roots[k]).sum(axis=0)))
        rows[0, part.start + longest] = 1.0
        another = (longest + 1) % body.sizes[k]
        rows[1, part.start + another] = 1.0 if body.sizes[k] > 1 or group in turned else -1.0
        turned.add(group)
    return body.coordinates(rows)


def corner_rows(body: Body, generator: np.random.Generator, count: int) -> Floats:
    """Return signed rows, in coordinates, at corners of every factor."""
    rows = np.zeros((count, body.size))
    for part in body.parts:
        which = generator.integers(part.start, part.stop, size=count)
        rows[np.arange(count), which] = generator.choice([-1.0, 1.0], size=count)
    return body.coordinates(rows)


def _in_l1_ball(case: Comparison) -> Comparison:
    common = case.common / np.maximum(1.0, np.abs(case.common).sum(axis=1, keepdims=True))
    first, second = (None if x is None else x / np.abs(x).sum() for x in (case.first, case.second))
    return Comparison(common, first, second, case.w)


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
    length: float = 1.0,  # Of the rows, where groups share a row's length
    # Whether the loss counts first over second alone, as losses of groups that see the same
    # records add up in one direction; else in both.
    signed: bool = False,
    # ``seed``, ``draws``: of the random cases.
    seed: int = 0,
    draws: int = 60,
) -> float:
    """Return the largest loss over random and constructed cases."""
    cases = (_scaled(case, length) for case in _softmax_cases(n_classes, norm, change, seed, draws))
    losses = (_softmax_losses(case, norm, rho, ridge) for case in cases)
    return max(first if signed else max(first, second) for first, second in losses)


def log_density_softmax(
    W: Floats, X: Floats, codes: NDArray[np.intp], basis: Floats, *, rho: float, ridge: float
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
    case: SoftmaxComparison, norm: Norm, rho: float, ridge: float
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
    moved = rho * float(norms_of(norm, pulls[0] - pulls[1]).sum())
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
