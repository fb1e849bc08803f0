"""The audit of a chain, which believes none of it: links, sums, keys and marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from confrere.errors import ConfrereError, LedgerTampered
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import CHANGES, ENDS, FORMAT, Balance
from confrere.kernel.log import Kind, Row


def audit(rows: Iterable[Row], *, head: str | None) -> int:
    """Check the links and the sums of a whole chain, in which ``head`` must be; count its rows.

    Each row is known to fit its own hash. The first that does not follow is named.
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
            books.enter(row, row.facts)
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

    def enter(self, row: Row, facts: Mapping[str, Any]) -> None:
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
        elif row.kind in ENDS:
            self._open_charges.remove(facts["charge"])
        elif row.kind is Kind.MODEL:
            if facts["charge"] not in self._charges:
                raise ValueError("a model is made of what was paid for")
        elif row.kind in CHANGES:
            before = self._balances[facts["account"]]
            if row.kind is Kind.DECLARED and before.account in self._implied:
                self._implied.remove(before.account)
                if (before.unit, before.neighbours) != (facts["unit"], facts["neighbours"]):
                    raise ValueError("what is declared was charged before")
                before = replace(before, unit=None, neighbours=None)
            self._balances[before.account] = before.changed(row.kind, facts)

    def _charge(self, row: Row, facts: Mapping[str, Any]) -> None:
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
