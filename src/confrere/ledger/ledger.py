"""The ledger: who may spend, what was spent, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from confrere.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerError,
    LedgerTampered,
    UnknownAccount,
)
from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger import views
from confrere.ledger.audit import audit
from confrere.ledger.balance import Balance
from confrere.ledger.books import accounts_in, balance_of, entries_in, only_account
from confrere.ledger.chain import Kind, Row, canonical
from confrere.ledger.entries import Account, Entry, Receipt
from confrere.ledger.facts import account_facts, charge_facts, failed_facts, released_facts
from confrere.ledger.handle import Handle
from confrere.ledger.table import Table

if TYPE_CHECKING:
    import pandas as pd


@final
class Ledger(Handle):
    """The append-only record of what was spent, in one SQLite file.

    A ledger is a handle: copies, clones, pickles, threads and other processes of the same machine
    all write into the same file, and together they never exceed a cap. :meth:`charge` returns
    once the price is on disk; only then may noise be drawn. What was charged stays charged.

    Parameters
    ----------
    path : path-like, optional
        The file, made (readable by its owner only) if it is not there. Not on a network file
        system, whose locks cannot be trusted. None: an ephemeral ledger for notebooks, in a
        private temporary folder that goes when the process that made it exits.

    Notes
    -----
    Every row carries the hash of the row before it, so a row that was changed, removed, inserted
    or moved shows in :meth:`verify`, and usually already in the next charge. What hash chaining
    does **not** protect from: somebody who may write the file can cut rows from its end, restore
    an older copy, or rewrite all of it with fresh hashes, and the result is a valid chain. Against
    that, keep :meth:`head` where they cannot write (release cards carry it) and pass it to
    ``verify(head=...)``. Nor does it stop anyone from using the data without charging.
    """

    def open_account(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        """Open a budget; opening it again with the same facts changes nothing.

        Parameters
        ----------
        name : str
        epsilon : float, optional
            The cap on the sum of epsilons; None for an account that only counts.
        delta : float, default=0.0
            The cap on the sum of deltas, for an account that has a cap on epsilon.
        unit : Unit, optional
        neighbours : Neighbours, optional
            What the account counts; by default what its first charge does.

        Raises
        ------
        InvalidParameter
            If a fact is out of range, or differs from those the account was opened with.
        """
        facts = account_facts(name, epsilon, delta, unit, neighbours)
        with self._store.writing() as table:
            earlier = table.account(name)
            if earlier is None:
                table.append(Kind.ACCOUNT, facts)
            elif earlier.body != canonical(facts):
                differing = ", ".join(k for k, v in earlier.facts.items() if facts[k] != v)
                raise InvalidParameter(
                    f"account {name!r} is already open with another {differing}; what an account "
                    "was opened with does not change."
                )

    def account_for(self, account: str | None) -> str:
        """Say which account :meth:`charge` would charge, before any data are touched."""
        may_open = account is None and self.ephemeral
        with self._store.writing() if may_open else self._store.reading() as table:
            return self._resolve(table, account)

    def affords(self, account: str | None, guarantee: Guarantee) -> bool:
        """Whether the caps cover ``guarantee`` now; another process may be quicker to charge.

        Raises
        ------
        CompositionError
            If the account counts another unit or other neighbours: no cap would ever cover it.
        """
        try:
            self._balance(account).after(guarantee)
        except BudgetExceeded:
            return False
        return True

    def spent(self, account: str | None = None) -> float:
        """Return the sum of the epsilons charged, however the charges ended."""
        return self._balance(account).spent

    def left(self, account: str | None = None) -> float:
        """Return the epsilon that can still be charged; infinite without a cap."""
        return self._balance(account).left

    def charge(
        self,
        account: str | None,
        guarantee: Guarantee,
        *,
        purpose: str,
        detail: Mapping[str, Any] | None = None,
        simulated: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Pay for a release; when this returns, the price is on disk.

        Parameters
        ----------
        account : str or None
            Who pays. None: the only account there is; in an ephemeral ledger without accounts,
            "default", opened without a cap.
        guarantee : Guarantee
            What is promised about the release.
        purpose : str
            What for, in one line.
        detail : mapping, optional
            More facts, as plain JSON values; never data.
        simulated : bool, default=False
            Whether the noise will be seeded. It is charged all the same: the ledger cannot know
            who will see the result.
        key : str, optional
            Charging again under a key, with the same content, returns the first receipt and
            spends nothing: so that a party asked twice answers twice and pays once.

        Raises
        ------
        BudgetExceeded
            If the cap on epsilon or delta does not cover the price.
        CompositionError
            If the account counts another unit or other neighbours.
        UnknownAccount
            If there is no such account, or None does not say which.
        LedgerError
            If ``key`` was used for a charge of other content.
        """
        facts = charge_facts(guarantee, purpose, detail, simulated, key)
        with self._store.writing() as table:
            facts["account"] = self._resolve(table, account)
            row = None if key is None else table.charge_of(key)
            if row is None:
                balance = balance_of(table, facts["account"]).after(guarantee)
                row = table.append(Kind.CHARGE, facts | {"spent": balance.totals})
            elif canonical(row.facts | facts) != row.body:
                raise LedgerError(
                    f"key {key!r} was used for another charge (row {row.seq}); nothing was spent."
                )
        return Receipt.of(row, table.ledger_id)

    def mark_released(self, receipt: Receipt, *, digest: str | None = None) -> None:
        """Note that what was paid for was made, and optionally what it hashes to."""
        self._mark(receipt, Kind.RELEASED, released_facts(receipt.row, digest))

    def mark_failed(self, receipt: Receipt, *, code: str) -> None:
        """Note that what was paid for was not made; it stays charged."""
        self._mark(receipt, Kind.FAILED, failed_facts(receipt.row, code))

    def entry(self, receipt: Receipt) -> Entry:
        """Return what a receipt was given for, and how it ended so far."""
        with self._store.reading() as table:
            return Entry.of(_charge_of(table, receipt), table.mark_of(receipt.row))

    def _mark(self, receipt: Receipt, kind: Kind, facts: dict[str, Any]) -> None:
        with self._store.writing() as table:
            _charge_of(table, receipt)
            earlier = table.mark_of(receipt.row)
            if earlier is None:
                table.append(kind, facts)
            elif (earlier.kind, earlier.body) != (kind, canonical(facts)):
                raise LedgerError(
                    f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                    f"{earlier.seq}; how it ended does not change."
                )

    def accounts(self) -> list[Account]:
        """Return every account with what it has spent, in the order of opening."""
        with self._store.reading() as table:
            return accounts_in(table)

    def entries(self, account: str | None = None) -> list[Entry]:
        """Return the charges of one account, or of all, with how they ended."""
        with self._store.reading() as table:
            if account is not None:
                balance_of(table, account)
            return entries_in(table, account)

    def to_frame(self) -> pd.DataFrame:
        """Return every charge as a table indexed by row."""
        return views.to_frame(self.entries())

    def to_csv(self) -> str:
        """Return every charge as CSV."""
        return views.to_csv(self.entries())

    def to_json(self) -> str:
        """Return accounts, charges and head, all of one moment, as JSON."""
        with self._store.reading() as table:
            return views.to_json(
                ledger_id=table.ledger_id,
                head=table.tail.hash,
                accounts=accounts_in(table),
                entries=entries_in(table, None),
            )

    def head(self) -> str:
        """Return the hash of the last row; kept elsewhere, it shows a ledger that was cut."""
        with self._store.reading() as table:
            return table.tail.hash

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
        with self._store.reading() as table:
            count = audit(table.rows(), head=head)
            if not table.is_sound():
                raise LedgerTampered("an index disagrees with the rows.")
            return count

    def _balance(self, account: str | None) -> Balance:
        name = self.account_for(account)
        with self._store.reading() as table:
            return balance_of(table, name)

    def _resolve(self, table: Table, account: str | None) -> str:
        if account is not None:
            return balance_of(table, account).account
        name = only_account(table)
        if name is None:
            if not self.ephemeral:
                raise UnknownAccount("there is no account yet; open one with open_account.")
            name = "default"
            table.append(Kind.ACCOUNT, account_facts(name))
        return name


def _charge_of(table: Table, receipt: Receipt) -> Row:
    row = table.at(receipt.row)
    if row is None or row.kind is not Kind.CHARGE or Receipt.of(row, table.ledger_id) != receipt:
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")
    return row
