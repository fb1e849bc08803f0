"""One row of the chain: its content, and the hash that seals it to the row before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from confrere.errors import LedgerTampered

FORMAT = 1
BEFORE_GENESIS = "0" * 64


class Kind(StrEnum):
    """What a row says."""

    GENESIS = "genesis"
    ACCOUNT = "account"
    CHARGE = "charge"
    RELEASED = "released"
    FAILED = "failed"


_KINDS = frozenset(Kind)


def canonical(value: object) -> str:
    """Write plain values as JSON in the one way that is hashed: sorted, compact, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One sealed row, as the file holds it.

    ``hash`` is SHA-256 of the canonical JSON of ``[seq, kind, time, body, previous]``, in hex;
    ``previous`` is the hash of the row before; ``body`` is the canonical JSON of the facts.
    """

    seq: int
    kind: Kind
    time: str
    body: str
    previous: str
    hash: str

    @classmethod
    def sealed(cls, kind: Kind, facts: Mapping[str, Any], *, after: Row | None) -> Self:
        """Make the row that follows ``after``; the genesis row follows nothing."""
        seq, previous = (after.seq + 1, after.hash) if after else (1, BEFORE_GENESIS)
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        body = canonical(facts)
        return cls(seq, kind, time, body, previous, _seal(seq, kind, time, body, previous))

    @classmethod
    def read(cls, columns: tuple[Any, ...]) -> Self:
        """Take a row from the file, refusing one that its own hash does not seal."""
        seq, kind, time, body, previous, found = columns
        whole = all(isinstance(text, str) for text in (kind, time, body, previous))
        if not whole or kind not in _KINDS or _seal(seq, kind, time, body, previous) != found:
            raise LedgerTampered(f"row {seq} was changed: its hash does not fit its content.")
        return cls(seq, Kind(kind), time, body, previous, found)

    @property
    def facts(self) -> dict[str, Any]:
        """What the row says, as plain values."""
        facts: dict[str, Any] = json.loads(self.body)
        return facts

    @property
    def columns(self) -> tuple[int | str, ...]:
        """What the file holds, in the order of its columns."""
        return astuple(self)

    def follows(self, before: Row | None) -> bool:
        """Whether nothing was removed, inserted or moved between ``before`` and this row."""
        if before is None:
            return (self.seq, self.kind, self.previous) == (1, Kind.GENESIS, BEFORE_GENESIS)
        return (self.seq, self.previous) == (before.seq + 1, before.hash)


def _seal(seq: int, kind: str, time: str, body: str, previous: str) -> str:
    return hashlib.sha256(canonical([seq, kind, time, body, previous]).encode()).hexdigest()
