"""The votes of many parties.

Times are CPU seconds of one core, the contestants in turns; the least of the rounds counts.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from confrere.methods.votes import count_votes

ROUNDS = 3


def main() -> None:
    console = Console()
    votes = Table("models x rows", "product, s", "votes, s", "ratio", "peak, MB")
    votes.add_row(*_votes_row(20_000, 43_000, 123))
    console.print("Votes, against the float32 product in the same blocks", votes)


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
