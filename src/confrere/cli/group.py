"""The outermost layer: usage errors and interrupts in the same form as everything else."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from confrere.cli.envelope import report
from confrere.cli.exits import ExitCode, ending_of


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
        code, name, hint = ExitCode.USAGE, "UsageError", f"{program} --help"
        message = " ".join(format_message().split()).rstrip(".")
        if not message:  # a group without a verb: its help has just been printed
            return code
    report(code, message, error_code=name, hint=hint, as_json=as_json)
    return code
