"""The tree of commands, each loaded when it is called."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

from confrere.cli.group import Group

#: Modules of commands in the order of the help, and the help of their commands in one line. They
#: stand here too because loading the modules takes seconds; a test compares them.
_HELP = {
    "demo": {
        "demo": "Show the main job: price, release, transfer to sixteen branches, cards and "
        "ledger.",
    },
    "studies": {
        "init": "Write a commented study file and a local file per party.",
        "check": "Check a study file, the local files beside it, and with --data a table's fit to "
        "the schema.",
        "price": "Say what a study would spend, by whom, and what would be left; touches no data.",
    },
    "fit": {
        "fit": "Learn what a study describes, for the parties that live here, and write the "
        "releases.",
    },
    "releases": {
        "predict": "Predict the rows of a table with a released model; spends nothing.",
        "verify": "Check that a release is whole, signed by whom you say, and consistent with "
        "itself.",
        "release": "Show a release's card, make its page, add a signature.",
    },
    "ledgers": {"ledger": "Show, verify or export what was spent; open and change accounts."},
    "schemas": {"schema": "Draft, show and compare public schemas."},
    "audit": {
        "audit": "Bound epsilon from below on made-up neighbours; exit code 5 if a promise is "
        "refuted.",
    },
    "planning": {
        "plan": "Say what to expect of a private model before any data are touched; spends "
        "nothing.",
    },
    "reproduce": {
        "reproduce": "Run the papers' experiments: what has no record yet is run, and everything "
        "is reported.",
    },
    "key_files": {"keys": "Make keys, and show fingerprints to compare by telephone."},
    "deployment": {
        "approve": "Agree to what a study asks of a party, once, at its price.",
        "coordinator": "Ask the parties of a study, write the release of what they gave, and hand "
        "it to them.",
        "party": "Answer a study's coordinator: what was approved, and nothing else.",
        "status": "Say how far a coordinator or a party is.",
    },
    "version": {"version": "Print versions and the catalogue of methods."},
}
_MODULES = {name: module for module, commands in _HELP.items() for name in commands}


class LazyGroup(Group):
    """Commands by their names; a module is imported for the command that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a stand-in that knows its help and nothing else."""
        module = _MODULES.get(cmd_name)
        return None if module is None else TyperCommand(cmd_name, help=_HELP[module][cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named first, with its arguments, and the other words."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Return a command with its arguments, or a group of them."""
    tree = typer.Typer()
    importlib.import_module(f"confrere.cli.commands.{_MODULES[name]}").add_to(tree)
    return get_group(tree).commands[name]


app = typer.Typer(
    name="confrere", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"confrere {importlib.metadata.version('confrere')}")
        raise typer.Exit


@app.callback()
def confrere(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Organisations learn a classifier together without giving away their people."""
