"""Privacy numbers for people: rounded up, never down, and said in words."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from confrere.guarantee import Neighbours, Unit

#: What the attacker in the words is willing to get wrong.
FALSE_ALARM = 0.01

_SECRET = {
    (Unit.RECORD, Neighbours.REPLACE_ONE): "one person's record, and whether it is the one",
    (Unit.RECORD, Neighbours.ADD_REMOVE): "one person's record, and whether it is there as",
    (Unit.RECORD, Neighbours.LABEL_ONLY): "one person's label, and whether it is the one",
    (Unit.PARTY, Neighbours.REPLACE_ONE): "one organisation's data, and whether they are those",
    (Unit.PARTY, Neighbours.ADD_REMOVE): "one organisation's data, and whether they are there as",
    (Unit.PARTY, Neighbours.LABEL_ONLY): "one organisation's labels, and whether they are those",
}


def shown(value: float) -> str:
    """Return at most four significant digits, rounded up: a price is never shown as less."""
    return _digits(value, ROUND_CEILING)


def shown_down(value: float) -> str:
    """Return at most four significant digits, rounded down: for what is left to spend."""
    return _digits(value, ROUND_FLOOR)


def _digits(value: float, rounding: str) -> str:
    rounded = Context(prec=4, rounding=rounding).create_decimal(repr(float(value)))
    return f"{rounded.normalize():f}" if abs(rounded) < Decimal("1e9") else f"{rounded:.3e}"


def detection_bound(epsilon: float, delta: float = 0.0, false_alarm: float = FALSE_ALARM) -> float:
    """Return the largest share of people found by any test with that share of false alarms.

    ``min(e^eps a + delta, 1 - e^-eps (1 - a - delta))``: both ends of the trade-off that
    (epsilon, delta)-differential privacy leaves open.
    """
    steep = math.exp(min(epsilon, 700.0)) * false_alarm + delta
    flat = 1 - math.exp(-epsilon) * max(0.0, 1 - false_alarm - delta)
    return min(steep, flat, 1.0)


def risk_in_words(
    epsilon: float, delta: float, unit: Unit, neighbours: Neighbours
) -> dict[str, Any]:
    """Return the numbers and the sentences of a card's ``risk_in_words``."""
    found = detection_bound(epsilon, delta)
    per_hundred = shown(100 * found)
    text = (
        f"Suppose an attacker knows everything about the data except {_SECRET[unit, neighbours]} "
        f"they suspect. If they accept false alarms in {shown(100 * FALSE_ALARM)} case of 100, "
        f"this release lets them be right in at most {per_hundred} of 100; without it, by "
        f"guessing, in {shown(100 * FALSE_ALARM)} of 100. "
    )
    odds = f"by a factor of at most {shown(math.exp(min(epsilon, 700.0)))}"
    if delta > 0:
        odds += f", except with probability {shown(delta)}"
    text += f"Whatever they believed before, the release changes their odds {odds}."
    if found >= 0.5:
        text += " This bound alone excludes little: look at what else limits the attacker."
    return {"false_alarm_rate": FALSE_ALARM, "detection_rate": found, "text": text}
