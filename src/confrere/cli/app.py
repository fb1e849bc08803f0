"""The tree of commands, each loaded when it is called.

Usage errors and interrupts take the same form as everything else.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from confrere.cli.envelope import COMMANDS, ExitCode, ending_of, report, runnable
from confrere.errors import NotInstalled


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
            _check_words(given)
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


def _check_words(words: Sequence[str]) -> None:
    """Refuse what names no file, account or party, before any command takes it for one."""
    for word in words:
        if not word or (word.startswith("--") and word.endswith("=")):
            raise typer.BadParameter("an argument is empty; say what is meant, or leave it out.")
        if re.search("[\0\ud800-\udfff]", word):
            raise typer.BadParameter("an argument holds a zero, or bytes that are no UTF-8.")


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
        listed = getattr(getattr(context, "command", None), "list_commands", None)
        verbs = [] if listed is None else list(listed(context))
        if not message:  # a group without a verb: its help has just been printed
            message = f"{where} needs one of {', '.join(verbs)}"
            hint = f"for instance: {where} {verbs[0]}" if verbs else hint
        near = _near(message, verbs, context)
        if near:
            message, hint = f"{message}; did you mean {near!r}?", f"{where} {near}"
    report(code, message, error_code=name, hint=hint, as_json=as_json)
    return code


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


#: Commands in the order of the help, and the module that each is in: one of ours, or of a wheel.
_MODULES = {
    "demo": "demo",
    **dict.fromkeys(("init", "check", "price", "fit"), ""),
    "evaluate": "evaluation",
    **dict.fromkeys(("predict", "verify", "release"), "releases"),
    "ledger": "ledgers",
    "schema": "schemas",
    "audit": "audit",
    "plan": "planning",
    "choose": "planning",
    **dict.fromkeys(("home", "keys", "provision", "kit", "approve", "coordinator"), ""),
    **dict.fromkeys(("party", "status", "desk"), ""),
    "version": "version",
}

#: Those that are groups of commands.
_GROUPS = {
    "release": "Show a release's card, make its page or its graph, add a signature.",
    "ledger": "Show, verify or export what was spent; open and change accounts.",
    "schema": "Write, draft, show and compare public schemas.",
}


class LazyGroup(Group):
    """Commands by their names; a module is imported for the command that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a stand-in that knows its help and nothing else."""
        return TyperCommand(cmd_name, help=help_of(cmd_name)) if cmd_name in _MODULES else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named first, with its arguments, and the other words."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and load_command(str(name)), rest


def home_of(name: str) -> tuple[str, str, str] | None:
    """Return a command's package and module, and what its group does; None if not installed."""
    if _MODULES[name]:
        return "confrere.cli.commands", _MODULES[name], _GROUPS.get(name, "")
    # Wheels say which package has commands: its ``MODULES`` and ``GROUPS`` are as ours.
    for one in importlib.metadata.entry_points(group="confrere.commands"):
        package = one.load()
        if name in package.MODULES:
            return package.__name__, package.MODULES[name], package.GROUPS.get(name, "")
    return None


def help_of(name: str) -> str:
    """Return what a command does, in one line; its module, which takes seconds, is not loaded."""
    package, module, group = home_of(name) or ("", "", "Needs the wheel confrere-federation.")
    if group:
        return group
    source = files(package).joinpath(f"{module}.py").read_bytes()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def load_command(name: str) -> Any:
    """Return a command with its arguments, or a group of them."""
    home = home_of(name)
    if home is None:
        raise NotInstalled(f"{name} is between organisations: pip install 'confrere[federation]'.")
    package, module, told = home
    importlib.import_module(f"{package}.{module}")
    tree = group = typer.Typer()
    if told:
        group = typer.Typer(help=told)
        tree.add_typer(group, name=name, no_args_is_help=True)
    for words, one in COMMANDS.items():
        first, *others = words.split()
        if first == name:
            group.command(others[0] if others else name)(runnable(one))
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
