"""status: how far a coordinator or a party is, for people and for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.cli.envelope import Answer, command
from confrere.cli.views import entry_table, facts, listing
from confrere.errors import StudyError
from confrere.ledger import Ledger
from confrere.progress import read_progress, summary


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
