"""Neighbours built to lose the most privacy, and the exact loss on them.

A minimiser of a sum of losses with a ridge and a random linear term has the density of its noise at
the noise that it needs, times the Hessian's determinant: the map from noise to minimiser is a
bijection because the ridge is positive. So the loss at a point is a number and not an estimate: it
shows an error of a few per cent, which no sampling does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from confrere.arrays import Floats, sum_zero_basis
from confrere.assurance.audit.densities import log_det, norms_of, pull
from confrere.kernel.accountants import Labels, Logistic, Loss
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.norms import L1, L2, Body, Norm

#: Margins of the changed record that are tried: from well fitted to badly fitted.
_MARGINS = np.linspace(-4, 8, 41)

#: How far the wrong class leads at the changed records: the Jacobian counts most at small ones.
LEADS = np.linspace(-2, 12, 29)

LOGISTIC = Logistic()


def log_density(
    w: ArrayLike,
    X: Floats,
    y: Labels,
    *,
    rho: float,
    ridge: float,
    centre: Floats | float = 0.0,
    loss: Loss = LOGISTIC,
) -> float:
    """Return ``-rho ||b(w)|| + log det A(w)`` for dense rows and noise of the L2 norm."""
    W = np.reshape(np.asarray(w, dtype=np.float64), (loss.n_scores, -1))
    b = pull(loss, W, X, y) + ridge * (W - centre)
    return float(-rho * np.linalg.norm(b) + log_det(loss, W, X, y, ridge))


@dataclass(frozen=True)
class Comparison:
    """Two data sets that differ in one record, and a point at which to compare densities."""

    common: Floats  #: Rows of the records that both have: of two classes signed, ``y x``
    #: ``first``, ``second``: row of the record that changes; None if it is not there.
    first: Floats
    second: Floats | None
    w: Floats  #: The released weights at which the densities are compared
    codes: Labels | None = None  #: Classes of the common records, where there are several
    code: float = 1.0  #: Class of the record that changes

    def scaled(self, length: float) -> Comparison:
        """Return it for rows ``length`` times as long, with the same margins."""
        second = None if self.second is None else self.second * length
        rows = self.common * length, self.first * length, second
        return Comparison(*rows, self.w / length, self.codes, self.code)

    def sides(self) -> Iterator[tuple[Floats, Labels]]:
        """Yield all rows and labels of either data set."""
        labels = np.ones(len(self.common)) if self.codes is None else self.codes
        for row in (self.first, self.second):
            if row is None:
                yield self.common, labels
            else:
                yield np.vstack([self.common, row]), np.append(labels, self.code)

    def losses(
        self, *, rho: float, ridge: float, loss: Loss = LOGISTIC, norm: Norm | None = None
    ) -> tuple[float, float]:
        """Return the log density ratio at ``w``, first over second, and second over first.

        Both are of the worst public centre, with which one side needs no noise.
        """
        W, sides = np.reshape(self.w, (loss.n_scores, -1)), list(self.sides())
        pulls = [pull(loss, W, X, y) for X, y in sides]
        one, other = (log_det(loss, W, X, y, ridge) for X, y in sides)
        noise = norms_of(norm or L2(W.shape[1]), pulls[1] - pulls[0])
        moved = rho * float(noise.sum())
        return moved + one - other, moved + other - one


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
    for size in (300.0, 1000.0) if d > 1 else (1.0,):
        for margin in [*_MARGINS, *_bends(cap)]:
            tilt, length = (margin / size, size) if d > 1 else (0.0, margin)
            yield opposed_case(d, tilt=tilt, size=length, change=change)
            yield opposed_case(d, tilt=tilt, tilt_second=12 / size, size=length, change=change)


def worst_loss(
    norm: Norm,  # Of the rows; the noise's density has it of every class, summed
    loss: Loss = LOGISTIC,
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
    if loss.n_scores > 1:
        cases = _softmax_cases(loss.n_classes, norm, change, seed, draws)
    elif isinstance(norm, Body):
        cases = _body_cases(norm, loss.slope, change, seed, draws)
    else:
        cases = adversarial_cases(norm.size, cap=loss.slope, change=change, seed=seed, draws=draws)
        if isinstance(norm, L1):
            cases = map(_in_l1_ball, cases)
    known = {"rho": rho, "ridge": ridge}
    found = (case.scaled(length).losses(**known, loss=loss, norm=norm) for case in cases)
    return max(one if signed else max(one, other) for one, other in found)


def _bends(cap: float) -> list[float]:
    """Return where a cap bends the loss: the worst residual sits just below."""
    return [float(np.log(c / (1 - c))) - 1e-9 for c in {cap, 1 - cap} if 0 < c < 1]


def _body_cases(
    body: Body, cap: float, change: Neighbours, seed: int, draws: int
) -> Iterator[Comparison]:
    """Yield rows at corners of a body."""
    generator = np.random.default_rng(seed)
    # A signed row is badly fitted where its margin is negative; -12 is as badly as can be.
    margins = [*-_MARGINS[::4], *(-bend for bend in _bends(cap))]
    pairs = [(np.zeros((0, body.size)), opposed_corners(body))]
    for _ in range(draws):
        common = corner_rows(body, generator, int(generator.integers(0, 3)))
        pairs.append((common, corner_rows(body, generator, 2)))
    for common, (first, other) in pairs:
        second = None if change is Neighbours.ADD_REMOVE else other
        both = np.array([first, other] if change is Neighbours.REPLACE_ONE else [first])
        inverse = np.linalg.pinv(both)
        for margin in margins:
            for far in (margin, -margin, -12.0):
                w = inverse @ np.array([margin, far])[: len(both)]
                yield Comparison(common, first, second, w)


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
    second = None if case.second is None else case.second / np.abs(case.second).sum()
    return Comparison(common, case.first / np.abs(case.first).sum(), second, case.w)


def _softmax_cases(
    n_classes: int, norm: Norm, change: Neighbours, seed: int, draws: int
) -> Iterator[Comparison]:
    generator = np.random.default_rng(seed)
    basis = sum_zero_basis(n_classes)
    d, alone = norm.size, change is Neighbours.ADD_REMOVE
    for _ in range(draws):
        n = int(generator.integers(0, 4))
        common, codes = _rows(norm, generator, n), generator.integers(0, n_classes, size=n)
        first, other = _rows(norm, generator, 2)
        code = int(generator.integers(n_classes))
        W = basis @ generator.normal(size=(n_classes - 1, d)) * 10 ** generator.uniform(-1, 2)
        yield Comparison(common, first, None if alone else other, W, codes, code)
    first, other, towards = opposed_rows(norm)
    rows = np.zeros((0, d)), first, None if alone else other
    for lead in LEADS:
        # Both records are taken for the last class by ``lead`` and pull opposite ways.
        W = np.zeros((n_classes, d))
        W[-1] = lead * towards
        yield Comparison(*rows, W - W.mean(axis=0), np.zeros(0), 0)


def _rows(norm: Norm, generator: np.random.Generator, count: int) -> Floats:
    """Return rows on the edge of what a norm allows."""
    if isinstance(norm, Body):
        return corner_rows(norm, generator, count)
    rows = np.array([random_unit(generator, norm.size) for _ in range(count)])
    rows = rows.reshape(count, norm.size)
    return rows / np.abs(rows).sum(axis=1, keepdims=True) if isinstance(norm, L1) else rows


def opposed_rows(norm: Norm) -> tuple[Floats, Floats, Floats]:
    """Return two rows that are opposed, all but, and the weights that score both of them one."""
    if isinstance(norm, Body):
        first, other = opposed_corners(norm)
        return first, other, np.linalg.pinv(np.array([first, other])) @ np.ones(2)
    d = norm.size
    tilt = 1e-3 if d > 1 else 0.0
    first, other, towards = np.zeros(d), np.zeros(d), np.zeros(d)
    first[0], other[0] = np.cos(tilt), -np.cos(tilt)
    if d > 1:
        first[1] = other[1] = np.sin(tilt)
    if isinstance(norm, L1):
        first, other = first / np.abs(first).sum(), other / np.abs(other).sum()
    towards[1 if d > 1 else 0] = 1 / first[1] if d > 1 else 1.0
    return first, other, towards
