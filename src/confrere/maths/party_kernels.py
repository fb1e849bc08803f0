"""Compiled Newton iterations for many small regularised problems, one party after another.

A party's problem has ``m`` outputs (one for two classes, ``K`` for a softmax over ``K``)::

    min_W  (1/n) sum_i loss(W x_i + s_i, c_i) + (alpha/2) ||W||_F^2,      W of shape (m, d)

with given shifts ``s_i``, and is solved in whichever space is smaller:

- *primal* (n >= d): in ``W`` itself, with the d-dimensional Hessian;
- *dual* (n < d): ``W = A X`` with ``A`` of shape (m, n), in the metric of ``G = X X'``.

The iterates are those of Newton's method either way. A step is halved until the norm of the
gradient falls, which converges from anywhere because the Hessian is never below ``alpha``; with a
capped slope the Hessian jumps, so that a party may be left unsolved, and its norm says so.

Arrays of outputs have shape (m, n) or (m, d), so that inner loops run over contiguous numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.maths.compilation import compiled

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]

#: Distance to the exact minimiser that is aimed at, beyond the tolerance that is promised.
_AIM = 1e-7
_MOST_TRIALS = 1000
_SMALLEST_SCALE = 2.0**-40


class Problem(NamedTuple):
    """A party's rows or, in the dual, their Gram matrix, with shifts (n, m) and classes."""

    features: Floats
    dual: bool
    shift: Floats
    codes: Codes
    alpha: float
    cap: float


@compiled
def _gram(X: Floats) -> Floats:
    n, d = X.shape
    G = np.empty((n, n))
    for i in range(0, n, 2):
        # Two by two, every number loaded serves two products; an odd last row pairs with itself.
        i1 = min(i + 1, n - 1)
        for j in range(0, i + 1, 2):
            j1 = min(j + 1, n - 1)
            g00 = g01 = g10 = g11 = 0.0
            for k in range(d):
                g00 += X[i, k] * X[j, k]
                g01 += X[i, k] * X[j1, k]
                g10 += X[i1, k] * X[j, k]
                g11 += X[i1, k] * X[j1, k]
            G[i, j] = G[j, i] = g00
            G[i, j1] = G[j1, i] = g01
            G[i1, j] = G[j, i1] = g10
            G[i1, j1] = G[j1, i1] = g11
    return G


@compiled
def _factorise(A: Floats) -> None:
    """Overwrite the lower triangle by the Cholesky factor, its diagonal inverted."""
    n = A.shape[0]
    for i in range(0, n - 1, 2):
        for j in range(0, i, 2):
            s00, s01, s10, s11 = A[i, j], A[i, j + 1], A[i + 1, j], A[i + 1, j + 1]
            for k in range(j):
                s00 -= A[i, k] * A[j, k]
                s01 -= A[i, k] * A[j + 1, k]
                s10 -= A[i + 1, k] * A[j, k]
                s11 -= A[i + 1, k] * A[j + 1, k]
            s00 *= A[j, j]
            s10 *= A[j, j]
            A[i, j] = s00
            A[i + 1, j] = s10
            A[i, j + 1] = (s01 - s00 * A[j + 1, j]) * A[j + 1, j + 1]
            A[i + 1, j + 1] = (s11 - s10 * A[j + 1, j]) * A[j + 1, j + 1]
        _close_row(A, i, i)
        _close_row(A, i + 1, i)
    if n % 2:
        _close_row(A, n - 1, 0)


@compiled
def _close_row(A: Floats, i: int, first: int) -> None:
    """Finish row ``i`` of the factor from column ``first`` on."""
    for j in range(first, i):
        s = A[i, j]
        for k in range(j):
            s -= A[i, k] * A[j, k]
        A[i, j] = s * A[j, j]
    s = A[i, i]
    for k in range(i):
        s -= A[i, k] * A[i, k]
    A[i, i] = 1 / math.sqrt(s)


@compiled
def _solve_factorised(A: Floats, b: Floats) -> None:
    n = b.size
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= A[i, k] * b[k]
        b[i] = s * A[i, i]
    for i in range(n - 1, -1, -1):
        b[i] *= A[i, i]
        s = b[i]
        for k in range(i):
            b[k] -= A[i, k] * s


@compiled
def _residuals(problem: Problem, scores: Floats, residuals: Floats, roots: Floats) -> None:
    """Set the loss's derivative in every score and the roots of its curvature.

    The residual of the right class is minus the sum of the others, never ``p - 1``: small ones
    keep their digits. The cap on the slope is for two classes.
    """
    m, n = scores.shape
    shift, codes, cap = problem.shift, problem.codes, problem.cap
    if m == 1:
        for i in range(n):
            z = scores[0, i] + shift[i, 0]
            p = 1 / (1 + math.exp(z if codes[i] == 1 else -z))
            roots[0, i] = math.sqrt(p * (1 - p)) if p <= cap else 0.0
            p = min(p, cap)
            residuals[0, i] = -p if codes[i] == 1 else p
        return
    for i in range(n):
        highest = scores[0, i] + shift[i, 0]
        for a in range(1, m):
            highest = max(highest, scores[a, i] + shift[i, a])
        right, wrong = codes[i], 0.0
        for a in range(m):
            residuals[a, i] = math.exp(scores[a, i] + shift[i, a] - highest)
            if a != right:
                wrong += residuals[a, i]
        total = wrong + residuals[right, i]
        for a in range(m):
            residuals[a, i] /= total
            roots[a, i] = math.sqrt(residuals[a, i])
        residuals[right, i] = -wrong / total


@compiled
def _evaluate(problem: Problem, point: Floats, gradient: Floats, by_row: Floats) -> float:
    """Set residuals, roots and the gradient at ``point``; return its norm in weight space.

    In the dual the gradient is ``gradient @ X``, and ``image = gradient @ G`` carries its norm.
    """
    m, width = point.shape
    residuals, roots, image = by_row[0], by_row[1], by_row[2]
    features, dual, alpha, n = problem.features, problem.dual, problem.alpha, problem.codes.size
    _project(features, point, image)
    _residuals(problem, image, residuals, roots)
    square = 0.0
    for a in range(m):
        for k in range(width):
            gradient[a, k] = alpha * point[a, k]
        if dual:
            for i in range(n):
                gradient[a, i] += residuals[a, i] / n
        else:
            for i in range(n):
                weight = residuals[a, i] / n
                for k in range(width):
                    gradient[a, k] += weight * features[i, k]
            for k in range(width):
                square += gradient[a, k] * gradient[a, k]
    if dual:
        _project(features, gradient, image)
        for a in range(m):
            for i in range(n):
                square += gradient[a, i] * image[a, i]
    return math.sqrt(max(square, 0.0)) if square == square else math.inf


@compiled
def _project(features: Floats, point: Floats, out: Floats) -> None:
    m, width = point.shape
    for a in range(m):
        for i in range(features.shape[0]):
            s = 0.0
            for k in range(width):
                s += features[i, k] * point[a, k]
            out[a, i] = s


@compiled
def _dual_step(
    G: Floats, roots: Floats, gradient: Floats, image: Floats, alpha: float, B: Floats, step: Floats
) -> None:
    """Newton's step for ``A``: ``(alpha + D G) step = -gradient``, D the curvature over n.

    With ``D = R R'/n`` and ``B = alpha + R'G R/n`` positive definite, Woodbury gives
    ``step = (R B^-1 R' G gradient / n - gradient) / alpha``. For two classes R is the diagonal
    of ``roots``; for a softmax with ``q_i`` the roots of row i's probabilities,
    ``R_i = diag(q_i)(I - q_i q_i')``.
    """
    m, n = roots.shape
    if m == 1:
        for i in range(n):
            scale = roots[0, i] / n
            for j in range(i + 1):
                B[i, j] = scale * roots[0, j] * G[i, j]
            step[0, i] = roots[0, i] * image[0, i]
    else:
        _dual_system(G, roots, B)
        for i in range(n):
            mean = 0.0
            for a in range(m):
                mean += roots[a, i] * roots[a, i] * image[a, i]
            for a in range(m):
                step[a, i] = roots[a, i] * (image[a, i] - mean)
    for i in range(m * n):
        B[i, i] += alpha
    _factorise(B)
    _solve_factorised(B, step.reshape(m * n))
    for i in range(n):
        along = 0.0
        if m > 1:
            for a in range(m):
                along += roots[a, i] * step[a, i]
        for a in range(m):
            back = roots[a, i] * (step[a, i] - roots[a, i] * along)
            step[a, i] = (back / n - gradient[a, i]) / alpha


@compiled
def _dual_system(G: Floats, roots: Floats, B: Floats) -> None:
    """Set the lower triangle of ``R'G R/n`` for a softmax, classes outside, rows inside."""
    m, n = roots.shape
    overlap = np.zeros((n, n))
    for a in range(m):
        for i in range(n):
            square = roots[a, i] * roots[a, i]
            for j in range(n):
                overlap[i, j] += square * roots[a, j] * roots[a, j]
    for a in range(m):
        for b in range(a + 1):
            for i in range(n):
                scale = roots[a, i] / n
                square = roots[b, i] * roots[b, i]
                for j in range(n):
                    inner = overlap[i, j] - roots[a, j] * roots[a, j] - square
                    if a == b:
                        inner += 1
                    B[a * n + i, b * n + j] = scale * G[i, j] * roots[b, j] * inner


@compiled
def _primal_step(
    X: Floats, roots: Floats, gradient: Floats, alpha: float, H: Floats, step: Floats
) -> None:
    """Newton's step for ``W``: ``(alpha + sum_i D_i (x) x_i x_i'/n) step = -gradient``."""
    m, d = gradient.shape
    n = X.shape[0]
    for j in range(m * d):
        for k in range(j + 1):
            H[j, k] = alpha if j == k else 0.0
    for i in range(n):
        for a in range(m):
            for b in range(a + 1):
                curvature = roots[a, i] * roots[b, i]
                if m > 1:
                    curvature *= (1.0 if a == b else 0.0) - curvature
                for j in range(d):
                    scale = curvature / n * X[i, j]
                    for k in range(j + 1 if a == b else d):
                        H[a * d + j, b * d + k] += scale * X[i, k]
    _factorise(H)
    for a in range(m):
        for j in range(d):
            step[a, j] = -gradient[a, j]
    _solve_factorised(H, step.reshape(m * d))


@compiled
def _stretch(problem: Problem, penalty: float, by_row: Floats) -> float:
    """Return a good length for the first step, whose scores are given, from zero.

    Along the ray the objective's slope is ``penalty s - pull(s)``. Newton's method goes on
    ``log pull(s) - log(penalty s)``, almost straight where a few exponentials rule, as they do
    for small ``alpha``; it saves half of the steps to come.
    """
    residuals, roots, scores, scaled = by_row[0], by_row[1], by_row[2], by_row[3]
    m, n = scores.shape
    scale = 1.0
    for _ in range(3):
        for a in range(m):
            for i in range(n):
                scaled[a, i] = scale * scores[a, i]
        _residuals(problem, scaled, residuals, roots)
        pull, bend = 0.0, 0.0
        for i in range(n):
            mean = 0.0
            for a in range(m):
                pull -= residuals[a, i] * scores[a, i]
                moment = roots[a, i] * roots[a, i] * scores[a, i]
                bend += moment * scores[a, i]
                mean += moment
            if m > 1:
                bend -= mean * mean
        if pull <= 0:
            return 1.0
        move = math.log(pull / (n * penalty * scale)) / (1 / scale + bend / pull)
        scale = min(max(scale + move, scale / 4), scale * 4)
    return scale


@compiled
def _newton(problem: Problem, tolerance: float, point: Floats) -> None:
    """Move ``point`` from zero to the minimiser, or as near as floating point allows."""
    m, width = point.shape
    features, dual, alpha = problem.features, problem.dual, problem.alpha
    by_row = np.empty((4, m, problem.codes.size))
    roots, image = by_row[1], by_row[2]
    by_weight = np.zeros((3, m, width))
    gradient, step, trial = by_weight[0], by_weight[1], by_weight[2]
    system = np.empty((m * width, m * width))
    goal = min(tolerance, _AIM * alpha)
    norm, scale = math.inf, 1.0
    for _ in range(_MOST_TRIALS):
        for a in range(m):
            for k in range(width):
                trial[a, k] = point[a, k] + scale * step[a, k]
        now = _evaluate(problem, trial, gradient, by_row)
        if now > (1 - min(scale, 1.0) / 4) * norm:
            # Below the tolerance only rounding is left to fight.
            if norm <= tolerance or scale < _SMALLEST_SCALE:
                return
            scale /= 2
            continue
        first, norm, scale = norm == math.inf, now, 1.0
        for a in range(m):
            for k in range(width):
                point[a, k] = trial[a, k]
        if norm <= goal or norm == math.inf:
            return
        if dual:
            _dual_step(features, roots, gradient, image, alpha, system, step)
        else:
            _primal_step(features, roots, gradient, alpha, system, step)
        if first:
            _project(features, step, image)
            penalty = 0.0
            for a in range(m):
                for k in range(width):
                    penalty += alpha * step[a, k] * (image[a, k] if dual else step[a, k])
            scale = _stretch(problem, penalty, by_row)


@compiled
def solve_each(
    X: Floats,
    shift: Floats,
    codes: Codes,
    offsets: Codes,
    alpha: Floats,
    cap: float,
    tolerance: Floats,
    W: Floats,
) -> Floats:
    """Solve every party's problem into ``W``, of shape (n_parties, m, d), which comes in zero.

    Returns the norms of the gradients at the very ``W`` returned, measured in weight space.
    """
    n_parties, m, d = W.shape
    norms, gradient = np.empty(n_parties), np.empty((m, d))
    for party in range(n_parties):
        own = slice(offsets[party], offsets[party + 1])
        rows, weights = X[own], W[party]
        primal = Problem(rows, False, shift[own], codes[own], alpha[party], cap)
        n = rows.shape[0]
        if n < d:
            dual = Problem(_gram(rows), True, shift[own], codes[own], alpha[party], cap)
            point = np.zeros((m, n))
            _newton(dual, tolerance[party], point)
            for a in range(m):
                for i in range(n):
                    for k in range(d):
                        weights[a, k] += point[a, i] * rows[i, k]
        else:
            _newton(primal, tolerance[party], weights)
        norms[party] = _evaluate(primal, weights, gradient, np.empty((3, m, n)))
    return norms
