"""The exact loss of privacy, where the mechanism has a density."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from confrere.arrays import Floats
from confrere.assurance.audit.adversary import opposed_rows, persons, worst_loss
from confrere.assurance.audit.densities import (
    Density,
    NoisedPoint,
    PerturbedTerm,
    densities,
    densities_of,
)
from confrere.assurance.audit.estimator import prepared
from confrere.assurance.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import TOLERANCE, Act, Objective
from confrere.kernel.noise import L2, Gaussian, row_norms
from confrere.methods.allowance import SOLVER
from confrere.methods.priors import PriorCheck
from confrere.simulation import SeededSource

#: Log odds that go either way.
_SIGNS = np.array([-1.0, 1.0])

#: Random starting points of the search around each data set's own minimiser.
_STARTS = 40


@dataclass(frozen=True)
class ExactAudit:
    """The largest loss of privacy found. It is attained: the truth is at least this, surely."""

    epsilon: float  #: Largest log ratio of the densities
    #: What is promised; a hundredth of it pays for the solver of objective perturbation and is not
    #: in ``epsilon``.
    claimed: float
    where: str  #: The neighbours on which it was found

    @property
    def refuted(self) -> bool:
        return self.epsilon > self.claimed


def exact_audit(
    target: Any,
    pair: Pair | Iterable[Pair] | None = None,
    *,
    draws: int = 60,
    random_state: int = 0,
) -> ExactAudit:
    """Return the largest loss of privacy over adversarial neighbours, by ratios of densities.

    Objective perturbation has the density of its noise at the noise that a release needs, times
    a Jacobian; output perturbation, noisy coefficients and statistics have that of a norm around
    a point. What has no density is left out: the output step, evaluations.

    Parameters
    ----------
    target : mechanism or classifier
        A mechanism of objective perturbation (two classes or more, Laplace noise, groups) is
        tried on neighbours built for its noise rate and ridge. A classifier of this library is
        tried on data sets, through its own scaling, clipping and splits: the largest ratio over
        what it could release, all parts together; of a stack also its high level, built for.
    pair : Pair or sequence of Pair, optional
        Data sets for a classifier; by default :func:`worst_pairs`.
    draws : int, default=60
        Random cases, besides a grid of constructed ones.
    random_state : int, default=0
        Of the random cases.
    """
    if isinstance(target, Objective):
        return _audit_objective(target, draws=draws, seed=random_state)
    if isinstance(target, PriorCheck):
        return _audit_check(target)
    if hasattr(target, "prepare"):
        pairs = worst_pairs(target) if pair is None else as_pairs(pair)  # type: ignore[arg-type]
        return max(_audit_estimator(target, pairs, draws, random_state), key=lambda a: a.epsilon)
    raise InvalidParameter(f"target: {type(target).__name__} has no known density; use audit().")


def _audit_estimator(target: Any, pairs: list[Pair], draws: int, seed: int) -> Iterator[ExactAudit]:
    for pair in pairs:
        yield ExactAudit(loss_on_pair(target, pair, seed), float(target.epsilon), pair.name)
    # A high level learns from rows that no pair can choose.
    for mechanism in prepared(target, pairs[0].first)[0].later_mechanisms():
        found = _audit_objective(mechanism, draws=draws, seed=seed)
        yield ExactAudit(found.epsilon, float(target.epsilon), f"the high level, {found.where}")


def _audit_objective(mechanism: Objective, **drawn: int) -> ExactAudit:
    """Sum each block's worst case, in one direction, over several ways to share a row's length."""
    generator = np.random.default_rng(drawn["seed"])
    acts, change = mechanism.acts, mechanism.promise.neighbours
    lengths = [np.ones(len(acts))]
    if mechanism.joint:
        tried = [np.array([block.weight for block in mechanism.blocks]), *np.eye(len(acts))]
        tried += list(np.abs(generator.normal(size=(8, len(acts)))))
        lengths = [each / np.linalg.norm(each) for each in tried]
    worst = 0.0
    for each in lengths:
        pairs = [(act, float(length)) for act, length in zip(acts, each, strict=True) if length > 0]
        if mechanism.delta:
            moves = [gaussian_move(act, change, length) for act, length in pairs]
            moved = gaussian_epsilon(math.hypot(*moves), mechanism.delta)
            worst = max(worst, moved, _score_epsilon(mechanism))
            continue
        found = [
            _pure_loss(act, len(acts) > 1, change=change, length=length, **drawn)
            for act, length in pairs
        ]
        worst = max(worst, math.fsum(found))
    kind = "extreme residuals" if mechanism.delta else "constructed neighbours"
    several = f" in {len(acts)} groups" if len(acts) > 1 else ""
    return ExactAudit(worst, mechanism.epsilon, f"{kind}{several}, {mechanism.promise.neighbours}")


def _pure_loss(act: Act, several: bool, **known: Any) -> float:
    """Return the largest loss; of one of several groups, in one direction."""
    signed = several and (act.loss.n_scores > 1 or isinstance(act.norm, L2))
    known |= {"rho": act.law.rate, "ridge": act.ridge}
    return worst_loss(act.norm, act.loss, signed=signed, **known)


def hockey_stick(epsilon: float, mu: float) -> float:
    """Return delta at ``epsilon`` of two normal laws that are ``mu`` deviations apart."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    first = float(special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which two normal laws ``mu`` deviations apart have this delta."""
    if hockey_stick(0.0, mu) <= delta:
        return 0.0
    above = mu**2 / 2 + mu * 40
    return float(optimize.brentq(lambda e: hockey_stick(e, mu) - delta, 0.0, above, xtol=1e-12))


def gaussian_move(
    act: Act, relation: Neighbours = Neighbours.REPLACE_ONE, length: float = 1.0
) -> float:
    """Return how many deviations apart noises are that two neighbours need for one release."""
    d, scores = act.norm.size, act.loss.n_scores
    replaced = relation is Neighbours.REPLACE_ONE
    draws = act.law.draw(SeededSource(0), 16) / act.ridge
    first, other, towards = opposed_rows(act.norm)
    labels = SOLVER.curves(act.loss).extreme_labels
    pairs = list(zip(labels, labels, strict=True)) if scores == 1 else [(0, 0)]
    person = scores > 1 and not act.loss.n_classes
    if person:  # all events are expected at the end: one lives to it, and one's event is before
        alike = persons(act.norm, act.loss.share)[0]
        pairs = [(labels[-1], labels[-2])] + [(labels[-1], labels[-1])] * (d > 2)
    most, lead = 0.0, 60.0 + 4 * float(np.linalg.norm(draws, axis=1).max())
    for score, told in itertools.product((-lead, 0.0, lead), pairs):
        rows, centre = (first, other), score / length * towards
        far = centre
        if person and told[0] == told[1]:  # both live on, opposed, and no level knows of them
            centre = np.append(far[:-1], np.zeros(scores))
        elif person:
            rows = alike, alike
            centre = np.append(np.zeros(d - 1), np.where(np.arange(scores) < scores - 1, -60, 18))
            centre[d - 1 :] /= alike[-1]
        elif scores > 1:
            centre = np.zeros((scores, d))
            centre[-1] = far
        at = [centre.ravel() + noise for noise in draws]
        one, another = (
            PerturbedTerm(there * length * x[None], np.array([label]), replace(act, centre=centre))
            for x, label, there in zip(rows, told, (True, replaced), strict=True)
        )
        most = max(most, _least_move(one, another, at))
    return most


def _score_epsilon(mechanism: Objective) -> float:
    """Return the epsilon of a number at every score, its curvature counted.

    The other one, if there is any, is at its worst throughout, as a row on the other side can be.
    """
    if mechanism.loss.n_classes + mechanism.loss.n_scores > 1:
        return 0.0
    act, sigma = mechanism.act, 1 / mechanism.rate
    far = 12 * sigma / act.ridge
    score = np.linspace(-far, far, 4001)
    width, found = score[1] - score[0], []
    for label in SOLVER.curves(act.loss).extreme_labels:
        for place in np.linspace(-far, far, 61):  # where the public centre scores it
            told = np.array([label] * len(score))
            g = act.loss.residuals((score + place)[None, None], told)[0, 0]
            h = SOLVER.curves(act.loss).bends((score + place)[None], told)[0]
            noise = -(g + act.ridge * score)
            density = width * (act.ridge + h) * stats.norm.pdf(noise, scale=sigma)
            for end in (g.min(), g.max()):
                v = g + (end if mechanism.promise.neighbours is Neighbours.REPLACE_ONE else 0.0)
                found.append((density, (noise + v / 2) * v / sigma**2, h))
    density, lost, bent = (np.array(each) for each in zip(*found, strict=True))
    lost += np.log1p(bent / act.ridge)

    def surplus(epsilon: float) -> float:
        there = density * np.maximum(0.0, -np.expm1(np.minimum(epsilon - lost, 0.0)))
        return float(there.sum(axis=1).max()) - mechanism.delta

    return float(optimize.brentq(surplus, 0.0, lost.max())) if surplus(0.0) > 0 else 0.0


def _least_move(one: PerturbedTerm, other: Density, at: Iterable[Floats]) -> float:
    """Return the least distance of the noises that releases need, in deviations of the noise."""
    moves = [float(np.linalg.norm(one.noise(w) - other.noise(w))) for w in at]
    return min(moves) * float(one.law.rate)


def _audit_check(mechanism: PriorCheck) -> ExactAudit:
    """Try records on which a prior's score is as large as can be, of every class."""
    measured, classes = mechanism.measurement, len(mechanism.prior.rates or (0, 1))
    several = mechanism.prior.several
    codes = range(classes) if several else (-1.0, 1.0)
    scores = 1e9 * (np.vstack([np.eye(classes), -np.eye(classes)]) if several else _SIGNS)
    totals: dict[Any, Any] = {
        (k, code): densities(measured, (scores[k : k + 1], np.array([float(code)])))[0]
        for k in range(len(scores))
        for code in codes
    }
    relation = mechanism.neighbours
    nobody: Any = densities(measured, (scores[:0], np.zeros(0)))[0]
    worst = max(
        one.loss(nobody if relation is Neighbours.ADD_REMOVE else other)
        for one in totals.values()
        for other in totals.values()
    )
    return ExactAudit(worst, mechanism.epsilon, f"scores beyond all bounds, {relation}")


def loss_on_pair(target: Any, pair: Pair, seed: int) -> float:
    """Return the largest loss over all releases of a classifier, in the worse direction."""
    both = (prepared(target, data) for data in (pair.first, pair.second))
    first, second = (densities_of(plan.terms(records)) for plan, records in both)
    return loss_between(first, second, delta=getattr(target, "delta", 0.0), seed=seed)


def loss_between(
    first: Iterable[Density],
    second: Iterable[Density],
    *,
    delta: float = 0.0,
    seed: int = 0,
    climb: bool = True,
) -> float:
    """Return the largest log ratio, over all releases, in the worse direction.

    Releases with noise of their own add up; of one that is a norm around a point the largest
    ratio is known, and for a perturbed objective it is searched for. Gaussian ones are together
    one, whose epsilon at ``delta`` is counted; beside it Laplace noise has its largest ratio in
    half of all cases, coordinate by coordinate. Without a ``climb`` the best of many points has to
    do.
    """
    totals, squares, outside = [0.0, 0.0], 0.0, 1.0
    for one, other in zip(first, second, strict=True):
        if _same_rows(one, other):
            continue
        if isinstance(one.law, Gaussian):
            squares += _gaussian_square(one, other)
        elif isinstance(one, NoisedPoint):
            assert isinstance(other, NoisedPoint)
            loss = one.loss(other)
            outside *= 2.0 ** np.count_nonzero(one.point != other.point)
            totals = [total + loss for total in totals]
        else:
            ratios = (_largest(one, other, sign, seed, climb) for sign in (1.0, -1.0))  # type: ignore[arg-type]
            totals = [total + ratio for total, ratio in zip(totals, ratios, strict=True)]
    if squares == 0:
        return max(totals)
    if delta == 0:
        return math.inf
    return max(totals) + gaussian_epsilon(math.sqrt(squares), min(delta * outside, 0.99))


def _same_rows(one: Density, other: Density) -> bool:
    """Whether two objectives are of the same records: those of others than the one that changes."""
    return not isinstance(one, NoisedPoint) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("X", "y")
    )


def _gaussian_square(one: Density, other: Density) -> float:
    """Return the squared distance, in deviations, of what the noise is added to."""
    if isinstance(one, NoisedPoint):
        assert isinstance(other, NoisedPoint)
        return float(np.square(one.point - other.point).sum()) * one.law.rate**2
    start, act = minimiser(one), one.made
    drawn = act.law.draw(SeededSource(0), 16) / act.ridge
    return _least_move(one, other, start + drawn) ** 2


def minimiser(term: PerturbedTerm) -> Floats:
    """Return the minimiser without noise, as one row."""
    act = term.made
    # Rows that break their bound are what an audit may be looking for.
    longest = max(1.0, float(row_norms(term.X).max(initial=0.0)))
    rows = SOLVER.rows(term.X, longest)
    problem = act.problems(rows, rows.keep(term.y), np.zeros((1, *act.shape)))
    W = SOLVER.solve(problem, max(TOLERANCE, 2 * SOLVER.smallest(problem)))
    return np.asarray(W.ravel())


def _largest(
    first: PerturbedTerm, second: PerturbedTerm, sign: float, seed: int, climb: bool = True
) -> float:
    """Return the largest log ratio, first over second times ``sign``, over weights."""

    def ratio(w: Floats, sign: float = sign) -> float:
        return sign * (first.log_density(w) - second.log_density(w))

    starts = [minimiser(first), minimiser(second)]
    generator = np.random.default_rng(seed)
    away = [
        start + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=first.law.size)
        for start in starts
        for _ in range(_STARTS)
    ]
    candidates = sorted([*starts, *away], key=ratio)[-3:]
    if not climb:
        return ratio(candidates[-1])
    for start in candidates[:]:
        steps = 200 * len(start)
        found = optimize.fmin(ratio, start, (-sign,), maxiter=steps, disp=False)
        candidates.append(np.asarray(found))
    return max(map(ratio, candidates))
