"""What a charge costs, by one process and by eight at once, and how long a long ledger takes."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.measured import write_record
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import Row
from confrere.ledger import Ledger

CHARGES = 400
PROCESSES = 8
LONG = 100_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONFRERE_WITNESS"] = f"{folder}/witness"
        record: dict[str, Any] = {
            "charges": CHARGES,
            "one": _together(Path(folder) / "one.ledger", 1),
            "eight": _together(Path(folder) / "eight.ledger", PROCESSES),
            "long": _long(Path(folder) / "long.ledger"),
        }
    write_record("ledger", record)
    Console().print(record)


def _together(path: Path, processes: int) -> dict[str, float]:
    Ledger(path).open_account("study")
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(processes + 1), context.Queue()
    each = CHARGES // processes
    children = [
        context.Process(target=_spend, args=(path, each, gate, answers)) for _ in range(processes)
    ]
    for child in children:
        child.start()
    gate.wait()
    start = time.perf_counter()
    cpu = sum(answers.get() for _ in children)
    seconds = time.perf_counter() - start
    for child in children:
        child.join()
    assert len(Ledger(path).entries()) == each * processes
    return {
        "charges_per_second": each * processes / seconds,
        "cpu_milliseconds_per_charge": 1e3 * cpu / (each * processes),
    }


def _spend(path: Path, times: int, gate: Any, answers: Any) -> None:
    ledger = Ledger(path)
    gate.wait()
    start = time.process_time()
    for _ in range(times):
        ledger.charge("study", Guarantee(0.1), purpose="fit")
    answers.put(time.process_time() - start)


def write_long(path: Path) -> int:
    """Write a ledger of a hundred thousand rows that verifies; return how many there are."""
    ledger = Ledger(path)
    ledger.open_account("study")
    ledger.mark_released(ledger.charge("study", Guarantee(0.1), purpose="fit"))
    with ledger._store.reading() as log:
        charge, mark = log.row(log.tail.seq - 1), log.tail
    lines = []
    while mark.seq < LONG:
        spent = {"epsilon": str(Decimal("0.1") * (mark.seq // 2))}
        charge = Row.sealed("charge", charge.facts | {"spent": spent}, after=mark)
        mark = Row.sealed("released", mark.facts | {"charge": charge.seq}, after=charge)
        lines += [charge.line, mark.line]
    with path.open("ab") as file:
        file.writelines(lines)
    return mark.seq


def _long(path: Path) -> dict[str, float]:
    """Open, and show the last page of, a ledger of a hundred thousand rows."""
    rows = write_long(path)
    copy = path.with_name("copy.ledger")
    copy.write_bytes(path.read_bytes())
    start = time.perf_counter()
    fresh = Ledger(copy)
    opened = time.perf_counter()
    fresh.entries(last=20)
    fresh.accounts()
    return {
        "rows": rows,
        "megabytes": copy.stat().st_size / 1e6,
        "seconds_to_open": opened - start,
        "seconds_to_show": time.perf_counter() - opened,
    }


if __name__ == "__main__":
    main()
