"""The check of a prior and the fit that follows: exact ratios of both together, and mutations."""

import numpy as np
import pytest
from scipy import optimize

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    TransferClassifier,
)
from confrere.assurance.audit.densities import densities_of
from confrere.assurance.audit.exact import _largest, minimiser
from confrere.errors import CompositionError
from confrere.estimators import designed
from confrere.kernel.guarantee import Neighbours, exact
from confrere.kernel.noise import HiddenSize
from confrere.methods import priors
from confrere.methods.priors import LEVELS, PriorCheck
from confrere.simulation import SeededSource

#: Two columns; experts speak for the first.
PRIOR = np.array([2.0, 0.0])
N = 40


def climbed(ratio, start):
    end = optimize.fmin(lambda w: -ratio(w), start, maxiter=200 * len(start), disp=False)
    return max(ratio(end), ratio(start))


def neighbours(other):
    """Return two data sets: rows along the prior, of which the last turns round."""
    X = np.tile([1.0, 0.0], (N, 1))
    y = np.ones(N, dtype=int)
    y[: N // 8] = 0
    changed = X.copy()
    changed[-1] = other
    return (X, y), (changed, y)


def planned(data, **settings):
    common = {"prior": PRIOR, "random_state": 0, "fit_intercept": False}
    model = designed(PrivateLogisticRegression(), **common | settings)
    return model.prepare(*data)


def joint_loss(pair, belief_step, **settings):
    """Return the largest log ratio of check and fit together, at one belief after the check."""
    (plan, first), (_, second) = (planned(data, **settings) for data in pair)
    beliefs = plan.check.beliefs()
    belief = beliefs[belief_step % len(beliefs)]
    one, other = (densities_of(plan.terms_at(data, belief)) for data in (first, second))
    check = one[0].loss(other[0])
    best = 0.0
    for sign in (1.0, -1.0):

        def ratio(w, sign=sign):
            return sign * (one[1].log_density(w) - other[1].log_density(w))

        # Rows that score zero have the largest residual on both sides of the change.
        ends = [np.array([1e-3, 5.0]), np.array([-1e-3, -5.0])]
        starts = [np.zeros(2), minimiser(one[1]), *ends]
        best = max(best, *(climbed(ratio, start) for start in starts))
    return check + best


@pytest.mark.parametrize(("epsilon", "intercept"), [(0.3, 0.0), (1.0, -1.9), (3.0, 0.0)])
def test_check_and_fit_together_never_exceed_epsilon_and_reach_it(epsilon, intercept):
    found = [
        joint_loss(neighbours(other), step, epsilon=epsilon, prior_intercept=intercept)
        for other, steps in (([-1.0, 0.0], (0, 48, 74)), ([0.0, 1.0], (96,)), ([0.0, 0.0], (30,)))
        for step in steps
    ]
    assert max(found) <= epsilon
    # At a large epsilon the ridge is at its floor, and its part of the price is never attained.
    assert max(found) >= (0.95 if epsilon <= 1 else 0.93) * epsilon


def half_sensitivity(patch):
    real = PriorCheck.sensitivity.fget
    patch.setattr(PriorCheck, "sensitivity", property(lambda self: real(self) // 2))


def fit_at_the_whole_price(patch):
    patch.setattr(priors, "rest_of", lambda epsilon, spent: epsilon)


def unbounded_scores(patch):
    patch.setattr(priors.np, "clip", lambda values, *_: values)


def test_a_fit_at_the_whole_price_is_refused(monkeypatch):
    fit_at_the_whole_price(monkeypatch)
    with pytest.raises(CompositionError):
        joint_loss(neighbours([-1.0, 0.0]), 48, epsilon=1.0)


@pytest.mark.parametrize("fault", [half_sensitivity, unbounded_scores], ids=lambda f: f.__name__)
def test_a_broken_rule_is_found(monkeypatch, fault):
    fault(monkeypatch)
    steps = (48, 74)
    worst = max(joint_loss(neighbours([-1.0, 0.0]), step, epsilon=1.0) for step in steps)
    assert worst > 1.0


def check_of(size, epsilon=1.0, rates=(0.5, 0.5)):
    """Return the check of a prior whose scores have the deviation one, of these shares."""
    loads = np.eye(len(rates)) if len(rates) > 2 else np.ones((1, 1))
    level = np.log(rates) if len(rates) > 2 else np.log(rates[1] / rates[0])
    prior = priors.Prior(loads, level, moments=np.vstack([0 * loads[:1], loads]))
    return PriorCheck(prior=prior, epsilon=epsilon, n_samples=size)


RELATIONS = [(Neighbours.REPLACE_ONE, N), (Neighbours.ADD_REMOVE, HiddenSize(N))]


@pytest.mark.parametrize(("relation", "size"), RELATIONS)
@pytest.mark.parametrize("base_rate", [0.5, 0.11, 0.93])
def test_no_record_moves_the_sum_further_than_the_sensitivity(relation, size, base_rate):
    check = check_of(size, rates=(1 - base_rate, base_rate))
    assert check.neighbours is relation
    worst = 0
    with np.errstate(all="ignore"):
        scores = np.array([1e300, -1e300, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.3, -0.49, 0.0])
        parts = {
            (k, sign): check.total(scores[k : k + 1], np.array([sign]))
            for k in range(len(scores))
            for sign in (-1.0, 1.0)
        }
    for part in parts.values():
        if relation is Neighbours.ADD_REMOVE:
            worst = max(worst, abs(part))
        else:
            worst = max(worst, *(abs(part - other) for other in parts.values()))
    assert worst == check.sensitivity <= 2 * LEVELS


@pytest.mark.parametrize("kind", [FeatureStackingClassifier, CollaborativeClassifier])
def test_stacks_and_averages_pay_for_the_check_out_of_the_same_epsilon(kind):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 4)) / 2
    y = (X[:, 0] + rng.logistic(size=600) > 0).astype(int)
    model = kind(epsilon=0.7, prior=[2.0, 1.0, 0.0, 0.0], random_state=0)
    plan, data = model.prepare(X, y)
    prices = [term.mechanism.guarantee().epsilon for term in plan.terms(data)]
    assert plan.guarantee().epsilon == 0.7
    assert prices[0] >= 0.05 * 0.7 * (1 - 1e-12)
    assert sum(map(exact, prices)) <= exact(0.7)
    assert sum(prices) == pytest.approx(0.7)
    model.fit(X, y)
    assert model.model_.facts.prior.epsilon == prices[0]
    assert len(plan.run_many(data, SeededSource(0), 3)) == 3


SHARES = [(1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1), (0.05, 0.05, 0.3, 0.6)]


@pytest.mark.parametrize(("relation", "size"), RELATIONS)
@pytest.mark.parametrize("rates", SHARES, ids=str)
def test_of_several_classes_no_record_moves_the_sum_further_than_the_sensitivity(
    relation, size, rates
):
    check = check_of(size, rates=rates)
    assert check.neighbours is relation
    ends = np.array([1e300, -1e300, np.inf, np.nan, 3.0, -3.0, 0.3])
    scores = np.random.default_rng(0).choice(ends, size=(300, len(rates)))
    scores[: len(rates)] = 9 * np.eye(len(rates))
    scores[len(rates) : 2 * len(rates)] = -9 * np.eye(len(rates))
    parts = np.array(
        [
            [check.total(row[None], np.array([float(code)])) for code in range(len(rates))]
            for row in scores
        ]
    )
    worst = {Neighbours.REPLACE_ONE: np.ptp(parts), Neighbours.ADD_REMOVE: np.abs(parts).max()}[
        relation
    ]
    assert 0.99 * check.sensitivity <= worst <= check.sensitivity


def of_three_classes(epsilon):
    """Return a transfer near a source of three classes, and two data sets of one other record."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 2)) / 2
    codes = np.digitize(X[:, 0], [-0.2, 0.2])
    settings = {"classes": [0, 1, 2], "fit_intercept": False, "random_state": 0}
    source = designed(PrivateLogisticRegression(epsilon=50.0), **settings).fit(X, codes)
    model = TransferClassifier(source=source.to_release(), eta=0.0, epsilon=epsilon)
    designed(model, **settings)
    rows, labels = np.tile([1.0, 0.0], (N, 1)), np.full(N, 2)
    labels[: N // 4] = 0
    changed = rows.copy()
    changed[-1] = [-1.0, 0.0]
    return model, [model.prepare(each, labels) for each in (rows, changed)]


def losses_of_three_classes(epsilon, steps=(48, 70, 96)):
    """Return the losses of check and fit, at every belief, and what the check was to spend."""
    _, ((plan, first), (_, second)) = of_three_classes(epsilon)
    found = []
    for step in steps:
        belief = plan.check.beliefs()[step]
        one, other = (densities_of(plan.terms_at(data, belief)) for data in (first, second))
        fit = max(_largest(one[1], other[1], sign, seed=0) for sign in (1.0, -1.0))
        found.append((one[0].loss(other[0]), fit))
    return plan.check.epsilon, found


@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_near_a_source_of_three_classes_check_and_fit_keep_epsilon(epsilon):
    spent, found = losses_of_three_classes(epsilon)
    for check, fit in found:
        assert 0.9 * spent <= check <= spent
        assert check + fit <= epsilon
    assert max(check + fit for check, fit in found) > 0.5 * epsilon


@pytest.mark.parametrize("fault", [half_sensitivity, unbounded_scores], ids=lambda f: f.__name__)
def test_a_broken_check_of_three_classes_is_found(monkeypatch, fault):
    fault(monkeypatch)
    spent, found = losses_of_three_classes(1.0, steps=(48,))
    assert found[0][0] > spent
