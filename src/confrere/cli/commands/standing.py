"""home, status and version: how things stand here."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.catalogue import CATALOGUE
from confrere.cli.envelope import Answer, command
from confrere.cli.options import pairs
from confrere.cli.views import account_table, entry_table, facts, listing
from confrere.errors import StudyError
from confrere.kernel.ledger import witness_folder
from confrere.ledger import Ledger, LedgerReader
from confrere.progress import read_progress, summary
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


@command("status")
def status(
    folder: Annotated[Path, typer.Argument(help="A coordinator's or a party's folder.")],
) -> Answer:
    """Say how far a coordinator or a party is."""
    told = read_progress(folder)
    if told is None:
        raise StudyError(f"{folder.name} is neither a coordinator's nor a party's folder.")
    told = {**told, **summary(told)}
    if told["role"] == "party":
        return _party_status(told)
    seen = {"state": told["state"], **told["parties"], "since": told["at"], **told["counts"]}
    return Answer("", told, [facts("Coordinator", seen), _step_table(told)])


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
        [facts("Party", seen), _step_table(told), entry_table(entries)],
    )


def _step_table(told: dict[str, Any]) -> Any:
    """Show who was asked what, and how that ended."""
    table = listing("Steps", "question", "party", "state", "epsilon", "ledger row", "why")
    for step in told["steps"]:
        for name, one in step["parties"].items():
            table.add_row(
                f"{step['operation']} {step['step']}",
                name,
                one["state"],
                f"{one['epsilon']:g}" if "epsilon" in one else "",
                str(one.get("row", "")),
                one.get("code", ""),
            )
    return table


_PACKAGES = ("confrere", "numpy", "scipy", "scikit-learn", "pandas", "cryptography", "flwr")


@command("version")
def version() -> Answer:
    """Print versions and the catalogue of methods."""
    versions = {"python": platform.python_version()}
    versions |= {package: _installed(package) for package in _PACKAGES}
    table = listing("Methods", "method", "what", "paper", "proof")
    for method in CATALOGUE.values():
        paper = f"{method.paper}, {method.algorithm}" if method.algorithm else method.paper
        table.add_row(method.name, method.title, paper, method.proof or "spends nothing")
    return Answer(
        ", ".join(f"{name} {number}" for name, number in versions.items()),
        {"versions": versions, "methods": [method.to_dict() for method in CATALOGUE.values()]},
        [table],
    )


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
