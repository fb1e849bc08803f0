"""What the rows of a ledger say, kept up as they are read: accounts, charges, keys and marks.

Only where things stand is remembered; what they say is read from the file again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal

from confrere.errors import LedgerError, NotALedger, UnknownAccount
from confrere.guarantee import at_least, exact, minus, plus
from confrere.ledger.accounts import Account, Balance
from confrere.ledger.chain import CHANGES, DECISIONS, FORMAT, Kind, Row, now
from confrere.ledger.entries import Entry, Receipt
from confrere.ledger.facts import check_text


class RowIndex:
    """An index of a chain, by number of row.

    Parameters
    ----------
    row : callable
        Reads the row of a number.

    Attributes
    ----------
    ledger_id : str
        Which ledger this is: a random name, given when the file was made.
    keys : dict of str to int
        The charge made under an idempotency key.
    marks : dict of int to int
        The row that says how a charge ended.
    """

    def __init__(self, row: Callable[[int], Row]) -> None:
        self._row = row
        self._accounts: dict[str, list[int]] = {}
        self._charges: dict[str, list[int]] = {}
        self._all_charges: list[int] = []
        self._models: dict[int, list[int]] = {}
        self._resets: list[int] = []
        self._decisions: dict[str, list[int]] = {}
        self._years: dict[str, dict[int, int]] = {}
        self._studies: dict[tuple[str, str, str], Decimal] = {}
        self.ledger_id = ""
        self.keys: dict[str, int] = {}
        self.marks: dict[int, int] = {}

    def enter(self, row: Row) -> None:
        """Take in the next row; raises what wrong facts raise."""
        facts = row.facts
        if row.kind is Kind.CHARGE:
            account = facts["account"]
            self._charges[account].append(row.seq)
            self._all_charges.append(row.seq)
            years = self._years.setdefault(account, {})
            # As caps count them: a clock that is set back does not bring a year back.
            years[max(int(row.time[:4]), next(reversed(years), 0))] = row.seq
            study = facts.get("study") or {"id": "", "sha256": ""}
            asked = (account, study["id"], study["sha256"])
            paid = exact(facts["guarantee"]["epsilon"])
            self._studies[asked] = plus(self._studies.get(asked, Decimal(0)), paid)
            if facts["key"] is not None:
                self.keys[facts["key"]] = row.seq
        elif row.kind in (Kind.RELEASED, Kind.FAILED):
            self.marks[facts["charge"]] = row.seq
        elif row.kind is Kind.ACCOUNT:
            self._accounts.setdefault(facts["name"], []).append(row.seq)
            self._charges.setdefault(facts["name"], [])
        elif row.kind in CHANGES:
            self._accounts[facts["account"]].append(row.seq)
        elif row.kind is Kind.MODEL:
            self._models.setdefault(facts["charge"], []).append(row.seq)
        elif row.kind is Kind.WITNESS:
            self._resets.append(row.seq)
        elif row.kind in DECISIONS:
            self._decisions.setdefault(facts["study"]["sha256"], []).append(row.seq)
        else:
            if facts["format"] not in (1, FORMAT):
                raise NotALedger(
                    f"it has format {facts['format']}; this version of confrere reads {FORMAT}."
                )
            self.ledger_id = str(facts["ledger_id"])

    def has(self, account: str) -> bool:
        """Whether there is such an account."""
        return account in self._accounts

    def known(self, account: str) -> str:
        """Return the name of an account, if there is one."""
        if check_text(account, "account") not in self._accounts:
            raise UnknownAccount(f"there is no account {account!r}; there is: {self._listed()}.")
        return account

    def only(self) -> str | None:
        """Return the name of the only account, or None if there is no account at all."""
        if len(self._accounts) > 1:
            raise UnknownAccount(f"there are several accounts, say which: {self._listed()}.")
        return next(iter(self._accounts), None)

    def balance(self, account: str) -> Balance:
        """Return what an account allows and has spent now, by its own rows and its last charge."""
        balance = self._allowance(account)
        last = self._charges[account][-1:]
        if last:
            balance = balance.resumed(self._row(last[0]).facts)
        return balance.at(now())

    def capped(self, account: str) -> bool:
        """Whether an account has a cap, or is frozen."""
        balance = self._allowance(account)
        return balance.epsilon_cap is not None or balance.frozen is not None

    def _allowance(self, account: str) -> Balance:
        """Return what an account allows, before anything is charged."""
        opened, *changes = map(self._row, self._accounts[self.known(account)])
        balance = Balance.opened(opened.facts)
        for change in changes:
            balance = balance.changed(change.kind, change.facts)
        return balance

    def years(self, account: str) -> dict[int, float]:
        """Return the epsilon spent in every year in which something was."""
        found, before = {}, Decimal(0)
        for year, last in self._years.get(account, {}).items():
            total = Decimal(self._row(last).facts["spent"]["epsilon"])
            found[year], before = at_least(minus(total, before)), total
        return found

    def opening(self, account: str) -> Row:
        """Return the row that opened an account."""
        return self._row(self._accounts[account][0])

    def by_study(self) -> dict[tuple[str, str, str], Decimal]:
        """Return the epsilon spent by account, study id and study hash; "" where none."""
        return dict(self._studies)

    def accounts(self) -> list[Account]:
        """Return every account, in the order of opening."""
        return [
            Account.of([self._row(row) for row in rows], self.balance(name), self.years(name))
            for name, rows in self._accounts.items()
        ]

    def charges(self, account: str | None) -> Sequence[int]:
        """Return the rows of the charges of one account, or of all."""
        return self._all_charges if account is None else self._charges[self.known(account)]

    def entry(self, charge: int) -> Entry:
        """Join a charge with how it ended, and with what was made of it together with others."""
        mark = self.marks.get(charge)
        models = [self._row(row) for row in self._models.get(charge, ())]
        return Entry.of(self._row(charge), None if mark is None else self._row(mark), models)

    def charge_of(self, receipt: Receipt) -> Row:
        """Return the charge that a receipt was given for, if it was given by this ledger."""
        position = bisect_left(self._all_charges, receipt.row)
        if self._all_charges[position : position + 1] == [receipt.row]:
            row = self._row(receipt.row)
            if Receipt.of(row, self.ledger_id) == receipt:
                return row
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")

    def resets(self) -> list[Row]:
        """Return the rows by which the owner went on from a file that was not as it was left."""
        return [self._row(row) for row in self._resets]

    def decisions(self, study_sha256: str | None = None) -> list[Row]:
        """Return the rows that say no to a study, or take that back; of all studies by default."""
        asked = [study_sha256] if study_sha256 is not None else list(self._decisions)
        rows = [row for study in asked for row in self._decisions.get(study, ())]
        return [self._row(row) for row in sorted(rows)]

    def _listed(self) -> str:
        return ", ".join(map(repr, self._accounts)) or "none, open one with open_account"
