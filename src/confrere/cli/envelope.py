"""One way out of every command: for people on the screen, for programs one JSON envelope.

And exit codes: what a script can tell apart, and the next step for people.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from confrere import errors


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
    shown: list[RenderableType] = field(default_factory=list)  #: For people
    text: str = ""  #: For people and pipes alike, printed as it is
    exit_code: ExitCode = ExitCode.OK
    #: Set where the answer itself is bad news: a refuted claim, schemas that differ.
    error_code: str | None = None


def screen() -> Console:
    """Return where results are shown."""
    return Console(highlight=False, markup=False)


def aside() -> Console:
    """Return where prompts, progress and warnings go: never into a program's input."""
    return Console(stderr=True, highlight=False, markup=False)


def good(word: str, text: object) -> Text:
    """Return a line that begins with a word of success."""
    return Text.assemble((word, "green"), f" {text}")


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


#: The functions of those modules that were loaded, by the words that call them: "ledger show".
COMMANDS: dict[str, Callable[..., Answer]] = {}


def command(words: str) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Have a function that returns an :class:`Answer` called by these words."""

    def register(function: Callable[..., Answer]) -> Callable[..., Answer]:
        COMMANDS[words] = function
        return function

    return register


#: What every command takes besides its own arguments.
_SHARED = {
    "as_json": typer.Option("--json", help="Print one JSON document on standard output."),
    "debug": typer.Option("--debug", help="Show the whole trace of an error."),
}


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
    parameters = list(signature.parameters.values())
    for name, option in _SHARED.items():
        kind, told = inspect.Parameter.KEYWORD_ONLY, Annotated[bool, option]
        parameters.append(inspect.Parameter(name, kind, default=False, annotation=told))
    made: Any = run
    made.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
    made.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        typer.echo(
            envelope(
                answer.exit_code, answer.message, error_code=answer.error_code, data=answer.data
            )
        )
        return
    console = screen()
    for part in answer.shown:
        console.print(part)
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
