"""What tests have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

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


def each(**wrong: Iterable[Any]) -> list[dict[str, Any]]:
    """One change at a time: ``each(a=(1, 2), b=(3,))`` is ``[{"a": 1}, {"a": 2}, {"b": 3}]``."""
    return [{name: value} for name, values in wrong.items() for value in values]
