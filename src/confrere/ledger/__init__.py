"""The append-only record of what was spent."""

from confrere.kernel.ledger import ChargeApproval, Receipt
from confrere.ledger.accounts import Account, Decision, Entry, Limit
from confrere.ledger.ledger import Budget, Ledger, LedgerReader, charged, default_ledger, payer
from confrere.ledger.witness import reset_witness, witnessed

__all__ = [
    "Account",
    "Budget",
    "ChargeApproval",
    "Decision",
    "Entry",
    "Ledger",
    "LedgerReader",
    "Limit",
    "Receipt",
    "charged",
    "default_ledger",
    "payer",
    "reset_witness",
    "witnessed",
]
