"""The tree of commands, each loaded when it is called.

Usage errors and interrupts take the same form as everything else.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from confrere.cli.envelope import ExitCode, ending_of, report


class Group(TyperGroup):
    """A group of commands whose every ending has a documented exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; in standalone mode, exit with its code."""
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(
                given,
                prog_name=prog_name,
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except BrokenPipeError:
            # Whoever read us has gone; nothing more can be said, not even at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = ExitCode.FAILED
        except (KeyboardInterrupt, typer.Abort):
            code = ExitCode.INTERRUPTED
            report(
                code,
                "interrupted",
                error_code="Interrupted",
                hint="what was charged stays charged: see the ledger",
                as_json="--json" in given,
            )
        except Exception as error:
            if "--debug" in given:
                traceback.print_exc()
            code = _report(error, prog_name or "confrere", as_json="--json" in given)
        code = int(code) if isinstance(code, int) else int(ExitCode.OK)
        if standalone_mode:
            sys.exit(code)
        return code


def _report(error: Exception, program: str, *, as_json: bool) -> ExitCode:
    """Say what the parser found; whatever else comes this far is told by its class alone."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        code, message, hint = ending_of(error)
        name = type(error).__name__
    else:
        code, name = ExitCode.USAGE, "UsageError"
        context = getattr(error, "ctx", None)
        where = program if context is None else context.command_path
        hint = f"{where} --help"
        # The parser's own suggestions come twice, or not at all.
        message = re.sub(r"[.?]? Did you mean.*", "", " ".join(format_message().split()))
        message = message.rstrip(".")
        verbs = _verbs(context)
        if not message:  # a group without a verb: its help has just been printed
            message = f"{where} needs one of {', '.join(verbs)}"
            hint = f"for instance: {where} {verbs[0]}" if verbs else hint
        near = _near(message, verbs, context)
        if near:
            message, hint = f"{message}; did you mean {near!r}?", f"{where} {near}"
    report(code, message, error_code=name, hint=hint, as_json=as_json)
    return code


def _verbs(context: Any) -> list[str]:
    listed = getattr(getattr(context, "command", None), "list_commands", None)
    return [] if listed is None else list(listed(context))


def _near(message: str, verbs: list[str], context: Any) -> str | None:
    """Return the command or option that an unknown one was probably meant to be."""
    typed = re.search(r"No such (command|option):? '?(-{0,2}[^'\s]+)", message)
    if typed is None:
        return None
    known = verbs
    if typed[1] == "option":
        own = getattr(getattr(context, "command", None), "params", [])
        known = [name for one in own for name in (*one.opts, *one.secondary_opts)]
    return next(iter(get_close_matches(typed[2], known, n=1)), None)


#: Modules of commands in the order of the help, and the help of their commands in one line. They
#: stand here too because loading the modules takes seconds; a test compares them.
_HELP = {
    "demo": {
        "demo": "Show the main job: price, release, transfer to sixteen branches, cards and "
        "ledger.",
    },
    "studies": {
        "init": "Write a commented study file and a local file per party.",
        "check": "Check a study file, the local files beside it, and how the parties' tables fit "
        "the schema.",
        "price": "Say what a study would spend, by whom, and what would be left; touches no data.",
    },
    "fit": {
        "fit": "Learn what a study describes, for the parties that live here, and write the "
        "releases.",
    },
    "evaluation": {
        "evaluate": "Measure accuracy, AUC and calibration on private rows, with intervals, for an "
        "epsilon.",
    },
    "releases": {
        "predict": "Predict the raw rows of a table with a released model; spends nothing.",
        "verify": "Check that a release is whole, signed by whom you say, and consistent with "
        "itself.",
        "release": "Show a release's card, make its page or its graph, add a signature.",
    },
    "ledgers": {"ledger": "Show, verify or export what was spent; open and change accounts."},
    "schemas": {"schema": "Write, draft, show and compare public schemas."},
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
    "provisioning": {
        "provision": "Make a signed kit for every participant: study, certificates, local file, "
        "unit, README.",
        "kit": "Look into a kit, or open it in its participant's folder.",
    },
    "deployment": {
        "approve": "Agree to what a study asks of a party, once, at its price.",
        "coordinator": "Ask the parties of a study, write the release of what they gave, and hand "
        "it to them.",
        "party": "Answer a study's coordinator: what was approved, and nothing else.",
    },
    "status": {"status": "Say how far a coordinator or a party is."},
    "desk": {
        "desk": "Show budgets, waiting studies, runs and releases in a browser; approve or refuse "
        "studies.",
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
