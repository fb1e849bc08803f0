"""The append-only record of what was spent."""

from confrere.ledger.default import default_ledger, payer
from confrere.ledger.entries import Account, Entry, Receipt
from confrere.ledger.ledger import Ledger
from confrere.ledger.paying import paying

__all__ = ["Account", "Entry", "Ledger", "Receipt", "default_ledger", "payer", "paying"]
