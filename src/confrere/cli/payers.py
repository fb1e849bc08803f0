"""Who pays, and that somebody agrees: ledgers that commands open, and amounts that are typed."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import NotConfirmed, aside
from confrere.cli.views import facts
from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.ledger.accounts import amount, shown
from confrere.ledger.witness import no_ledger

OwnersLedger = Annotated[
    Path, typer.Option(envvar="CONFRERE_LEDGER", help="The ledger of the table's owner.")
]
PayingAccount = Annotated[
    str | None, typer.Option(help="The account that pays; may be left out if there is one.")
]
SpendUnasked = Annotated[bool, typer.Option("--yes", help="Spend without asking.")]


def existing_ledger(path: Path) -> Ledger:
    """Open a ledger that is there: opening would make a new one, and a look must not."""
    if not path.is_file():
        raise no_ledger(path)
    return Ledger(path)


def agreed_payer(
    book: Ledger,
    account: str | None,
    price: Guarantee,
    told: Mapping[str, str],
    *,
    what: str,
    yes: bool,
) -> str:
    """Return the account that pays, once it covers the price and somebody has agreed to it."""
    payer = book.account_for(account, price)
    if not book.affords(payer, price):
        raise BudgetExceeded(payer, price.epsilon, book.left(payer))
    spends = f"epsilon {shown(price.epsilon)} on {payer}, {amount(book.left(payer))} left"
    aside().print(facts(f"Price of the {what}", {"spends": spends, **told}))
    if not yes:
        confirm(price.epsilon)
    return payer


def confirm(epsilon: float) -> None:
    """Have the amount typed; an empty input is a no."""
    typer.echo(f"Type {shown(epsilon)} to spend it: ", err=True, nl=False)
    typed = sys.stdin.readline().strip()
    try:
        agreed = math.isclose(float(typed), epsilon, rel_tol=1e-4)
    except ValueError:
        agreed = False
    if not agreed:
        raise NotConfirmed("the amount was not typed; nothing was spent.")
