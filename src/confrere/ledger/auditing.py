"""The audit of a chain, which believes none of it: links, sums, keys and marks."""

from __future__ import annotations

from collections.abc import Iterable

from confrere.errors import LedgerTampered
from confrere.kernel.ledger import Balances
from confrere.kernel.log import Row, enter


def audit(rows: Iterable[Row], *, head: str | None) -> int:
    """Check the links and the sums of a whole chain, in which ``head`` must be; count its rows.

    Each row is known to fit its own hash. The first that does not follow is named.
    """
    books = Balances()
    last: Row | None = None
    head_found = head is None
    for row in rows:
        row.check_follows(last)
        enter(books.enter, row)
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
