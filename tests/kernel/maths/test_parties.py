"""What a party learns by itself: its own minimiser, whatever its rows are."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from confrere.kernel.losses import loss_of
from confrere.methods.votes import local_weights


def rows_of(n_rows, n_features, n_classes=2, seed=0, norm=0.999):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    truth = 3 * rng.standard_normal((n_features, n_classes))
    return X, np.argmax(X @ truth + rng.gumbel(size=(n_rows, n_classes)), axis=1)


def gradient(X, codes, W, alpha):
    """The gradient's norm, written down a second time."""
    if W.ndim == 1:
        residual = expit(X @ W) - codes
    else:
        residual = softmax(X @ W.T, axis=1) - np.eye(len(W))[codes]
    return float(np.linalg.norm(residual.T @ X / len(X) + alpha * W))


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(1, 14),
    n_features=st.integers(1, 30),
    n_classes=st.integers(2, 4),
    exponent=st.floats(-9, 2),
    norm=st.sampled_from([0.0, 0.1, 0.999]),
    seed=st.integers(0, 10**6),
)
def test_any_small_problem_is_solved(n_rows, n_features, n_classes, exponent, norm, seed):
    """A party of one row, or with one class, as well."""
    X, codes = rows_of(n_rows, n_features, n_classes, seed, norm)
    alpha = 10.0**exponent
    labels = 2 * codes - 1 if n_classes == 2 else codes
    W = local_weights(X, labels, loss_of(n_classes), alpha)
    assert gradient(X, codes, W, alpha) <= 1e-8
