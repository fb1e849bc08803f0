"""Whether numbers look as if they were written in another unit, or stood for missing.

The lists here are public: what a hint names comes from them, never from a table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.schema.feature import Number

#: Numbers and texts that people write where nothing was measured.
SENTINELS = (0, -1, -9, -99, -999, -9999, 9, 77, 88, 99, 777, 888, 999, 9998, 9999, 99999)
TOKENS = ("", "?", ".", "-", "na", "n/a", "nan", "null", "none", "unknown", "missing", "not known")


@dataclass(frozen=True)
class Conversion:
    """Two units of one quantity: ``ours = factor * theirs + offset``.

    Attributes
    ----------
    theirs, ours : str
        Names of the units; a hint may read them in either direction.
    factor, offset : float
    words : str
        A pattern of column names that measure it; empty for units of any quantity.
    """

    theirs: str
    ours: str
    factor: float
    offset: float = 0.0
    words: str = ""

    def both_ways(self) -> tuple[Conversion, Conversion]:
        """Return it, and it read from right to left."""
        back = Conversion(
            self.ours, self.theirs, 1 / self.factor, -self.offset / self.factor, self.words
        )
        return self, back

    def formula(self) -> str:
        """Return how to convert, for people."""
        if self.offset:
            sign = "+" if self.offset > 0 else "-"
            return f"value * {self.factor:.4g} {sign} {abs(self.offset):.4g}"
        if self.factor < 1:
            return f"value / {1 / self.factor:.4g}"
        return f"value * {self.factor:.4g}"


_TIME = r"age|alter|year|dur|time|since|tenure"
CONVERSIONS = (
    Conversion("months", "years", 1 / 12, words=_TIME),
    Conversion("days", "years", 1 / 365.25, words=_TIME),
    Conversion("weeks", "years", 1 / 52.18, words=_TIME),
    Conversion("days", "months", 1 / 30.44, words=_TIME),
    Conversion("minutes", "hours", 1 / 60, words=_TIME),
    Conversion("hours", "days", 1 / 24, words=_TIME),
    Conversion("kPa", "mmHg", 7.50062, words=r"press|bp|systol|diastol|mmhg|\bap\b"),
    Conversion("mg/dL", "mmol/L", 1 / 18.016, words=r"glu|sugar|fpg|fbs|fbg|ogtt"),
    Conversion("mg/dL", "mmol/L", 1 / 38.67, words=r"chol|ldl|hdl|\btc\b"),
    Conversion("mg/dL", "mmol/L", 1 / 88.57, words=r"trig|\btg\b"),
    Conversion("mg/dL", "umol/L", 88.42, words=r"crea|\bcr\b"),
    Conversion("mg/dL", "umol/L", 17.1, words=r"bili"),
    Conversion("mg/dL", "umol/L", 59.48, words=r"uric|urate"),
    Conversion("mg/dL", "mmol/L", 0.357, words=r"urea|bun"),
    Conversion("%", "mmol/mol", 10.93, -23.5, words=r"a1c"),
    Conversion("degrees Fahrenheit", "degrees Celsius", 5 / 9, -160 / 9, words=r"temp"),
    Conversion("pounds", "kilograms", 0.45359, words=r"weight|mass|\bwt\b|kg"),
    Conversion("grams", "kilograms", 0.001, words=r"weight|mass|\bwt\b|kg"),
    Conversion("inches", "centimetres", 2.54, words=r"height|waist|hip|circum|length|cm"),
    Conversion("centimetres", "metres", 0.01, words=r"height|waist|hip|length|dist"),
    Conversion("feet", "centimetres", 30.48, words=r"height"),
    Conversion("per cent", "shares", 0.01),
    Conversion("thousandths", "whole units", 0.001),
    Conversion("tenths", "whole units", 0.1),
)


def likely_conversion(feature: Number, x: Floats) -> Conversion | None:
    """Return the conversion after which numbers would fit what is declared, if one stands out.

    A number that was declared with a mean and a standard deviation must get about the same middle
    and spread; one with bounds alone must lie between them. Units that the column's name speaks of
    go before those of any quantity.
    """
    if not len(x):
        return None
    name = re.sub(r"[_\W]+", " ", feature.column).lower()
    named = [one for one in CONVERSIONS if one.words and re.search(one.words, name)]
    for group in (named, [one for one in CONVERSIONS if not one.words]):
        ways = [one for two in group for one in two.both_ways()]
        fits = {one: _misfit(feature, one.factor * x + one.offset) for one in ways}
        found = {one: misfit for one, misfit in fits.items() if misfit is not None}
        if found:
            return min(found, key=lambda one: found[one])
    return None


def _misfit(feature: Number, x: Floats) -> float | None:
    """Return how far numbers are from what is declared, or None if they do not fit at all."""
    lo, hi = feature.bounds
    if np.mean((x >= lo) & (x <= hi)) < 0.95:
        return None
    middle = float(np.median(x))
    if feature.log or feature.mean is None or feature.sd is None:
        return abs(middle - (lo + hi) / 2) / (hi - lo)
    spread = float(np.subtract(*np.quantile(x, (0.75, 0.25)))) / 1.349
    off = abs(middle - feature.mean) / feature.sd
    if off > 2 or not 0.2 <= spread / feature.sd <= 5:
        return None
    return off + abs(float(np.log(spread / feature.sd)))


def likely_sentinel(feature: Number, x: Floats) -> tuple[float, int] | None:
    """Return a number that probably stands for missing, and how many rows hold it.

    It is one of :data:`SENTINELS`, it is in one row of a hundred or more, and it lies outside the
    bounds or far from all the other values.
    """
    least = max(3, 0.01 * len(x))
    lo, hi = feature.bounds
    best: tuple[float, int] | None = None
    for value in SENTINELS:
        count = int(np.count_nonzero(x == value))
        others = x[x != value]
        if count < least or not len(others) or (best is not None and count <= best[1]):
            continue
        outside = value < lo or value > hi
        gap = float(np.min(np.abs(others - value)))
        width = float(np.max(others) - np.min(others))
        # A count may be 0 by right, next to 1; a cholesterol of 0 stands alone.
        steps = np.diff(np.unique(others)).max(initial=0.0)
        if (outside and gap > 0.02 * width) or gap > max(0.15 * width, 2 * steps) > 0:
            best = float(value), count
    return best


def likely_token(texts: Iterable[object]) -> tuple[str, int] | None:
    """Return the text of :data:`TOKENS` that most rows hold, as it is written, and how many."""
    written = Counter(str(text) for text in texts)
    known = {text: count for text, count in written.items() if text.strip().lower() in TOKENS}
    return max(known.items(), key=lambda pair: pair[1]) if known else None
