"""Many parties at once: what they learn by themselves, and their votes.

Times are CPU seconds of one core, the contestants in turns; the least of the rounds counts.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from confrere.methods.votes import count_votes, local_weights

ROUNDS = 3
FITS = 20
ALPHA = 1e-4


def main() -> None:
    console = Console()
    learned = Table("parties", "scikit-learn, us each", "one by one", "together", "ratio")
    for shape in ((2_000, 10, 20, 2), (20_000, 22, 123, 2), (20_000, 60, 5, 2), (1_000, 6, 50, 6)):
        learned.add_row(*_learned_row(*shape))
    console.print(f"Local problems, alpha {ALPHA:g}", learned)
    votes = Table("models x rows", "product, s", "votes, s", "ratio", "peak, MB")
    votes.add_row(*_votes_row(20_000, 43_000, 123))
    console.print("Votes, against the float32 product in the same blocks", votes)


def _learned_row(n_parties: int, n_rows: int, n_features: int, n_classes: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_parties, n_rows, n_features))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    codes = np.argmax(X @ rng.standard_normal((n_features, n_classes)), axis=2)
    codes[:, 0], codes[:, 1] = 0, 1  # scikit-learn refuses a party with one class

    def peer() -> None:
        for rows, labels in zip(X[:FITS], codes[:FITS], strict=True):
            LogisticRegression(C=1 / (n_rows * ALPHA), fit_intercept=False).fit(rows, labels)

    def learned(block: int, count: int) -> None:
        for k in range(0, count, block):
            local_weights(X[k : k + block], codes[k : k + block], n_classes, ALPHA)

    theirs, alone, together = (
        min(_cpu_seconds(work) for _ in range(ROUNDS)) / count * 1e6
        for work, count in (
            (peer, FITS),
            (lambda: learned(1, FITS), FITS),
            (lambda: learned(240, n_parties), n_parties),
        )
    )
    name = f"{n_parties} of {n_rows} x {n_features}, {n_classes} classes"
    return name, f"{theirs:.0f}", f"{alone:.0f}", f"{together:.1f}", f"{alone / together:.0f}"


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
