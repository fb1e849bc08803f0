"""Whom to charge where nobody says."""

from __future__ import annotations

import os
from functools import cache

from confrere.guarantee import Guarantee
from confrere.ledger.ledger import Ledger
from confrere.ledger.logfile import ONE_AT_A_TIME


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
