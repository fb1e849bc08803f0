"""Read the books from the first row to the last and believe nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confrere.errors import ConfrereError, LedgerTampered
from confrere.guarantee import Guarantee
from confrere.ledger.balance import Balance
from confrere.ledger.chain import Kind, Row


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
        self._balances: dict[str, Balance] = {}
        self._keys: set[str] = set()
        self._open_charges: set[int] = set()

    def enter(self, row: Row) -> None:
        facts = row.facts
        if row.kind is Kind.ACCOUNT:
            self._open_account(Balance.opened(facts))
        elif row.kind is Kind.CHARGE:
            self._charge(row.seq, facts)
        elif row.kind in (Kind.RELEASED, Kind.FAILED):
            self._open_charges.remove(facts["charge"])
        elif row.seq != 1:
            raise ValueError("a chain has one genesis")

    def _open_account(self, balance: Balance) -> None:
        if balance.account in self._balances:
            raise ValueError("an account opens once")
        self._balances[balance.account] = balance

    def _charge(self, seq: int, facts: dict[str, Any]) -> None:
        before = self._balances[facts["account"]]
        after = before.after(Guarantee.from_dict(facts["guarantee"]))
        if before.resumed(facts) != after or facts["key"] in self._keys:
            raise ValueError("the running totals are the sums, and a key charges once")
        self._balances[after.account] = after
        self._open_charges.add(seq)
        if facts["key"] is not None:
            self._keys.add(facts["key"])
