"""The ledger of those who name none."""

from __future__ import annotations

import os
from functools import cache

from confrere.ledger.ledger import Ledger
from confrere.ledger.store import ONE_AT_A_TIME


def default_ledger() -> Ledger:
    """Return the process-wide ledger.

    It is the file that the environment variable ``CONFRERE_LEDGER`` names, if set; otherwise one
    ephemeral ledger per process, which forked children share with their parent. Processes started
    afresh (as joblib's are) have one of their own: to count across them, name a ledger.
    """
    path = os.environ.get("CONFRERE_LEDGER")
    if path:
        return Ledger(path)
    with ONE_AT_A_TIME:
        return _session_ledger()


@cache
def _session_ledger() -> Ledger:
    return Ledger()
