"""What the theorems say of the noise that a mechanism draws, worked out a second time.

Some bounds have slack that no pair of data sets uses up: a sum over corners, of which one counts,
or the Jacobian that is paid twice. An accountant that forgets a part of them promises what nobody
has proved, and no density tells. So the inequalities of the proofs are evaluated here once more,
without the accountants: corners are listed one by one, and nothing is searched for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from confrere.accounting import profile
from confrere.arrays import Floats
from confrere.assurance.audit.adversary import persons
from confrere.assurance.audit.densities import bends, log_det
from confrere.assurance.audit.exact import hockey_stick
from confrere.errors import OperationRefused
from confrere.kernel.accountants import GaussianLoss, Labels, Loss
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import Objective, SecureSum
from confrere.kernel.noise import HiddenSize, LatticeStep
from confrere.methods.allowance import SOLVER
from confrere.methods.sums import check_try
from confrere.simulation import SeededSource

#: Beyond what floats and a coarse Jacobian at a strong ridge can be off by.
ABOVE = 1.01

#: A sum that may be tried more often than this is one that nobody stops.
_MANY = 10_000


def theorem_audit(mechanism: Any) -> Iterator[tuple[float, str]]:
    """Yield what a mechanism spends by its theorem over what it is priced at, and on what.

    Nothing is yielded for noise of a norm without a delta: there the exact ratio says it all.
    """
    if isinstance(mechanism, Objective) and mechanism.delta:
        left = mechanism.epsilon - math.fsum(act.output_step.epsilon for act in mechanism.acts)
        if len(mechanism.blocks) > 1:
            yield from _groups(mechanism, left)
        else:
            yield _delta_of(mechanism, left) / mechanism.delta / ABOVE, "delta, corner by corner"
    if isinstance(mechanism, SecureSum):
        yield _sum_spends(mechanism), "the tries of a sum and its roundings"
        alone = _sum_spends(mechanism, alone=True)
        yield alone, "a party's own noise, if all others pool what they know"
    if isinstance(getattr(mechanism, "n_samples", None), HiddenSize):
        yield _rows_moved(mechanism.n_samples), "rows that come and go with one record"
    if isinstance(mechanism, Objective):
        yield _steepest(mechanism.loss), "the slope and the curvature of the loss"
    for act in mechanism.acts if isinstance(mechanism, Objective) else ():
        yield step_loss(act.output_step) / act.output_step.epsilon, "the output step"


def _steepest(loss: Loss) -> float:
    """Return the longest gradient, or the largest trace, over what accountants take it to be."""
    k, near = loss.n_scores, 1e-6
    places = np.concatenate([np.linspace(-40, 40, 241), 10.0 ** np.arange(2, 7)])[:, None]
    scores = places * np.eye(k)[-1]
    bend = (0.25 if k == 1 else (k - 1) / k) if loss.n_classes else loss.bend
    found = []

    def slopes(at: Floats, labels: Labels) -> Floats:
        return np.asarray(loss.residuals(np.array(at.T[None], order="C"), labels)[0])

    for label in SOLVER.curves(loss).extreme_labels:
        labels: Labels = np.array([label] * len(scores))
        residuals, curved = slopes(scores, labels), bends(loss, scores, labels)
        found.append(np.linalg.norm(residuals, axis=0).max() / loss.slope)
        found.append(np.trace(curved, axis1=1, axis2=2).max() / bend)
        # No slope rises by more than the curvature says, at either end of a short way.
        away = near * np.eye(k)[-1]
        rise = (slopes(scores + away, labels) - slopes(scores, labels))[-1] / near
        most = np.maximum(curved, bends(loss, scores + away, labels))[:, -1, -1]
        found.append(1 + float((rise - most)[:-6].max()) / bend - 1e-4)
    return float(max(found)) / (1 + 1e-9)


def step_loss(step: LatticeStep) -> float:
    """Return the largest log ratio of the output step between two answers of the solver.

    Two radii apart along the diagonal, and placed so that every coordinate is rounded away.
    """
    away = 2 * step.radius / math.sqrt(step.size) / step.spacing
    start = 0.5 - 1e-9
    return step.size * float(np.rint(start + away) - np.rint(start)) / step.scale


def tries_let_through(mechanism: SecureSum) -> int:
    """Return how many sums a party answers in one run, by asking the guard that it asks."""
    for step in range(_MANY):
        try:
            check_try(mechanism, step)
        except OperationRefused:
            return step
    return _MANY


def _delta_of(mechanism: Objective, epsilon: float) -> float:
    """Sum delta over all corners of the residuals of the records that change."""
    k, ridge, sigma = mechanism.loss.n_classes, mechanism.act.ridge, 1 / mechanism.act.law.rate
    if not k:
        of = _delta_of_persons if mechanism.loss.n_scores > 1 else _delta_of_numbers
        return of(mechanism, epsilon)
    gradients: list[Any]
    if k == 2:
        jacobian = math.log1p(0.25 / ridge)
        gradients = [np.array([residual]) for residual in (0.0, mechanism.loss.slope)]
    else:
        jacobian = (k - 1) * math.log1p(1 / (k * ridge))
        gradients = [vertex - np.eye(k)[0] for vertex in np.eye(k)]
    if mechanism.exposure.neighbours is Neighbours.ADD_REMOVE:
        reaches = [float(np.linalg.norm(gradient)) for gradient in gradients]
    else:
        # Rows of one length, in the directions that part the two gradients most.
        reaches = [
            math.sqrt(a @ a + b @ b + 2 * abs(float(a @ b)))
            for a, b in itertools.product(gradients, repeat=2)
        ]
    return math.fsum(hockey_stick(epsilon - jacobian, reach / sigma) for reach in reaches)


def _delta_of_numbers(mechanism: Objective, epsilon: float) -> float:
    """Sum delta over ends and middles of the residuals, the Jacobian shared as suits it best."""
    loss, ridge, scores = mechanism.loss, mechanism.act.ridge, np.linspace(-40, 40, 20_001)
    slopes, costs = [], []
    for label in SOLVER.curves(loss).extreme_labels:
        labels = np.array([label] * len(scores))
        slopes.append(loss.residuals(scores[None, None].copy(), labels)[0, 0])
        costs.append(np.log1p(bends(loss, scores[:, None], labels)[:, 0, 0] / ridge))
    g, cost = np.concatenate(slopes), np.concatenate(costs)
    ends = -float(g.min()), float(g.max())
    part = np.where(g < 0, -g / ends[0], g / ends[1])
    found = []
    for step in np.linspace(0.0, 2 / ridge, 33):
        middle = float(np.max(step * part + cost))
        corners = [*((own, middle - step) for own in ends), (0.0, middle)]
        found.append(_added_up(mechanism, epsilon, corners, ends))
    return min(found)


def _delta_of_persons(mechanism: Objective, epsilon: float) -> float:
    """Sum delta over none, and all, of the expected events in one piece, whenever one happened."""
    loss: Any = mechanism.loss
    act, share = mechanism.act, loss.share
    row, lives = persons(act.norm, share)[:1], loss.extreme_labels[-1:]
    even = np.append(np.zeros(act.norm.size - 1), loss.extreme_scores[0] / row[0, -1])
    without, there = (log_det(loss, even, row[:k], lives[:k], act.ridge) for k in (0, 1))
    each = np.vstack([np.zeros(loss.n_scores), np.eye(loss.n_scores)])
    left = loss.bend * each[:, None] - each
    squares = (1 - share) * left.sum(axis=2) ** 2 + share * np.square(left).sum(axis=2)
    ends = np.sqrt(squares.max(axis=1)).tolist()
    return _added_up(mechanism, epsilon, [(end, there - without) for end in ends], ends)


def _added_up(
    mechanism: Objective, epsilon: float, corners: Sequence[tuple[float, float]], ends: Any
) -> float:
    """Return delta of moves of the record that goes, and what they cost, and of the other's."""
    others = (0.0,) if mechanism.exposure.neighbours is Neighbours.ADD_REMOVE else ends
    moves = [(own + other, taken) for own, taken in corners for other in others]
    return math.fsum(hockey_stick(epsilon - t, r * mechanism.rate) for r, t in moves)


def _groups(mechanism: Objective, epsilon: float) -> Iterator[tuple[float, str]]:
    k, joint = mechanism.loss.n_classes, mechanism.joint
    records = 1 if mechanism.exposure.neighbours is Neighbours.ADD_REMOVE else 2
    slope = mechanism.loss.slope if k == 2 else math.sqrt(2)
    rates = [act.law.rate for act in mechanism.acts]
    mu = records * slope * (max(rates) if joint else math.hypot(*rates))
    bend = 0.25 if k == 2 else (k - 1) / k
    ridges = [act.ridge for act in mechanism.acts]
    each = [(k - 1) * math.log1p(bend / ((k - 1) * ridge)) for ridge in ridges]
    taken = bend / min(ridges) if joint else math.fsum(each)
    # The changed records' residuals may be extreme, in every group in their own way.
    corners = sum(1 for _ in itertools.product(range(k), repeat=records * len(rates)))
    whole = corners * hockey_stick(epsilon - taken, mu)
    yield whole / mechanism.delta / ABOVE, "delta, over all corners of all groups"
    composed = GaussianLoss(mechanism.exposure, tuple(1 / rate for rate in rates))
    for at in np.linspace(0.05, 1.0, 8) * epsilon:
        # One record goes, and then one comes: both times the Jacobian may be paid.
        twice = math.exp(taken) * hockey_stick(at - 2 * taken, mu)
        least = min(1.0, corners * hockey_stick(at - taken, mu))  # no delta is above one
        if k == 2 and records == 2:
            least = min(twice, least)
        yield least / float(profile(composed, at)) / ABOVE, "delta of stacks that are composed"


def _sum_spends(mechanism: SecureSum, *, alone: bool = False) -> float:
    """Return what as many sums as parties answer spend, over the price.

    Or what a party spends whose own noise is all that is left, over its second price.
    """
    floor, parties, shares, price = 1.0, mechanism.n_parties, 1, mechanism.epsilon
    if alone:
        floor, parties, shares, price = mechanism.floor, 1, mechanism.parts, mechanism.alone
    tries, scale = tries_let_through(mechanism), mechanism.scale / floor
    moved = tries * mechanism.sensitivity
    if mechanism.law == "integer":
        return moved / (scale * mechanism.spacing) / price
    each = 1 + 2 * mechanism.error / mechanism.spacing + 3 * parties
    rounded = tries * mechanism.size * each / scale
    if not mechanism.delta:
        return (moved * mechanism.rate * floor + rounded) / price
    mu = math.sqrt(tries * shares) * mechanism.sensitivity * mechanism.rate
    return hockey_stick(price - rounded, mu) / mechanism.delta / ABOVE


class _Placed(SeededSource):
    """Rows draw the cells that they are told to."""

    def __init__(self, places: Any) -> None:
        super().__init__(0)
        self._places = np.asarray(places, dtype=np.float64)

    def uniforms(self, *shape: int) -> Any:
        return self._places.reshape(shape)


def _rows_moved(hidden: HiddenSize) -> float:
    """Return how many used rows one record changes at most, over all ways to share three cells."""
    worst = 0
    for cells in itertools.product(range(3), repeat=4):
        places = (np.array(cells) + 0.5) / hidden.most
        with_it = hidden.used(4, _Placed(places))[0]
        without = np.append(hidden.used(3, _Placed(places[:3]))[0], False)
        worst = max(worst, int(np.count_nonzero(with_it != without)))
    return float(worst)
