"""Read rows as accounts, balances and entries."""

from __future__ import annotations

from confrere.errors import UnknownAccount
from confrere.ledger.balance import Balance
from confrere.ledger.chain import Row
from confrere.ledger.entries import Account, Entry
from confrere.ledger.plain import check_text
from confrere.ledger.table import Table


def only_account(table: Table) -> str | None:
    """Return the name of the only account, or None if there is no account at all.

    Raises
    ------
    UnknownAccount
        If there are several: which one is then for the caller to say.
    """
    names = [row.facts["name"] for row in table.accounts()]
    if len(names) > 1:
        raise UnknownAccount(f"there are several accounts, say which: {_listed(names)}.")
    return names[0] if names else None


def balance_of(table: Table, account: str) -> Balance:
    """Return what an account allows and has spent, from its own row and its last charge."""
    row = table.account(check_text(account, "account"))
    if row is None:
        names = [row.facts["name"] for row in table.accounts()]
        raise UnknownAccount(f"there is no account {account!r}; there is: {_listed(names)}.")
    return _balance(table, row)


def accounts_in(table: Table) -> list[Account]:
    """Return every account, in the order of opening."""
    return [Account.of(row, _balance(table, row)) for row in table.accounts()]


def entries_in(table: Table, account: str | None) -> list[Entry]:
    """Return the charges of one account, or of all, joined with how they ended."""
    marks = {mark.facts["charge"]: mark for mark in table.marks()}
    return [Entry.of(charge, marks.get(charge.seq)) for charge in table.charges(account)]


def _balance(table: Table, row: Row) -> Balance:
    opened = Balance.opened(row.facts)
    last = table.last_charge(opened.account)
    return opened if last is None else opened.resumed(last.facts)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "none, open one with open_account"
