"""The exact loss of a classifier's release between two given data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special
from sklearn.base import clone

from confrere.audit.bulk import binary_rows, noised_uploads, party_mechanisms
from confrere.audit.pairs import Pair
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
from confrere.estimators.feature_plan import FeatureStackPlan
from confrere.estimators.labels import declared_classes, encode_labels
from confrere.maths.density import log_density
from confrere.maths.logistic import residual
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance
from confrere.mechanisms.additive import Noised, before_noise
from confrere.mechanisms.laplace_objective import LaplaceObjectivePerturbation
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.noise.samplers import sum_zero_basis
from confrere.rows.ball import into_ball

Floats = NDArray[np.float64]

#: Random starting points of the search around each data set's own minimiser.
_STARTS = 40


def loss_on_pair(target: Any, pair: Pair, seed: int) -> float:
    """Return the largest log ratio, over all releases, in the worse direction.

    Releases with noise of their own add up; of one that is a norm around a point the largest
    ratio is known, and for a perturbed objective it is searched for.
    """
    first, second = (_terms(target, data) for data in (pair.first, pair.second))
    totals = [0.0, 0.0]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, Noised):
            loss = one.loss(other)  # type: ignore[arg-type]
            totals = [total + loss for total in totals]
        else:
            ratios = (_largest(one, other, sign, seed) for sign in (1.0, -1.0))  # type: ignore[arg-type]
            totals = [total + ratio for total, ratio in zip(totals, ratios, strict=True)]
    return max(totals)


def high_level(target: Any, data: Mapping[str, Any]) -> ObjectivePerturbation | None:
    """Return a stack's second mechanism, which learns from rows that no pair can choose."""
    if isinstance(target, SampleStackingClassifier):
        return target._plan(*np.shape(data["X"]))[1]
    if isinstance(target, FeatureStackingClassifier | TransferStackingClassifier):
        return _feature_plan(target, data)[0].high
    return None


@dataclass(frozen=True)
class _Objective:
    """One perturbed objective of two classes on one data set."""

    X: Floats
    y: Floats
    mechanism: ObjectivePerturbation | LaplaceObjectivePerturbation | _Rates
    centre: Floats | None

    @property
    def size(self) -> int:
        return int(self.X.shape[1])

    def log_density(self, w: Floats) -> float:
        made = self.mechanism
        margins = self.y * (self.X @ w)
        towards = 0.0 if self.centre is None else self.centre
        needed = self.X.T @ (self.y * residual(margins, made.cap)) - made.ridge * (w - towards)
        # At rate zero the density is the Hessian's determinant.
        log_det = log_density(w, self.X, self.y, rho=0.0, ridge=made.ridge, cap=made.cap)
        order = 1 if isinstance(made, LaplaceObjectivePerturbation) else 2
        return log_det - made.rho * float(np.linalg.norm(needed, order))

    def minimiser(self) -> Floats:
        # Rows that break their bound are what an audit may be looking for.
        longest = max(1.0, float(np.linalg.norm(self.X, axis=1).max()))
        smallest = smallest_tolerance(
            *self.X.shape,
            ridge=self.mechanism.ridge,
            row_norm=longest,
            centre_norm=0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        )
        return minimise(
            self.X,
            self.y,
            ridge=self.mechanism.ridge,
            centre=self.centre,
            cap=self.mechanism.cap,
            tolerance=max(1e-6, 2 * smallest),
            row_norm=longest,
        ).w


@dataclass(frozen=True)
class _Rates:
    """Rate, ridge and cap of one group of features."""

    rho: float
    ridge: float
    cap: float


@dataclass(frozen=True)
class _SoftmaxObjective:
    """The same for more classes, in coordinates of the subspace whose columns sum to zero."""

    X: Floats
    codes: NDArray[np.intp]
    mechanism: ObjectivePerturbation

    @property
    def size(self) -> int:
        return self.mechanism.noise_dimension

    @property
    def _basis(self) -> Floats:
        return sum_zero_basis(self.mechanism.n_classes)

    def log_density(self, w: Floats) -> float:
        """Return ``log_density_softmax``, for many rows at once."""
        basis, made = self._basis, self.mechanism
        W = basis @ w.reshape(-1, self.X.shape[1])
        P = special.softmax(self.X @ W.T, axis=1)
        errors = P.copy()
        errors[np.arange(len(self.codes)), self.codes] -= 1
        needed = errors.T @ self.X + made.ridge * W
        reduced = P @ basis
        blocks = np.einsum("ka,nk,kb->nab", basis, P, basis)
        blocks -= reduced[:, :, None] * reduced[:, None, :]
        hessian = np.einsum("nab,ni,nj->aibj", blocks, self.X, self.X, optimize=True)
        _, log_det = np.linalg.slogdet(
            hessian.reshape(self.size, self.size) + made.ridge * np.eye(self.size)
        )
        return float(log_det) - made.rho * float(np.linalg.norm(needed))

    def minimiser(self) -> Floats:
        made = self.mechanism
        solved = minimise_softmax(
            self.X,
            self.codes,
            made.n_classes,
            ridge=made.ridge,
            tolerance=made.tolerance,
            row_norm=max(1.0, float(np.linalg.norm(self.X, axis=1).max())),
        )
        return np.asarray((self._basis.T @ solved.w).ravel())


_Term = _Objective | _SoftmaxObjective | Noised


def _terms(target: Any, data: Mapping[str, Any]) -> list[_Term]:
    """Return what a classifier noises, made by its own scaling, clipping and splits."""
    if isinstance(target, MultipartyClassifier):
        return list(noised_uploads(clone(target).set_params(random_state=0), data))
    if isinstance(target, CollaborativeClassifier):
        return list(_party_terms(target, data))
    if isinstance(target, PrivateLogisticRegression | TransferClassifier):
        return [_linear_term(target, data)]
    X, y = binary_rows(target, data)
    if isinstance(target, SampleStackingClassifier):
        low, _, parts = target._plan(*X.shape)
        rows = np.asarray(into_ball(X, target.data_norm, constant=target.intercept_scale))
        centre = target._low_prior(X.shape[1])
        return [
            _Objective(rows[part], y[part], mechanism, centre)
            for part, mechanism in zip(parts, low, strict=False)
        ]
    plan, centres = _feature_plan(target, data)
    used = plan.parts[0]
    return [
        _Objective(rows, y[used], _Rates(rate, ridge, plan.low.cap), centre)
        for rows, rate, ridge, centre in zip(
            plan.rows(X[used]), plan.low.rates, plan.low.ridges, centres, strict=True
        )
    ]


def _linear_term(target: Any, data: Mapping[str, Any]) -> _Term:
    classes = declared_classes(target.classes, data["y"], simulated=True)
    if len(classes) > 2:
        X = np.asarray(data["X"], dtype=np.float64)
        plan = target._plan(*X.shape, len(classes))
        if plan.centre is not None:
            raise InvalidParameter("prior: the density of several classes has none; leave it out.")
        codes = encode_labels(np.asarray(data["y"]), classes)
        return _SoftmaxObjective(np.asarray(plan.rows(X)), codes, plan.mechanism)
    X, y = binary_rows(target, data)
    transfer = isinstance(target, TransferClassifier)
    plan = target._plan(*X.shape, target._open_sources() if transfer else 2)
    return _Objective(np.asarray(plan.rows(X)), y, plan.mechanism, plan.centre)


def _party_terms(target: CollaborativeClassifier, data: Mapping[str, Any]) -> Iterator[_Term]:
    if target.rounds > 1:
        raise InvalidParameter("rounds: releases that follow one another have no simple density.")
    for mechanism, rows, labels, centre in party_mechanisms(target, data):
        if isinstance(mechanism, ObjectivePerturbation | LaplaceObjectivePerturbation):
            yield _Objective(rows, labels, mechanism, centre)
        else:
            yield from before_noise(mechanism, rows, labels)


def _feature_plan(target: Any, data: Mapping[str, Any]) -> tuple[FeatureStackPlan, list[Floats]]:
    if isinstance(target, TransferStackingClassifier):
        sources = target._open_sources()
        plan = target._plan(len(data["y"]), sources)
        return plan, target._centres(plan.rows, sources)
    plan = target._plan(*np.shape(data["X"]))
    return plan, [plan.rows.baseline(plan.baseline, k) for k in range(len(plan.rows.groups))]


def _largest(
    first: _Objective | _SoftmaxObjective,
    second: _Objective | _SoftmaxObjective,
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
