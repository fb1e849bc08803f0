"""The exact loss of privacy, where the mechanism has a density."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from confrere.audit.adversary import adversarial_cases, signed_loss, worst_loss
from confrere.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.errors import InvalidParameter
from confrere.estimators import FeatureStackingClassifier, PrivateLogisticRegression
from confrere.estimators.labels import declared_classes, encode_labels, plus_minus
from confrere.maths.density import log_density
from confrere.maths.solver import minimise, smallest_tolerance
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation

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
        What is promised; a hundredth of it pays for the solver and is not in ``epsilon``.
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

    Parameters
    ----------
    target : ObjectivePerturbation, FeatureGroupPerturbation or PrivateLogisticRegression
        A mechanism is tried on neighbours built for its noise rate and ridge. An estimator is
        tried on data sets, through its own scaling and clipping; of a feature stack, the low level.
    pair : Pair or sequence of Pair, optional
        Data sets for an estimator; by default :func:`worst_pairs`.
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
    if isinstance(target, ObjectivePerturbation):
        return _audit_objective(target, draws, random_state)
    if isinstance(target, FeatureGroupPerturbation):
        return _audit_groups(target, draws, random_state)
    if isinstance(target, PrivateLogisticRegression | FeatureStackingClassifier):
        pairs = worst_pairs(target) if pair is None else as_pairs(pair)  # type: ignore[arg-type]
        found = [_audit_pair(target, each, random_state) for each in pairs]
        return max(found, key=lambda audit: audit.epsilon)
    raise InvalidParameter(f"target: {type(target).__name__} has no known density; use audit().")


def _audit_objective(mechanism: ObjectivePerturbation, draws: int, seed: int) -> ExactAudit:
    if mechanism.n_classes > 2:
        raise InvalidParameter("target must have two classes: give its estimator to audit().")
    worst = worst_loss(
        mechanism.n_features,
        rho=mechanism.rho,
        ridge=mechanism.ridge,
        cap=mechanism.cap,
        change=mechanism.neighbours,
        seed=seed,
        draws=draws,
    )
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
            total += max(
                signed_loss(case.scaled(float(length)), rho=rate, ridge=ridge, cap=mechanism.cap)
                for case in adversarial_cases(size, cap=mechanism.cap, seed=seed, draws=draws)
            )
        worst = max(worst, total)
    return ExactAudit(worst, mechanism.epsilon, f"constructed neighbours in {n_groups} groups")


def _audit_pair(target: Any, pair: Pair, seed: int) -> ExactAudit:
    sides = [_objectives(target, data) for data in (pair.first, pair.second)]
    terms = list(zip(*sides, strict=True))
    totals = [
        sum(_largest(first, second, sign, seed) for first, second in terms) for sign in (1.0, -1.0)
    ]
    return ExactAudit(max(totals), float(target.epsilon), pair.name)


@dataclass(frozen=True)
class _Objective:
    """One perturbed objective on one data set."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    rho: float
    ridge: float
    cap: float
    centre: NDArray[np.float64] | None = None

    def log_density(self, w: NDArray[np.float64]) -> float:
        centre = 0.0 if self.centre is None else self.centre
        return log_density(
            w, self.X, self.y, rho=self.rho, ridge=self.ridge, centre=centre, cap=self.cap
        )

    def minimiser(self) -> NDArray[np.float64]:
        # Rows that break their bound are what an audit may be looking for.
        longest = max(1.0, float(np.linalg.norm(self.X, axis=1).max()))
        n_samples, n_features = self.X.shape
        smallest = smallest_tolerance(
            n_samples,
            n_features,
            ridge=self.ridge,
            row_norm=longest,
            centre_norm=0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        )
        return minimise(
            self.X,
            self.y,
            ridge=self.ridge,
            centre=self.centre,
            cap=self.cap,
            tolerance=max(1e-6, 2 * smallest),
            row_norm=longest,
        ).w


def _objectives(target: Any, data: Mapping[str, Any]) -> list[_Objective]:
    """Return what an estimator would perturb, made by its own scaling and clipping."""
    X = np.asarray(data["X"], dtype=np.float64)
    classes = declared_classes(target.classes, data["y"], simulated=True)
    y = plus_minus(encode_labels(np.asarray(data["y"]), classes))
    n_samples, n_features = X.shape
    if isinstance(target, PrivateLogisticRegression):
        plan = target._plan(n_samples, n_features, 2)
        rho, ridge, cap = plan.mechanism.rho, plan.mechanism.ridge, plan.mechanism.cap
        return [_Objective(np.asarray(plan.rows(X)), y, rho, ridge, cap, plan.centre)]
    stack = target._plan(n_samples, n_features)
    used = stack.parts[0]
    return [
        _Objective(rows, y[used], rate, ridge, stack.low.cap)
        for rows, rate, ridge in zip(
            stack.rows(X[used]), stack.low.rates, stack.low.ridges, strict=True
        )
    ]


def _largest(first: _Objective, second: _Objective, sign: float, seed: int) -> float:
    """Return the largest log ratio, first over second times ``sign``, over weights."""

    def ratio(w: NDArray[np.float64]) -> float:
        return sign * (first.log_density(w) - second.log_density(w))

    starts = [first.minimiser(), second.minimiser()]
    generator = np.random.default_rng(seed)
    d = len(starts[0])
    away = [
        start + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=d)
        for start in starts
        for _ in range(_STARTS)
    ]
    candidates = sorted([*starts, *away], key=ratio)[-3:]
    return max(_climb(ratio, start) for start in candidates)


def _climb(ratio: Callable[[NDArray[np.float64]], float], start: NDArray[np.float64]) -> float:
    def fall(w: NDArray[np.float64]) -> float:
        return -ratio(w)

    climbed = optimize.fmin(fall, start, maxiter=200 * len(start), disp=False)
    return max(ratio(np.asarray(climbed)), ratio(start))
