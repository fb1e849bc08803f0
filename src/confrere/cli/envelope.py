"""One way out of every command: for people on the screen, for programs one JSON envelope.

And exit codes: what a script can tell apart, and the next step for people.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from rich.console import Console

from confrere import errors
from confrere.views import Word, terminal


class ExitCode(IntEnum):
    """How a command ended."""

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
)


def ending_of(error: BaseException) -> tuple[ExitCode, str, str]:
    """Return exit code, one line about the error, and the next step.

    Errors that are not ours might quote data: of them only the class is named.
    """
    for kind, code, hint in _ENDINGS:
        if isinstance(error, kind):
            own = error.hint if isinstance(error, errors.ConfrereError) else ""
            return code, _line(error), own or hint
    return ExitCode.FAILED, f"unexpected {type(error).__name__}", "run it again with --debug"


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        return f"{error.strerror or type(error).__name__}{where}"
    return " ".join(str(error).split())


SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class Answer:
    """What a command found."""

    message: str  #: In one line
    data: dict[str, Any] = field(default_factory=dict)  #: For programs: plain JSON values
    shown: Sequence[object] = ()  #: For people: what :mod:`confrere.views` describes
    text: str = ""  #: For people and pipes alike, printed as it is
    exit_code: ExitCode = ExitCode.OK
    #: Set where the answer itself is bad news: a refuted claim, schemas that differ.
    error_code: str | None = None


def console(*, aside: bool = True) -> Console:
    """Return where prompts, progress and warnings go, never into a program's input; or results."""
    return Console(stderr=aside, highlight=False, markup=False)


def tell(*things: object, aside: bool = True) -> None:
    """Show something to people."""
    place = console(aside=aside)
    for thing in things:
        for one in terminal(thing):
            place.print(one, soft_wrap=aside and isinstance(thing, str))


def wrote(*paths: object) -> list[Word]:
    """Say what was written."""
    return [Word("wrote", "good", f" {path}") for path in paths]


def envelope(
    code: int,
    message: str,
    *,
    error_code: str | None = None,
    hint: str | None = None,
    data: dict[str, Any] | None = None,
) -> str:
    """Return the one JSON document that ``--json`` prints."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "status": "ok" if code == ExitCode.OK else "error",
            "exit_code": int(code),
            "error_code": error_code,
            "message": message,
            "hint": hint,
            "data": data or {},
        },
        allow_nan=False,
    )


class Option:
    """What an annotation says about a parameter: its meaning, and what else the parser is told.

    Where that is all, the meaning alone will do. Parameters without a star before them are
    arguments, the others options; ``name`` is what an option is called that is not called like its
    parameter.
    """

    def __init__(self, meaning: str, name: str = "", **facts: Any) -> None:
        self.name, self.facts = name, {"help": meaning, **facts}


def _annotated(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter as the parser wants it."""
    kind: Any = parameter.annotation
    told = SHARED.get(parameter.name, "")
    if get_origin(kind) is Annotated:
        kind, told = get_args(kind)
    option = Option(told) if isinstance(told, str) else told
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        own = option.name or f"--{parameter.name.replace('_', '-')}"
        parsed: Any = typer.Option(own, **option.facts)
    else:
        parsed = typer.Argument(**option.facts)
    return parameter.replace(annotation=Annotated[kind, parsed])


def runnable(function: Callable[..., Answer]) -> Callable[..., None]:
    """Return what the parser calls: with ``--json`` and ``--debug``, and an exit code."""

    @functools.wraps(function)
    def run(*args: Any, as_json: bool, debug: bool, **kwargs: Any) -> None:
        logging.getLogger("confrere").addHandler(logging.NullHandler())
        try:
            answer = function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BaseException as error:
            # What the parser raised has a usage line and a code of its own.
            usage = hasattr(error, "format_message") and hasattr(error, "exit_code")
            if usage or isinstance(error, BrokenPipeError | SystemExit):
                raise
            raise typer.Exit(_failed(error, as_json=as_json, debug=debug)) from None
        _show(answer, as_json=as_json)
        raise typer.Exit(int(answer.exit_code))

    signature = inspect.signature(function, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    more = (inspect.Parameter(name, kind, default=False, annotation=bool) for name in _EVERYWHERE)
    parameters = [_annotated(one) for one in (*signature.parameters.values(), *more)]
    made: Any = run
    made.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
    made.__annotations__ = {one.name: one.annotation for one in parameters}
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
    "data": Option("A party's table, before its local file's.", metavar="PARTY=FILE"),
    "ledger": Option("One ledger for all, before the local files'.", envvar="CONFRERE_LEDGER"),
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


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        typer.echo(
            envelope(
                answer.exit_code, answer.message, error_code=answer.error_code, data=answer.data
            )
        )
        return
    tell(*answer.shown, aside=False)
    if answer.text:
        typer.echo(answer.text, nl=not answer.text.endswith("\n"))
    if answer.message:
        typer.echo(answer.message)


def _failed(error: BaseException, *, as_json: bool, debug: bool) -> int:
    if debug:
        typer.echo("".join(traceback.format_exception(error)), err=True)
    code, message, hint = ending_of(error)
    name = "Interrupted" if code is ExitCode.INTERRUPTED else type(error).__name__
    report(code, message, error_code=name, hint=hint, as_json=as_json)
    return int(code)


def report(code: int, message: str, *, error_code: str, hint: str, as_json: bool) -> None:
    """Say that a command failed: one line and the next step."""
    if as_json:
        typer.echo(envelope(code, message, error_code=error_code, hint=hint))
    else:
        typer.echo(f"confrere: {message} ({hint})", err=True)
