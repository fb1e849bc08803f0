"""Finished batches of runs, one JSON line each, so that an audit goes on where it was stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter

Key = tuple[str, str, str, int]


class Records:
    """A file whose first line says what is audited, and every other line one batch of outputs.

    Parameters
    ----------
    path : path-like or None
        None keeps nothing.
    settings : dict
        Plain values that decide what the batches are. A file of other settings is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, settings: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self.finished: dict[Key, NDArray[np.float64]] = {}
        if self._path is None:
            return
        if self._path.exists() and self._path.stat().st_size:
            self._read(settings)
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._write(settings)

    def add(self, key: Key, outputs: NDArray[np.float64]) -> None:
        """Keep one batch."""
        self.finished[key] = outputs
        if self._path is not None:
            self._write({"batch": key, "outputs": outputs.tolist()})

    def _read(self, settings: dict[str, Any]) -> None:
        assert self._path is not None
        lines = self._path.read_text().splitlines()
        if json.loads(lines[0]) != json.loads(json.dumps(settings)):
            raise InvalidParameter(
                "records belongs to an audit with other settings; name another file."
            )
        for position, line in enumerate(lines[1:], start=2):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                if position < len(lines):
                    raise InvalidParameter(f"records has a broken line ({position}).") from None
                # Killed while writing: the batch is run again.
                self._path.write_text("".join(kept + "\n" for kept in lines[:-1]))
                break
            name, side, half, number = row["batch"]
            self.finished[name, side, half, number] = np.array(row["outputs"], dtype=np.float64)

    def _write(self, row: dict[str, Any]) -> None:
        assert self._path is not None
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
