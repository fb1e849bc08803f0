"""The append-only record of what was spent."""

from confrere.ledger.accounts import Account, Change, Limit
from confrere.ledger.decisions import Decision
from confrere.ledger.entries import Entry, Receipt
from confrere.ledger.facts import ChargeApproval
from confrere.ledger.ledger import Ledger
from confrere.ledger.payer import default_ledger, payer
from confrere.ledger.reading import LedgerReader
from confrere.ledger.store import reset_witness, witnessed

__all__ = [
    "Account",
    "Change",
    "ChargeApproval",
    "Decision",
    "Entry",
    "Ledger",
    "LedgerReader",
    "Limit",
    "Receipt",
    "default_ledger",
    "payer",
    "reset_witness",
    "witnessed",
]
