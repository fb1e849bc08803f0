"""The boundary between organisations, its engines, and the multi-party algorithms."""

import importlib
from typing import Any

#: The public names of the room, by module. They are loaded when first asked for: what only carries
#: messages needs neither tables nor arithmetic.
_PLACES = {
    "confrere.data.frame": "Frame",
    "confrere.methods.average": "Averaging Expansion",
    "confrere.methods.votes": "Released Voting",
    "confrere_federation.engines.carrier": "Answering Carrier",
    f"{__name__}.answers": "Answers",
    f"{__name__}.federation": "Federation LocalFederation Trusted",
    f"{__name__}.messages": "PartyError Payload Question SignedAnswer",
    f"{__name__}.party": "PartyAccounts SignedApproval LocalParty Policy run_name serve",
    f"{__name__}.requests": "OPERATIONS Operation PartyFacts SumOperation install",
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
