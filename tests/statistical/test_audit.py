"""Audits find what is false and pass what is sound."""

import numpy as np
import pytest
from scipy import stats

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.audit import Pair, audit, audit_function, exact_audit, worst_pairs
from confrere.audit.bulk import LogisticSampler
from confrere.audit.estimator import FitSampler
from confrere.experiments.as_printed.ofpa import ofpa
from confrere.experiments.as_printed.psth import psth_source
from confrere.experiments.as_printed.scaled_norm import scaled_plr
from confrere.maths.clipping import clip_rows
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.mechanisms.repeated import repeat_groups

LARGE = pytest.param(100_000, marks=pytest.mark.slow)


# --- what is printed and false ------------------------------------------------------------------


def flipped_pair(n_groups=5, n=3):
    X, y = np.ones((n, n_groups)), np.where(np.arange(n) % 2, -1.0, 1.0)
    return Pair("all groups one, one label flipped", (X, y), (X, np.where(np.arange(n), y, -1.0)))


def sample_psth(data, count, generator):
    X, y = data
    groups = np.arange(X.shape[1])[:, None]
    return psth_source(X, y, groups, epsilon=1.0, alpha=10.0, count=count, generator=generator)


@pytest.mark.parametrize(
    ("n_groups", "runs"), [(10, 6_000), pytest.param(5, 100_000, marks=pytest.mark.slow)]
)
def test_source_groups_at_the_whole_epsilon_each_are_refuted(n_groups, runs):
    result = audit_function(sample_psth, flipped_pair(n_groups), claimed=1.0, runs=runs)
    assert result.epsilon > 2.0


def sample_sound_groups(data, count, generator):
    from confrere.maths.randomness import SeededSource

    X, y = data
    mechanism = FeatureGroupPerturbation(
        epsilon=1.0, n_samples=len(X), sizes=(1,) * 5, ridges=(30.0,) * 5, weights=(0.2,) * 5
    )
    rows = [X[:, [k]] for k in range(5)]
    return repeat_groups(mechanism, rows, y, count=count, source=SeededSource(generator))


def test_source_groups_that_share_epsilon_pass():
    result = audit_function(sample_sound_groups, flipped_pair(), claimed=1.0, runs=5_000)
    assert result.epsilon <= 1.0


def grown_pair():
    small = np.ones((1000, 1))
    large = small.copy()
    large[0] = 1000.0
    y = np.ones(1000)
    return Pair("one record of a thousand grows from 1 to 1000", (small, y), (large, y))


def sample_scaled(data, count, generator):
    return scaled_plr(*data, epsilon=1.0, alpha=0.01, count=count, generator=generator)


def sample_clipped(data, count, generator):
    X, y = data
    model = PrivateLogisticRegression(epsilon=1.0, alpha=0.01, fit_intercept=False)
    sides = {"X": clip_rows(X, 1.0), "y": (y > 0).astype(int)}
    return LogisticSampler(model)(sides, count, generator)


@pytest.mark.parametrize("runs", [4_000, LARGE])
def test_rows_scaled_by_the_data_are_refuted(runs):
    result = audit_function(sample_scaled, grown_pair(), claimed=1.0, runs=runs)
    assert result.epsilon > (8.5 if runs > 50_000 else 5.0)
    assert audit_function(sample_clipped, grown_pair(), claimed=1.0, runs=4_000).epsilon <= 1.0


def sample_forty_rounds(data, count, generator):
    # Rounds are independent draws: the downloaded average never enters the minimisation.
    run = ofpa([data], epsilon=1.0, rounds=40 * count, rng=generator, fit_intercept=False)
    return run.uploads.reshape(count, 40)


@pytest.mark.parametrize("runs", [20_000, pytest.param(400_000, marks=pytest.mark.slow)])
def test_forty_rounds_at_the_price_of_one_are_refuted(runs):
    X, y = np.ones((20, 1)), np.where(np.arange(20) < 10, 1.0, -1.0)
    other = np.where(np.arange(20) < 11, 1.0, -1.0)
    pair = Pair("10 against 11 positives of 20", (X, y), (X, other))
    result = audit_function(sample_forty_rounds, pair, claimed=1.0, runs=runs)
    assert result.epsilon > (3.5 if runs > 100_000 else 2.5)


# --- the library's own estimators ---------------------------------------------------------------


def double_rate(monkeypatch):
    plan = PrivateLogisticRegression._plan

    def with_half_the_noise(self, *sizes):
        made = plan(self, *sizes)
        object.__setattr__(made.mechanism, "rho", 2 * made.mechanism.rho)
        return made

    monkeypatch.setattr(PrivateLogisticRegression, "_plan", with_half_the_noise)


SOUND = PrivateLogisticRegression(epsilon=1.0, fit_intercept=False, prior=[0.0, 20.0])


@pytest.mark.parametrize("runs", [20_000, LARGE])
def test_half_the_noise_is_refuted(monkeypatch, runs):
    assert 0.3 < audit(SOUND, runs=runs).epsilon <= 1.0
    double_rate(monkeypatch)
    assert audit(SOUND, runs=runs).epsilon > 1.1


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(),
        PrivateLogisticRegression(loss="capped"),
        PrivateLogisticRegression(calibration="printed", alpha=1.0),
        PrivateLogisticRegression(neighbours="label-only"),
        PrivateLogisticRegression(neighbours="add-remove", declared_samples=60),
    ],
    ids=["logistic", "capped", "printed", "label-only", "add-remove"],
)
@pytest.mark.parametrize("runs", [4_000, LARGE])
def test_private_regression_passes(model, runs):
    result = audit(model, runs=runs)
    assert result.epsilon <= result.claimed == 1.0
    assert 0.1 < exact_audit(model).epsilon <= 0.99 * (1 + 1e-9)


def linear_source():
    X, y = worst_pairs(PrivateLogisticRegression())[1].first.values()
    return PrivateLogisticRegression(ledger=Ledger()).fit(X, y).to_release()


def stacked_source():
    X, y = worst_pairs(PrivateLogisticRegression())[1].first.values()
    return FeatureStackingClassifier(n_groups=2, ledger=Ledger()).fit(X, y).to_release()


FITTED = {
    "feature stack": lambda: FeatureStackingClassifier(),
    "sample stack": lambda: SampleStackingClassifier(n_groups=2),
    "transfer": lambda: TransferClassifier(source=linear_source()),
    "transfer stack": lambda: TransferStackingClassifier(source=stacked_source()),
    "average": lambda: CollaborativeClassifier(),
    "ofpa": lambda: CollaborativeClassifier(method="ofpa"),
    "ofaa": lambda: CollaborativeClassifier(method="ofaa"),
    "laplace": lambda: CollaborativeClassifier(method="laplace"),
}


@pytest.mark.parametrize("make", FITTED.values(), ids=FITTED.keys())
@pytest.mark.parametrize("runs", [40, pytest.param(800, marks=pytest.mark.slow)])
def test_every_estimator_passes(make, runs):
    model = make()
    pairs = worst_pairs(model)
    result = audit(model, pairs if runs > 100 else pairs[1], runs=runs)
    assert result.epsilon <= result.claimed == 1.0


def test_the_fast_path_draws_what_fit_draws():
    data = worst_pairs(SOUND)[1].first
    model = PrivateLogisticRegression(epsilon=1.0)
    generator = np.random.default_rng(0)
    fast = LogisticSampler(model)(data, 4_000, generator)
    slow = FitSampler(model)(data, 150, generator)
    factors = model._plan(60, 2, 2).frame._factors
    columns = released_columns(model, data, generator)
    for j in range(2):
        assert stats.ks_2samp(fast[:, j] * factors[j], slow[:, columns[j]]).pvalue > 1e-3


def released_columns(model, data, generator):
    """Return where ``coef_`` stands among the released numbers."""
    from sklearn.base import clone

    from confrere.audit.released import released_numbers

    fitted = clone(model).set_params(random_state=0).fit(**data)
    numbers = released_numbers(fitted)
    return [int(np.flatnonzero(numbers == value)[0]) for value in fitted.coef_.ravel()]


# --- exact --------------------------------------------------------------------------------------


def test_exact_audits_are_tight_and_never_above():
    mechanism = ObjectivePerturbation(epsilon=1.0, n_samples=60, n_features=3, ridge=2.5)
    found = exact_audit(mechanism)
    assert 0.98 < found.epsilon <= 0.99 * (1 + 1e-9)
    assert not found.refuted
    object.__setattr__(mechanism, "rho", 1.05 * mechanism.rho)
    assert exact_audit(mechanism).refuted


@pytest.mark.parametrize("clipping", ["separate", "joint"])
def test_exact_audit_of_groups(clipping):
    q = np.full(3, 1 / 3) if clipping == "separate" else np.full(3, 3**-0.5)
    mechanism = FeatureGroupPerturbation(
        epsilon=1.0,
        n_samples=60,
        sizes=(2, 2, 2),
        ridges=(7.0, 7.0, 7.0),
        weights=tuple(q),
        clipping=clipping,
    )
    found = exact_audit(mechanism, draws=10)
    assert 0.97 < found.epsilon <= 0.99 * (1 + 1e-9)
    object.__setattr__(mechanism, "rho", 1.05 * mechanism.rho)
    assert exact_audit(mechanism, draws=10).refuted


def test_exact_audit_goes_through_the_estimators_own_rows(monkeypatch):
    from confrere.protocols import frame

    model = PrivateLogisticRegression(prior=[0.0, 30.0], alpha=1e-9)
    assert 0.5 < exact_audit(model).epsilon <= 0.99 * (1 + 1e-9)

    def constant_outside(X, constant):
        return np.hstack([X, np.full((len(X), 1), 4 * constant)])

    def without_clipping(X, bound):
        return X / bound

    with monkeypatch.context() as patch:
        patch.setattr(frame, "with_constant", constant_outside)
        assert exact_audit(model).refuted
    with monkeypatch.context() as patch:
        patch.setattr(frame, "clip_rows", without_clipping)
        assert exact_audit(model).refuted


def test_exact_audit_of_a_stacks_low_level():
    found = exact_audit(FeatureStackingClassifier())
    assert 0.2 < found.epsilon <= 0.99 * (1 + 1e-9)
