"""What a question between machines costs: processor, waiting, processes, memory.

The first table is a whole study of three parties by the command line, signed and charged. The
others are the line alone, with parties that send back what they are sent.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from confrere_federation.engines.keys import make_authority, make_node_key
from confrere_federation.engines.line import carrying
from tests.wire.deployment import PARTIES, Deployment, free_ports

ROUNDS = 20
SIZES = (3, 10, 30, 100)
NUMBERS = 100_000
ENDURANCE_SECONDS = 180.0


class Line:
    """A coordinator here, and parties in processes of their own."""

    def __init__(self, folder: Path, count: int) -> None:
        self.names = [f"party-{k}" for k in range(count)]
        for name in self.names:
            make_node_key(folder / name)
        self.authority = make_authority(folder / "authority", ["127.0.0.1"])
        self.folder = folder
        (self.port,) = free_ports(1)

    def __enter__(self) -> Line:
        self._serving = carrying(
            nodes={name: self.folder / f"{name}.pem" for name in self.names},
            authority=self.authority,
            host="127.0.0.1",
            port=self.port,
        )
        self.carrier = self._serving.__enter__()
        (holder,) = psutil.Process().children()
        command = [sys.executable, "-m", "benchmarks.line_party"]
        address = f"127.0.0.1:{self.port}"
        self.parties = [
            subprocess.Popen([*command, str(self.folder), name, address]) for name in self.names
        ]
        own = [psutil.Process(p.pid) for p in self.parties]
        self.heads = [psutil.Process(), holder, *own]
        began = time.monotonic()
        while len(self.carrier.connected()) < len(self.names):
            time.sleep(0.05)
        self.all_here = time.monotonic() - began
        return self

    def __exit__(self, *_: object) -> None:
        self.ask(b"")
        assert [party.wait(60) for party in self.parties] == [0] * len(self.parties)
        self._serving.__exit__(None, None, None)

    def ask(self, content: bytes) -> None:
        replies = self.carrier.exchange(dict.fromkeys(self.names, content), 120)
        assert all(reply == content for reply in replies.values())


def cpu_of(processes: list[psutil.Process]) -> float:
    return sum(sum(p.cpu_times()[:2]) for p in processes)


def memory_of(processes: list[psutil.Process]) -> float:
    """Return megabytes that are nobody else's, of all together."""
    return sum(p.memory_full_info().uss for p in processes) / 2**20


def study() -> list[tuple[str, str]]:
    """Measure a whole study by the command line."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Deployment(Path(folder), rounds=ROUNDS) as deployment,
    ):
        deployment.start_all()
        started = time.monotonic()
        deployment.wait(lambda: len(deployment.gathered()) >= len(PARTIES), 300)
        first = time.monotonic() - started
        heads = deployment.processes()
        family = [*heads, *(p for head in heads for p in head.children(recursive=True))]
        deployment.wait(lambda: len(deployment.gathered()) >= 2 * len(PARTIES), 300)
        done, began, cpu = len(deployment.gathered()), time.monotonic(), cpu_of(family)
        memory = memory_of(family)
        resident = sum(p.memory_info().rss for p in family) / 2**20
        deployment.wait(lambda: len(deployment.gathered()) >= ROUNDS * len(PARTIES), 600)
        questions = (len(deployment.gathered()) - done) / len(PARTIES)
        wall, cpu = time.monotonic() - began, cpu_of(family) - cpu
        deployment.finish(300)
    return [
        ("first answers of all, after the last start", f"{first:.1f} s"),
        ("waiting for a question", f"{wall / questions:.2f} s"),
        ("processor for a question, all together", f"{cpu / questions:.2f} s"),
        ("processes", str(len(family))),
        ("memory, all together", f"{memory:.0f} MB, {resident:.0f} MB with what they share"),
    ]


def line_alone(count: int, content: bytes, questions: int = 20) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, Line(Path(folder), count) as line:
        line.ask(content)
        began, cpu = time.monotonic(), cpu_of(line.heads)
        for _ in range(questions):
            line.ask(content)
        wall, cpu = time.monotonic() - began, cpu_of(line.heads) - cpu
        return [
            str(count),
            f"{len(content):,}",
            f"{wall / questions:.3f} s",
            f"{cpu / questions:.3f} s",
            f"{line.all_here:.1f} s",
            f"{memory_of(line.heads[1:2]):.0f} MB, {memory_of(line.heads[2:]) / count:.0f} MB",
        ]


def endurance(seconds: float) -> list[list[str]]:
    """Ask for minutes, and look at what grows."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, Line(Path(folder), 3) as line:
        began, asked = time.monotonic(), 0
        marks = [0.1 * seconds, 0.4 * seconds, 0.7 * seconds, seconds]
        while marks:
            line.ask(bytes(50_000))
            asked += 1
            if time.monotonic() - began >= marks[0]:
                marks.pop(0)
                rows.append(
                    [
                        f"{time.monotonic() - began:.0f} s",
                        str(asked),
                        ", ".join(f"{p.memory_info().rss / 2**20:.1f}" for p in line.heads),
                        ", ".join(str(p.num_fds()) for p in line.heads),
                        ", ".join(str(p.num_threads()) for p in line.heads),
                        str(sum(len(p.children(recursive=True)) for p in line.heads[2:])),
                        str(sum(1 for _ in Path(folder).rglob("*"))),
                    ]
                )
    return rows


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def main() -> None:
    show("a study of three parties", ["what", "how much"], [list(row) for row in study()])
    columns = [
        "parties",
        "bytes each way",
        "waiting",
        "processor",
        "all here",
        "memory of the port, of a party",
    ]
    lines = [line_alone(count, bytes(1000)) for count in SIZES]
    lines.append(line_alone(3, bytes(8 * NUMBERS)))
    show("the line alone, for a question", columns, lines)
    columns = ["after", "questions", "MB of each", "files", "threads", "children", "files in all"]
    show("for minutes, without a restart", columns, endurance(ENDURANCE_SECONDS))
