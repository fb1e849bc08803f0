"""Every error raised on purpose.

Messages name the argument, what is wrong and what to do. They never contain a data value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self


class ConfrereError(Exception):
    """Root of every error raised on purpose."""

    #: The next step, where this very error has one of its own; the command line prints it.
    hint: str = ""

    def hinting(self, hint: str) -> Self:
        """Return the error with its next step."""
        self.hint = hint
        return self


class PrivacyWarning(UserWarning):
    """Something is allowed and probably not meant: said before anything is spent.

    It depends on declared facts, settings and the names of steps alone, never on a record.
    """


class InvalidParameter(ConfrereError, ValueError):
    """A setting is outside its range."""


class InvalidData(ConfrereError, ValueError):
    """The data contradict a declared public fact."""


class NoRows(InvalidData):
    """A table without rows, where one at least is needed."""


class NotInstalled(ConfrereError, ImportError):
    """An optional part is used and not installed; the message says how to install it."""


class CalibrationError(ConfrereError, ValueError):
    """No noise level satisfies the requested epsilon."""


class CompositionError(ConfrereError, ValueError):
    """Guarantees with different units, neighbours or splits were combined."""


class LedgerError(ConfrereError):
    """Root of the ledger's errors."""


class NotALedger(LedgerError):
    """The file is not a ledger of this version, or cannot be opened for writing."""


class LedgerTampered(LedgerError):
    """The hash chain does not verify."""


class WitnessMismatch(LedgerTampered):
    """Rows that were there, as a witness kept elsewhere remembers, are gone."""

    @classmethod
    def of(cls, folder: str, file: str, head: tuple[int, str, str] | None, found: str) -> Self:
        """Say what a folder remembers of a ledger, what was found, and what its owner can do."""
        had = "it held a ledger"
        if head is not None:
            had = f"the ledger had row {head[0]} ({head[1][:12]}) on {head[2][:19]}"
        return cls(
            f"{had}, as {folder} remembers; {found}. What was charged in between would be "
            "forgotten. Put the newest copy back. Only if its owner knows why: `confrere ledger "
            f"witness {file} --reset --reason ...` goes on from here, writes that down in the "
            "chain, and books what is missing as spent."
        )


class Unpaid(LedgerError):
    """A draw was asked for that no payment covers; nothing was drawn."""


class AccountFrozen(LedgerError):
    """The account's owner lets nothing more be charged to it."""


class StudyRefused(LedgerError):
    """Somebody said no to the study, or took a yes back: nothing is charged for it."""


class UnknownAccount(LedgerError, KeyError):
    """The ledger has no account of that name."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class BudgetExceeded(LedgerError):
    """A limit does not cover the price."""

    def __init__(
        self,
        account: str,  # That was to pay
        asked: float,  # What the operation costs
        left: float,  # What the limit still allows
        currency: str = "epsilon",  # Which of the two ran short, or "delta"
        bound: str = "ledger",  # Which limit it is: one of :data:`LIMITS`
    ) -> None:
        super().__init__(account, asked, left, currency, bound)
        self.account = account
        self.asked = asked
        self.left = left
        self.currency = currency
        self.bound = bound

    def __str__(self) -> str:
        limit, remedy = LIMITS[self.bound]
        return (
            f"account {self.account!r}: asked for {self.currency} {self.asked:g}, "
            f"{self.left:g} left under {limit}; nothing was spent. Ask for less, or "
            f"{remedy.format(currency=self.currency)}."
        )


_RAISE = "its owner raises it: confrere ledger raise LEDGER ACCOUNT --{currency} CAP --reason WHY"
#: Which limits there are, by who set them: what people call one, and how it is raised.
LIMITS = {
    "ledger": ("the account's cap in the ledger", _RAISE),
    "ledger, this year": ("the account's cap for this year", f"wait for the next one, or {_RAISE}"),
    "local policy": (
        "lifetime_epsilon of the party's policy, over all studies of these data",
        "the organisation raises it in its policy",
    ),
    "local policy, one run": (
        "max_epsilon_per_run of the party's policy",
        "the organisation raises it in its policy",
    ),
    "study": (
        "the party's cap in the study, which counts what other studies spent too",
        "agree on a study with a higher one",
    ),
}


class SchemaError(ConfrereError, ValueError):
    """A public schema is wrong."""


class SchemaMismatch(SchemaError):
    """Two organisations' schemas differ."""


class StudyError(ConfrereError, ValueError):
    """A study, a party's local file or a plan is wrong."""


class DataSetError(ConfrereError):
    """Root of the data-set loaders' errors."""


class DataSetMissing(DataSetError):
    """A data set's file is not there and cannot be fetched."""


class DataSetCorrupt(DataSetError):
    """A data set's content is not the published one."""


class ReleaseError(ConfrereError):
    """Root of the errors about what leaves an organisation."""


class SimulatedRelease(ReleaseError):
    """A result with seeded noise was about to leave."""


class UncappedRelease(ReleaseError):
    """What was paid for is on no account with a cap in a ledger that lasts."""


class InvalidRelease(ReleaseError):
    """The folder is not a whole and valid release."""


class SignatureError(ReleaseError):
    """A signature is missing, unknown or wrong."""


class FederationError(ConfrereError):
    """Root of the errors between parties."""


class InvalidMessage(FederationError, ValueError):
    """A payload breaks the wire format."""


class OperationRefused(FederationError):
    """A party's own policy does not allow the operation; which rule said no may cross the wire."""

    def __init__(self, message: str, reason: str = "policy") -> None:
        super().__init__(message)
        self.reason = reason


class ApprovalRefused(FederationError):
    """A party's grant is missing, was changed, or is about something else."""


class QuorumMissed(FederationError):
    """Too few parties answered in time: who did not, and why."""

    def __init__(self, message: str, codes: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.codes = dict(codes or {})


class EngineFailed(FederationError):
    """A program that carries the messages did not start, or ended; names the cause and the log."""
