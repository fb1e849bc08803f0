"""Whole fits against scikit-learn and diffprivlib, extra memory, and rows that no memory holds.

Times are CPU seconds of one core, the contestants in turns, the median of the rounds; a turn is as
many fits as take a twentieth of a second. A fit of ours is the whole of it: validation, ledger on
disk, noise, certificate, model. scikit-learn has the same ridge and its default tolerance.
diffprivlib 0.6.6 does not import beside the scikit-learn that this library is tested with: name the
interpreter of an environment that has it in the environment variable ``DIFFPRIVLIB_PYTHON``
(``pip install diffprivlib==0.6.6 "scikit-learn<1.6"``).

``python -m benchmarks scale`` measures every row that docs/measured/scale.json does not have yet,
writes it down at once, prints all of them beside their bars and fills docs/scale.md. To measure a
row again take it out of the record, or the record away. Rows beyond memory take minutes and
gigabytes: they are made in ``CONFRERE_SPILL``, or the folder for temporary files, and removed.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from rich.console import Console
from scipy import sparse
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks import scale_rows
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from benchmarks.scale_rows import problem
from confrere import PrivateLogisticRegression
from confrere.ledger import Ledger
from confrere.rows import open_table

#: Rows, columns, CSR entries per row (0: dense), and what the ratio should be at most.
SIZES = [
    (300, 10, 0, 1.5),
    (3_000, 50, 0, 1.5),
    (50_000, 50, 0, 0.44),
    (500_000, 50, 0, 0.26),
    (2_000_000, 10, 0, 0.23),
    (3_000, 1_000, 0, 0.78),
    (50_000, 500, 0, 1.5),
    (50_000, 10_000, 50, 0.9),
    (50_000, 100_000, 50, 0.71),
]
#: Rows of a raw table, and what its ratio should be at most.
RAW = [(300, 1.3), (3_000, 1.1), (30_000, 0.7), (200_000, 0.5), (1_000_000, 0.25)]
ROUNDS = 7
#: CPU seconds of a turn: of small fits, several.
TURN = 0.05
PEER = Path(__file__).with_name("scale_peer.py")

#: Rows of a raw table: eight numbers, six categories, four flags.
TABLE = 300_000

#: From a contestant to the CPU seconds of one fit.
Contestant = Callable[[], float]


def main() -> None:
    """Measure what is missing, print everything, fill the page."""
    warnings.simplefilter("ignore")
    record = _record()
    all_lines = {"fits": _fits(), "raw": _raw(), "memory": _memory(), "large": _large()}
    all_lines["tables"] = _tables()
    for what, lines in all_lines.items():
        known = {one["key"]: one for one in record[what]}
        for key, measure in lines.items():
            if key not in known:
                Console().print(f"{what}: {key} ...")
                known[key] = {"key": key, **measure()}
                record[what] = [known[each] for each in lines if each in known]
                write_record("scale", record)
    if not record["engines"]:
        record["engines"] = scale_rows.engines()
        write_record("scale", record)
    for name, table in tables(record).items():
        Console().rule(name)
        sys.stdout.write(table + "\n")
        fill("scale.md", name, table)


def _record() -> dict[str, Any]:
    record: dict[str, Any] = {"rounds": ROUNDS, "fits": [], "memory": [], "large": []}
    record |= {"raw": [], "engines": [], "tables": []}
    return record | (read_record("scale") if (RECORDS / "scale.json").exists() else {})


#: What is measured, by what its row is called.
Lines = dict[str, Callable[[], dict[str, Any]]]


def _fits() -> Lines:
    return {
        f"{n:,} x {d:,}" + (f" (CSR, {entries} per row)" if entries else ""): partial(
            array_fit, n, d, entries, target
        )
        for n, d, entries, target in SIZES
    }


def _memory() -> Lines:
    return {dtype: partial(scale_rows.extra_memory, dtype) for dtype in ("float32", "float64")}


def _large() -> Lines:
    return {f"{n:,} x {d}": partial(scale_rows.large, n, d) for n, d in scale_rows.LARGE}


def _raw() -> Lines:
    return {f"{n:,}": partial(raw_fit, n, target) for n, target in RAW}


def _tables() -> Lines:
    return {name: partial(table_costs, name) for name in ("CSV", "Parquet")}


# -- raw tables in files -----------------------------------------------------------------------


def table_costs(name: str) -> dict[str, Any]:
    """Return what rows of a file cost, in microseconds of CPU: read, as codes, and predicted."""
    table, schema = scale_rows.raw_table(TABLE), scale_rows.raw_schema()
    model = PrivateLogisticRegression(epsilon=1.0, schema=schema, random_state=0)
    model.fit(table.slice(0, 5_000))
    encoder, columns = schema.encoder(), [*schema.columns, "y"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"rows.{name.lower()}"
        if name == "CSV":
            pa.csv.write_csv(table, file)
        else:
            pa.parquet.write_table(table, file, row_group_size=100_000)

        def each(act: Callable[[Any], object]) -> Contestant:
            return timed(lambda: [act(batch) for batch in open_table(file).read(columns)])

        acts = {"reading": len, "codes": encoder.codes, "predicting": model.predict_proba}
        times = in_turns({what: each(act) for what, act in acts.items()}, ROUNDS)
    return {what: round(1e6 * seconds / TABLE, 3) for what, seconds in times.items()}


def raw_fit(n: int, target: float) -> dict[str, Any]:
    """Fit a data frame, schema and ledger made anew, beside the pipeline that is usual for it."""
    frame = scale_rows.raw_table(n).to_pandas()
    X, y = frame.drop(columns="y"), frame["y"]
    words = [column for column in X if column[0] != "n"]
    columns = make_column_transformer((OneHotEncoder(), words), remainder=StandardScaler())
    peer = make_pipeline(columns, LogisticRegression(max_iter=1000))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "bench.ledger", witness=Path(folder) / "witness")
        ledger.open_account("bench", epsilon=1e6)

        def ours() -> None:
            told = {"schema": scale_rows.raw_schema(), "budget": ledger["bench"]}
            PrivateLogisticRegression(epsilon=1.0, **told).fit(frame)

        contestants = {"ours": timed(ours), "pipeline": timed(lambda: peer.fit(X, y))}
        times = in_turns(contestants, ROUNDS)
    return {
        "milliseconds": {name: round(1e3 * seconds, 3) for name, seconds in times.items()},
        "ratio": round(times["ours"] / times["pipeline"], 3),
        "target": target,
        "bytes_a_row": round(scale_rows.in_child(scale_rows.raw_memory, n)) if n >= 10**6 else None,
    }


# -- whole fits --------------------------------------------------------------------------------


def sparse_problem(n: int, d: int, entries: int) -> tuple[Any, Any]:
    """CSR rows of norm one, with so many entries each."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(d, size=(n, entries)), axis=1)
    X = sparse.csr_array(
        (np.ones(n * entries), columns.ravel(), np.arange(n + 1) * entries), shape=(n, d)
    )
    X.sum_duplicates()
    X.data /= np.sqrt(entries)
    y = rng.random(n) < expit(X @ (3 * rng.standard_normal(d)))
    return X, y.astype(np.int8)


def array_fit(n: int, d: int, entries: int, target: float) -> dict[str, Any]:
    X, y = sparse_problem(n, d, entries) if entries else problem(n, d)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "bench.ledger", witness=Path(folder) / "witness")
        ledger.open_account("bench", epsilon=1e6)
        ours = PrivateLogisticRegression(epsilon=1.0, budget=ledger["bench"]).fit(X, y)
        C = 1 / ours.model_.facts.ridge
        contestants = {
            "ours": timed(lambda: ours.fit(X, y)),
            "lbfgs": timed(lambda: LogisticRegression(C=C).fit(X, y)),
        }
        if not entries:
            newton = LogisticRegression(C=C, solver="newton-cholesky")
            contestants["newton-cholesky"] = timed(lambda: newton.fit(X, y))
        with _diffprivlib(X, y, C) as theirs:
            if theirs is not None:
                contestants["diffprivlib"] = theirs
            times = in_turns(contestants, ROUNDS)
    faster = min(times["lbfgs"], times.get("newton-cholesky", np.inf))
    return {
        "milliseconds": {name: round(1e3 * seconds, 3) for name, seconds in times.items()},
        "ratio": round(times["ours"] / faster, 3),
        "target": target,
        "to_diffprivlib": (
            round(times["ours"] / times["diffprivlib"], 3) if "diffprivlib" in times else None
        ),
    }


def timed(act: Callable[[], object]) -> Contestant:
    """Return what says how many CPU seconds ``act`` takes."""

    def once() -> float:
        start = time.process_time()
        act()
        return time.process_time() - start

    return once


@contextmanager
def _diffprivlib(X: Any, y: Any, C: float) -> Iterator[Contestant | None]:
    """Give diffprivlib's fit, in its own environment; None if there is none, or for CSR."""
    python = os.environ.get("DIFFPRIVLIB_PYTHON")
    if python is None or sparse.issparse(X):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        command = [python, "-W", "ignore", str(PEER), folder, repr(C)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as peer:
            assert peer.stdin is not None
            assert peer.stdout is not None
            ask, reply = peer.stdin, peer.stdout

            def once() -> float:
                ask.write("fit\n")
                return float(reply.readline())

            yield once
            ask.close()


def in_turns(contestants: dict[str, Contestant], rounds: int) -> dict[str, float]:
    """Return the median over the rounds of each one's CPU seconds per fit."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    fits = {name: max(1, int(TURN / max(fit(), fit()))) for name, fit in contestants.items()}
    gc.collect()
    for _ in range(rounds):
        for name, fit in contestants.items():
            times[name].append(sum(fit() for _ in range(fits[name])) / fits[name])
    return {name: statistics.median(each) for name, each in times.items()}


# -- tables ------------------------------------------------------------------------------------


def tables(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page, by name."""
    return {
        "fits": fits_table(record),
        "raw": raw_table(record),
        "memory": memory_table(record),
        "large": large_table(record),
        "tables": tables_table(record),
        "engines": engines_table(record),
    }


def fits_table(record: dict[str, Any]) -> str:
    """Return the table of whole fits."""
    names = ("ours", "lbfgs", "newton-cholesky", "diffprivlib")
    head = ["rows x columns", *(f"{name}, ms" for name in names)]
    head += ["ours / faster of scikit-learn", "bar", "ours / diffprivlib", "bar"]
    lines = []
    for one in record["fits"]:
        times = one["milliseconds"]
        cells = [f"{times[name]:,.1f}" if name in times else "-" for name in names]
        peer = one["to_diffprivlib"]
        theirs = ["-", "-"] if peer is None else [f"{peer:.2f}", "1"]
        lines.append([one["key"], *cells, f"{one['ratio']:.2f}", f"{one['target']:g}", *theirs])
    return markdown(head, lines)


def raw_table(record: dict[str, Any]) -> str:
    """Return the table of whole fits of raw tables."""
    lines = []
    for one in record["raw"]:
        ours, theirs = (f"{one['milliseconds'][name]:,.1f}" for name in ("ours", "pipeline"))
        memory = ["-", "-"] if one["bytes_a_row"] is None else [str(one["bytes_a_row"]), "60"]
        lines.append(
            [one["key"], ours, theirs, f"{one['ratio']:.2f}", f"{one['target']:g}", *memory]
        )
    head = ["rows", "ours, ms", "scikit-learn's pipeline, ms", "ours / pipeline", "bar"]
    return markdown([*head, "peak beyond the frame, bytes a row", "bar"], lines)


def memory_table(record: dict[str, Any]) -> str:
    """Return the table of extra memory."""
    lines = [[one["key"], f"{one['extra']:.2f}", f"{one['target']:g}"] for one in record["memory"]]
    head = ["1,000,000 x 100 of type", "peak beyond the rows, as a share of them", "bar"]
    return markdown(head, lines)


def large_table(record: dict[str, Any]) -> str:
    """Return the table of rows beyond memory."""
    head = ["rows x columns", "CPU s", "passes", "ns per row and pass"]
    head += [
        "reading, ns per row",
        "all / reading as often",
        "bar",
        "peak beyond file pages, MB",
        "bar",
    ]
    lines = []
    for one in record["large"]:
        rows = int(one["key"].partition(" ")[0].replace(",", ""))
        lines.append(
            [
                one["key"],
                f"{one['cpu_seconds']:.1f}",
                str(one["passes"]),
                f"{one['nanoseconds_per_row_and_pass']:.0f}",
                f"{1e9 * one['reading_seconds'] / rows:.0f}",
                f"{one['to_reading']:.2f}",
                "2",
                str(one["peak_megabytes"]),
                "1000",
            ]
        )
    return markdown(head, lines)


def tables_table(record: dict[str, Any]) -> str:
    """Return the table of raw tables in files."""
    bars = {"CSV": ["2.5", "-"], "Parquet": ["-", "1"]}
    lines = [
        [
            one["key"],
            f"{one['reading']:.2f}",
            f"{one['codes']:.2f}",
            bars[one["key"]][0],
            f"{one['predicting']:.2f}",
            bars[one["key"]][1],
        ]
        for one in record["tables"]
    ]
    head = ["from", "reading, us a row", "and as codes", "bar", "and predicted", "bar"]
    return markdown(head, lines)


def engines_table(record: dict[str, Any]) -> str:
    """Return the table of engines."""
    if not record["engines"]:
        return ""
    first = record["engines"][0]["wall_seconds"]
    lines = [
        [
            one["engine"],
            f"{one['wall_seconds']:.1f}",
            f"{one['wall_seconds'] / first:.2f}",
            "yes" if one["same_bits"] else "no",
        ]
        for one in record["engines"]
    ]
    return markdown(["engine", "wall s", "to the loop", "same bits"], lines)


if __name__ == "__main__":
    main()
