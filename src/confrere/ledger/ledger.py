"""The ledger as people use it: the kernel's, and what it tells."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final
from weakref import WeakKeyDictionary

from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee, exact, plus
from confrere.kernel.ledger import (
    Balance,
    ChargeApproval,
    LedgerFile,
    LedgerWriter,
    Pages,
    Receipt,
    Store,
)
from confrere.kernel.log import ONE_AT_A_TIME, Kind, now
from confrere.ledger import entries as views
from confrere.ledger.accounts import Account, ledger_html
from confrere.ledger.auditing import audit
from confrere.ledger.entries import Decision, Entry

if TYPE_CHECKING:
    import pandas as pd


class LedgerReader(LedgerFile):
    """A ledger's file, as far as it is read; see :class:`~confrere.ledger.Ledger`."""

    @classmethod
    def look(cls, path: str | os.PathLike[str]) -> Self:
        """Return a ledger that is only looked at: nothing is made, and no witness is told.

        What a witness remembers is then compared by :func:`~confrere.ledger.witnessed`.
        """
        reader = cls.__new__(cls)
        reader._store = Store(Path(path).resolve(), durable=True)
        return reader

    def account_for(self, account: str | None, guarantee: Guarantee | None = None) -> str:
        """Say which account :meth:`charge` would charge, before any data are touched.

        With ``guarantee``, an account that counts something else, or is frozen, is refused too.
        """
        with self._store.reading() as log:
            name = self._resolve(log, account)
            if guarantee is not None and name in log.accounts:
                _covers(log.balance(name), guarantee)
            return name

    def affords(self, account: str | None, guarantee: Guarantee) -> bool:
        """Whether the caps cover ``guarantee`` now; another process may be quicker to charge.

        Raises CompositionError if the account counts another unit or other neighbours: no cap would
        ever cover it.
        """
        balance = self._balance(account)
        return balance is None or _covers(balance, guarantee)

    def require(self, account: str | None, epsilon: float, delta: float = 0.0) -> None:
        """Refuse what the caps do not cover now, as :meth:`charge` would: for several charges.

        Raises BudgetExceeded if a cap does not cover so much: which one, and what is left. Raises
        AccountFrozen if its owner lets nothing more be charged.
        """
        balance = self._balance(account)
        if balance is not None and balance.unit is not None and balance.neighbours is not None:
            total = Guarantee(epsilon, delta, unit=balance.unit, neighbours=balance.neighbours)
            balance.after(total, now())

    def spent(self, account: str | None = None) -> float:
        """Return the sum of the epsilons charged, however the charges ended."""
        balance = self._balance(account)
        return 0.0 if balance is None else balance.spent

    def left(self, account: str | None = None) -> float:
        """Return the epsilon that can still be charged; infinite without a cap."""
        balance = self._balance(account)
        return math.inf if balance is None else balance.left

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study that its owner has said no to since; see :class:`Decision`.

        Raises StudyRefused.
        """
        with self._store.reading() as log:
            log.check_agreed(study_sha256, approval)

    def head(self) -> str:
        """Return the hash of the last row; kept elsewhere, it shows a ledger that was cut."""
        with self._store.reading() as log:
            return log.tail.hash

    def verify(self, *, head: str | None = None) -> int:
        """Check every row against its hash, the row before it and the sums of all before it.

        Parameters
        ----------
        head : str, optional
            A :meth:`head` (or a receipt's hash) kept from an earlier moment: it must be in the
            chain.

        Returns
        -------
        int
            The number of rows checked.

        Raises
        ------
        LedgerTampered
            Naming the first row that is not as it was written.
        """
        with self._store.reading() as log:
            return audit(log.rows(), head=head)

    def _balance(self, account: str | None) -> Balance | None:
        with self._store.reading() as log:
            name = self._resolve(log, account)
            return log.balance(name) if name in log.accounts else None

    def capped(self, account: str | None = None) -> bool:
        """Whether anything limits what can be charged."""
        with self._store.reading() as log:
            name = self._resolve(log, account)
            if name not in log.accounts:
                return False
            balance = log.allowance(name)
            return balance.caps is not None or balance.frozen is not None

    def entry(self, receipt: Receipt) -> Entry:
        """Return what a receipt was given for, and how it ended so far."""
        with self._store.reading() as log:
            return Entry.of(log, log.charge_of(receipt))

    def accounts(self) -> list[Account]:
        """Return every account with what it has spent, in the order of opening."""
        with self._store.reading() as log:
            return [Account.of(log, name) for name in log.accounts]

    def entries(
        self,
        account: str | None = None,
        *,
        last: int | None = None,  # Only that many, from the end, and the last one first
        skip: int = 0,  # After leaving out so many from the end
    ) -> list[Entry]:
        """Return the charges of one account, or of all, with how they ended."""
        with self._store.reading() as log:
            rows = log.charges(account)
            if last is not None:
                rows = rows[::-1][skip : skip + last]
            return [Entry.of(log, row) for row in rows]

    def entry_at(self, row: int) -> Entry | None:
        """Return the charge in a row, with how it ended; None if the row holds none."""
        with self._store.reading() as log:
            charges = log.charges()
            position = bisect_left(charges, row)
            found = charges[position : position + 1]
            return Entry.of(log, row) if list(found) == [row] else None

    def count(self, account: str | None = None) -> int:
        """Return the number of charges of one account, or of all."""
        with self._store.reading() as log:
            return len(log.charges(account))

    def resets(self) -> list[dict[str, Any]]:
        """Return when and why the owner went on from a file that was not as it was left."""
        with self._store.reading() as log:
            rows = map(log.row, log.resets)
            return [{"since": row.seq, "time": row.time} | row.facts for row in rows]

    def by_study(self) -> dict[tuple[str, str, str], Decimal]:
        """Return the epsilon spent by account, study id and study hash; "" where none."""
        with self._store.reading() as log:
            sums = _studies.setdefault(log, _Studies())
            sums.catch_up(log)
            return dict(sums.spent)

    def decisions(self) -> list[Decision]:
        """Return who said no to a study, or took that back, and why."""
        with self._store.reading() as log:
            return [Decision.of(row) for row in log.decisions()]

    def refusal(self, study_sha256: str) -> Decision | None:
        """Return the no to a study that stands, if one does."""
        with self._store.reading() as log:
            found = [Decision.of(row) for row in log.decisions(study_sha256)[-1:]]
        return next((last for last in found if last.stops), None)

    def sampled(self, account: str, most: int = 200) -> list[Entry]:
        """Return charges of an account, evenly over all of them, the last one among them."""
        with self._store.reading() as log:
            rows = log.charges(account)
            step = max(1, math.ceil(len(rows) / most))
            return [Entry.of(log, row) for row in rows[::-1][::step][::-1]]

    def to_frame(self) -> pd.DataFrame:
        """Return every charge as a table indexed by row."""
        return views.to_frame(self.entries())

    def to_csv(self) -> str:
        """Return every charge as CSV, and every decision about a study."""
        return views.to_csv(self.entries(), self.decisions())

    def to_json(self) -> str:
        """Return accounts, charges and head, all of one moment, as JSON."""
        with self._store.reading() as log:
            return views.to_json(log)

    def _repr_html_(self) -> str:
        return ledger_html(self)


@final
class Ledger(LedgerReader, LedgerWriter):
    """The append-only record of what was spent, in one file.

    A ledger is a handle: copies, clones, pickles, threads and other processes of the same machine
    all write into the same file, by whatever name they know it, and together they never exceed a
    cap. :meth:`charge` returns once the price is on disk; only then may noise be drawn. What was
    charged stays charged.

    Parameters
    ----------
    path : path-like, optional
        The file, made (readable by its owner only) if it is not there. Not on a network file
        system, whose locks cannot be trusted. None: an ephemeral ledger for notebooks, in a
        private temporary folder that goes when the process that made it exits.
    witness : path-like, optional
        The folder where the head is kept besides; it should not be where a backup of the ledger
        would be put back. By default what the environment variable ``CONFRERE_WITNESS`` names, or
        ``confrere/witness`` in the user's state folder. An ephemeral ledger has none.

    Notes
    -----
    Every row is a line and carries the hash of the row before it, so a row that was changed,
    removed, inserted or moved shows when the file is opened. Somebody who may write the file can
    cut rows from its end, restore an older copy, rewrite all of it with fresh hashes, or make it
    anew, and the result is a valid chain: that shows against the witness, at every opening and
    before every charge. Somebody who may write both can still do it; against them, compare with
    the heads that release cards and receipts carry, by ``verify(head=...)``. Nor does a ledger
    stop anyone from using the data without charging.
    """


def default_ledger() -> Ledger:
    """Return the process-wide ledger.

    It is the file that the environment variable ``CONFRERE_LEDGER`` names, if set; otherwise one
    ephemeral ledger per process, which forked children share with their parent. Processes started
    afresh (as joblib's are) have one of their own: to count across them, name a ledger.
    """
    path = os.environ.get("CONFRERE_LEDGER")
    if path:
        return Ledger(path)
    with ONE_AT_A_TIME:
        return _session_ledger()


def payer(ledger: Ledger | None, account: str | None, guarantee: Guarantee) -> tuple[Ledger, str]:
    """Return whom to charge, or say that the account does not exist or counts something else.

    A session that names neither ledger nor account gets an account without cap for every unit and
    relation, since guarantees of different kinds do not add up.
    """
    book = default_ledger() if ledger is None else ledger
    if ledger is None and account is None and book.ephemeral:
        account = f"per {guarantee.unit}, {guarantee.neighbours}"
        book.open_account(account, unit=guarantee.unit, neighbours=guarantee.neighbours)
    return book, book.account_for(account, guarantee)


@cache
def _session_ledger() -> Ledger:
    return Ledger()


def _covers(balance: Balance, guarantee: Guarantee) -> bool:
    """Whether the caps cover a price now; raises where none ever would."""
    try:
        balance.after(guarantee, now())
    except BudgetExceeded:
        return False
    return True


class _Studies:
    """What studies have spent, added up as rows come."""

    def __init__(self) -> None:
        self.spent: dict[tuple[str, str, str], Decimal] = {}
        self._read = 0

    def catch_up(self, log: Pages) -> None:
        for row in log.rows(self._read):
            self._read = row.seq
            if row.kind is Kind.CHARGE:
                facts = row.facts
                study = facts.get("study") or {"id": "", "sha256": ""}
                asked = (facts["account"], study["id"], study["sha256"])
                paid = exact(facts["guarantee"]["epsilon"])
                self.spent[asked] = plus(self.spent.get(asked, Decimal(0)), paid)


_studies: WeakKeyDictionary[Pages, _Studies] = WeakKeyDictionary()
