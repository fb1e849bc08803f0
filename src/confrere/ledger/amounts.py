"""Money of privacy is counted in exact decimals.

A float stands for the decimal it prints as: ten charges of ``0.1`` are ``1``, and fit a cap of 1.
Sums are never rounded; only what is shown as a float is, always to the careful side.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, Inexact

# Every float prints within 10**-324 and 10**309: sums of fewer than 10**1000 of them are exact.
_EXACT = Context(prec=2000, traps=[Inexact])


def exact(amount: float) -> Decimal:
    """Read a float as the decimal it prints as."""
    return Decimal(repr(float(amount)))


def plus(first: Decimal, second: Decimal) -> Decimal:
    """Add without rounding."""
    return _EXACT.add(first, second)


def minus(first: Decimal, second: Decimal) -> Decimal:
    """Subtract without rounding."""
    return _EXACT.subtract(first, second)


def at_most(amount: Decimal) -> float:
    """Show what is left: the nearest float that can still be spent."""
    shown = float(amount)
    return shown if exact(shown) <= amount else math.nextafter(shown, -math.inf)


def at_least(amount: Decimal) -> float:
    """Show what was spent: the nearest float that hides nothing."""
    shown = float(amount)
    return shown if exact(shown) >= amount else math.nextafter(shown, math.inf)
