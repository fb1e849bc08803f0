"""How long a fit with eight hats per number takes, against one with straight lines.

CPU seconds of one core, the contestants in turns, the median of the rounds; simulated rows with as
many numbers, flags and categories as a table of bank clients.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from confrere import PrivateLogisticRegression
from confrere.data.features import Feature
from confrere.schema import Category, Flag, Label, Number, PublicSchema

SIZES = 5_000, 50_000
ROUNDS = 5


def main() -> None:
    table = Table("rows", "lines, s", "curves, s", "ratio", "columns")
    for n in SIZES:
        rows, times, columns = simulated(n), {False: [], True: []}, []
        for _ in range(ROUNDS):
            for curve in times:
                model = PrivateLogisticRegression(
                    schema=schema(curve), geometry="schema", random_state=0
                )
                start = time.process_time()
                model.fit(rows)
                times[curve].append(time.process_time() - start)
                columns.append(len(model.model_.features))
        lines, curves = (statistics.median(times[curve]) for curve in (False, True))
        table.add_row(
            f"{n}", f"{lines:.3f}", f"{curves:.3f}", f"{curves / lines:.2f}", f"{columns[:2]}"
        )
    Console().print(table)


def schema(curve: bool) -> PublicSchema:
    """Return seven numbers, three flags and six categories of six values."""
    features: list[Feature] = [Number(f"n{j}", bounds=(0, 100), curve=curve) for j in range(7)]
    features += [Flag(f"f{j}", share=0.3) for j in range(3)]
    features += [Category(f"c{j}", values=tuple("abcdef")) for j in range(6)]
    return PublicSchema(tuple(features), outcome=Label("y", positive=1, negative=0))


def simulated(n: int) -> pd.DataFrame:
    """Return rows whose label follows bent numbers."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({f"n{j}": rng.uniform(0, 100, n) for j in range(7)})
    for j in range(3):
        rows[f"f{j}"] = rng.uniform(size=n) < 0.3
    for j in range(6):
        rows[f"c{j}"] = rng.choice(list("abcdef"), n)
    score = np.sin(rows["n0"] / 15) + rows["f0"] - (rows["c0"] == "a")
    rows["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    return rows


if __name__ == "__main__":
    main()
