"""What a ledger tells: budgets, charges and how they ended, and whether its chain is whole."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from confrere.errors import BudgetExceeded, UnknownAccount
from confrere.guarantee import Guarantee
from confrere.ledger import entries as views
from confrere.ledger.accounts import Account, Balance
from confrere.ledger.chain import audit, now
from confrere.ledger.decisions import Decision, check_agreed
from confrere.ledger.entries import Entry, Receipt
from confrere.ledger.facts import ChargeApproval
from confrere.ledger.logfile import LogFile
from confrere.ledger.store import Handle, Store

if TYPE_CHECKING:
    import pandas as pd


#: The account of an ephemeral ledger that names none, opened by its first charge.
_DEFAULT = "default"


class LedgerReader(Handle):
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
            if guarantee is not None and log.index.has(name):
                _covers(log.index.balance(name), guarantee)
            return name

    def affords(self, account: str | None, guarantee: Guarantee) -> bool:
        """Whether the caps cover ``guarantee`` now; another process may be quicker to charge.

        Raises
        ------
        CompositionError
            If the account counts another unit or other neighbours: no cap would ever cover it.
        """
        balance = self._balance(account)
        return balance is None or _covers(balance, guarantee)

    def require(self, account: str | None, epsilon: float, delta: float = 0.0) -> None:
        """Refuse what the caps do not cover now, as :meth:`charge` would: for several charges.

        Raises
        ------
        BudgetExceeded
            If a cap does not cover so much: which one, and what is left.
        AccountFrozen
            If its owner lets nothing more be charged.
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

    def capped(self, account: str | None = None) -> bool:
        """Whether anything limits what can be charged."""
        with self._store.reading() as log:
            name = self._resolve(log, account)
            return log.index.has(name) and log.index.capped(name)

    def entry(self, receipt: Receipt) -> Entry:
        """Return what a receipt was given for, and how it ended so far."""
        with self._store.reading() as log:
            return log.index.entry(log.index.charge_of(receipt).seq)

    def accounts(self) -> list[Account]:
        """Return every account with what it has spent, in the order of opening."""
        with self._store.reading() as log:
            return log.index.accounts()

    def entries(
        self, account: str | None = None, *, last: int | None = None, skip: int = 0
    ) -> list[Entry]:
        """Return the charges of one account, or of all, with how they ended.

        Parameters
        ----------
        account : str, optional
        last : int, optional
            Only that many, from the end, and the last one first.
        skip : int, default=0
            After leaving out so many from the end.
        """
        with self._store.reading() as log:
            rows = log.index.charges(account)
            if last is not None:
                rows = rows[::-1][skip : skip + last]
            return [log.index.entry(row) for row in rows]

    def entry_at(self, row: int) -> Entry | None:
        """Return the charge in a row, with how it ended; None if the row holds none."""
        with self._store.reading() as log:
            charges = log.index.charges(None)
            position = bisect_left(charges, row)
            found = charges[position : position + 1]
            return log.index.entry(row) if list(found) == [row] else None

    def count(self, account: str | None = None) -> int:
        """Return the number of charges of one account, or of all."""
        with self._store.reading() as log:
            return len(log.index.charges(account))

    def resets(self) -> list[dict[str, Any]]:
        """Return when and why the owner went on from a file that was not as it was left."""
        with self._store.reading() as log:
            rows = log.index.resets()
            return [{"since": row.seq, "time": row.time} | row.facts for row in rows]

    def by_study(self) -> dict[tuple[str, str, str], Decimal]:
        """Return the epsilon spent by account, study id and study hash; "" where none."""
        with self._store.reading() as log:
            return log.index.by_study()

    def decisions(self) -> list[Decision]:
        """Return who said no to a study, or took that back, and why."""
        with self._store.reading() as log:
            return [Decision.of(row) for row in log.index.decisions()]

    def refusal(self, study_sha256: str) -> Decision | None:
        """Return the no to a study that stands, if one does."""
        with self._store.reading() as log:
            found = [Decision.of(row) for row in log.index.decisions(study_sha256)]
        return found[-1] if found and found[-1].stops else None

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study that its owner has said no to since; see :class:`Decision`.

        Raises
        ------
        StudyRefused
        """
        with self._store.reading() as log:
            check_agreed([Decision.of(r) for r in log.index.decisions(study_sha256)], approval)

    def sampled(self, account: str, most: int = 200) -> list[Entry]:
        """Return charges of an account, evenly over all of them, the last one among them."""
        with self._store.reading() as log:
            rows = log.index.charges(account)
            step = max(1, math.ceil(len(rows) / most))
            return [log.index.entry(row) for row in rows[::-1][::step][::-1]]

    def to_frame(self) -> pd.DataFrame:
        """Return every charge as a table indexed by row."""
        return views.to_frame(self.entries())

    def to_csv(self) -> str:
        """Return every charge as CSV, and every decision about a study."""
        return views.to_csv(self.entries(), self.decisions())

    def to_json(self) -> str:
        """Return accounts, charges and head, all of one moment, as JSON."""
        with self._store.reading() as log:
            return views.to_json(
                ledger_id=log.index.ledger_id,
                head=log.tail.hash,
                accounts=log.index.accounts(),
                decisions=map(Decision.of, log.index.decisions()),
                entries=map(log.index.entry, log.index.charges(None)),
            )

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
            return log.index.balance(name) if log.index.has(name) else None

    def _resolve(self, log: LogFile, account: str | None) -> str:
        """Return who pays; in an ephemeral ledger without accounts one that is opened then."""
        name = log.index.only() if account is None else account
        if self.ephemeral and name in (None, _DEFAULT):
            return _DEFAULT
        if name is None:
            raise UnknownAccount("there is no account yet; open one with open_account.")
        return log.index.known(name)


def _covers(balance: Balance, guarantee: Guarantee) -> bool:
    try:
        balance.after(guarantee, now())
    except BudgetExceeded:
        return False
    return True
