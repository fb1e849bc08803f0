"""The exact loss of privacy, where the mechanism has a density."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from confrere.arrays import Floats
from confrere.audit.adversary import (
    adversarial_cases,
    signed_loss,
    worst_body_loss,
    worst_loss,
)
from confrere.audit.class_adversary import (
    SoftmaxNorm,
    worst_signed_softmax_loss,
    worst_softmax_loss,
)
from confrere.audit.estimator import prepared
from confrere.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.errors import InvalidParameter
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.laws import BodyNoise, ClassNoise, L2Noise, LaplaceNoise, NoiseLaw
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.mechanisms.terms import (
    Density,
    NoisedPoint,
    PerturbedObjectiveTerm,
    PerturbedSoftmaxTerm,
)

#: What the density of noise on several classes has in it.
_NORMS: dict[type[NoiseLaw], SoftmaxNorm] = {
    L2Noise: "one",
    ClassNoise: "classes",
    LaplaceNoise: "entries",
}

#: Random starting points of the search around each data set's own minimiser.
_STARTS = 40


@dataclass(frozen=True)
class ExactAudit:
    """The largest loss of privacy found. It is attained: the truth is at least this, surely.

    Attributes
    ----------
    epsilon : float
        Largest log ratio of the densities.
    claimed : float
        What is promised; a hundredth of it pays for the solver of objective perturbation and is
        not in ``epsilon``.
    where : str
        The neighbours on which it was found.
    """

    epsilon: float
    claimed: float
    where: str

    @property
    def refuted(self) -> bool:
        """Whether the claim is shown to be false."""
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
    a point. What has no density is left out: the output step, a selection's choice, evaluations.

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

    Returns
    -------
    ExactAudit
    """
    if getattr(target, "delta", 0) > 0:
        raise InvalidParameter(
            "target: a promise with delta bounds no ratio of densities; use audit()."
        )
    if isinstance(target, PerturbedObjective):
        return _audit_objective(target, draws, random_state)
    if isinstance(target, FeatureGroupPerturbation):
        return _audit_groups(target, draws, random_state)
    if hasattr(target, "prepare"):
        pairs = worst_pairs(target) if pair is None else as_pairs(pair)  # type: ignore[arg-type]
        return max(_audit_estimator(target, pairs, draws, random_state), key=lambda a: a.epsilon)
    raise InvalidParameter(f"target: {type(target).__name__} has no known density; use audit().")


def _audit_estimator(target: Any, pairs: list[Pair], draws: int, seed: int) -> Iterator[ExactAudit]:
    for pair in pairs:
        yield ExactAudit(loss_on_pair(target, pair, seed), float(target.epsilon), pair.name)
    # A high level learns from rows that no pair can choose.
    for mechanism in prepared(target, pairs[0].first)[0].later_mechanisms():
        found = _audit_objective(mechanism, draws, seed)
        yield ExactAudit(found.epsilon, float(target.epsilon), f"the high level, {found.where}")


def _audit_objective(mechanism: PerturbedObjective, draws: int, seed: int) -> ExactAudit:
    law = mechanism.law
    # Others come with a delta.
    assert isinstance(law, L2Noise | ClassNoise | LaplaceNoise | BodyNoise)
    common: dict[str, Any] = {
        "rho": law.rho,
        "ridge": mechanism.ridge,
        "change": mechanism.neighbours,
        "seed": seed,
        "draws": draws,
    }
    size = mechanism.n_features
    if mechanism.n_classes > 2:
        norm = _NORMS[type(law)]
        worst = worst_softmax_loss(mechanism.n_classes, size, law=norm, **common)
    elif isinstance(law, LaplaceNoise):
        worst = worst_loss(size, cap=mechanism.cap, order=1, **common)
    elif isinstance(law, BodyNoise):
        worst = worst_body_loss(law.body, cap=mechanism.cap, **common)
    else:
        worst = worst_loss(size, cap=mechanism.cap, **common)
    return ExactAudit(worst, mechanism.epsilon, f"constructed neighbours, {mechanism.neighbours}")


def _audit_groups(mechanism: FeatureGroupPerturbation, draws: int, seed: int) -> ExactAudit:
    """Sum over the groups, in one direction, of each group's worst case.

    Under joint clipping the groups share one row: the lengths tried are those in proportion to the
    weights, one group alone, and random ones.
    """
    generator = np.random.default_rng(seed)
    n_groups = len(mechanism.sizes)
    lengths = [np.ones(n_groups)]
    if mechanism.clipping == "joint":
        tried = [np.array(mechanism.weights), *np.eye(n_groups)]
        tried += list(np.abs(generator.normal(size=(8, n_groups))))
        lengths = [each / np.linalg.norm(each) for each in tried]
    worst = 0.0
    for each in lengths:
        total = 0.0
        for size, rate, ridge, length in zip(
            mechanism.sizes, mechanism.rates, mechanism.ridges, each, strict=True
        ):
            if length == 0:
                continue
            if mechanism.n_classes > 2:
                total += worst_signed_softmax_loss(
                    mechanism.n_classes,
                    size,
                    rho=rate,
                    ridge=ridge,
                    length=float(length),
                    seed=seed,
                    draws=draws,
                )
                continue
            total += max(
                signed_loss(case.scaled(float(length)), rho=rate, ridge=ridge, cap=mechanism.cap)
                for case in adversarial_cases(size, cap=mechanism.cap, seed=seed, draws=draws)
            )
        worst = max(worst, total)
    return ExactAudit(worst, mechanism.epsilon, f"constructed neighbours in {n_groups} groups")


def loss_on_pair(target: Any, pair: Pair, seed: int) -> float:
    """Return the largest log ratio, over all releases, in the worse direction.

    Releases with noise of their own add up; of one that is a norm around a point the largest
    ratio is known, and for a perturbed objective it is searched for.
    """
    first, second = (_terms(target, data) for data in (pair.first, pair.second))
    totals = [0.0, 0.0]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, NoisedPoint):
            loss = one.loss(other)  # type: ignore[arg-type]
            totals = [total + loss for total in totals]
        else:
            ratios = (_largest(one, other, sign, seed) for sign in (1.0, -1.0))  # type: ignore[arg-type]
            totals = [total + ratio for total, ratio in zip(totals, ratios, strict=True)]
    return max(totals)


def _terms(target: Any, data: Mapping[str, Any]) -> list[Density]:
    """Return what a classifier noises, made by its own scaling, clipping and splits."""
    plan, records = prepared(target, data)
    return [density for term in plan.terms(records) for density in term.densities()]


def _largest(
    first: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    second: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    sign: float,
    seed: int,
) -> float:
    """Return the largest log ratio, first over second times ``sign``, over weights."""

    def ratio(w: Floats) -> float:
        return sign * (first.log_density(w) - second.log_density(w))

    starts = [first.minimiser(), second.minimiser()]
    generator = np.random.default_rng(seed)
    away = [
        start + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=first.size)
        for start in starts
        for _ in range(_STARTS)
    ]
    candidates = sorted([*starts, *away], key=ratio)[-3:]
    return max(_climb(ratio, start) for start in candidates)


def _climb(ratio: Callable[[Floats], float], start: Floats) -> float:
    def fall(w: Floats) -> float:
        return -ratio(w)

    climbed = optimize.fmin(fall, start, maxiter=200 * len(start), disp=False)
    return max(ratio(np.asarray(climbed)), ratio(start))
