"""The certified solver against scikit-learn's newton-cholesky, and many problems against one.

Times are CPU seconds of one core, the contestants in turns, the median of the rounds. Both stop
at a mean gradient of 1e-10: scikit-learn at the loosest tolerance that reaches it, ours by its
certificate, rounding included. Ours also carries the noise of objective perturbation.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from confrere.arrays import Floats
from confrere_research.as_printed.minimiser import minimise

#: Rows, columns, rounds, and the target for the ratio of times.
SIZES = [
    (3_000, 100, 15, 0.6),
    (50_000, 50, 9, 0.6),
    (500_000, 123, 3, 0.25),
    (1_000_000, 20, 5, 0.25),
]
#: Ridge per row: what suits the noise (see rule), a strong one and a weak one.
ALPHAS = 1e-2, 1e-3
MEAN_GRADIENT = 1e-10
EPSILON = 1.0
MANY = 64


def main() -> None:
    console = Console()
    single = Table("rows x columns", "alpha", "scikit-learn, ms", "ours, ms", "ratio", "target")
    for name in ("gradient: theirs", "ours", "extra memory, MB"):
        single.add_column(name)
    many = Table("rows x columns", "alpha", "one by one, s", "together, s", "speed-up", "target")
    for n, d, rounds, target in SIZES:
        X, y = problem(n, d)
        for alpha in (rule(n, d), *ALPHAS):
            label = f"{n} x {d}", f"{alpha:.0e}"
            single.add_row(*label, *_single(X, y, alpha, rounds, target))
            if n <= 50_000:
                many.add_row(*label, *_many(X, y, alpha))
    console.print(f"One problem, mean gradient {MEAN_GRADIENT:g}", single)
    console.print(f"{MANY} noise vectors on the same rows", many)


def rule(n: int, d: int) -> float:
    """The ridge that suits the noise, ``max(2/epsilon, d^3/(n epsilon^2))``, per row."""
    return max(2 / EPSILON, d**3 / (n * EPSILON**2)) / n


def problem(n: int, d: int) -> tuple[Floats, Floats]:
    """Rows of norm at most one and noisy labels, made without a second copy of the rows."""
    rng = np.random.default_rng(0)
    X = np.empty((n, d))
    truth = 20 * rng.standard_normal(d)
    y = np.empty(n)
    for start in range(0, n, 4096):
        block = rng.standard_normal((min(4096, n - start), d)) * np.linspace(1, 0.1, d)
        block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), np.sqrt(d))
        X[start : start + 4096] = block
        positive = rng.random(len(block)) < expit(block @ truth)
        y[start : start + 4096] = np.where(positive, 1.0, -1.0)
    return X, y


def noise(d: int, size: int) -> Floats:
    """Draws with density proportional to ``exp(-epsilon ||b|| / 2)``."""
    rng = np.random.default_rng(1)
    B = rng.standard_normal((size, d))
    return B * rng.gamma(d, 2 / EPSILON, (size, 1)) / np.linalg.norm(B, axis=1, keepdims=True)


def _single(X: Floats, y: Floats, alpha: float, rounds: int, target: float) -> tuple[str, ...]:
    n, d = X.shape
    b = noise(d, 1)[0]
    reference, their_gradient = _reference(X, y, alpha)

    def ours() -> Floats:
        return minimise(X, y, ridge=alpha * n, linear=b, tolerance=MEAN_GRADIENT * n)

    theirs, mine = _in_turns([lambda: reference.fit(X, y), ours], rounds)
    w = ours()
    return (
        f"{1e3 * theirs:.1f}",
        f"{1e3 * mine:.1f}",
        _mark(f"{mine / theirs:.2f}", mine <= target * theirs),
        f"{target}",
        f"{their_gradient:.0e}",
        f"{np.linalg.norm(alpha * w + b / n - (y * expit(-y * (X @ w))) @ X / n):.0e}",
        f"{_extra_memory(n, d, alpha):.0f}",
    )


def _reference(X: Floats, y: Floats, alpha: float) -> tuple[LogisticRegression, float]:
    """The loosest setting of scikit-learn that reaches the mean gradient, and what it reaches."""
    n = len(X)
    for digits in range(4, 16):
        model = LogisticRegression(
            C=1 / (alpha * n), fit_intercept=False, solver="newton-cholesky", tol=10.0**-digits
        ).fit(X, y)
        w = model.coef_[0]
        gradient = np.linalg.norm(alpha * w - (y * expit(-y * (X @ w))) @ X / n)
        if gradient <= MEAN_GRADIENT:
            return model, float(gradient)
    raise RuntimeError("scikit-learn does not reach the mean gradient")


def _many(X: Floats, y: Floats, alpha: float) -> tuple[str, ...]:
    n, d = X.shape
    B = noise(d, MANY)

    def singles() -> None:
        for b in B:
            minimise(X, y, ridge=alpha * n, linear=b)

    def together() -> None:
        minimise(X, y, ridge=alpha * n, linear=B)

    apart, batched = _in_turns([singles, together], 3)
    speed_up = _mark(f"{apart / batched:.1f}", apart >= 5 * batched)
    return f"{apart:.2f}", f"{batched:.2f}", speed_up, "5"


def _in_turns(contestants: list[Callable[[], object]], rounds: int) -> list[float]:
    times: list[list[float]] = [[] for _ in contestants]
    for _ in range(rounds):
        for contestant, mine in zip(contestants, times, strict=True):
            start = time.process_time()
            contestant()
            mine.append(time.process_time() - start)
    return [statistics.median(mine) for mine in times]


def _extra_memory(n: int, d: int, alpha: float) -> float:
    """Megabytes beyond the rows that one solve needs at its peak, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (n, d, alpha))


def _peak(n: int, d: int, alpha: float) -> float:
    X, y = problem(n, d)
    process = psutil.Process()
    before = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    minimise(X, y, ridge=alpha * n, linear=noise(d, 1)[0], tolerance=MEAN_GRADIENT * n)
    done.set()
    watcher.join()
    return (peak - before) / 2**20


def _mark(text: str, met: bool) -> str:
    return f"[green]{text}[/]" if met else f"[red]{text}[/]"
