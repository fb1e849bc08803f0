"""The smooth hinge: the loss that is solved, the density that leaves, and what it may promise."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression
from confrere.audit import audit, audit_cases, exact_audit
from confrere.errors import InvalidParameter
from confrere.maths.solver import minimise
from confrere.mechanisms import objective_perturbation
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.plans.linear_plan import HINGE


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
