"""home: an organisation's keys, policy, data sets and what all studies spent on each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command
from confrere.cli.options import pairs
from confrere.cli.views import account_table, facts
from confrere.kernel.ledger import witness_folder
from confrere.ledger import LedgerReader
from confrere.study.local_file import home_folder, open_home


@command("home")
def home(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="By default CONFRERE_HOME, or confrere in the user's data folder."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="NAME=FILE", help="Name a table: its ledger is for good."),
    ] = None,
    unit_column: Annotated[
        str | None, typer.Option(help="The column that says whose a row of it is.")
    ] = None,
) -> Answer:
    """Make an organisation's home, name its data sets, and show what was spent on each."""
    own = open_home(folder or home_folder())
    for name, table in pairs(data, "--data").items():
        own.add(name, table, unit_column)
    books = {
        name: LedgerReader.look(own.ledger_of(name)).accounts()
        if own.ledger_of(name).is_file()
        else []
        for name in own.datasets()
    }
    studies = sorted(one.parent.name for one in own.studies.glob("*/study.toml"))
    told = {
        "keys": own.keys,
        "policy": own.folder / "policy.toml",
        "data sets": ", ".join(books) or "none yet: confrere home --data NAME=FILE",
        "studies": ", ".join(studies) or "none yet: confrere kit open KIT --fingerprint SHA256:...",
        "witness": witness_folder(),
    }
    return Answer(
        f"the home is {own.folder}",
        {
            "home": str(own.folder),
            "witness": str(witness_folder()),
            "datasets": {
                name: {
                    "ledger": str(own.ledger_of(name)),
                    "accounts": [one.to_dict() for one in accounts],
                }
                for name, accounts in books.items()
            },
            "studies": studies,
        },
        [
            facts(f"Home {own.folder}", told),
            account_table(one for accounts in books.values() for one in accounts),
        ],
    )
