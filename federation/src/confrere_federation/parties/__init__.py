"""The boundary between organisations: who asks, who answers, and what passes between them."""

import importlib
from typing import Any

# Loaded when asked for: what only carries messages needs neither tables nor arithmetic.
_PLACES = {"LocalFederation": "federation"}
_PLACES |= dict.fromkeys(("LocalParty", "PartyAccounts", "Policy", "serve"), "party")
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
