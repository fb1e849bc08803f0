"""Options that several commands share: what is meant, who pays, and that somebody agrees."""

from __future__ import annotations

import getpass
import math
import sys
from collections.abc import Mapping, Sequence
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
from confrere.study import Study

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")]
Release = Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")]
Locals = Annotated[
    list[Path] | None,
    typer.Option(
        "--local",
        envvar="CONFRERE_LOCAL",
        help="A party's local file, or a folder of them; by default local.toml and local/ beside "
        "the study.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="PARTY=FILE", help="A party's table, before its local file's."),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger", envvar="CONFRERE_LEDGER", help="One ledger for all, before the local files'."
    ),
]
Auxiliary = Annotated[
    Path | None,
    typer.Option(help="The public rows that a study names by their hash, before the local file's."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="PARTY=FILE", help="A party's public key: it must have signed."),
]
ApprovedBy = Annotated[
    str | None, typer.Option("--name", help="Who agrees; by default the user's name.")
]
Reason = Annotated[str | None, typer.Option(help="Why; by default the study's purpose.")]
Justification = Annotated[
    str | None, typer.Option(help="Why this epsilon; by default what the study says.")
]


def approver(name: str | None) -> str:
    """Return who agrees: as told, or the user."""
    return name or getpass.getuser()


def reason_of(reason: str | None, study: Study) -> str:
    """Return why: as told, or what the study is for."""
    return (reason or study.purpose or study.title)[:200]


def pairs(texts: Sequence[str] | None, option: str, study: Study | None = None) -> dict[str, Path]:
    """Read ``PARTY=FILE``; in a study of one party, the file alone will do."""
    found: dict[str, Path] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not equals and study is not None and len(study.parties) == 1:
            name, path = study.parties[0].name, text
        if not name or not path:
            raise typer.BadParameter("must be PARTY=FILE.", param_hint=f"'{option}'")
        if name in found:
            raise typer.BadParameter(f"{name} is there twice.", param_hint=f"'{option}'")
        found[name] = Path(path)
    return found


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
