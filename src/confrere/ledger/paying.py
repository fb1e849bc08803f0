"""Who pays; then pay, act and say how it ended: the one place where these stand together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from confrere.errors import LedgerError
from confrere.guarantee import Guarantee
from confrere.ledger.accounts import Limit
from confrere.ledger.entries import Receipt
from confrere.ledger.facts import ChargeApproval
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


@contextmanager
def paying(
    ledger: Ledger,
    account: str | None,
    guarantee: Guarantee,
    *,
    purpose: str,
    detail: Mapping[str, Any] | None = None,
    simulated: bool = False,
    key: str | None = None,
    study: tuple[str, str] | None = None,
    approval: ChargeApproval | None = None,
    limit: Limit | None = None,
    resumes: bool = False,
) -> Iterator[Receipt]:
    """Charge, let the block act, and mark the charge released, or failed if the block raised.

    The price is on disk before the block begins, and stays charged however it ends. A block that
    has a digest to leave calls ``ledger.mark_released(receipt, digest=...)`` itself; what it
    marked is left as it is.

    Parameters
    ----------
    ledger, account, guarantee, purpose, detail, simulated, key, study, approval, limit
        As in :meth:`Ledger.charge`.
    resumes : bool, default=False
        Whether a block that was interrupted is finished later under its key. An interrupt (what is
        no :class:`Exception`, as from Ctrl-C) then leaves the charge open, as a kill would.

    Yields
    ------
    Receipt

    Raises
    ------
    ConfrereError
        What :meth:`Ledger.charge` raises: nothing was spent then.

    Examples
    --------
    >>> from confrere import Guarantee, Ledger
    >>> from confrere.ledger import paying
    >>> ledger = Ledger()
    >>> ledger.open_account("study", epsilon=1.0)
    >>> with paying(ledger, "study", Guarantee(0.5), purpose="a count") as receipt:
    ...     pass  # draw noise here
    >>> ledger.entries()[0].state
    'released'
    """
    receipt = ledger.charge(
        account,
        guarantee,
        purpose=purpose,
        detail=detail,
        simulated=simulated,
        key=key,
        study=study,
        approval=approval,
        limit=limit,
    )
    try:
        yield receipt
    except BaseException as error:
        if isinstance(error, Exception) or not resumes:
            _fail(ledger, receipt, error)
        raise
    if ledger.marked_last != receipt.row and ledger.entry(receipt).state == "open":
        ledger.mark_released(receipt)


def _fail(ledger: Ledger, receipt: Receipt, error: BaseException) -> None:
    # What went wrong must reach the caller even if the ledger cannot be told: the charge then
    # stays open, which counts the same.
    name = type(error).__name__
    code = name if re.fullmatch(r"[A-Za-z]\w{0,63}", name, re.ASCII) else "Error"
    try:
        if ledger.entry(receipt).state == "open":
            ledger.mark_failed(receipt, code=code)
    except LedgerError as second:
        error.add_note(f"The ledger could not be told that row {receipt.row} failed: {second}")
