"""ledger: what was spent, whether the book is whole, and a copy of it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.answers import Answer, command
from confrere.cli.views import account_table, entry_table
from confrere.errors import NotALedger
from confrere.ledger import Ledger

LedgerPath = Annotated[
    Path, typer.Argument(metavar="LEDGER", envvar="CONFRERE_LEDGER", help="The ledger's file.")
]


class Form(StrEnum):
    """In which form a ledger is exported."""

    JSON = "json"
    CSV = "csv"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    ledger = typer.Typer(help="Show, verify or export what was spent.")
    app.add_typer(ledger, name="ledger", no_args_is_help=True)
    command(ledger, "show")(show)
    command(ledger, "verify")(verify)
    command(ledger, "export")(export)


def show(
    ledger: LedgerPath,
    account: Annotated[str | None, typer.Option(help="Of one account only.")] = None,
) -> Answer:
    """Show accounts, caps, what was spent and what is left."""
    book = _opened(ledger)
    entries = book.entries(account)
    accounts = [one for one in book.accounts() if account in (None, one.name)]
    return Answer(
        f"head {book.head()}",
        json.loads(book.to_json()) | {"entries": [entry.to_dict() for entry in entries]},
        [account_table(accounts), entry_table(entries)],
    )


def verify(
    ledger: LedgerPath,
    head: Annotated[
        str | None, typer.Option(help="A head kept elsewhere: it must be in the chain.")
    ] = None,
) -> Answer:
    """Check every row against its hash and the rows before it."""
    book = _opened(ledger)
    count = book.verify(head=head)
    message = f"{count} rows verified: the chain is whole"
    if head is None:
        message += "; that none were cut from its end only --head can show"
    return Answer(message, {"rows": count, "head": book.head()})


def export(
    ledger: LedgerPath,
    form: Annotated[Form, typer.Option("--format", help="json or csv.")] = Form.JSON,
    out: Annotated[Path | None, typer.Option(help="A file instead of the screen.")] = None,
) -> Answer:
    """Copy the whole ledger as JSON or CSV."""
    book = _opened(ledger)
    text = book.to_csv() if form is Form.CSV else book.to_json()
    if out is None:
        return Answer("", {"format": str(form), "content": text}, text=text)
    out.write_text(text, encoding="utf-8")
    return Answer(f"exported to {out}", {"format": str(form), "out": str(out)})


def _opened(path: Path) -> Ledger:
    # Opening makes a new ledger, and a look must not.
    if not path.is_file():
        raise NotALedger(f"there is no ledger {path.name}.")
    return Ledger(path)
