"""The batched solver: every party's own minimiser, certified, whatever its shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from confrere.kernel.accountants import Softmax
from confrere.solver.parties import solve_parties


def ragged(sizes, n_features, n_classes=2, seed=0, norm=1.0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], n_features))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    truth = 3 * rng.standard_normal((n_features, n_classes))
    codes = np.argmax(X @ truth + rng.gumbel(size=(len(X), n_classes)), axis=1)
    return X, codes, offsets


def gradients(X, codes, offsets, W, alpha):
    """Norms of the gradients, written down a second time."""
    norms = []
    for w, begin, end in zip(W, offsets[:-1], offsets[1:], strict=True):
        rows, labels = X[begin:end].astype(float), codes[begin:end]
        if w.ndim == 1:
            residual = expit(rows @ w) - labels
        else:
            residual = softmax(rows @ w.T, axis=1) - np.eye(len(w))[labels]
        norms.append(np.linalg.norm(residual.T @ rows / len(rows) + alpha * w))
    return np.array(norms)


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1e-1])
@pytest.mark.parametrize(("n_rows", "n_features"), [(9, 50), (22, 40), (40, 22), (16, 16)])
def test_every_gradient_is_below_the_tolerance(alpha, n_rows, n_features):
    X, codes, offsets = ragged([n_rows] * 300, n_features, seed=5)
    solutions = solve_parties(X, 2 * codes - 1, offsets, alpha=alpha)
    checked = gradients(X, codes, offsets, solutions.W, alpha)
    assert solutions.gradient_norms.max() <= 1e-8
    assert checked.max() <= 1e-8
    np.testing.assert_allclose(solutions.gradient_norms, checked, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 14), min_size=1, max_size=6),
    n_features=st.integers(1, 16),
    n_classes=st.integers(3, 4),
    exponent=st.floats(-9, 2),
    norm=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
    seed=st.integers(0, 10**6),
)
def test_any_ragged_problem_is_solved(sizes, n_features, n_classes, exponent, norm, seed):
    X, codes, offsets = ragged(sizes, n_features, n_classes, seed, norm)
    alpha = 10.0**exponent
    solutions = solve_parties(X, codes, offsets, Softmax(n_classes), alpha=alpha)
    assert gradients(X, codes, offsets, solutions.W, alpha).max() <= 1e-8
    # The losses' gradients sum to zero over the classes: what W's sum is off is in the norms.
    sums = alpha * np.linalg.norm(solutions.W.sum(axis=1), axis=1)
    assert np.all(sums <= np.sqrt(n_classes) * (solutions.gradient_norms + 1e-15))
    binary = solve_parties(X, np.where(codes > 0, 1, -1), offsets, alpha=alpha)
    assert gradients(X, (codes > 0).astype(int), offsets, binary.W, alpha).max() <= 1e-8


def test_a_party_is_solved_alike_in_any_company():
    X, codes, offsets = ragged(list(range(1, 30)), 15, seed=8)
    y = 2 * codes - 1
    whole = solve_parties(X, y, offsets, alpha=1e-4)
    half = solve_parties(X[: offsets[14]], y[: offsets[14]], offsets[:15], alpha=1e-4)
    np.testing.assert_array_equal(half.W, whole.W[:14])
    alone = slice(offsets[10], offsets[11])
    one = solve_parties(X[alone], y[alone], [0, 11], alpha=1e-4)
    np.testing.assert_array_equal(one.W[0], whole.W[10])


def test_a_tolerance_below_rounding_is_not_passed_over():
    X, codes, offsets = ragged([9] * 5, 30, seed=12)
    solutions = solve_parties(X, 2 * codes - 1, offsets, alpha=1e-2, tolerance=1e-25)
    assert not solutions.solved.any()
    assert not solutions.W.any()


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_cannot_be_solved_changes_nothing_for_the_others(poison, n_features, n_classes):
    """One party's row made the call fail for all."""
    X, codes, offsets = ragged([9] * 5, n_features, n_classes, seed=11)

    def solve():
        if n_classes == 2:
            return solve_parties(X, 2 * codes - 1, offsets, alpha=1e-4)
        return solve_parties(X, codes, offsets, Softmax(n_classes), alpha=1e-4)

    before = solve()
    X[20, 1] = poison
    after = solve()
    others = [0, 1, 3, 4]
    assert before.solved.all()
    assert after.solved.tolist() == [True, True, False, True, True]
    np.testing.assert_array_equal(after.W[others], before.W[others])
    assert not after.W[2].any()


@pytest.mark.parametrize("apart", [0.0, 1e-14, 1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize(("n_rows", "n_features"), [(2, 5), (4, 20), (10, 50), (50, 10)])
def test_rows_that_nearly_coincide_are_solved(apart, n_rows, n_features):
    """At these strengths the metric of the rows is singular to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    X[1] = X[0] + apart * rng.normal(size=n_features)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(np.arange(n_rows) % 2, 1, -1)
    for alpha in (1e-4, 1e-8, 1e-10):
        assert solve_parties(X, y, [0, n_rows], alpha=alpha).solved.all()
