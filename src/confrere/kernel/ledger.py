"""An append-only file of rows, and in it what may be spent, what was spent, and who said no.

A row is one line of the file: ``[seq,"kind","time","body","previous","hash"]``, JSON without
spaces. ``hash`` is SHA-256 of the same line up to ``previous``, closed by ``]``, in hex;
``previous`` is the hash of the row before; ``body`` is the canonical JSON of the row's facts. There
is one writer, and a row is on disk before it counts; an incomplete last line is no row. A float
stands for the decimal it prints as, and sums are never rounded.

That rows were cut from its end, that an older copy was put back, or that it was made anew, does not
show in a chain of hashes: the witness keeps the head, and what every account had spent, elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
import sys
import threading
import time
import uuid
from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypedDict, TypeVar, Unpack

from typing_extensions import override

from confrere.errors import (
    AccountFrozen,
    BudgetExceeded,
    CompositionError,
    ConfrereError,
    InvalidParameter,
    LedgerError,
    LedgerTampered,
    NotALedger,
    UnknownAccount,
    WitnessMismatch,
)
from confrere.files import file_system, write_new
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
)

FIRST_BYTES = b'[1,"genesis",'
BUSY_SECONDS = 60.0

# Threads queue here rather than at the file. A fork waits until no transaction is under way.
ONE_AT_A_TIME = threading.RLock()

#: Length of what follows the sealed part of a line: a comma, the quoted hash, a bracket.
_SEAL = 1 + 66 + 1
_MOST_KEPT = 32  #: Open files
_CHUNK = 1 << 22
#: File systems whose locks do not reach every machine or container that can write to them.
_NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "virtiofs"}
_NETWORKED |= {f"fuse.{name}" for name in ("sshfs", "rclone", "s3fs", "gcsfuse", "grpcfuse")}
_NO_LOCK = "a cap could be spent twice. Keep it on a disk of one machine."

#: Plain values as JSON in the one way that is hashed: sorted, compact, ASCII.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_read_json = json.JSONDecoder(parse_constant=_no_number).decode


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Row(NamedTuple):
    """One sealed row, as the file holds it; a tuple, since a long ledger has many to make."""

    seq: int
    kind: str
    time: str
    body: str
    previous: str
    hash: str

    @classmethod
    def sealed(
        cls, kind: str, facts: Mapping[str, object], *, after: Row | None, time: str | None = None
    ) -> Self:
        """Make the row that follows ``after``, now; the first one follows nothing."""
        last = after or _NOTHING
        unsealed = last.seq + 1, kind, time or now(), canonical(facts), last.hash
        return cls(*unsealed, hashlib.sha256(canonical(unsealed).encode()).hexdigest())

    @classmethod
    def parse(cls, line: bytes, seq: int) -> Self:
        """Read the line of row ``seq``, refusing one that its own hash does not seal."""
        found = hashlib.sha256(line[:-_SEAL] + b"]").hexdigest()
        try:
            row = cls._make(_read_json(line.decode()))
        except (ValueError, TypeError, RecursionError) as error:
            raise LedgerTampered(f"row {seq} was changed: it is no row.") from error
        texts = type(row[1]) is type(row[2]) is type(row[3]) is type(row[4]) is str
        if row.hash != found or row.seq != seq or not texts:
            raise LedgerTampered(f"row {seq} was changed: its hash does not fit its content.")
        return row

    @property
    def line(self) -> bytes:
        return canonical(self).encode() + b"\n"

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = _read_json(self.body)
        return facts


_NOTHING = Row(0, "", "", "", "", "0" * 64)  #: What the first row follows


def rolled_back(seq: int) -> LedgerTampered:
    return LedgerTampered(f"row {seq}, which was there before, is gone: the file was rolled back.")


# -- files and their locks -------------------------------------------------------------------------
#: Bytes from here on, beyond every row, are locks: the first of the file, others of what rows
#: stand for.
_BEYOND = 2**40

if sys.platform == "win32":
    import msvcrt

    _sync = os.fsync

    def lock(descriptor: int, row: int = 0, *, free: bool = False) -> None:
        """Lock a byte, or free it."""
        os.lseek(descriptor, _BEYOND + row, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK if free else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _sync(descriptor: int) -> None:
        if hasattr(fcntl, "F_FULLFSYNC"):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)

    def lock(descriptor: int, row: int = 0, *, free: bool = False) -> None:
        """Lock the file, or on Linux what a row of it stands for, or free it."""
        if row and sys.platform == "linux":  # others name such locks, and lay them out otherwise
            kind = fcntl.F_UNLCK if free else fcntl.F_WRLCK
            place = struct.pack("hhqqi4x", kind, os.SEEK_SET, _BEYOND + row, 1, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, place)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _locked(descriptor: int, row: int = 0, seconds: float = math.inf) -> Iterator[None]:
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        try:
            lock(descriptor, row)
            break
        except (BlockingIOError, PermissionError) as error:  # as POSIX, and as Windows says it
            if time.monotonic() > deadline:
                told = f"another process held it for {seconds:g} s; try again."
                raise LedgerError(told) from error
        except OSError as error:
            told = f"its file system cannot lock it ({error.strerror}): {_NO_LOCK}"
            raise NotALedger(told) from error
        time.sleep(pause)
        pause = min(1.5 * pause, 0.01)
    owner = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == owner:  # a forked process has the descriptor, too
            lock(descriptor, row, free=True)


def _open(path: Path, more: int = 0) -> int:
    return os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | more, 0o600)


def _read(descriptor: int, start: int, size: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, size)


def _write(descriptor: int, content: bytes, start: int) -> None:
    """Write all of it: a signal or a disk that fills up may cut a write short."""
    os.lseek(descriptor, start, os.SEEK_SET)
    while content:
        content = content[os.write(descriptor, content) :]


_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class LogFile(ABC):
    """One open inode: rows are checked against their hash and the row before as they are read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._depth = descriptor, 0
        self._offsets, self._end = array("Q"), 0
        self.tail, self._tail_line = _NOTHING, b""

    @abstractmethod
    def enter(self, row: Row) -> None:
        """Take in the next row; raises what wrong facts raise."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the inode's lock, alone: once, however often the thread asks."""
        once = nullcontext() if self._depth else _locked(self._descriptor, seconds=BUSY_SECONDS)
        with once:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def catch_up(self) -> None:
        """Read what others have appended, and notice what was taken away."""
        size = os.fstat(self._descriptor).st_size
        seq = self.tail.seq
        if seq and (size < self._end or self._line(seq) != self._tail_line):
            raise rolled_back(seq)
        if not seq and _read(self._descriptor, 0, len(FIRST_BYTES)) != FIRST_BYTES:
            raise NotALedger("it is not a ledger; give the path of one, or a new path.")
        for line in self._new_lines():
            try:
                row = Row.parse(line, len(self._offsets) + 1)
            except LedgerTampered:
                if self._end + len(line) + 1 == size and b"\0" in line:
                    break  # A line that the disk had room for and no content: never acknowledged.
                raise
            if (row.seq - 1, row.previous) != (self.tail.seq, self.tail.hash):
                raise LedgerTampered(f"row {row.seq} does not follow from the row before it.")
            self._enter(row, line + b"\n")
        if not self.tail.seq:
            raise LedgerTampered("every row was removed.")

    def _new_lines(self) -> Iterator[bytes]:
        """Yield every whole line that was not read before; not what follows the last."""
        with open(self._descriptor, "rb", buffering=_CHUNK, closefd=False) as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                yield line[:-1]

    def _enter(self, row: Row, line: bytes) -> None:
        try:
            self.enter(row)
        except NotALedger:
            raise
        except (ConfrereError, *_WRONG) as error:
            raise LedgerTampered(f"row {row.seq} contradicts the rows before it.") from error
        self._offsets.append(self._end)
        self._end, self.tail, self._tail_line = self._end + len(line), row, line

    def at(self, seq: int) -> Row | None:
        """Return the row of that number, read again and checked; None if there is none."""
        if not 1 <= seq <= len(self._offsets):
            return None
        return Row.parse(self._line(seq).removesuffix(b"\n"), seq)

    def row(self, seq: int) -> Row:
        found = self.at(seq)
        if found is None:
            raise rolled_back(seq)
        return found

    def _line(self, seq: int) -> bytes:
        start = self._offsets[seq - 1]
        end = self._offsets[seq] if seq < len(self._offsets) else self._end
        return _read(self._descriptor, start, end - start)

    def append(
        self, kind: str, facts: Mapping[str, object], *, durable: bool, time: str | None = None
    ) -> Row:
        """Seal ``facts`` to the tail; when this returns, the disk has them if it is to."""
        row = Row.sealed(kind, facts, after=self.tail, time=time)
        line = row.line
        try:
            if os.fstat(self._descriptor).st_size > self._end:
                os.ftruncate(self._descriptor, self._end)  # What a kill left of a line.
            _write(self._descriptor, line, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise LedgerError(f"it cannot be written, and nothing was spent ({error}).") from error
        if durable:
            self.sync()
        self._enter(row, line)
        return row

    def sync(self) -> None:
        """Wait until the disk has what was written, by whomever."""
        try:
            _sync(self._descriptor)
        except OSError as error:
            told = f"the disk did not confirm the last row ({error}); see what the ledger says."
            raise LedgerError(told) from error


# One open file per process and inode.
_kept: OrderedDict[tuple[int, int, int], LogFile] = OrderedDict()
_L = TypeVar("_L", bound=LogFile)


def _forget() -> None:
    # In a forked child: descriptors shared with the parent would share its locks.
    for log in _kept.values():
        os.close(log._descriptor)
    _kept.clear()
    ONE_AT_A_TIME.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ONE_AT_A_TIME.acquire, after_in_parent=ONE_AT_A_TIME.release, after_in_child=_forget
    )


@contextmanager
def transaction(path: Path, of: type[_L]) -> Iterator[_L]:
    """Hold the lock of the file that ``path`` names now, with all its rows read."""
    with ONE_AT_A_TIME:
        while True:
            log = _opened(path, identity := _identity(path), of)
            with log.locked():
                if _identity(path) != identity:
                    continue  # Replaced while we waited for the lock.
                log.catch_up()
                yield log
                return


@contextmanager
def held(path: Path, row: int) -> Iterator[None]:
    """Be the only one at work on what a row stands for: by its byte, or by a file beside."""
    bytewise = sys.platform in ("linux", "win32")
    beside = path if bytewise else path.with_name(f".{path.name}.{row}")
    opened = os.fdopen(_open(beside, 0 if bytewise else os.O_CREAT), "rb")
    with opened, _locked(opened.fileno(), row):
        yield


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise NotALedger(f"there is no such file ({error.strerror}).") from error
    if not stat.S_ISREG(found.st_mode):
        raise NotALedger("it is not a file.")
    return os.getpid(), found.st_dev, found.st_ino


def _opened(path: Path, identity: tuple[int, int, int], of: type[_L]) -> _L:
    log = _kept.get(identity)
    if log is None:
        kind = file_system(identity[1])
        if kind in _NETWORKED:
            raise NotALedger(f"it lies on {kind}, whose locks do not hold elsewhere: {_NO_LOCK}")
        try:
            descriptor = _open(path)
        except OSError as error:
            told = f"it cannot be opened for writing ({error.strerror}); a ledger must be writable."
            raise NotALedger(told) from error
        opened = os.fstat(descriptor)
        if (opened.st_dev, opened.st_ino) != identity[1:]:
            os.close(descriptor)
            raise NotALedger("it was replaced while it was opened; try again.")
        log = _kept[identity] = of(descriptor)
        for key in [key for key, one in _kept.items() if not one._depth][:-_MOST_KEPT]:
            os.close(_kept.pop(key)._descriptor)
    _kept.move_to_end(identity)
    if not isinstance(log, of):
        raise NotALedger("it is a file of another kind.")
    return log


FORMAT = 3
#: What is read: rows of version 0.2 say the same, and what they noted besides is left aside.
_READ = (2, FORMAT)
_FIRST = "default"  #: The account that an ephemeral ledger's first charge opens
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
}


#: Kept for who reads them: they move no balance.
_NOTES = ("refused", "agreed", "witness")


@lru_cache(4096)
def said_by(row: Row) -> Any:
    facts = row.facts
    facts.pop("detail", None)  # of 0.2
    return _KINDS[row.kind].from_dict(facts)


@lru_cache(4096)
def _charge_in(body: str) -> Charge:  # what charges say again and again
    return Charge.from_dict(_read_json(body))


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

    purpose: str  #: What for, in one line; always said
    event: PrivacyEvent | None  #: What is drawn, where the guarantee does not say it all
    origin: Origin | None
    key: str | None  #: So that who is asked twice answers twice and pays once
    study: tuple[str | None, str] | None  #: Id and sha256 of the study that asks
    approval: ChargeApproval | None  #: Who agreed to it, and why
    limit: Condition | None  #: A cap besides the account's own, on what is not paid yet


# -- what an account allows ------------------------------------------------------------------------
class Balance(NamedTuple):
    """What an account allows and has paid; a clock that is set back gives no year back."""

    terms: Opened  #: As opened, with the caps as last raised
    frozen: str | None = None
    paid: Amount = Amount()
    year: int = 0
    earlier: Amount = Amount()

    @property
    def caps(self) -> Amount | None:
        cap = self.terms.epsilon
        return None if cap is None else Amount.of(cap, self.terms.delta)

    def changed(self, kind: str, said: AccountChange) -> Self:
        """Take over what the owner's row says: another cap, or no more charges."""
        if kind == "frozen":
            return self._replace(frozen=said.reason)
        new = {k: v for k in ("epsilon", "delta") if (v := getattr(said, k)) is not None}
        raised = self._replace(terms=replace(self.terms, **new))
        before, after = self.caps, raised.caps
        if before is None or after is None or after == before or not after.covers(before):
            raise InvalidParameter("a raise makes one of the caps larger, and neither smaller.")
        return raised

    def at(self, time: str) -> Self:
        """Begin the year of a time, if it is a later one."""
        if self.terms.period is None or int(time[:4]) <= self.year:
            return self
        return self._replace(year=int(time[:4]), earlier=self.paid)

    def booked(self, guarantee: Guarantee, time: str) -> Self:
        """Add what was spent at a time, whatever the caps."""
        return self.at(time)._replace(paid=self.paid.plus(guarantee.amount))

    def after(self, guarantee: Guarantee, time: str) -> Self:
        """Pay for one more release at a time, composed in sequence, or say why not."""
        name = self.terms.name
        if self.frozen is not None:
            raise AccountFrozen(f"account {name!r} is frozen ({self.frozen}): ask who froze it.")
        if (counted := (self.terms.unit, self.terms.neighbours)) != guarantee.kind:
            told = "account {!r} counts per {} ({}), the guarantee is per {} ({}): the two do not "
            told += "add up. Nothing was spent; open an account for it."
            raise CompositionError(told.format(name, *counted, *guarantee.kind))
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
        return self.paid.minus(self.earlier)

    @property
    def totals(self) -> Total:
        begun = () if self.terms.period is None else (self.year, Total(*self.earlier))
        return Total(*self.paid, *begun)


# -- what the rows say together --------------------------------------------------------------------
class Pages(LogFile):
    """A ledger's rows, each held against those before it; rows that count are read again."""

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
        self.notes: list[int] = []

    @override
    def enter(self, row: Row) -> None:
        if (row.seq == 1) != (row.kind == "genesis"):
            raise ValueError("a chain has one genesis")
        if row.kind == "charge":
            self._charge(row)
            return
        if row.kind in _NOTES:
            self.notes.append(row.seq)
            return
        said = said_by(row)
        if isinstance(said, End):
            if said.charge not in self.paid:
                raise ValueError("what ends, or is made, was paid for")
            if row.kind == "model":
                self.models.setdefault(said.charge, []).append(row.seq)
            elif self.marks.setdefault(said.charge, row.seq) != row.seq:
                raise ValueError("a charge ends once")
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
                raise NotALedger(f"it has format {said.format}; read are 2, of 0.2, and {FORMAT}.")
            self.ledger_id = said.ledger_id

    def _charge(self, row: Row) -> None:
        facts = row.facts
        spent, key = facts.pop("spent", None), facts.pop("key", None)
        facts.pop("detail", None)  # of 0.2
        charge = _charge_in(canonical(facts))
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
        return said_by(self.row(seq))

    def known(self, account: str | None) -> str:
        """Return the name of an account that there is; by default the only one's."""
        listed = ", ".join(map(repr, self.balances)) or "none, open one with open_account"
        if account is None and len(self.balances) == 1:
            return next(iter(self.balances))
        name = account if account is None else check_text(account, "account")
        if name is None or name not in self.balances:
            asked = "say which account" if name is None else f"there is no account {name!r}"
            raise UnknownAccount(f"{asked}; there is: {listed}.")
        return name

    def balance(self, account: str) -> Balance:
        """Return what an account allows and has spent now; its rows are still what they were."""
        self.known(account)
        for seq in (*self.changes[account], *self.charges[account][-1:]):
            self.row(seq)
        return self.balances[account].at(now())

    def charge_of(self, receipt: Receipt) -> Charge:
        row = self.at(receipt.row)
        if row is not None and row.kind == "charge":
            charge: Charge = said_by(row)
            if Receipt.of(row, charge, self.ledger_id) == receipt:
                return charge
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")


# -- the witness -----------------------------------------------------------------------------------

#: Bytes of a record, blanks at its end. A head ends within a sector: it is written whole, or not.
_RECORD = 4096


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


_R = TypeVar("_R", bound=Record)


class Witness:
    """Heads of ledgers, one small file each, and which ledger a path held.

    It may be behind, if a kill came before it was told: a head that is in the chain is fine. A head
    that is not in the chain means that rows which were there are gone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head_of(self, ledger_id: str) -> Head | None:
        return self.read(self.file("head", ledger_id), Head)

    def ledger_at(self, path: Path) -> str | None:
        place = self.read(self.file("path", str(path)), LedgerPlace)
        return None if place is None else place.ledger_id

    def check(self, log: Pages, path: Path) -> None:
        """Refuse a ledger of which rows that were there, as is remembered, are gone."""
        head = self.head_of(log.ledger_id)
        row = None if head is None else log.at(head.row)
        if head is None or (row is not None and row.hash == head.hash):
            return
        found = "now that row is another one: the chain was rebuilt"
        if row is None:
            found = "an older copy was put back, or rows were cut from its end"
            found = f"now it has {log.tail.seq}: {found}"
        raise self._mismatch(path, head, found)

    def check_place(self, ledger_id: str | None, path: Path) -> None:
        """Refuse a path that held another ledger; ``ledger_id`` is None for one not made yet."""
        before = self.ledger_at(path)
        if before is not None and before != ledger_id:
            now = "now there is none" if ledger_id is None else "now there is another one"
            found = f"{now}: the file was deleted, moved or replaced"
            raise self._mismatch(path, self.head_of(before), found)

    def keep(self, log: Pages, accounts: Iterable[str]) -> None:
        row, own = log.tail, log.ledger_id
        self.tell(Head(own, row.seq, row.hash, row.time), "head", own)
        for account in accounts:
            paid, terms = log.balances[account].paid, log.balances[account].terms
            spent = at_least(paid.epsilon), at_least(paid.delta)
            self.tell(Spent(own, account, *spent, terms), "spent", own, account)

    def keep_place(self, log: Pages, path: Path) -> None:
        """Keep which ledger a path holds, and, at the first opening, what is to know of it."""
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

    def read(self, file: Path, of: type[_R]) -> _R | None:
        try:
            text = file.read_bytes()  # None: killed between making the file and writing it
            return of.from_dict(_read_json(text.decode())) if text else None
        except (FileNotFoundError, NotADirectoryError):
            return None  # What cannot be there is refused when it is to be kept.
        except OSError as error:
            raise LedgerError(f"the witness {file} cannot be read ({error.strerror}).") from error
        except (ConfrereError, *_WRONG) as error:
            told = f"the witness {file} is damaged. Remove it if you know why; what is then found "
            raise LedgerError(told + "at the next opening of its ledger is kept.") from error

    def tell(self, said: Record, ending: str, *names: str) -> None:
        file = self.file(ending, *names)
        record = json.dumps(said.to_dict(), ensure_ascii=False).encode().ljust(_RECORD - 1) + b"\n"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(_open(file, os.O_CREAT), "rb") as opened:
                _write(opened.fileno(), record, 0)
        except OSError as error:
            told = f"the head cannot be kept in {self.folder} ({error.strerror}): name a folder "
            told += "outside backups of the ledger in the environment variable CONFRERE_WITNESS."
            raise LedgerError(told) from error

    def _mismatch(self, path: Path, head: Head | None, found: str) -> WitnessMismatch:
        had = None if head is None else (head.row, head.hash, head.time)
        return WitnessMismatch.of(str(self.folder), path.name, had, found)


# -- the ledger ------------------------------------------------------------------------------------
#: Refuses, or not, a charge beside what the rows say; looked at within the charge.
Condition = Callable[[Pages, Charge], None]


@dataclass(eq=False, slots=True)
class Store:
    """The ledger in one file, compared with its witness; without one it does not last."""

    path: Path
    witness: Witness | None
    lasts: bool = True
    agreed: Condition | None = None  #: Looked at whenever something is charged
    ledger_id: str | None = None
    _seen: Row = field(default=_NOTHING, init=False)

    def __reduce__(self) -> tuple[object, ...]:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        return Store, (self.path, self.witness, self.lasts, self.agreed, self.ledger_id)

    def create(self) -> None:
        first = Row.sealed("genesis", Genesis(FORMAT, uuid.uuid4().hex).to_dict(), after=None)
        try:
            with suppress(FileExistsError):  # Another process was quicker: its file it is.
                write_new(self.path, first.line)
        except OSError as error:
            told = f"{self.path}: cannot be created ({error}); its folder must exist, writable."
            raise NotALedger(told) from error

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

    @contextmanager
    def writing(self, *, checked: bool = True) -> Iterator[Pages]:
        """Be the only writer of a file that is as its witness remembers, unless that is reset."""
        with self.reading() as log:
            if checked and self.witness is not None:
                self.witness.check(log, self.path)
            before, balances = log.tail.seq, dict(log.balances)
            yield log
            self._seen = log.tail
            if log.tail.seq > before and self.witness is not None:
                changed = (k for k, now in log.balances.items() if balances.get(k) is not now)
                self.witness.keep(log, changed)

    @contextmanager
    def reading(self) -> Iterator[Pages]:
        """Show one consistent state of the rows; every complaint about the file names it."""
        try:
            with transaction(self.path, Pages) as log:
                if self.ledger_id not in (None, log.ledger_id):
                    raise LedgerTampered("another ledger was put in its place.")
                self.ledger_id = log.ledger_id
                seen = self._seen
                if seen.seq and log.tail != seen and log.at(seen.seq) != seen:
                    raise rolled_back(seen.seq)
                self._seen = log.tail
                yield log
        except (NotALedger, LedgerTampered) as error:
            if str(error).startswith(f"{self.path}: "):
                raise
            raise type(error)(f"{self.path}: {error}") from error

    def append(self, log: Pages, kind: str, said: Record, *, time: str | None = None) -> Row:
        """Add a row; when this returns it is on disk, if this file is one to last."""
        facts = said.to_dict()
        if len(canonical(facts)) > _LONGEST_ROW:
            raise InvalidParameter("a ledger holds facts about releases, not data: it is too long.")
        return log.append(kind, facts, durable=self.lasts, time=time)

    def payer(self, log: Pages, account: str | None) -> str:
        """Return who pays; of an ephemeral ledger without accounts one that is opened then."""
        first = account in (None, _FIRST) and not (self.lasts or log.balances)
        return _FIRST if first else log.known(account)

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
        limit = terms.pop("limit", None)
        with self.writing() as log:
            name, key = self.payer(log, account), terms.get("key")
            facts = {"account": name, "guarantee": guarantee, "simulated": simulated}
            charge = Charge.from_dict({**facts, **terms})
            if self.agreed is not None and charge.study is not None:
                self.agreed(log, charge)
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
                    told = f"key {key!r} was used for another charge (row {row.seq})"
                    raise LedgerError(f"{told}; nothing was spent.")
                if self.lasts:
                    log.sync()  # Whoever charged may have been killed before the disk had it.
            return Receipt.of(row, charge, log.ledger_id)

    def payment(self, receipt: Receipt) -> Payment:
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
                told = f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                raise LedgerError(f"{told}{earlier.seq}; how it ended does not change.")

    def note_model(self, receipt: Receipt, digest: str, *, first: str = "") -> bool:
        """Note what was made of what was paid for; not, if something else began ``first``.

        Nor is it, once the charge is released, if nothing began so: it pays for no further draw.
        """
        made = End(receipt.row, first + check_text(digest, "digest"))
        with self.writing() as log:
            log.charge_of(receipt)
            told = [log.said(seq) for seq in log.models.get(receipt.row, ())]
            told = [one for one in told if one.digest.startswith(first)]
            mark = log.marks.get(receipt.row)
            over = mark is not None and log.row(mark).kind == "released"
            fits = made in told or not (first and (told or over))
            if fits and made not in told:
                self.append(log, "model", made)
        return fits
