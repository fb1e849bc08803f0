"""What several commands do: read pairs, find who pays, and have somebody agree to a price."""

from __future__ import annotations

import getpass
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from confrere.cli.envelope import NotConfirmed, tell
from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.ledger.witness import no_ledger
from confrere.study import Study
from confrere.views import Pairs, amount, shown


def words_of(
    name: str | None, reason: str | None, justification: str | None, study: Study
) -> dict[str, Any]:
    """Return who agrees and why: as told, or the user, and what the study says."""
    return {
        "name": name or getpass.getuser(),
        "reason": (reason or study.purpose or study.title)[:200],
        "justification": justification or study.promise.justification,
    }


def pairs(texts: Sequence[str] | None, option: str, study: Study | None = None) -> dict[str, Path]:
    """Read ``PARTY=FILE``; in a study of one party, the file alone will do."""
    found: dict[str, Path] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not equals and study is not None and len(study.parties) == 1:
            name, path = study.parties[0].name, text
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
