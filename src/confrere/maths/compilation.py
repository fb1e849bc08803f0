"""How loops over numbers become machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])

#: Sums may be reordered, which lets dot products use the vector unit. Infinities stay legal: an
#: overflowing exponential is a probability of zero.
_FAST_MATHS = {"contract", "nsz", "reassoc"}


def compiled(function: _F) -> _F:
    """Compile with numba at the first call; keep the machine code on disk where there is a place.

    The cache of a function is renewed when its own file changes, and not when a compiled function
    that it calls from another file does: what calls each other belongs into one file.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": _FAST_MATHS, "nogil": True}
    try:
        kernel: _F = njit(cache=True, **options)(function)
    except RuntimeError:  # neither the installation nor the user's cache can be written to
        kernel = njit(**options)(function)
    return kernel
