"""What may be spent, what was spent, and who said no: the rows that a release rests on.

A float stands for the decimal it prints as: ten charges of ``0.1`` fit a cap of 1. Sums are never
rounded; only what is shown as a float is, always to the careful side.

That rows were cut from its end, that an older copy was put back, or that it was made anew, does not
show in a chain of hashes. So the last row's number and hash, and what every account had spent, are
also kept by the witness, in a folder that a backup of the ledger does not touch, and are compared
at every opening and before every charge.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Required, Self, TypedDict, Unpack

from typing_extensions import override

from confrere.errors import (
    AccountFrozen,
    BudgetExceeded,
    CompositionError,
    InvalidParameter,
    LedgerError,
    LedgerTampered,
    NotALedger,
    StudyRefused,
    UnknownAccount,
    WitnessMismatch,
)
from confrere.kernel.guarantee import (
    Amount,
    Code,
    Guarantee,
    Line,
    LongLine,
    Neighbours,
    PrivacyEvent,
    Record,
    Sha256,
    SharedSums,
    Time,
    Unit,
    at_least,
    at_most,
    check_delta,
    check_epsilon,
    check_relation,
    check_text,
    seen,
)
from confrere.kernel.log import (
    LogFile,
    Row,
    canonical,
    create,
    now,
    rolled_back,
    transaction,
    write_all,
)

FORMAT = 3
#: What is read: rows of version 0.2 say the same, and what they noted besides is left aside.
_READ = (2, FORMAT)
#: The account of an ephemeral ledger that names none, opened by its first charge.
_DEFAULT = "default"
#: Of a row, in characters: a ledger holds facts about releases, not data.
_LONGEST_ROW = 65_536


# -- what rows say: one record per kind ------------------------------------------------------------
class ChargeApproval(Record):
    """Who agreed that something is paid for, when (in UTC, as ISO 8601), and why this epsilon."""

    prefix = "approval."

    name: Line
    reason: Line
    time: Time
    justification: LongLine | None = None


class StudyName(Record):
    """Which study, by the sha256 of its text, and its id where it has one."""

    prefix = "study."

    id: Line | None
    sha256: Sha256


class Origin(Record):
    """Where a charge comes from: which question to which party, or about which model."""

    run: Line | None = None
    party: Line | None = None
    step: int | None = None
    trust: Line | None = None  #: Whom the party has to trust
    model: Line | None = None  #: What an evaluated model hashes to
    noise: Line | None = None  #: Seal of what keyed noise follows from


class Total(Record):
    """All that was spent, exactly; where caps are on a year, which, and what was before it."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    year: int | None = None
    earlier: Total | None = None


_NOTHING = Amount()


class Genesis(Record):
    """The first row."""

    format: int
    ledger_id: Line


class Opened(Record):
    """An account: its caps, if any, what it counts, and whether the caps are on a year."""

    name: Line
    epsilon: Annotated[float, check_epsilon] | None
    delta: Annotated[float, check_delta]
    unit: Unit
    neighbours: Neighbours
    period: Literal["year"] | None = None
    reason: Line | None = None


class AccountChange(Record):
    """What the owner does to an account: raises its caps, or freezes it."""

    account: Line
    reason: Line
    epsilon: Annotated[float, check_epsilon] | None = None
    delta: Annotated[float, check_delta] | None = None


class Charge(Record):
    """What was paid, by whom, for what."""

    account: Line
    guarantee: Guarantee
    purpose: Line
    simulated: bool
    spent: Total | None = None  #: All that the account has spent with it
    key: Line | None = None
    event: PrivacyEvent | None = None  #: None where the guarantee says all
    origin: Origin | None = None
    study: StudyName | None = None
    approval: ChargeApproval | None = None
    uncapped: bool = False
    booked: bool = False  #: Whether it stands for rows that are gone, whatever the caps

    @property
    def asked(self) -> Charge:
        """What was asked for, whoever agreed and whatever was spent before."""
        return replace(self, spent=None, uncapped=False, approval=None)


class Verdict(Record):
    """No to a study; or a no is lifted, for what is approved from ``since`` on."""

    study: StudyName
    name: Line
    reason: Line
    withdrawn: bool = False  #: Whether it had been agreed to before
    since: Time | None = None


class End(Record):
    """How a charge ended, and what was made of it, together with others' answers or alone."""

    charge: int
    digest: Line | None = None
    code: Code | None = None  #: Why it failed


_KINDS: dict[str, type[Record]] = {
    "genesis": Genesis,
    "account": Opened,
    **dict.fromkeys(("raised", "frozen"), AccountChange),
    "charge": Charge,
    **dict.fromkeys(("released", "failed", "model"), End),
    **dict.fromkeys(("refused", "agreed"), Verdict),
}


def said_by(row: Row) -> Any:
    """Return what a row says."""
    facts = row.facts
    if row.kind == "charge":
        facts.pop("detail", None)  # of 0.2
    return _KINDS[row.kind].from_dict(facts)


# -- receipts --------------------------------------------------------------------------------------
class Receipt(Record):
    """Proof that a price was paid before the noise was drawn.

    The row's ``hash`` was the ledger's head at that moment. ``uncapped``: nothing limits what is
    spent on the same data, since the account had no cap, or the ledger does not last.
    """

    ledger_id: str
    row: int
    account: str
    guarantee: Guarantee
    purpose: str
    time: str
    hash: str
    simulated: bool
    study: str | None = None
    study_sha256: str | None = None
    uncapped: bool = False
    approval: ChargeApproval | None = None

    @classmethod
    def of(cls, row: Row, charge: Charge, ledger_id: str) -> Self:
        """Make the receipt of a charge's row."""
        same = ("account", "guarantee", "purpose", "simulated", "uncapped", "approval")
        return cls(
            ledger_id=ledger_id,
            row=row.seq,
            time=row.time,
            hash=row.hash,
            study=getattr(charge.study, "id", None),
            study_sha256=getattr(charge.study, "sha256", None),
            **{name: getattr(charge, name) for name in same},
        )


class Payment(NamedTuple):
    """What a receipt paid for, and what became of it so far."""

    guarantee: Guarantee
    open: bool
    sums: str | None  #: The mechanism of several sums
    models: int  #: How many have left
    noise: str | None = None  #: Seal of what the noise follows from, if that is a key


class Terms(TypedDict, total=False):
    """What is said about a charge besides who pays what."""

    purpose: Required[str]  #: What for, in one line
    event: PrivacyEvent | None  #: What is drawn, where the guarantee does not say it all
    origin: Origin | None
    key: str | None  #: So that who is asked twice answers twice and pays once
    study: tuple[str | None, str] | None  #: Id and sha256 of the study that asks
    approval: ChargeApproval | None  #: Who agreed to it, and why
    limit: Condition | None  #: A cap besides the account's own, on what is not paid yet


# -- what an account allows ------------------------------------------------------------------------
class Balance(NamedTuple):
    """What an account allows and what it has paid so far.

    Caps on a year count what was paid since it began. A year is the calendar's, in UTC, and never
    an earlier one than that of the last charge: a clock that is set back gives nothing back.
    """

    terms: Opened  #: As opened, with the caps as last raised
    frozen: str | None = None
    paid: Amount = _NOTHING
    year: int = 0
    earlier: Amount = _NOTHING

    @property
    def caps(self) -> Amount | None:
        """The caps, exactly."""
        cap = self.terms.epsilon
        return None if cap is None else Amount.of(cap, self.terms.delta)

    def changed(self, kind: str, said: AccountChange) -> Self:
        """Take over what the owner's row says: another cap, or no more charges."""
        now, before = self.terms, self.caps
        if kind == "frozen":
            return self._replace(frozen=said.reason)
        if before is None:
            raise InvalidParameter(f"account {now.name!r} has no cap to raise.")
        new = {k: v for k in ("epsilon", "delta") if (v := getattr(said, k)) is not None}
        after = self._replace(terms=replace(now, **new))
        caps = after.caps or before
        if caps == before or not caps.covers(before):
            raise InvalidParameter(
                f"account {now.name!r} has the caps epsilon {now.epsilon:g} and delta "
                f"{now.delta:g}; a raise makes one of them larger and neither smaller. To spend "
                "less, freeze the account when it is enough."
            )
        return after

    def at(self, time: str) -> Self:
        """Begin the year of a time, if it is a later one."""
        if self.terms.period is None or int(time[:4]) <= self.year:
            return self
        return self._replace(year=int(time[:4]), earlier=self.paid)

    def booked(self, guarantee: Guarantee, time: str) -> Self:
        """Add what was spent at a time, whatever the caps."""
        begun = self.at(time)
        paid = begun.paid.plus(guarantee.amount)
        return type(self)(begun.terms, begun.frozen, paid, begun.year, begun.earlier)

    def after(self, guarantee: Guarantee, time: str) -> Self:
        """Pay for one more release at a time, composed in sequence, or say why not."""
        name = self.terms.name
        if self.frozen is not None:
            raise AccountFrozen(f"account {name!r} is frozen ({self.frozen}); nothing was spent.")
        counted = (self.terms.unit, self.terms.neighbours)
        if counted != guarantee.kind:
            raise CompositionError(
                "account {!r} counts per {} ({}), the guarantee is per {} ({}): the two do not add "
                "up. Nothing was spent; open an account for it.".format(
                    name, *counted, *guarantee.kind
                )
            )
        after, caps = self.booked(guarantee, time), self.caps
        if caps is not None and not caps.covers(after.counted):
            which = "epsilon" if after.counted.epsilon > caps.epsilon else "delta"
            left = getattr(caps.minus(self.at(time).counted), which)
            bound = "ledger" if self.terms.period is None else "ledger, this year"
            shown = (float(getattr(guarantee, which)), max(0.0, at_most(left)))
            raise BudgetExceeded(name, *shown, which, bound)
        return after

    @property
    def counted(self) -> Amount:
        """What counts against the caps: all that was paid, or what was since the year began."""
        return self.paid if self.earlier is _NOTHING else self.paid.minus(self.earlier)

    @property
    def totals(self) -> Total:
        """The running totals, as a charge's row keeps them."""
        if self.terms.period is None:
            return Total(*self.paid)
        return Total(*self.paid, self.year, Total(*self.earlier))


def stopped(study: str | None, how: str, time: str, row: int) -> StudyRefused:
    """Say that a no to a study stands."""
    return StudyRefused(
        f"study {study} was {how} on {time[:16]}Z (row {row}): nothing more is charged or answered "
        "for it. A new approval lifts that: confrere approve."
    )


# -- what the rows say together --------------------------------------------------------------------
class Pages(LogFile):
    """A ledger's file: all rows, each held against those before it.

    Kept are balances, and where rows stand: ``paid`` says whose each charge is, ``keys`` are of
    charges, ``marks`` say how they ended, ``models`` what was made of them, ``verdicts`` what was
    said of each study. Rows that count are read from the disk again.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.ledger_id = ""
        self.balances: dict[str, Balance] = {}
        self.charges: dict[str, list[int]] = {}
        self.paid: dict[int, str] = {}
        self.changes: dict[str, list[int]] = {}
        self.keys: dict[str, int] = {}
        self.marks: dict[int, int] = {}
        self.models: dict[int, list[int]] = {}
        self.verdicts: dict[str, list[int]] = {}
        self.resets: list[int] = []

    @override
    def enter(self, row: Row) -> None:
        if (row.seq == 1) != (row.kind == "genesis"):
            raise ValueError("a chain has one genesis")
        if row.kind == "charge":
            self._charge(row)
            return
        if row.kind == "witness":  # kept for who reads it, and moves no balance
            self.resets.append(row.seq)
            return
        said = said_by(row)
        if isinstance(said, End):
            if said.charge not in self.paid:
                raise ValueError("what ends, or is made, was paid for")
            if row.kind == "model":
                self.models.setdefault(said.charge, []).append(row.seq)
            elif self.marks.setdefault(said.charge, row.seq) != row.seq:
                raise ValueError("a charge ends once")
        elif isinstance(said, Verdict):
            self.verdicts.setdefault(said.study.sha256, []).append(row.seq)
        elif isinstance(said, Opened):
            if said.name in self.balances:
                raise ValueError("an account opens once")
            self.balances[said.name] = Balance(said)
            self.changes[said.name], self.charges[said.name] = [row.seq], []
        elif isinstance(said, AccountChange):
            self.balances[said.account] = self.balances[said.account].changed(row.kind, said)
            self.changes[said.account].append(row.seq)
        else:
            if said.format not in _READ:
                raise NotALedger(
                    f"it has format {said.format}; this version of confrere reads {FORMAT}, and 2, "
                    "which is that of 0.2."
                )
            self.ledger_id = said.ledger_id

    def _charge(self, row: Row) -> None:
        facts = row.facts
        spent, key = facts.pop("spent", None), facts.pop("key", None)
        facts.pop("detail", None)  # of 0.2
        charge = seen(Charge, facts)
        before = self.balances[charge.account]
        paid = before.booked if charge.booked else before.after
        after = paid(charge.guarantee, row.time)
        # As it is written where caps are not on years; to read it costs much in a long ledger.
        plain = {name: str(one) for name, one in after.paid._asdict().items() if one}
        if (spent != plain or after.year) and Total.from_dict(spent) != after.totals:
            raise ValueError("the running totals are the sums")
        if key is not None and self.keys.setdefault(check_text(key, "key"), row.seq) != row.seq:
            raise ValueError("a key charges once")
        self.balances[charge.account] = after
        self.charges[charge.account].append(row.seq)
        self.paid[row.seq] = charge.account

    def said(self, seq: int) -> Any:
        """Return what a row that was there says."""
        return said_by(self.row(seq))

    def known(self, account: str | None) -> str | None:
        """Return the name of an account that there is; by default the only one's, if any."""
        listed = ", ".join(map(repr, self.balances)) or "none, open one with open_account"
        if account is None and len(self.balances) > 1:
            raise UnknownAccount(f"there are several accounts, say which: {listed}.")
        if account is not None and check_text(account, "account") not in self.balances:
            raise UnknownAccount(f"there is no account {account!r}; there is: {listed}.")
        return next(iter(self.balances), None) if account is None else account

    def balance(self, account: str) -> Balance:
        """Return what an account allows and has spent now; its rows are still what they were."""
        self.known(account)
        for seq in (*self.changes[account], *self.charges[account][-1:]):
            self.row(seq)
        return self.balances[account].at(now())

    def charged(self, account: str | None = None) -> Sequence[int]:
        """Return the rows of the charges of one account, or of all."""
        if account is None:
            return list(self.paid)
        self.known(account)
        return self.charges[account]

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study whose last word is no, or what was approved before a no was lifted."""
        for row in map(self.row, self.verdicts.get(study_sha256, ())[-1:]):
            last: Verdict = said_by(row)
            if row.kind == "refused" or last.since is None:
                how = "withdrawn" if last.withdrawn else row.kind
                raise stopped(last.study.id, f"{how} by {last.name}", row.time, row.seq)
            instant = datetime.fromisoformat
            if approval is None or instant(approval.time) < instant(last.since):
                raise StudyRefused(
                    f"study {last.study.id} was refused, and agreed to again by {last.name} (row "
                    f"{row.seq}); what was approved before that does not count any more: use the "
                    "new grant."
                )

    def charge_of(self, receipt: Receipt) -> Charge:
        """Return the charge that a receipt was given for, if by this ledger."""
        row = self.at(receipt.row)
        if row is not None and row.kind == "charge":
            charge: Charge = said_by(row)
            if Receipt.of(row, charge, self.ledger_id) == receipt:
                return charge
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")


# -- the witness -----------------------------------------------------------------------------------

#: A head fits a sector, so that it is written whole or not at all; an account's name may be long.
_SIZES = {"head": 512, "path": 512, "spent": 2048, "data": 2048}


class Head(Record):
    """The last row that was seen, and when, in UTC."""

    ledger_id: str
    row: int
    hash: str
    time: str


class Spent(Record):
    """All that was charged to an account, never less; ``facts`` opens it again, if it is gone."""

    ledger_id: str
    account: str
    epsilon: float
    delta: float
    facts: Opened


class LedgerPlace(Record):
    """Which ledger a path, or data, was last seen with."""

    ledger_id: str
    time: str | None = None
    path: str | None = None


class Witness:
    """Heads of ledgers, one small file each, and which ledger a path held.

    It may be behind, if a kill came before it was told: a head that is in the chain is fine. A head
    that is not in the chain means that rows which were there are gone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head_of(self, ledger_id: str) -> Head | None:
        """Return the last head that was kept, if any."""
        return Head(**values) if (values := self.told("head", ledger_id)) else None

    def ledger_at(self, path: Path) -> str | None:
        """Return which ledger a path held when it was last opened."""
        return values["ledger_id"] if (values := self.told("path", str(path))) else None

    def check(self, log: Pages, path: Path) -> None:
        """Refuse a ledger of which rows that were there, as is remembered, are gone."""
        head = self.head_of(log.ledger_id)
        row = None if head is None else log.at(head.row)
        if head is None or (row is not None and row.hash == head.hash):
            return
        found = "now that row is another one: the chain was rebuilt"
        if row is None:
            found = f"now it has {log.tail.seq}: an older copy was put back, or rows were cut from "
            found += "its end"
        raise self._mismatch(path, head, found)

    def check_place(self, ledger_id: str | None, path: Path) -> None:
        """Refuse a path that held another ledger; ``ledger_id`` is None for one not made yet."""
        before = self.ledger_at(path)
        if before is not None and before != ledger_id:
            now = "now there is none" if ledger_id is None else "now there is another one"
            found = f"{now}: the file was deleted, moved or replaced"
            raise self._mismatch(path, self.head_of(before), found)

    def keep(self, log: Pages, accounts: Iterable[str]) -> None:
        """Keep the last row of a ledger, and what accounts have spent."""
        row, own = log.tail, log.ledger_id
        self.tell(Head(own, row.seq, row.hash, row.time), "head", own)
        for account in accounts:
            paid, terms = log.balances[account].paid, log.balances[account].terms
            spent = at_least(paid.epsilon), at_least(paid.delta)
            self.tell(Spent(own, account, *spent, terms), "spent", own, account)

    def keep_place(self, log: Pages, path: Path) -> None:
        """Keep which ledger a path holds, and what there is to know of it: older versions did not.

        All of it is told by whoever opens a ledger for the first time.
        """
        own = log.ledger_id
        if self.ledger_at(path) != own:
            self.tell(LedgerPlace(own, now()), "path", str(path))
        files = (self.file("spent", own, one) for one in log.balances)
        if self.head_of(own) is None or not all(file.exists() for file in files):
            self.keep(log, log.balances)

    def file(self, ending: str, *names: str) -> Path:
        """Return where a record lies: names may be long, or no names of files."""
        hashed = (hashlib.sha256(os.fsencode(name)).hexdigest()[:32] for name in names)
        return self.folder / f"{'.'.join(hashed)}.{ending}"

    def told(self, ending: str, *names: str) -> dict[str, Any] | None:
        """Return what is kept under names, if anything."""
        return self.read(self.file(ending, *names))

    def read(self, file: Path) -> dict[str, Any] | None:
        """Return what a record holds, if it is there."""
        try:
            values: dict[str, Any] = json.loads(text) if (text := file.read_bytes()) else {}
            if text and not isinstance(values["ledger_id"], str):
                raise TypeError
            return values or None  # Killed between making the file and writing it.
        except (FileNotFoundError, NotADirectoryError):
            return None  # What cannot be there is refused when it is to be kept.
        except OSError as error:
            raise LedgerError(f"the witness {file} cannot be read ({error.strerror}).") from error
        except (ValueError, TypeError, LookupError) as error:
            raise LedgerError(
                f"the witness {file} is damaged. Remove it if you know why; the next opening of "
                "its ledger keeps what it finds."
            ) from error

    def tell(self, said: Record, ending: str, *names: str) -> None:
        """Keep what is said under names, in place of what was."""
        file, size = self.file(ending, *names), _SIZES[ending]
        record = json.dumps(said.to_dict(), ensure_ascii=False).encode().ljust(size - 1) + b"\n"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                write_all(descriptor, record, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise LedgerError(
                f"the head cannot be kept in {self.folder} ({error.strerror}): name another "
                "folder, outside backups of the ledger, in the environment variable "
                "CONFRERE_WITNESS."
            ) from error

    def _mismatch(self, path: Path, head: Head | None, found: str) -> WitnessMismatch:
        had = "it held a ledger"
        if head is not None:
            had = f"the ledger had row {head.row} ({head.hash[:12]}) on {head.time[:19]}"
        return WitnessMismatch(
            f"{had}, as {self.folder} remembers; {found}. What was charged in between would be "
            "forgotten. Put the newest copy back. Only if its owner knows why: `confrere ledger "
            f"witness {path.name} --reset --reason ...` goes on from here, writes that down in "
            "the chain, and books what is missing as spent."
        )


# -- the ledger ------------------------------------------------------------------------------------
#: Refuses, or not, a charge beside what the rows say; looked at within the charge.
Condition = Callable[[Pages, Charge], None]


class Store:
    """The ledger in one file, compared with its witness: what it was paid, and how that ended.

    ``ledger_id`` says which ledger the file must be; by default the one found first. Without a
    witness it is ephemeral, or only looked at.
    """

    __slots__ = ("_accounts", "_seen", "lasts", "ledger_id", "path", "witness")

    def __init__(
        self, path: Path, witness: Witness | None, lasts: bool = True, ledger_id: str | None = None
    ) -> None:
        self.path, self.witness, self.lasts, self.ledger_id = path, witness, lasts, ledger_id
        self._seen: Row | None = None
        self._accounts: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        return Store, (self.path, self.witness, self.lasts, self.ledger_id)

    def create(self) -> None:
        """Make the file, readable by its owner only, unless it is there."""
        with self._named():
            create(self.path, Genesis(FORMAT, uuid.uuid4().hex).to_dict())

    def open(self) -> Self:
        """Make the file unless it is or was there; refuse what is not as it was left."""
        kept = self.witness
        if not self.path.exists():
            if kept is not None:
                kept.check_place(None, self.path)
            self.create()
        with self.reading() as log:
            if kept is not None:
                kept.check(log, self.path)
                kept.check_place(log.ledger_id, self.path)
                kept.keep_place(log, self.path)
        return self

    def reading(self) -> AbstractContextManager[Pages]:
        """Show one consistent state of the rows."""
        return self._transaction(exclusive=False)

    @contextmanager
    def writing(self, *, checked: bool = True) -> Iterator[Pages]:
        """Be the only writer of a file that is as its witness remembers, unless that is reset."""
        with self._transaction(exclusive=True) as log:
            if checked and self.witness is not None:
                self.witness.check(log, self.path)
            before, self._accounts = log.tail.seq, set()
            yield log
            self._seen = log.tail
            if log.tail.seq > before and self.witness is not None:
                self.witness.keep(log, self._accounts)

    @contextmanager
    def _transaction(self, *, exclusive: bool) -> Iterator[Pages]:
        with self._named(), transaction(self.path, Pages, exclusive=exclusive) as log:
            if self.ledger_id not in (None, log.ledger_id):
                raise LedgerTampered("another ledger was put in its place.")
            self.ledger_id = log.ledger_id
            seen = self._seen
            if seen is not None and log.tail != seen and log.at(seen.seq) != seen:
                raise rolled_back(seen.seq)
            self._seen = log.tail
            yield log

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Put the file's name into every complaint about it."""
        try:
            yield
        except (NotALedger, LedgerTampered) as error:
            if str(error).startswith(f"{self.path}: "):
                raise
            raise type(error)(f"{self.path}: {error}") from error

    def append(self, log: Pages, kind: str, said: Record, *, time: str | None = None) -> Row:
        """Add a row; when this returns it is on disk, if this file is one to last."""
        facts = said.to_dict()
        if len(canonical(facts)) > _LONGEST_ROW:
            raise InvalidParameter("a ledger holds facts about releases, not data: it is too long.")
        if isinstance(said, Opened | Charge | AccountChange):
            self._accounts.add(said.name if isinstance(said, Opened) else said.account)
        return log.append(kind, facts, durable=self.lasts, time=time)

    def payer(self, log: Pages, account: str | None) -> str:
        """Return who pays; in an ephemeral ledger without accounts one that is opened then."""
        name = log.known(None) if account is None else account
        if not self.lasts and name in (None, _DEFAULT):
            return _DEFAULT
        if name is None:
            raise UnknownAccount("there is no account yet; open one with open_account.")
        log.known(name)
        return name

    def charge(
        self,
        account: str | None,  # Who pays. None: the only one; of an ephemeral ledger, "default"
        guarantee: Guarantee,  # What is promised about the release
        *,
        simulated: bool = False,  # Whether noise will be seeded, which is charged all the same
        **terms: Unpack[Terms],
    ) -> Receipt:
        """Pay for a release; when this returns, the price is on disk; if it raises, not a bit is.

        What was paid under a key is not paid again, and a key that was used for other content is
        refused.
        """
        if isinstance(guarantee, Guarantee):
            check_relation(guarantee.neighbours)
        limit, study = terms.pop("limit", None), terms.pop("study", None)
        facts = {"guarantee": guarantee, "simulated": simulated, **terms}
        with self.writing() as log:
            name, key = self.payer(log, account), terms.get("key")
            known = None if study is None else study_of(study)
            charge = Charge.from_dict({"account": name, "study": known, **facts})
            if charge.study is not None:
                log.check_agreed(charge.study.sha256, charge.approval)
            if name not in log.balances:
                self.append(log, "account", Opened(name, None, 0.0, *guarantee.kind))
            if key is None or key not in log.keys:
                time = now()
                balance = log.balance(name).after(guarantee, time)
                if limit is not None:
                    limit(log, charge)
                free = not self.lasts or balance.caps is None
                charge = replace(charge, uncapped=free, spent=balance.totals)
                row = self.append(log, "charge", charge, time=time)
            else:
                row = log.row(log.keys[key])
                asked, charge = charge.asked, said_by(row)
                if asked != charge.asked:
                    raise LedgerError(
                        f"key {key!r} was used for another charge (row {row.seq}); nothing was "
                        "spent."
                    )
                if self.lasts:
                    log.sync()  # Whoever charged may have been killed before the disk had it.
            return Receipt.of(row, charge, log.ledger_id)

    def payment(self, receipt: Receipt) -> Payment:
        """Return what a receipt paid for, and what became of it so far."""
        with self.reading() as log:
            charge = log.charge_of(receipt)
            sums = charge.event.mechanism if isinstance(charge.event, SharedSums) else None
            made = len(log.models.get(receipt.row, ()))
            seal = None if charge.origin is None else charge.origin.noise
            return Payment(charge.guarantee, receipt.row not in log.marks, sums, made, seal)

    def mark(self, receipt: Receipt, *, digest: str | None = None, code: str | None = None) -> None:
        """Note what was made of what was paid for, or the code of why not; it stays charged."""
        end, kind = End(receipt.row, digest, code), "released" if code is None else "failed"
        with self.writing() as log:
            log.charge_of(receipt)
            if receipt.row not in log.marks:
                self.append(log, kind, end)
                return
            earlier = log.row(log.marks[receipt.row])
            if (earlier.kind, said_by(earlier)) != (kind, end):
                raise LedgerError(
                    f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                    f"{earlier.seq}; how it ended does not change."
                )

    def note_draw(self, receipt: Receipt, number: int, digest: str) -> bool:
        """Note what a keyed draw gave; return False if something else is noted of it."""
        begins = f"draw {number} "
        with self.writing() as log:
            log.charge_of(receipt)
            told = (log.said(seq).digest for seq in log.models.get(receipt.row, ()))
            noted = [one for one in told if one.startswith(begins)]
            if not noted:
                self.append(log, "model", End(receipt.row, begins + digest))
        return noted in ([], [begins + digest])

    def note_model(self, receipt: Receipt, digest: str) -> None:
        """Note a model that was made of what was paid for, by which releases are verified."""
        made = End(receipt.row, check_text(digest, "digest"))
        with self.writing() as log:
            log.charge_of(receipt)
            if made not in map(log.said, log.models.get(receipt.row, ())):
                self.append(log, "model", made)


def study_of(study: tuple[str | None, str]) -> StudyName:
    """Say which study, by its id and the sha256 of its text."""
    if not isinstance(study, tuple) or len(study) != 2:
        raise InvalidParameter("study must be a pair: the study's id and its sha256.")
    return StudyName(*study)
