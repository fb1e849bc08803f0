"""Many parties at once: the batched solver, and the votes.

Times are CPU seconds of one core, the contestants in turns; the least of the rounds counts.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from confrere.kernel.accountants import Softmax
from confrere.methods.votes import count_votes
from confrere.solver.parties import solve_parties

ROUNDS = 3
FITS = 60
ALPHA = 1e-4


def main() -> None:
    console = Console()
    solver = Table("parties", "scikit-learn, ms", "batched, us", "ratio", "largest gradient")
    for n_parties, n_rows, n_features, n_classes in (
        (20_000, 22, 123, 2),
        (20_000, 9, 50, 2),
        (20_000, 60, 5, 2),
        (1_000, 6, 50, 6),
    ):
        solver.add_row(*_solver_row(n_parties, n_rows, n_features, n_classes))
    console.print(f"Local problems, alpha {ALPHA:g}, {FITS} scikit-learn fits extrapolated", solver)
    votes = Table("models x rows", "product, s", "votes, s", "ratio", "peak, MB")
    votes.add_row(*_votes_row(20_000, 43_000, 123))
    console.print("Votes, against the float32 product in the same blocks", votes)


def _solver_row(n_parties: int, n_rows: int, n_features: int, n_classes: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_parties * n_rows, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = 3 * rng.standard_normal((n_features, n_classes))
    codes = np.argmax(X @ truth + rng.gumbel(size=(len(X), n_classes)), axis=1)
    # scikit-learn refuses a party with one class.
    codes[::n_rows], codes[1::n_rows] = 0, 1
    offsets = np.arange(n_parties + 1) * n_rows

    def batched() -> NDArray[np.float64]:
        if n_classes == 2:
            return solve_parties(X, 2 * codes - 1, offsets, alpha=ALPHA).gradient_norms
        return solve_parties(X, codes, offsets, Softmax(n_classes), alpha=ALPHA).gradient_norms

    def loop(first: int) -> None:
        for begin in offsets[first : first + FITS // ROUNDS]:
            part = slice(begin, begin + n_rows)
            model = LogisticRegression(C=1 / (n_rows * ALPHA), fit_intercept=False)
            model.fit(X[part], codes[part])

    loop(0)
    norms = batched()
    by_loop, by_batch = [], []
    for turn in range(ROUNDS):
        by_loop.append(_cpu_seconds(lambda turn=turn: loop(turn * FITS // ROUNDS)))
        by_batch.append(_cpu_seconds(batched))
    each_loop = min(by_loop) / (FITS // ROUNDS)
    each_batch = min(by_batch) / n_parties
    name = f"{n_parties} of {n_rows} x {n_features}, {n_classes} classes"
    return (
        name,
        f"{1e3 * each_loop:.2f}",
        f"{1e6 * each_batch:.1f}",
        f"{each_loop / each_batch:.0f}",
        f"{norms.max():.1e}",
    )


def _votes_row(n_models: int, n_rows: int, n_features: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n_models, n_features))
    X = rng.standard_normal((n_rows, n_features))
    models, block = 240, 2048

    def product() -> None:
        weights, rows = W.astype(np.float32), X.astype(np.float32)
        for first in range(0, n_models, models):
            for start in range(0, n_rows, block):
                np.matmul(weights[first : first + models], rows[start : start + block].T)

    def votes() -> None:
        count_votes(W, X, block=block)

    by_product, by_votes = [], []
    for _ in range(ROUNDS):
        by_product.append(_cpu_seconds(product))
        by_votes.append(_cpu_seconds(votes))
    tracemalloc.start()
    votes()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (
        f"{n_models} x {n_rows}, {n_features} features",
        f"{min(by_product):.2f}",
        f"{min(by_votes):.2f}",
        f"{min(by_votes) / min(by_product):.2f}",
        f"{(peak + W.nbytes + X.nbytes) / 1e6:.0f}",
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
