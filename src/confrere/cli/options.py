"""What several commands do: read pairs, find who pays, and have somebody agree to a price."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from confrere.cli.envelope import NotConfirmed, tell
from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.ledger.witness import no_ledger
from confrere.views import Pairs, amount, shown


def pairs(texts: Sequence[str] | None, option: str, alone: str = "") -> dict[str, Path]:
    """Read ``PARTY=FILE``; where there is one party ``alone``, the file alone will do."""
    found: dict[str, Path] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not equals and alone:
            name, path = alone, text
        if not name or not path or name in found:
            wrong = f"{name} is there twice." if name in found else "must be PARTY=FILE."
            raise typer.BadParameter(wrong, param_hint=f"'{option}'")
        found[name] = Path(path)
    return found


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
    tell(Pairs({"spends": spends, **told}, f"Price of the {what}"))
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
