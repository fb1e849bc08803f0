"""A party as a file: what its operator writes once, before anyone asks.

.. code-block:: toml

    name = "St. Anna"
    data = "rows.npz"            # arrays X and y, encoded by the public schema; y is -1 or +1
    ledger = "books.ledger"
    account = "study"
    answers = "answers.db"
    operations = ["size", "objective"]
    unit = "record"
    relation = "replace-one"
    epsilon_per_run = 1.0
    schema = "3f2a..."           # optional

Paths are relative to the file. The account must be open: its cap is the lifetime budget.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from confrere.errors import InvalidData, InvalidParameter
from confrere.federation import Answers, Books, LocalParty, Policy
from confrere.ledger import Ledger

_REQUIRED = frozenset(
    {"name", "data", "ledger", "account", "answers", "operations", "unit", "relation"}
)
_OPTIONAL = frozenset({"epsilon_per_run", "schema", "random_state"})


def load_party(path: str | os.PathLike[str]) -> LocalParty:
    """Read a party file.

    Parameters
    ----------
    path : path-like
        The file; ``random_state`` in it makes the party a simulation.

    Raises
    ------
    InvalidParameter
        If a setting is missing, unknown or of the wrong type.
    InvalidData
        If the data are not there or not as declared.
    """
    file = Path(path).resolve()
    try:
        settings = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InvalidParameter(f"{file}: not a readable party file ({error}).") from error
    missing, unknown = _REQUIRED - settings.keys(), settings.keys() - _REQUIRED - _OPTIONAL
    if missing or unknown:
        raise InvalidParameter(
            f"{file}: missing {', '.join(sorted(missing)) or 'nothing'}; "
            f"unknown {', '.join(sorted(unknown)) or 'nothing'}."
        )
    ledger = Ledger(_beside(file, settings, "ledger"))
    books = Books(
        ledger=ledger,
        account=ledger.account_for(settings["account"]),
        policy=Policy(
            operations=frozenset(settings["operations"]),
            epsilon_per_run=settings.get("epsilon_per_run"),
            study=settings.get("schema"),
            unit=settings["unit"],
            neighbours=settings["relation"],
        ),
        answers=Answers(_beside(file, settings, "answers")),
    )
    X, y = _data(_beside(file, settings, "data"))
    return LocalParty(settings["name"], X, y, books, settings.get("random_state"))


def _beside(file: Path, settings: dict[str, Any], name: str) -> Path:
    path = settings[name]
    if not isinstance(path, str):
        raise InvalidParameter(f"{file}: {name} must be a path.")
    return file.parent / path


def _data(path: Path) -> tuple[Any, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["X"], arrays["y"]
    except (OSError, ValueError, KeyError) as error:
        raise InvalidData(f"{path}: no arrays X and y ({type(error).__name__}).") from None
