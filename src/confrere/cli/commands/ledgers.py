"""ledger: what was spent, whether the book is whole, and what its owner says about accounts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from confrere.cli.app import Answer, Option, command, confirm, said, tell
from confrere.errors import BudgetExceeded, InvalidParameter, NotALedger
from confrere.kernel.guarantee import Guarantee, Unit
from confrere.ledger import Account, Ledger, reset_witness, witnessed
from confrere.ledger.accounts import account_table, charge_table, owner_table, together_table
from confrere.ledger.witness import no_ledger
from confrere.views import Pairs, amount, shown

_LEDGER = Option("The ledger's file.", metavar="LEDGER", envvar="CONFRERE_LEDGER")
_ACCOUNT = Option("Its name.", metavar="ACCOUNT")
_REASON = "Why, in one line; it stays in the chain. Needed."


def existing_ledger(path: Path) -> Ledger:
    """Open a ledger that is there: opening would make a new one, and a look must not."""
    if path.is_dir():
        raise NotALedger(f"{path} is a folder; a ledger is a file.")
    if not path.is_file():
        raise no_ledger(path)
    return Ledger(path)


def agreed_payer(
    book: Ledger,
    account: str | None,
    cost: Guarantee,
    told: Mapping[str, str],
    *,
    what: str,
    yes: bool,
) -> str:
    """Return the account that pays, once it covers the cost and somebody has agreed to it."""
    payer = book.account_for(account, cost)
    if not book.affords(payer, cost):
        raise BudgetExceeded(payer, cost.epsilon, book.left(payer))
    spends = f"epsilon {shown(cost.epsilon)} on {payer}, {amount(book.left(payer))} left"
    tell(Pairs({"spends": spends, **told}, f"Privacy cost of the {what}"))
    if not yes:
        confirm(cost.epsilon)
    return payer


@command("ledger show")
def show(
    ledger: Annotated[Path, _LEDGER],
    *,
    account: Annotated[str | None, "Of one account only."] = None,
    rows: Annotated[int, Option("Charges on a page.", min=1, max=10_000)] = 20,
    page: Annotated[int, Option("Which page; the first has the last ones.", min=1)] = 1,
    delta: Annotated[
        float | None, "Also say what an account's charges cost together, at this delta."
    ] = None,
) -> Answer:
    """Show accounts, caps, what was spent and what is left; the last charges first.

    With --delta the smaller epsilon that all charges of an account have together; caps go on
    counting the plain sum. It needs the accounting extra.
    """
    book = existing_ledger(ledger)
    count = book.count(account)
    pages = max(1, math.ceil(count / rows))
    page = min(page, pages)
    entries = book.entries(account, last=rows, skip=rows * (page - 1))
    accounts = [one for one in book.accounts() if account in (None, one.name)]
    resets, decisions = book.resets(), book.decisions()
    head = book.head()
    together = {} if delta is None else {one.name: _together(book, one, delta) for one in accounts}
    return Answer(
        f"page {page} of {pages}, {count} charges; head {head}",
        {
            "ledger_id": book.ledger_id,
            "head": head,
            "accounts": accounts,
            "resets": resets,
            "decisions": decisions,
            "charges": count,
            "page": page,
            "pages": pages,
            "entries": entries,
            "together": together,
        },
        [
            account_table(accounts, "Accounts"),
            *([together_table(accounts, together)] if together else []),
            owner_table(accounts, resets, decisions),
            charge_table(entries, "Charges"),
        ],
    )


def _together(book: Ledger, account: Account, delta: float) -> Guarantee | None:
    """Return what all charges of an account promise together; None if there are none."""
    from confrere.accounting import total  # slow to import, and seldom asked for

    entries = book.entries(account.name)
    return total(entries, delta=delta) if entries else None


@command("ledger verify")
def verify(
    ledger: Annotated[Path, _LEDGER],
    *,
    head: Annotated[str | None, "A head kept elsewhere: it must be in the chain."] = None,
) -> Answer:
    """Check every row against its hash and the rows before it."""
    book = existing_ledger(ledger)
    count = book.verify(head=head)
    words = "{rows} rows verified: the chain is whole and none are gone since it was last here"
    return said(words, rows=count, head=book.head())


@command("ledger export")
def export(
    ledger: Annotated[Path, _LEDGER],
    *,
    form: Annotated[Literal["json", "csv"], Option("json or csv.", "--format")] = "json",
    out: Annotated[Path | None, "A file instead of the screen."] = None,
) -> Answer:
    """Copy the whole ledger as JSON or CSV."""
    book = existing_ledger(ledger)
    text = book.to_csv() if form == "csv" else book.to_json()
    if out is None:
        return Answer("", {"format": form, "content": text}, text=text)
    out.write_text(text, encoding="utf-8")
    return said("exported to {out}", out=out, format=form)


@command("ledger open")
def open_account(
    ledger: Annotated[Path, _LEDGER],
    account: Annotated[str, _ACCOUNT],
    *,
    epsilon: Annotated[float | None, "The cap on all epsilons together; none without it."] = None,
    delta: Annotated[float, "The cap on all deltas together."] = 0.0,
    unit: Annotated[Unit, "Whose presence is counted."] = Unit.RECORD,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"], "Which change of the data is counted."
    ] = "replace-one",
    period: Annotated[
        Literal["year"] | None, "The caps are on each year, not on all that is spent."
    ] = None,
    reason: Annotated[str | None, _REASON] = None,
) -> Answer:
    """Open an account."""
    why = _said(reason)
    book = Ledger(ledger)
    book.open_account(
        account,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        reason=why,
        period=period,
    )
    return _account(book, account, "is open")


@command("ledger raise")
def raise_cap(
    ledger: Annotated[Path, _LEDGER],
    account: Annotated[str, _ACCOUNT],
    *,
    epsilon: Annotated[float | None, "The cap from now on."] = None,
    delta: Annotated[float | None, "The cap on deltas from now on."] = None,
    reason: Annotated[str | None, _REASON] = None,
) -> Answer:
    """Let an account spend more; that it was raised is shown for ever."""
    book = existing_ledger(ledger)
    book.raise_cap(account, epsilon=epsilon, delta=delta, reason=_said(reason))
    return _account(book, account, "is raised")


@command("ledger freeze")
def freeze(
    ledger: Annotated[Path, _LEDGER],
    account: Annotated[str, _ACCOUNT],
    *,
    reason: Annotated[str | None, _REASON] = None,
) -> Answer:
    """Let nothing more be charged to an account, for good."""
    book = existing_ledger(ledger)
    book.freeze(account, reason=_said(reason))
    return _account(book, account, "is frozen")


@command("ledger witness")
def witness(
    ledger: Annotated[Path, _LEDGER],
    *,
    reset: Annotated[bool, "Go on from the file as it is; needs --reason."] = False,
    reason: Annotated[str | None, _REASON] = None,
) -> Answer:
    """Show what is remembered of a ledger elsewhere; on its owner's word, go on from the file.

    What is remembered as spent, and is not in the file, is booked as spent.
    """
    booked: dict[str, float] = {}
    if reset:
        booked = reset_witness(ledger, reason=_said(reason))
    elif not ledger.is_file() and witnessed(ledger)["kept"] is None:
        raise no_ledger(ledger)
    seen = witnessed(ledger)
    complaint = seen["complaint"]
    heads = {
        name: f"row {head.row}, {head.hash}, {head.time[:19]}" if head else "nothing"
        for name, head in ((name, seen[name]) for name in ("kept", "found"))
    }
    data = {"folder": seen["folder"], "agrees": complaint is None, "complaint": complaint}
    data |= {name: seen[name] and asdict(seen[name]) for name in heads}
    lost = ", ".join(f"epsilon {shown(spent)} on {name}" for name, spent in booked.items())
    told = f"booked as spent, for rows that are gone: {lost}" if lost else "nothing kept is missing"
    return Answer(
        complaint or told,
        {**data, "booked": booked},
        [Pairs({"kept in": seen["folder"], **heads}, "Witness")],
    )


def _account(book: Ledger, name: str, what: str) -> Answer:
    (one,) = (one for one in book.accounts() if one.name == name)
    data = {"account": one, "head": book.head()}
    return Answer(f"{name} {what}", data, [account_table([one], "Accounts"), owner_table([one])])


def _said(reason: str | None) -> str:
    if reason is None:
        raise InvalidParameter("--reason: say why, in one line; it stays in the chain.")
    return reason
