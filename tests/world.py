"""What tests have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confrere import Guarantee, Ledger
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.release import Ticket, paying
from confrere.kernel.streams import RandomSource

#: Which changes are hidden.
RELATIONS = (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE)


@contextmanager
def paid(guarantee: Guarantee) -> Iterator[Ticket]:
    """A ticket for real noise, from a ledger of its own."""
    ledger = Ledger()
    ledger.open_account("test", unit=guarantee.unit, neighbours=guarantee.neighbours)
    with paying(ledger, "test", guarantee, purpose="a test") as ticket:
        yield ticket


@contextmanager
def system_stream() -> Iterator[RandomSource]:
    """The operating system's randomness, as one booked draw sees it."""
    with paid(Guarantee(1.0)) as ticket:
        yield ticket.book(Guarantee(1.0))
