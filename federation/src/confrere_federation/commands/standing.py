"""home and status: how things stand here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

from confrere.cli.envelope import Answer, Option, command
from confrere.cli.options import pairs
from confrere.errors import StudyError
from confrere.ledger import Account, Ledger, LedgerReader
from confrere.ledger.accounts import account_table, charge_table
from confrere.ledger.witness import witness_folder
from confrere.views import Pairs, Table
from confrere_federation.progress import read_progress, summary
from confrere_federation.studies.study_file import home_folder, open_home


@command("home")
def home(
    folder: Annotated[
        Path | None,
        Option("By default CONFRERE_HOME, or confrere in the user's data folder.", metavar="DIR"),
    ] = None,
    *,
    data: Annotated[
        list[str] | None, Option("Name a table: its ledger is for good.", metavar="NAME=FILE")
    ] = None,
    unit_column: Annotated[str | None, "The column that says whose a row of it is."] = None,
    service: Annotated[
        bool, "Make the user and the folders that units for systemd name; by root."
    ] = False,
) -> Answer:
    """Make an organisation's home, name its data sets, and show what was spent on each."""
    if service:
        return _make_service()
    own = open_home(folder or home_folder())
    for name, table in pairs(data, "--data").items():
        own.add(name, table, unit_column)
    books = {name: _accounts(own.ledger_of(name)) for name in own.datasets()}
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
            Pairs(told, f"Home {own.folder}"),
            account_table((one for each in books.values() for one in each), "Accounts"),
        ],
    )


def _accounts(ledger: Path) -> list[Account]:
    return LedgerReader.look(ledger).accounts() if ledger.is_file() else []


def _make_service() -> Answer:
    from confrere_federation.kits import SERVICE, service_commands

    for words in service_commands():
        if os.geteuid() != 0:
            raise StudyError("--service: root makes a user and folders: give it by sudo.")
        # Ours, word by word; 9 says that the user is there.
        if subprocess.run(words, check=False).returncode not in (0, 9):  # noqa: S603
            raise StudyError(f"--service: it ended there: {' '.join(words)}.")
    return Answer(f"the user confrere and its home are made; next: CONFRERE_HOME={SERVICE}")


@command("status")
def status(folder: Annotated[Path, "A coordinator's or a party's folder."]) -> Answer:
    """Say how far a coordinator or a party is."""
    told = read_progress(folder)
    if told is None:
        raise StudyError(f"{folder.name} is neither a coordinator's nor a party's folder.")
    told = {**told, **summary(told)}
    if told["role"] == "party":
        return _party_status(told)
    seen = {"state": told["state"], **told["parties"], "since": told["at"], **told["counts"]}
    return Answer("", told, [Pairs(seen, "Coordinator"), _step_table(told)])


def _party_status(told: dict[str, Any]) -> Answer:
    path, account = Path(str(told.get("ledger"))), str(told.get("account"))
    if not path.is_file():
        raise StudyError("the party's ledger is not there.")
    ledger = Ledger(path)
    entries = ledger.entries(account)
    seen = {
        "party": told["party"],
        "state": told["state"],
        "since": told["at"],
        "account": account,
        "left": ledger.left(account),
    }
    return Answer(
        "",
        {**told, "entries": [entry.to_dict() for entry in entries]},
        [Pairs(seen, "Party"), _step_table(told), charge_table(entries, "Charges")],
    )


def _step_table(told: dict[str, Any]) -> Table:
    """Show who was asked what, and how that ended."""
    rows = [
        (
            f"{step['operation']} {step['step']}",
            name,
            one["state"],
            f"{one['epsilon']:g}" if "epsilon" in one else "",
            one.get("row", ""),
            one.get("code", ""),
        )
        for step in told["steps"]
        for name, one in step["parties"].items()
    ]
    columns = ("question", "party", "state", "epsilon", "ledger row", "why")
    return Table(columns, rows, title="Steps")
