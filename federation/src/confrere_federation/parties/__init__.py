"""The boundary between organisations, its engines, and the multi-party algorithms."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confrere_federation.parties.front import *  # noqa: F403


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: what only carries messages needs neither tables nor arithmetic.
    front = None if name == "front" else importlib.import_module(f"{__name__}.front")
    if front is None or name not in (*front.__all__, "__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(front, name)
