"""The chain of rows: each line sealed to the one before, and the audit that believes none of it.

A row is one line of the file: ``[seq,"kind","time","body","previous","hash"]``, JSON without
spaces. ``hash`` is SHA-256 of the same line up to ``previous``, closed by ``]``, in hex;
``previous`` is the hash of the row before; ``body`` is the canonical JSON of the row's facts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pydantic_core import from_json

from confrere.errors import ConfrereError, LedgerTampered
from confrere.guarantee import Guarantee
from confrere.ledger.accounts import Balance

FORMAT = 2
BEFORE_GENESIS = "0" * 64
FIRST_BYTES = b'[1,"genesis",'

#: Length of what follows the sealed part of a line: a comma, the quoted hash, a bracket.
_SEAL = 1 + 66 + 1


class Kind(StrEnum):
    """What a row says."""

    GENESIS = "genesis"
    ACCOUNT = "account"
    CHARGE = "charge"
    RELEASED = "released"
    FAILED = "failed"
    MODEL = "model"
    RAISED = "raised"
    FROZEN = "frozen"
    DECLARED = "declared"
    REFUSED = "refused"
    AGREED = "agreed"
    WITNESS = "witness"


#: What the owner says about a study; the last word stands.
DECISIONS = frozenset({Kind.REFUSED, Kind.AGREED})

#: What the owner does to an account after opening it.
CHANGES = frozenset({Kind.RAISED, Kind.FROZEN, Kind.DECLARED})

_KINDS = {str(kind): kind for kind in Kind}


def canonical(value: object) -> str:
    """Write plain values as JSON in the one way that is hashed: sorted, compact, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Row(NamedTuple):
    """One sealed row, as the file holds it; a tuple, since a long ledger has many to make."""

    seq: int
    kind: Kind
    time: str
    body: str
    previous: str
    hash: str

    @classmethod
    def sealed(
        cls, kind: Kind, facts: Mapping[str, Any], *, after: Row | None, time: str | None = None
    ) -> Self:
        """Make the row that follows ``after``, now; the genesis row follows nothing."""
        seq, previous = (after.seq + 1, after.hash) if after else (1, BEFORE_GENESIS)
        time = time or now()
        body = canonical(facts)
        return cls(seq, kind, time, body, previous, seal(seq, kind, time, body, previous))

    @classmethod
    def parse(cls, line: bytes, seq: int) -> Self:
        """Read the line of row ``seq``, refusing one that its own hash does not seal."""
        found = hashlib.sha256(line[:-_SEAL] + b"]").hexdigest()
        try:
            number, kind, time, body, previous, told = from_json(line, allow_inf_nan=False)
            row = cls(number, _KINDS[kind], time, body, previous, told)
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerTampered(f"row {seq} was changed: it is no row.") from error
        texts = type(time) is type(body) is type(previous) is str
        if told != found or number != seq or not texts:
            raise LedgerTampered(f"row {seq} was changed: its hash does not fit its content.")
        return row

    @property
    def line(self) -> bytes:
        """What the file holds, with the newline that ends it."""
        return canonical(self).encode() + b"\n"

    @property
    def facts(self) -> dict[str, Any]:
        """What the row says, as plain values."""
        facts: dict[str, Any] = from_json(self.body)
        return facts

    def follows(self, before: Row | None) -> bool:
        """Whether nothing was removed, inserted or moved between ``before`` and this row."""
        if before is None:
            return (self.seq, self.kind, self.previous) == (1, Kind.GENESIS, BEFORE_GENESIS)
        return (self.seq, self.previous) == (before.seq + 1, before.hash)


def now() -> str:
    """Return the time, in UTC, as rows hold it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def seal(seq: int, kind: str, time: str, body: str, previous: str) -> str:
    """Return the hash that seals a row to the one before."""
    return hashlib.sha256(canonical([seq, kind, time, body, previous]).encode()).hexdigest()


def audit(rows: Iterable[Row], *, head: str | None) -> int:
    """Check the links and the sums of a whole chain.

    Parameters
    ----------
    rows : iterable of Row
        Every row, in order, each already known to fit its own hash.
    head : str, optional
        A hash that must be in the chain.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    LedgerTampered
        Naming the first row that does not follow from those before it.
    """
    books = _Books()
    last: Row | None = None
    head_found = head is None
    for row in rows:
        if not row.follows(last):
            raise LedgerTampered(
                f"row {row.seq} does not follow from the row before it: rows were removed, "
                "inserted or moved."
            )
        try:
            books.enter(row)
        except (ConfrereError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise LedgerTampered(f"row {row.seq} contradicts the rows before it.") from error
        last = row
        head_found = head_found or row.hash == head
    if last is None:
        raise LedgerTampered("every row was removed.")
    if not head_found:
        raise LedgerTampered(
            "the given head is not in the chain: rows were removed from its end, or the whole "
            "file was rewritten."
        )
    return last.seq


class _Books:
    """What must hold between rows, rebuilt from the rows alone."""

    def __init__(self) -> None:
        self._format = FORMAT
        self._balances: dict[str, Balance] = {}
        self._implied: set[str] = set()
        self._keys: set[str] = set()
        self._charges: set[int] = set()
        self._open_charges: set[int] = set()

    def enter(self, row: Row) -> None:
        facts = row.facts
        if row.kind is Kind.GENESIS:
            if row.seq != 1:
                raise ValueError("a chain has one genesis")
            self._format = facts["format"]
        elif row.kind is Kind.ACCOUNT:
            balance = Balance.opened(facts)
            if balance.account in self._balances:
                raise ValueError("an account opens once")
            self._balances[balance.account] = balance
        elif row.kind is Kind.CHARGE:
            self._charge(row, facts)
        elif row.kind in (Kind.RELEASED, Kind.FAILED):
            self._open_charges.remove(facts["charge"])
        elif row.kind is Kind.MODEL:
            if facts["charge"] not in self._charges:
                raise ValueError("a model is made of what was paid for")
        elif row.kind in CHANGES:
            self._change(row.kind, facts)

    def _change(self, kind: Kind, facts: dict[str, Any]) -> None:
        before = self._balances[facts["account"]]
        after = before
        if kind is Kind.DECLARED and before.account in self._implied:
            after = replace(before, unit=None, neighbours=None)
            self._implied.remove(before.account)
            if (before.unit, before.neighbours) != (facts["unit"], facts["neighbours"]):
                raise ValueError("what is declared was charged before")
        self._balances[before.account] = after.changed(kind, facts)

    def _charge(self, row: Row, facts: dict[str, Any]) -> None:
        before = self._balances[facts["account"]]
        guarantee = Guarantee.from_dict(facts["guarantee"])
        if self._format == 1 and before.unit is None:
            # In old files the first charge said what an account counts.
            before = replace(before, unit=guarantee.unit, neighbours=guarantee.neighbours)
            self._implied.add(before.account)
        paid = before.booked if facts.get("booked") else before.after
        after = paid(guarantee, row.time)
        if before.resumed(facts) != after or facts["key"] in self._keys:
            raise ValueError("the running totals are the sums, and a key charges once")
        self._balances[after.account] = after
        self._charges.add(row.seq)
        self._open_charges.add(row.seq)
        if facts["key"] is not None:
            self._keys.add(facts["key"])
