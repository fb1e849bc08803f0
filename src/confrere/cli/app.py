"""The tree of commands, each loaded when it is called; and one way out of every one of them.

For people on the screen, for programs one JSON envelope; exit codes are what a script can tell
apart. Usage errors and interrupts take the same form as everything else.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import inspect
import json
import logging
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from confrere import errors
from confrere.views import Word, shown, terminal


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    BUDGET = 4
    VERIFICATION = 5
    FEDERATION = 6
    NOT_CONFIRMED = 7
    INTERRUPTED = 130


class NotConfirmed(errors.ConfrereError):
    """The amount was not typed: nothing was spent."""


# The first class that fits decides; the order is from the particular to the general.
_ENDINGS: tuple[tuple[type[BaseException], ExitCode, str], ...] = (
    (NotConfirmed, ExitCode.NOT_CONFIRMED, "type the amount as shown, or give --yes"),
    (errors.BudgetExceeded, ExitCode.BUDGET, "see what was spent: confrere ledger show LEDGER"),
    (errors.StudyRefused, ExitCode.BUDGET, "confrere approve STUDY, by who may lift it"),
    (errors.AccountFrozen, ExitCode.BUDGET, "open another account, or ask the owner of this one"),
    (errors.WitnessMismatch, ExitCode.VERIFICATION, "see both: confrere ledger witness LEDGER"),
    (errors.LedgerTampered, ExitCode.VERIFICATION, "compare with a head kept elsewhere"),
    (errors.SimulatedRelease, ExitCode.VERIFICATION, "confrere release show, to look at it"),
    (errors.ReleaseError, ExitCode.VERIFICATION, "do not use it; ask the sender again"),
    (errors.EngineFailed, ExitCode.FEDERATION, "then start it again: it goes on where it was"),
    (errors.QuorumMissed, ExitCode.FEDERATION, "see each party's own log for the reason"),
    (errors.FederationError, ExitCode.FEDERATION, "correct what the message names"),
    (errors.StudyError, ExitCode.INVALID, "correct the file, then: confrere check STUDY"),
    (errors.SchemaError, ExitCode.INVALID, "correct the public facts; data are never consulted"),
    (errors.DataSetError, ExitCode.INVALID, "see where data are looked for: CONFRERE_DATA"),
    (errors.NotInstalled, ExitCode.INVALID, "then run it again"),
    (errors.NotALedger, ExitCode.INVALID, "give the path of a ledger"),
    (errors.UnknownAccount, ExitCode.INVALID, "see the accounts: confrere ledger show LEDGER"),
    (errors.LedgerError, ExitCode.FAILED, "see the entries: confrere ledger show LEDGER"),
    (errors.ConfrereError, ExitCode.INVALID, "correct what the message names"),
    (OSError, ExitCode.FAILED, "check the path and its permissions"),
    (KeyboardInterrupt, ExitCode.INTERRUPTED, "what was charged stays charged: see the ledger"),
    (typer.Abort, ExitCode.INTERRUPTED, "what was charged stays charged: see the ledger"),
)


def ending_of(error: BaseException, program: str = "confrere") -> Answer:
    """Return how a command ends by an error: a code, one line about it, and the next step.

    Errors that are not ours might quote data: of them only the class is named.
    """
    name, format_message = type(error).__name__, getattr(error, "format_message", None)
    if format_message is not None:
        told = " ".join(format_message().split())  # the parser's suggestion may come twice
        told = re.sub(r"\(?(Did you mean .*?\?).*", r"\1", told).rstrip(".")
        return _usage(error, told, program)
    for kind, code, hint in _ENDINGS:
        if isinstance(error, kind):
            own = error.hint if isinstance(error, errors.ConfrereError) else ""
            name = "Interrupted" if code is ExitCode.INTERRUPTED else name
            told = _line(error)
            hint = "correct what the message names" if told.startswith("--") else hint
            return Answer(told, exit_code=code, error_code=name, hint=own or hint)
    again = "run it again with --debug"
    return Answer(f"unexpected {name}", exit_code=ExitCode.FAILED, error_code=name, hint=again)


def _usage(error: BaseException, message: str, program: str) -> Answer:
    """Return what the parser found."""
    context = getattr(error, "ctx", None)
    where = program if context is None else context.command_path
    hint = f"{where} --help"
    listed = getattr(getattr(context, "command", None), "list_commands", None)
    verbs = [] if listed is None else list(listed(context))
    if not message:  # a group without a verb: its help has just been printed
        message = f"{where} needs a command"
        hint = f"for instance: {where} {verbs[0]}" if verbs else hint
    return Answer(message, exit_code=ExitCode.USAGE, error_code="UsageError", hint=hint)


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted"
    if isinstance(error, OSError):
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        return f"{error.strerror or type(error).__name__}{where}"
    return " ".join(str(error).split())


SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class Answer:
    message: str  #: In one line
    #: For programs: what JSON has words for, paths, and what says by ``to_dict`` what it is.
    data: Mapping[str, object] = field(default_factory=dict)
    shown: Sequence[object] = ()  #: For people: what :mod:`confrere.views` describes
    text: str = ""  #: For people and pipes alike, printed as it is
    exit_code: ExitCode = ExitCode.OK
    #: Set where the answer itself is bad news: a refuted claim, schemas that differ.
    error_code: str | None = None
    hint: str | None = None  #: The next step, where the command has failed


def said(words: str, **data: object) -> Answer:
    """Return one line with what it says by name, for people and for programs alike."""
    return Answer(words.format(**data), data)


def console(*, aside: bool = True) -> Console:
    """Return where prompts, progress and warnings go, never into a program's input; or results."""
    return Console(stderr=aside, highlight=False, markup=False)


def tell(*things: object, aside: bool = True) -> None:
    place = console(aside=aside)
    for thing in things:
        for one in terminal(thing):
            place.print(one, soft_wrap=aside and isinstance(thing, str))


def wrote(*paths: object) -> list[Word]:
    return [Word("wrote", "good", f" {path}") for path in paths]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, Path]:
    """Read ``NAME=PATH``."""
    found: dict[str, Path] = {}
    for text in texts or ():
        name, _, path = text.partition("=")
        if not name or not path or name in found:
            wrong = f"{name} is there twice." if name in found else "must be NAME=PATH."
            raise typer.BadParameter(wrong, param_hint=f"'{option}'")
        found[name] = Path(path)
    return found


def confirm(epsilon: float) -> None:
    """Have the amount typed; an empty input is a no."""
    typer.echo(f"Type {shown(epsilon)} to approve this privacy cost: ", err=True, nl=False)
    typed = sys.stdin.readline().strip()
    try:
        agreed = math.isclose(float(typed), epsilon, rel_tol=1e-4)
    except ValueError:
        agreed = False
    if not agreed:
        raise NotConfirmed("the amount was not typed; nothing was spent.")


class Option:
    """What an annotation says about a parameter: its meaning, and what else the parser is told.

    Where that is all, the meaning alone will do. Parameters without a star before them are
    arguments, the others options; ``name`` is what an option is called that is not called like its
    parameter.
    """

    def __init__(self, meaning: str, name: str = "", **facts: Any) -> None:
        self.name, self.facts = name, {"help": meaning, **facts}


def _annotated(parameter: inspect.Parameter) -> inspect.Parameter:
    kind = parameter.annotation
    told = SHARED.get(parameter.name, "")
    if get_origin(kind) is Annotated:
        kind, told = get_args(kind)
    option = Option(told) if isinstance(told, str) else told
    own = option.name or f"--{parameter.name.replace('_', '-')}"
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return parameter.replace(annotation=Annotated[kind, typer.Option(own, **option.facts)])
    return parameter.replace(annotation=Annotated[kind, typer.Argument(**option.facts)])


def runnable(function: Callable[..., Answer]) -> Callable[..., None]:
    """Return what the parser calls: with ``--json`` and ``--debug``, and an exit code."""

    @functools.wraps(function)
    def run(*args: object, as_json: bool, debug: bool, **kwargs: object) -> None:  # noqa: ARG001
        logging.getLogger("confrere").addHandler(logging.NullHandler())
        try:
            answer = function(*args, **kwargs)
        except KeyboardInterrupt as stop:  # of which the parser would say nothing
            answer = ending_of(stop)
        raise typer.Exit(_show(answer, as_json=as_json))

    signature = inspect.signature(function, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    more = (inspect.Parameter(name, kind, default=False, annotation=bool) for name in _EVERYWHERE)
    parameters = [_annotated(one) for one in (*signature.parameters.values(), *more)]
    told = signature.replace(parameters=parameters, return_annotation=None)
    vars(run)["__signature__"] = told
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


#: What every command takes besides its own arguments.
_EVERYWHERE = ("as_json", "debug")

#: What parameters mean in every command that does not say otherwise.
SHARED: dict[str, str | Option] = {
    "as_json": Option("Print one JSON document on standard output.", "--json"),
    "debug": "Show the whole trace of an error.",
    "study": Option("The study file.", metavar="STUDY"),
    "release": Option("The folder of a release.", metavar="RELEASE"),
    "local": Option(
        "A party's local file, or a folder of them; by default local.toml and local/ beside the "
        "study.",
        envvar="CONFRERE_LOCAL",
    ),
    "account": "The account that pays; may be left out if there is one.",
    "key": Option("A party's public key: it must have signed.", metavar="PARTY=FILE"),
    "auxiliary": "The public rows that a study names by their hash, before the local file's.",
    "name": "Who agrees; by default the user's name.",
    "reason": "Why; by default the study's purpose.",
    "justification": "Why this epsilon; by default what the study says.",
    "label": "The label's column.",
    "positive": "A value that counts as positive.",
    "yes": "Spend without asking.",
}

#: The commands of those modules that were loaded, by the words that call them: "ledger show".
COMMANDS: dict[str, Callable[..., Answer]] = {}

C = TypeVar("C", bound=Callable[..., Answer])


def command(words: str) -> Callable[[C], C]:
    """Have a function called by these words; its annotations say what its parameters mean."""

    def register(function: C) -> C:
        COMMANDS[words] = function
        return function

    return register


def _show(answer: Answer, *, as_json: bool) -> int:
    code = int(answer.exit_code)
    if as_json:
        told = {
            "schema_version": SCHEMA_VERSION,
            "status": "ok" if code == ExitCode.OK else "error",
            "exit_code": code,
            **{name: getattr(answer, name) for name in ("error_code", "message", "hint", "data")},
        }
        typer.echo(json.dumps(told, allow_nan=False, default=_plain))
    elif answer.hint is not None:
        typer.echo(f"confrere: {answer.message} ({answer.hint})", err=True)
    else:
        tell(*answer.shown, aside=False)
        if answer.text:
            typer.echo(answer.text, nl=not answer.text.endswith("\n"))
        if answer.message:
            typer.echo(answer.message)
    return code


def _plain(value: object) -> object:
    """Return plain values for what JSON has no word for."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    told = getattr(value, "to_dict", None)
    return vars(value) if told is None else told()


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
        except (Exception, KeyboardInterrupt) as error:
            if "--debug" in given:
                traceback.print_exc()
            code = _show(ending_of(error, prog_name or "confrere"), as_json="--json" in given)
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


#: Commands in the order of the help, and the module that each is in: one of ours, or of a wheel.
_MODULES = {
    "demo": "demo",
    **dict.fromkeys(("init", "check", "cost", "assessment", "fit"), ""),
    **dict.fromkeys(("evaluate", "predict", "verify", "release"), "releases"),
    "ledger": "ledgers",
    "schema": "schemas",
    "table1": "cohort",
    "audit": "audit",
    "plan": "planning",
    "choose": "planning",
    **dict.fromkeys(("home", "keys", "provision", "kit", "approve", "coordinator"), ""),
    **dict.fromkeys(("party", "status", "dashboard"), ""),
    "methods": "version",
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

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002
        return list(_MODULES)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002
        """Return a stand-in that knows its help and nothing else."""
        return TyperCommand(cmd_name, help=help_of(cmd_name)) if cmd_name in _MODULES else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named first, with its arguments, and the other words."""
        # By these names the parser says what an unknown one was probably meant to be.
        self.commands = dict.fromkeys(_MODULES, TyperCommand(""))
        if args[0] == "price":
            raise typer.BadParameter("price is now called cost: confrere cost STUDY")
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
    home = home_of(name)
    if home is None:
        raise errors.NotInstalled(
            f"{name} is between organisations: pip install 'confrere[federation]'."
        )
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
