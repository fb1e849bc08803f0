"""Records: one line of JSON per cell, only ever appended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confrere.errors import InvalidData
from confrere_research.spec import Cell

Value = float | list[float]


@dataclass(frozen=True)
class Record:
    """What one cell gave.

    Attributes
    ----------
    cell : Cell
        What was run.
    key : str
        Fingerprint of the specification of this cell; see :meth:`Spec.key`.
    seed : int
        Seed of the noise: every record is a simulation.
    values : mapping of str to float or list of float
        The metrics; a list has one number per branch.
    seconds : float
        CPU seconds of the method, without the data.
    versions : mapping of str to str
        Of this library and of what it stands on.
    """

    cell: Cell
    key: str
    seed: int
    values: Mapping[str, Value]
    seconds: float
    versions: Mapping[str, str]

    def to_line(self) -> str:
        """Return one line of JSON."""
        facts = {**asdict(self.cell), **{k: v for k, v in vars(self).items() if k != "cell"}}
        return json.dumps(facts, allow_nan=False) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Read what :meth:`to_line` wrote."""
        facts: dict[str, Any] = json.loads(line)
        cell = Cell(**{name: facts.pop(name) for name in Cell.__dataclass_fields__})
        return cls(cell, **facts)


def records_path(out: Path, item: str) -> Path:
    """Return where an item's records lie."""
    return Path(out) / "records" / f"{item}.jsonl"


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Append whole lines and bring them to disk; a torn line before them is closed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(record.to_line() for record in records)
    with path.open("a+b") as handle:
        if handle.seek(0, os.SEEK_END) > 0:
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write(text.encode())
        handle.flush()
        os.fsync(handle.fileno())


def read_records(path: Path) -> list[Record]:
    """Return the newest record of every key, in the order of the file.

    A line torn by an interrupt is skipped: its cell was not finished. Whole lines that are no
    records are refused.
    """
    if not path.exists():
        return []
    newest: dict[str, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.endswith("}"):
            continue
        try:
            record = Record.from_line(line)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidData(f"{path.name} holds a line that is no record.") from error
        newest[record.key] = record
    return list(newest.values())
