"""Neighbours built to lose the most privacy, and the exact loss on them.

A minimiser of a sum of losses with a ridge and a random linear term has the density of its noise at
the noise that it needs, times the Hessian's determinant: the map from noise to minimiser is a
bijection because the ridge is positive. So the loss at a point is a number and not an estimate: it
shows an error of a few per cent, which no sampling does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats, sum_zero_basis
from confrere.assurance.audit.densities import log_det, norms_of, pull
from confrere.kernel.accountants import Labels, Logistic, Loss
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.noise import L1, L2, Body, Norm
from confrere.methods.allowance import SOLVER

#: How far the wrong class leads at the changed records: the Jacobian counts most at small ones.
LEADS = np.linspace(-2, 12, 29)

LOGISTIC = Logistic()


@dataclass(frozen=True)
class Comparison:
    """Two data sets that differ in one record, and a point at which to compare densities."""

    common: Floats  #: Rows of the records that both have: of two classes signed, ``y x``
    #: ``first``, ``second``: row of the record that changes; None if it is not there.
    first: Floats
    second: Floats | None
    w: Floats  #: The released weights at which the densities are compared
    codes: Labels | None = None  #: Classes of the common records, where there are several
    code: float | Floats = 1.0  #: Class or label of the record that changes
    other: float | Floats | None = None  #: That of the one that comes, if another

    def scaled(self, length: float) -> Comparison:
        """Return it for rows ``length`` times as long, with the same margins."""
        second = None if self.second is None else self.second * length
        rows = self.common * length, self.first * length, second
        return Comparison(*rows, self.w / length, self.codes, self.code, self.other)

    def sides(self) -> Iterator[tuple[Floats, Labels]]:
        """Yield all rows and labels of either data set."""
        labels = np.ones(len(self.common)) if self.codes is None else self.codes
        other = self.code if self.other is None else self.other
        for row, code in ((self.first, self.code), (self.second, other)):
            if row is None:
                yield self.common, labels
            else:
                yield np.vstack([self.common, row]), np.concatenate([labels, [code]])

    def losses(
        self, *, rho: float, ridge: float, loss: Loss = LOGISTIC, norm: Norm | None = None
    ) -> tuple[float, float]:
        """Return the log density ratio at ``w``, first over second, and second over first.

        Both are of the worst public centre, with which one side needs no noise.
        """
        w, sides = np.ravel(self.w), list(self.sides())
        apart = np.subtract(*[pull(loss, w, X, y) for X, y in sides])
        one, other = (log_det(loss, w, X, y, ridge) for X, y in sides)
        noise = loss.noised(norm or L2(len(self.first)))
        moved = rho * float(norms_of(noise, apart.reshape(-1, noise.size)).sum())
        return moved + one - other, moved + other - one


def random_unit(generator: np.random.Generator, d: int) -> Floats:
    x = generator.normal(size=d)
    return np.asarray(x / np.linalg.norm(x))


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
    if not loss.n_classes and loss.n_scores > 1:
        cases = _person_cases(loss, norm, change, seed, draws)
    elif loss.n_scores > 1:
        cases = _softmax_cases(loss.n_classes, norm, change, seed, draws)
    else:
        cases = _score_cases(loss, norm, change, seed, draws)
    known = {"rho": rho, "ridge": ridge}
    found = (case.scaled(length).losses(**known, loss=loss, norm=norm) for case in cases)
    return max(one if signed else max(one, other) for one, other in found)


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


def _score_cases(
    loss: Loss, norm: Norm, change: Neighbours, seed: int, draws: int
) -> Iterator[Comparison]:
    """Yield random cases, and two rows that are opposed with any scores and labels."""
    generator = np.random.default_rng(seed)
    labels, alone = SOLVER.curves(loss).extreme_labels, change is Neighbours.ADD_REMOVE
    for _ in range(draws):
        n = int(generator.integers(0, 4))
        rows, told = _rows(norm, generator, n + 2), generator.choice(labels, n + 2)
        w = generator.normal(size=norm.size) * 10 ** generator.uniform(-1, 2)
        second = None if alone else rows[1]
        yield Comparison(rows[2:], rows[0], second, w, told[2:], told[0], told[1])
    first, other, _ = opposed_rows(norm)
    inverse = np.linalg.pinv(np.array([first] if alone else [first, other]))
    nobody = np.zeros((0, norm.size)), labels[:0]
    for label in labels:
        for score in _worst_scores(loss, label):
            if alone:
                w = inverse @ [score]
                yield Comparison(nobody[0], first, None, w, nobody[1], label)
                continue
            for end in labels:
                for far in (-30.0, 30.0, -score):
                    w = inverse @ [score, far]
                    yield Comparison(nobody[0], first, other, w, nobody[1], label, end)


def persons(norm: Norm, share: float) -> Floats:
    """Return two rows that are opposed, all but, with this share of their squares in the last."""
    rows = np.array(opposed_rows(norm)[:2])
    if isinstance(norm, L2):
        rows *= (1 - 1e-12) * math.sqrt(1 - share) / np.linalg.norm(rows[:, :-1], axis=1)[:, None]
    rows[:, -1] = math.sqrt(share)
    return rows


def _person_cases(
    loss: Any, norm: Norm, change: Neighbours, seed: int, draws: int
) -> Iterator[Comparison]:
    """Yield persons of every label, at scores that the loss says are the worst and at random."""
    scores = 2 * np.random.default_rng(seed).normal(size=(draws, loss.n_scores))
    rows, labels = persons(norm, loss.share), loss.extreme_labels
    ends = [(None, None)] if change is Neighbours.ADD_REMOVE else list(product(rows, labels))
    for at, label, (row, end) in product([*loss.extreme_scores, *scores], labels, ends):
        w = np.append(np.zeros(norm.size - 1), at / rows[0, -1])
        yield Comparison(np.zeros((0, norm.size)), rows[0], row, w, labels[:0], label, end)
    if isinstance(norm, L2) and change is Neighbours.REPLACE_ONE and norm.size > 2:
        # Two of whom no level knows: nothing that they have in common holds them together.
        one, other, towards = opposed_rows(norm)
        w = np.append(math.log(loss.bend * (1 - 1e-9)) * towards[:-1], np.zeros(loss.n_scores))
        yield Comparison(np.zeros((0, norm.size)), one, other, w, labels[:0], labels[-1])


def _worst_scores(loss: Loss, label: object) -> Floats:
    """Return scores of a record from end to end, and just beside where its curvature jumps."""
    places = np.sort(np.append(np.linspace(-30, 30, 31), np.linspace(-4, 4, 65)))

    def curved(at: Floats) -> NDArray[np.bool_]:
        return np.asarray(SOLVER.curves(loss).bends(at[None], np.array([label] * len(at)))[0] > 0)

    jumps = np.flatnonzero(np.diff(curved(places).astype(int)))
    low, high = places[jumps], places[jumps + 1]
    for _ in range(40):
        middle = (low + high) / 2
        same = curved(middle) == curved(low)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.concatenate([places, low - 1e-9, high + 1e-9])


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
