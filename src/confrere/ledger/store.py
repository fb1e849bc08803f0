"""A ledger's file by its name: made whole or not at all, recognised, compared with its witness.

A handle knows which file and nothing about what is in it: a copy, clone or pickle of it is the
same ledger.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Self

from confrere.errors import InvalidParameter, LedgerTampered, NotALedger, WitnessMismatch
from confrere.files import write_new
from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger.chain import CHANGES, FORMAT, Kind, Row, now
from confrere.ledger.facts import charge_facts, check_text, failed_facts
from confrere.ledger.logfile import (
    BUSY_SECONDS,
    ONE_AT_A_TIME,
    LogFile,
    rolled_back,
    transaction,
)
from confrere.ledger.witness import Head, Spent, Witness, witness_folder

__all__ = ["BUSY_SECONDS", "ONE_AT_A_TIME", "Handle", "Store"]


class Store:
    """One ledger file.

    Parameters
    ----------
    path : Path
        Absolute.
    durable : bool
        Whether an append waits until the disk has it.
    witness : Witness, optional
        Where the head is kept besides.
    ledger_id : str, optional
        Which ledger the file must be; by default the one found first.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool,
        witness: Witness | None = None,
        ledger_id: str | None = None,
    ) -> None:
        self.path = path
        self.durable = durable
        self.witness = witness
        self.ledger_id = ledger_id
        self._seen: Row | None = None
        self._accounts: set[str] = set()

    def create_if_missing(self) -> None:
        """Make the file, readable by its owner only, unless it is or was there."""
        with self._named():
            if not self.path.exists():
                if self.witness is not None:
                    self.witness.check_place(None, self.path)
                self.create()

    def create(self) -> None:
        """Make the file, readable by its owner only."""
        genesis = Row.sealed(
            Kind.GENESIS, {"format": FORMAT, "ledger_id": uuid.uuid4().hex}, after=None
        )
        try:
            with suppress(FileExistsError):  # another process was quicker: its ledger it is
                write_new(self.path, genesis.line)
        except OSError as error:
            raise NotALedger(
                f"cannot be created ({error}); its folder must exist and be writable."
            ) from error

    def open(self) -> None:
        """Refuse a file that is no ledger, or not as it was left; keep the head of a new one."""
        with self.reading() as log:
            if self.witness is not None:
                self.witness.check(log, self.path)
                self.witness.check_place(log.index.ledger_id, self.path)
                self.witness.keep_place(log.index.ledger_id, self.path)
                if self.witness.head_of(log.index.ledger_id) is None:
                    self.witness.keep(log)
                self.witness.keep_spent(log, self.witness.lacks_spent(log))

    def reading(self) -> AbstractContextManager[LogFile]:
        """Show one consistent state of the rows."""
        return self._transaction(exclusive=False)

    def writing(self) -> AbstractContextManager[LogFile]:
        """Be the only writer."""
        return self._transaction(exclusive=True)

    @contextmanager
    def _transaction(self, *, exclusive: bool) -> Iterator[LogFile]:
        with self._named(), transaction(self.path, exclusive=exclusive) as log:
            self._recognise(log)
            if exclusive and self.witness is not None:
                self.witness.check(log, self.path)
            before = log.tail.seq
            self._accounts = set()
            yield log
            self._seen = log.tail
            if log.tail.seq > before and self.witness is not None:
                self.witness.keep(log)
                self.witness.keep_spent(log, self._accounts)

    def append(
        self, log: LogFile, kind: Kind, facts: Mapping[str, Any], *, time: str | None = None
    ) -> Row:
        """Add a row; when this returns it is on disk, if this file is one to last."""
        if kind in (Kind.CHARGE, Kind.ACCOUNT) or kind in CHANGES:
            self._accounts.add(facts["name" if kind is Kind.ACCOUNT else "account"])
        return log.append(kind, facts, durable=self.durable, time=time)

    def _recognise(self, log: LogFile) -> None:
        if self.ledger_id not in (None, log.index.ledger_id):
            raise LedgerTampered("another ledger was put in its place.")
        self.ledger_id = log.index.ledger_id
        seen = self._seen
        if seen is not None and log.tail != seen and log.at(seen.seq) != seen:
            raise rolled_back(seen.seq)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Put the file's name into every complaint about it."""
        try:
            yield
        except (NotALedger, LedgerTampered) as error:
            if str(error).startswith(f"{self.path}: "):
                raise
            raise type(error)(f"{self.path}: {error}") from error


def no_ledger(path: Path) -> NotALedger:
    """Return the error of a ledger that is looked at and is not there."""
    return NotALedger(f"there is no ledger {path.name}.").hinting(
        f"give the path of one, or make it: confrere ledger open {path} ACCOUNT --epsilon CAP "
        "--unit record --neighbours replace-one --reason WHY"
    )


class Handle:
    """Which file, and where its head is kept besides."""

    #: The row of the last charge whose end was noted by this handle.
    marked_last: int | None = None

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        witness: str | os.PathLike[str] | None = None,
    ) -> None:
        if path is None:
            self._store = Store(_ephemeral_path(), durable=False)
        else:
            self._store = _store_at(path, witness)
        self._store.create_if_missing()
        self._store.open()

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def ephemeral(self) -> bool:
        """Whether the file goes when the process that made it exits."""
        return not self._store.durable

    @property
    def ledger_id(self) -> str:
        """Which ledger this is: a random name, given when the file was made."""
        with self._store.reading() as log:
            return log.index.ledger_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.ephemeral else repr(str(self.path))})"

    def _repr_html_(self) -> str:
        from confrere.ledger.ledger_html import ledger_html

        return ledger_html(self)

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        store = self._store
        return {
            "path": str(store.path),
            "durable": store.durable,
            "ledger_id": store.ledger_id,
            "witness": None if store.witness is None else str(store.witness.folder),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        folder = state["witness"]
        self._store = Store(
            Path(state["path"]),
            durable=state["durable"],
            witness=None if folder is None else Witness(Path(folder)),
            ledger_id=state["ledger_id"],
        )


def witnessed(
    path: str | os.PathLike[str], *, witness: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Show what a witness remembers of a ledger, beside what the file says; nothing is refused."""
    store = _store_at(path, witness)
    kept = store.witness
    assert kept is not None
    found: Head | None = None
    complaint: str | None = None
    if store.path.exists():
        with store.reading() as log:
            found = Head(log.index.ledger_id, log.tail.seq, log.tail.hash, log.tail.time)
            try:
                kept.check(log, store.path)
                kept.check_place(log.index.ledger_id, store.path)
            except WitnessMismatch as error:
                complaint = str(error)
    else:
        try:
            kept.check_place(None, store.path)
        except WitnessMismatch as error:
            complaint = str(error)
    before = kept.ledger_at(store.path) or (None if found is None else found.ledger_id)
    return {
        "folder": str(kept.folder),
        "kept": None if before is None else kept.head_of(before),
        "found": found,
        "complaint": complaint,
    }


def reset_witness(
    path: str | os.PathLike[str],
    *,
    reason: str,
    witness: str | os.PathLike[str] | None = None,
) -> dict[str, float]:
    """Go on from the file as it is, on the owner's word, which stays in the chain.

    What the witness knows as spent and the file does not show is booked as spent, whatever the cap:
    what it paid for has left.

    Parameters
    ----------
    path : path-like
        The ledger; made anew if it is not there.
    reason : str
        Why the file is not as it was left.
    witness : path-like, optional
        As for :class:`Ledger`.

    Returns
    -------
    dict of str to float
        The epsilon that was booked, by account.
    """
    store = _store_at(path, witness)
    kept = store.witness
    assert kept is not None
    facts: dict[str, Any] = {"reason": check_text(reason, "reason")}
    if not store.path.exists():
        store.create()
    with store._named(), transaction(store.path, exclusive=True) as log:
        for ledger_id in {log.index.ledger_id, kept.ledger_at(store.path) or log.index.ledger_id}:
            head = kept.head_of(ledger_id)
            if head is not None:
                facts |= {"ledger_id": head.ledger_id, "row": head.row, "hash": head.hash}
        lost = kept.lost(log, store.path)
        store.append(log, Kind.WITNESS, facts)
        for one in lost:
            _book(store, log, one)
        kept.keep(log)
        kept.keep_spent(log, [account.name for account in log.index.accounts()])
        kept.keep_place(log.index.ledger_id, store.path)
    return {one.account: one.epsilon for one in lost}


def _book(store: Store, log: LogFile, lost: Spent) -> None:
    """Charge an account, above its cap too, with what it had spent in rows that are gone."""
    if not log.index.has(lost.account):
        store.append(log, Kind.ACCOUNT, {"name": lost.account, **lost.facts})
    before = log.index.balance(lost.account)
    guarantee = Guarantee(
        lost.epsilon,
        lost.delta,
        unit=before.unit or Unit.RECORD,
        neighbours=before.neighbours or Neighbours.REPLACE_ONE,
    )
    facts = charge_facts(guarantee, "spent in rows that are gone", None, False, None)
    time = now()
    facts |= {"account": lost.account, "booked": True}
    facts["spent"] = before.booked(guarantee, time).totals
    row = store.append(log, Kind.CHARGE, facts, time=time)
    store.append(log, Kind.FAILED, failed_facts(row.seq, "LostRows"))


def _store_at(path: str | os.PathLike[str], witness: str | os.PathLike[str] | None) -> Store:
    try:
        file = Path(path).resolve()
        folder = witness_folder(witness)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"path must be a file's name or None: {error}.") from error
    return Store(file, durable=True, witness=Witness(folder))


def _ephemeral_path() -> Path:
    folder = tempfile.mkdtemp(prefix="confrere-")
    # Unlike atexit this runs where workers of a pool end, too, and not in children of a fork.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return Path(folder).resolve() / "ephemeral.ledger"
