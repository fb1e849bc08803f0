"""A handle on a ledger's file: a copy, clone or pickle of it is the same ledger."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

from confrere.errors import InvalidParameter
from confrere.ledger.store import Store


class Handle:
    """Which file, and nothing about what is in it: all state is on disk."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is None:
            self._store = Store(_ephemeral_path(), durable=False)
        else:
            try:
                file = Path(path).resolve()
            except (TypeError, ValueError) as error:
                raise InvalidParameter(f"path must be a file's name or None: {error}.") from error
            self._store = Store(file, durable=True)
        self._store.create_if_missing()
        with self._store.reading():
            pass  # A file that is no ledger is refused here, not when it is to be charged.

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def ephemeral(self) -> bool:
        """Whether the file goes when the process that made it exits."""
        return not self._store.durable

    @property
    def ledger_id(self) -> str:
        """Which ledger this is: a random name, given when the file was made."""
        with self._store.reading() as table:
            return table.ledger_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.ephemeral else repr(str(self.path))})"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        store = self._store
        return {"path": str(store.path), "durable": store.durable, "ledger_id": store.ledger_id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        path = Path(state["path"])
        self._store = Store(path, durable=state["durable"], ledger_id=state["ledger_id"])


def _ephemeral_path() -> Path:
    folder = tempfile.mkdtemp(prefix="confrere-")
    atexit.register(_remove, folder, os.getpid())
    return Path(folder).resolve() / "ephemeral.ledger"


def _remove(folder: str, creator: int) -> None:
    # A forked child inherits the registration, but not the right.
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)
