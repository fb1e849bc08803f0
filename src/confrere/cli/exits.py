"""Exit codes: what a script can tell apart, and the next step for people."""

from __future__ import annotations

from enum import IntEnum

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
    (errors.AccountFrozen, ExitCode.BUDGET, "open another account, or ask the owner of this one"),
    (errors.WitnessMismatch, ExitCode.VERIFICATION, "see both: confrere ledger witness LEDGER"),
    (errors.LedgerTampered, ExitCode.VERIFICATION, "compare with a head kept elsewhere"),
    (errors.SimulatedRelease, ExitCode.VERIFICATION, "--allow-simulated, to study it only"),
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
            return code, _line(error), hint
    return ExitCode.FAILED, f"unexpected {type(error).__name__}", "run it again with --debug"


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        return f"{error.strerror or type(error).__name__}{where}"
    return " ".join(str(error).split())
