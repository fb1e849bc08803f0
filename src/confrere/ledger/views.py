"""What a ledger says, in the shapes that people take away: a table, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from confrere.ledger.chain import FORMAT, canonical
from confrere.ledger.entries import Account, Entry

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "row",
    "time",
    "account",
    "purpose",
    "epsilon",
    "delta",
    "unit",
    "neighbours",
    "theorem",
    "spent",
    "state",
    "ended",
    "simulated",
    "key",
    "digest",
    "code",
    "detail",
    "hash",
)


def to_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """Make one row per charge; times are in UTC, details stay dicts."""
    import pandas as pd

    frame = pd.DataFrame([_flat(entry) for entry in entries], columns=list(_COLUMNS))
    # Columns may be all None, or without any row: their types must not depend on it.
    for column in ("time", "ended"):
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601")
    texts = dict.fromkeys(("key", "digest", "code"), "string")
    return frame.astype(texts).set_index("row")


def to_csv(entries: Iterable[Entry]) -> str:
    """Make one line per charge after a header; details are JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow(_flat(entry) | {"detail": canonical(entry.detail)})
    return text.getvalue()


def to_json(
    *, ledger_id: str, head: str, accounts: Iterable[Account], entries: Iterable[Entry]
) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": ledger_id,
        "head": head,
        "accounts": [account.to_dict() for account in accounts],
        "entries": [entry.to_dict() for entry in entries],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _flat(entry: Entry) -> dict[str, Any]:
    values = entry.to_dict()
    values |= values.pop("guarantee")
    return {column: values[column] for column in _COLUMNS}
