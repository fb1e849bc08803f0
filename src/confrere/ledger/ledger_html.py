"""A ledger in a notebook: what every account has spent, and what is left."""

from __future__ import annotations

import math
from typing import Any

from confrere.ledger.accounts import Account, shown, shown_down
from confrere.notebook import BAD, bar, grid, panel, word

#: Rows of a table at most; the rest is said to be there.
MOST = 12


def ledger_html(ledger: Any) -> str:
    """Return accounts with bars of what they have spent, and the last charges."""
    accounts: list[Account] = ledger.accounts()
    count = ledger.count()
    entries = ledger.entries(last=5) if count else []
    columns = ("account", "spent of its cap", "", "left", "counts")
    rows = [
        (
            one.name,
            _bar(one),
            shown(one.spent) if one.spent else "0",
            _left(one),
            "not said" if one.unit is None else f"{one.unit} ({one.neighbours})",
        )
        for one in accounts[:MOST]
    ]
    parts: list[object] = [grid(columns, rows, right=("", "left"))] if rows else ["no account yet"]
    if entries:
        charges = [
            (
                one.row,
                one.time[:16].replace("T", " "),
                one.account,
                shown(one.guarantee.epsilon),
                one.purpose,
                one.state,
            )
            for one in entries
        ]
        names = ("row", "when", "account", "epsilon", "what for", "ended")
        parts.append(grid(names, charges, right=("row", "epsilon")))
    more = f"; {len(accounts) - MOST} more accounts" if len(accounts) > MOST else ""
    where = "in memory: it goes with this process" if ledger.ephemeral else ledger.path.name
    note = f"{where}; {count} charges{more}; head {ledger.head()[:12]}"
    return panel("Ledger", *parts, note=note)


def _bar(account: Account) -> object:
    if account.epsilon is None:
        return word("no cap", BAD)
    share = account.spent / account.epsilon if account.epsilon else 1.0
    return bar(share, colour=BAD if account.left <= 0 else "#3a86b8")


def _left(account: Account) -> object:
    if account.frozen is not None:
        return word("frozen", BAD)
    return "no limit" if math.isinf(account.left) else shown_down(account.left)
