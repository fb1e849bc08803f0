"""Budgets over all ledgers: what was spent, what is left, and what one person has paid in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from confrere.desk.finding import Place
from confrere.errors import ConfrereError
from confrere.guarantee import at_least, plus
from confrere.ledger import Account, Entry, LedgerReader, witnessed

#: Ledgers of so many charges at most have their sums checked whenever they are shown.
SMALL = 2_000


@dataclass(frozen=True)
class Book:
    """One ledger, as it is now.

    Attributes
    ----------
    place : Place
    fault : str or None
        Why it cannot be believed: then nothing else is shown of it.
    witness : str or None
        What speaks against it elsewhere.
    ledger_id, head : str
    charges : int
    verified : int or None
        Rows whose sums were checked just now; None where there are many, which takes longer.
    accounts : tuple of Account
    by_study : mapping
        Epsilon spent by account, study id and study hash.
    """

    place: Place
    fault: str | None = None
    witness: str | None = None
    ledger_id: str = ""
    head: str = ""
    charges: int = 0
    verified: int | None = None
    accounts: tuple[Account, ...] = ()
    by_study: Mapping[tuple[str, str, str], Decimal] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.place.path.name

    @property
    def reader(self) -> LedgerReader:
        """The ledger."""
        return LedgerReader.look(self.place.path)

    def rows(self, account: str | None, page: int, size: int) -> list[Entry]:
        """Return one page of charges, the last ones first."""
        return self.reader.entries(account, last=size, skip=size * (page - 1))


def read_book(place: Place) -> Book:
    """Read a ledger; one that does not verify is shown as what it is."""
    try:
        reader = LedgerReader.look(place.path)
        charges = reader.count()
        verified = reader.verify() if charges <= SMALL else None
        told = witnessed(place.path)
        return Book(
            place=place,
            witness=told["complaint"],
            ledger_id=reader.ledger_id,
            head=reader.head(),
            charges=charges,
            verified=verified,
            accounts=tuple(reader.accounts()),
            by_study=reader.by_study(),
        )
    except (ConfrereError, OSError) as error:
        return Book(place=place, fault=" ".join(str(error).split()) or type(error).__name__)


@dataclass(frozen=True)
class StudyUnit:
    """What a study says about its people.

    Attributes
    ----------
    unit : str
        What one record is about: "patient".
    rows : int
        Records of one unit at most: it pays for each of them.
    """

    unit: str
    rows: int = 1


@dataclass(frozen=True)
class PersonTotal:
    """What one unit has paid in all accounts that count the same way, were it in all of them.

    Attributes
    ----------
    unit, neighbours : str
        What the accounts count.
    people : str
        What studies call one of them: "patient".
    paid, this_year : float
        Epsilon in all, and since the year began.
    accounts : int
    unknown : int
        Accounts of which some charges name no study that is here: a record is then taken to be one
        person's only one.
    """

    unit: str
    neighbours: str
    people: str
    paid: float
    this_year: float
    accounts: int
    unknown: int


def person_totals(
    books: Iterable[Book], studies: Mapping[str, StudyUnit], year: int | None = None
) -> list[PersonTotal]:
    """Add up what one unit has paid over all accounts of the same unit and relation.

    Parameters
    ----------
    books : iterable of Book
    studies : mapping of study hash to StudyUnit
        A unit with several records has paid for each of them.
    year : int, optional
        By default this one, in UTC.
    """
    this = year or datetime.now(UTC).year
    groups: dict[tuple[str, str], list[tuple[Book, Account]]] = {}
    for book in books:
        for account in book.accounts:
            kind = (str(account.unit or "not said"), str(account.neighbours or "not said"))
            groups.setdefault(kind, []).append((book, account))
    return [
        _total(unit, neighbours, members, studies, this)
        for (unit, neighbours), members in groups.items()
    ]


def _total(
    unit: str,
    neighbours: str,
    members: list[tuple[Book, Account]],
    studies: Mapping[str, StudyUnit],
    year: int,
) -> PersonTotal:
    paid, recent, unknown, names = Decimal(0), Decimal(0), 0, set()
    for book, account in members:
        rows, silent = 1, False
        for (name, _, sha), epsilon in book.by_study.items():
            if name != account.name:
                continue
            told = studies.get(sha)
            silent = silent or told is None
            factor = 1 if told is None else told.rows
            rows = max(rows, factor)
            paid = plus(paid, epsilon * factor)
            names |= set() if told is None else {told.unit}
        # Which of a year's charges were whose study's is not kept: the largest factor is safe.
        recent = plus(recent, Decimal(repr(account.years.get(year, 0.0))) * rows)
        unknown += silent
    people = next(iter(names)) if len(names) == 1 else unit
    shown = min(recent, paid)
    return PersonTotal(
        unit, neighbours, people, at_least(paid), at_least(shown), len(members), unknown
    )


def share(account: Account) -> float | None:
    """Return how much of its cap an account has spent, from 0 to 1; None without a cap."""
    if account.epsilon is None:
        return None
    return min(1.0, account.counted / account.epsilon)


def ledger_names(books: Iterable[Book]) -> dict[str, Book]:
    """Return ledgers by their own names, by which receipts call them."""
    return {book.ledger_id: book for book in books if book.fault is None}
