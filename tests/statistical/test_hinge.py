"""The smooth hinge: the loss that is solved, the density that leaves, and what it may promise."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.metrics import roc_auc_score

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.audit import audit, audit_cases, exact_audit
from confrere.audit.exact import loss_on_pair
from confrere.errors import InvalidParameter, SchemaMismatch
from confrere.maths.parties import minimise_parties
from confrere.maths.solver import minimise
from confrere.mechanisms import (
    feature_groups,
    laplace_objective,
    objective_perturbation,
    output_perturbation,
)
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.plans import sums_plan
from confrere.plans.linear_plan import HINGE
from confrere.release.describe import preprocessing


def rows(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ np.array([2.0, -1.0, 0.5]) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("margin", [0.0, 1.0, HINGE])
@pytest.mark.parametrize("n", [60, 5_000])
def test_the_solver_minimises_the_loss_of_the_shifted_margin(margin, n):
    X, y = rows(n)
    linear, centre = np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.0, -0.1])

    def objective(w):
        losses = np.logaddexp(0.0, margin - y * (X @ w)).sum()
        return losses + 0.5 * 7.0 * np.sum((w - centre) ** 2) + linear @ w

    found = minimise(X, y, ridge=7.0, linear=linear, centre=centre, margin=margin)
    plain = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found.w, plain.x, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_exact_losses_are_near_the_claim_and_never_above(epsilon):
    found = [
        exact_audit(case.estimator, case.pairs)
        for case in audit_cases(PrivateLogisticRegression(loss="hinge", epsilon=epsilon))
    ]
    assert all(one.epsilon <= epsilon for one in found)
    assert max(one.epsilon for one in found) >= 0.98 * epsilon


def test_a_small_ridge_is_paid_for_by_its_own_curvature():
    model = PrivateLogisticRegression(loss="hinge", alpha=1e-6, ridge_floor=0.3)
    found = exact_audit(model)
    assert 0.8 < found.epsilon <= 1.0
    plan, _ = model.prepare(np.full((50, 2), 0.1), np.arange(50) % 2)
    assert plan.mechanism.rho < 0.495  # some of epsilon went to the Jacobian


def test_a_rate_that_is_a_tenth_too_large_is_found(monkeypatch):
    real = objective_perturbation.calibrate
    monkeypatch.setattr(objective_perturbation, "calibrate", lambda *a: 1.1 * real(*a))
    (case, *_) = audit_cases(PrivateLogisticRegression(loss="hinge"))
    assert exact_audit(case.estimator, case.pairs).epsilon > 1.0


def test_a_third_of_the_noise_is_found_by_sampling(monkeypatch):
    (case, *_) = audit_cases(PrivateLogisticRegression(loss="hinge", epsilon=1.0))
    settings = {"runs": 4_000, "progress": False}
    assert not audit(case.estimator, case.pairs, **settings).refuted
    law = objective_perturbation.L2Noise
    draw = law.draw
    monkeypatch.setattr(law, "draw", lambda *a: draw(*a) / 3)
    assert audit(case.estimator, case.pairs, **settings).refuted


def test_labels_alone_are_refused_because_both_may_pull_at_once(monkeypatch):
    settings = {"loss": "hinge", "neighbours": "label-only"}
    X, y = rows()
    with pytest.raises(InvalidParameter, match="label-only"):
        PrivateLogisticRegression(**settings).fit(X, y > 0)
    monkeypatch.setattr(PerturbedObjective, "_check_hinge", lambda self: None)
    assert exact_audit(PrivateLogisticRegression(**settings)).epsilon > 1.2


@pytest.mark.parametrize(
    "more",
    [
        {"calibration": "printed"},
        {"prior": [1.0, 0.0, 0.0]},
        {"classes": ["a", "b", "c"]},
    ],
)
def test_what_no_proof_covers_is_refused_before_anything_is_spent(more):
    X, y = rows()
    labels = np.array(["a", "b"])[(y > 0).astype(int)] if "classes" in more else y > 0
    model = PrivateLogisticRegression(loss="hinge", **more)
    with pytest.raises(InvalidParameter, match=r"hinge"):
        model.fit(X, labels)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_learns_and_its_margin_is_one(delta):
    X, y = rows(6_000)
    model = PrivateLogisticRegression(loss="hinge", delta=delta, random_state=0).fit(X, y > 0)
    assert roc_auc_score(y > 0, model.decision_function(X)) > 0.95
    sure = PrivateLogisticRegression(
        loss="hinge", epsilon=1e7, alpha=1e-7, ridge_floor=1e-6, random_state=0
    ).fit(X, y > 0)
    margins = y * sure.decision_function(X)
    # Nearly all rows reach the margin, which is one in the weights that are released.
    assert 0.8 < np.mean(margins > 1.0 - 0.5) < 1.0


def larger(function):
    return lambda *a, **k: 1.1 * function(*a, **k)


def too_fast(patch, module, name):
    patch.setattr(module, name, larger(getattr(module, name)))


def too_close(patch, kind):
    """Divide what noise is made for, where nothing but a distance is priced."""
    real = kind.__init__

    def near(self, **settings):
        real(self, **settings | {"sensitivity": settings["sensitivity"] / 1.3})

    patch.setattr(kind, "__init__", near)


#: Every classifier that has a hinge, what it must reach of its claim, and a mutation to be found.
EVERYWHERE = {
    "PST-S": (
        SampleStackingClassifier(loss="hinge"),
        0.98,
        lambda patch: too_fast(patch, objective_perturbation, "calibrate"),
    ),
    "PST-F": (
        FeatureStackingClassifier(loss="hinge"),
        0.98,
        lambda patch: too_fast(patch, feature_groups, "calibrate_joint"),
    ),
    "PST-F, separate": (
        FeatureStackingClassifier(loss="hinge", clipping="separate"),
        0.98,
        lambda patch: too_fast(patch, feature_groups, "calibrate"),
    ),
    "PST-H": (
        TransferStackingClassifier(loss="hinge"),
        0.98,
        lambda patch: too_fast(patch, feature_groups, "calibrate_joint"),
    ),
    "SimComb": (
        TransferClassifier(loss="hinge"),
        0.98,
        lambda patch: too_fast(patch, objective_perturbation, "calibrate"),
    ),
    "average": (
        CollaborativeClassifier(loss="hinge"),
        0.85,
        lambda patch: patch.setattr(objective_perturbation, "calibrate", lambda *a: 0.6),
    ),
    "OFPA": (
        CollaborativeClassifier(loss="hinge", method="ofpa"),
        0.85,
        lambda patch: patch.setattr(laplace_objective, "calibrate", lambda *a: 0.6),
    ),
    "Laplace": (
        CollaborativeClassifier(loss="hinge", method="laplace"),
        0.85,
        lambda patch: too_close(patch, output_perturbation.AddedNoise),
    ),
    "sums": (
        CollaborativeClassifier(loss="hinge", method="sums"),
        0.85,
        lambda patch: too_close(patch, sums_plan.SecureSum),
    ),
}


def loss(model):
    """Return the largest exact loss of what learns from records, without a stack's high level."""
    case = audit_cases(model)[0]
    return loss_on_pair(case.estimator, case.pairs[0], 0)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_wherever_there_is_a_hinge_its_claim_is_kept_nearly_reached_and_guarded(name, monkeypatch):
    model, reached, mutation = EVERYWHERE[name]
    assert reached <= loss(model) <= 1.0
    mutation(monkeypatch)
    assert loss(model) > 1.0


def test_many_small_parties_minimise_the_same_loss():
    X, y = rows(400)
    offsets = np.arange(0, 401, 4)
    rng = np.random.default_rng(0)
    ridge, linear = rng.uniform(1, 3, 100), rng.normal(size=(100, 3))
    points = minimise_parties(
        X, y, offsets, ridge=ridge, tolerance=np.full(100, 1e-8), linear=linear, margin=HINGE
    )
    for k in (0, 17, 99):
        own = slice(offsets[k], offsets[k + 1])
        alone = minimise(X[own], y[own], ridge=ridge[k], linear=linear[k], margin=HINGE)
        np.testing.assert_allclose(points[k], alone.w, atol=1e-6)


SURE = {"loss": "hinge", "epsilon": 1e7, "alpha": 1e-4, "random_state": 0}


@pytest.mark.parametrize(
    "model",
    [
        CollaborativeClassifier(**SURE),
        CollaborativeClassifier(**SURE, method="laplace"),
        CollaborativeClassifier(**SURE, method="sums"),
        SampleStackingClassifier(**SURE, n_groups=1),
        FeatureStackingClassifier(**SURE, n_groups=1),
    ],
    ids=["average", "Laplace", "sums", "PST-S", "PST-F"],
)
def test_with_hardly_any_noise_all_are_the_one_hinge(model):
    """Parties with the same rows, or one group: margins of one, in weights as released."""
    X, y = rows(2_000)
    alone = PrivateLogisticRegression(**SURE).fit(X, y > 0)
    if isinstance(model, CollaborativeClassifier):
        party = np.repeat(["a", "b"], 2_000)
        together = model.fit(np.vstack([X, X]), np.tile(y > 0, 2), party=party)
    else:
        together = model.fit(X, y > 0)
    np.testing.assert_allclose(
        together.decision_function(X), alone.decision_function(X), rtol=1e-3, atol=1e-3
    )
    assert together.to_release().model.facts.loss == "hinge"


def test_a_high_level_learns_the_log_odds_of_what_hinges_say():
    X, y = rows(6_000)
    seeded = {"loss": "hinge", "random_state": 0}
    stack = FeatureStackingClassifier(**seeded, epsilon=20.0, n_groups=2).fit(X, y > 0)
    assert roc_auc_score(y > 0, stack.decision_function(X)) > 0.97
    seen = stack.predict_proba(X)[:, 1]
    assert abs(seen.mean() - np.mean(y > 0)) < 0.03
    assert "learned their log odds" in list(preprocessing(stack.model_))[-1]
    near = TransferStackingClassifier(**seeded, source=stack.to_release()).fit(X[:500], y[:500] > 0)
    assert roc_auc_score(y > 0, near.decision_function(X)) > 0.97


def test_a_hinge_starts_from_hinges_alone():
    X, y = rows(2_000)
    seeded = {"epsilon": 5.0, "random_state": 0}
    hinge = PrivateLogisticRegression(loss="hinge", **seeded).fit(X, y > 0)
    plain = PrivateLogisticRegression(**seeded).fit(X, y > 0)
    near = TransferClassifier(source=hinge.to_release(), loss="hinge", **seeded)
    assert roc_auc_score(y > 0, near.fit(X[:300], y[:300] > 0).decision_function(X)) > 0.97
    for source, loss in ((plain, "hinge"), (hinge, "capped")):
        wrong = TransferClassifier(source=source.to_release(), loss=loss, **seeded)
        with pytest.raises(SchemaMismatch, match="hinge"):
            wrong.fit(X[:300], y[:300] > 0)


@pytest.mark.parametrize(
    "model",
    [
        SampleStackingClassifier(classes=["a", "b", "c"]),
        SampleStackingClassifier(calibration="printed"),
        FeatureStackingClassifier(prior=[1.0, 0.0, 0.0]),
        FeatureStackingClassifier(classes=["a", "b", "c"]),
        FeatureStackingClassifier(calibration="printed", clipping="separate"),
        CollaborativeClassifier(method="ofaa"),
        CollaborativeClassifier(prior=[1.0, 0.0, 0.0]),
        CollaborativeClassifier(classes=["a", "b", "c"]),
        CollaborativeClassifier(classes=["a", "b", "c"], method="sums"),
    ],
)
def test_what_a_hinge_does_not_know_is_refused_before_anything_is_spent(model):
    X, y = rows()
    labels = np.array(["a", "b"])[(y > 0).astype(int)] if model.classes else y > 0
    ledger = Ledger()
    ledger.open_account("study", epsilon=10.0)
    with pytest.raises(InvalidParameter, match=r"hinge|two classes|logistic"):
        model.set_params(loss="hinge", ledger=ledger).fit(X, labels)
    assert ledger.spent("study") == 0


def test_groups_with_a_delta_have_corners_of_any_residuals():
    """The noise is that of the logistic loss at the same ridges: the corners are the same."""
    settings = {
        "epsilon": 1.0,
        "n_samples": 1000,
        "sizes": (2, 3),
        "ridges": (3.0, 4.0),
        "weights": (0.8, 0.6),
        "clipping": "joint",
        "delta": 1e-6,
    }
    plain, hinge = (FeatureGroupPerturbation(**settings, margin=m) for m in (0.0, HINGE))
    assert plain.rates == hinge.rates
    assert [one.margin for one in hinge.minimisers] == [HINGE, HINGE]
