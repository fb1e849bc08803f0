"""Losses of numbers: log-cosh and Huber's for amounts, Poisson's for counts.

Proofs: docs/proofs/linear_regression.md and counts.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Labels, Loss, Move, join


@dataclass(frozen=True)
class LogCosh(Loss):
    """``c^2 log cosh((z - y)/c)`` of a label between -1 and 1: squares near it, magnitudes far."""

    width: float  #: ``c``: where squares end; no residual is larger

    bend = stiffness = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.width < math.inf:
            raise InvalidParameter("width must be a finite number above 0.")
        c = float(self.width)
        # log cosh is at most a magnitude, and at most half a square.
        vars(self).update(slope=c, reach=c, pull=c, start=min(c, 0.5))

    @property
    def extreme_labels(self) -> Labels:
        """What audits try: residuals go from end to end."""
        return np.array([-1.0, 0.0, 1.0])

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all(np.abs(labels) <= 1.0):
            raise InvalidData("y must be one number between its declared bounds per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores -= labels
        scores /= self.width
        np.tanh(scores, out=scores)
        scores *= self.width
        return scores

    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvatures of scores; where it jumps, the larger."""
        return np.asarray(1.0 - np.square(np.tanh((scores - labels) / self.width)))

    @override
    def going(self, r: float, m: float) -> float:
        a = r * self.width
        # The root of a q^2 + 2 q - a (m + 1), in the form without cancellation.
        q = min(1.0, a * (m + 1) / (1 + math.sqrt(1 + a * a * (m + 1))))
        return a * q + math.log1p((1 - q * q) / m)

    @override
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        # What is curved moves little: the Jacobian is shared between the middle and the ends.
        steps, c = np.linspace(0.0, 2 / m, 33), self.width
        middle = np.array([self.going(step / c, m) for step in steps.tolist()])
        ends = np.maximum(middle - steps, 0.0)
        if replaced:
            return [Move(2 * c, ends, 4), Move(c, middle, 2)]
        return [Move(c, ends, 2), Move(0.0, middle)]


@dataclass(frozen=True)
class Huber(LogCosh):
    """Squares up to ``c`` from a label between -1 and 1, magnitudes beyond."""

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores -= labels
        return np.clip(scores, -self.width, self.width, out=scores)

    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvatures of scores; where it jumps, the larger."""
        return (np.abs(scores - labels) <= self.width).astype(np.float64)

    @override
    def going(self, r: float, m: float) -> float:
        return r * self.width + math.log1p(1 / m)


#: Of larger means the rounding of their logarithm would show.
LARGEST_COUNT = 20_000.0


@dataclass(frozen=True)
class Poisson(Loss):
    """Of counts: the mean is ``exp(z + offset)``, and goes on linearly where it reaches a cap.

    A label is a count from 0 on and an offset, the logarithm of its exposure.
    """

    most: float  #: ``Y``: no count is larger
    cap: float  #: ``c``: up to which mean the loss is curved
    offsets: tuple[float, float] = (0.0, 0.0)  #: Between which offsets lie

    shape = (2,)

    def __post_init__(self) -> None:
        for name in ("most", "cap"):
            if not 0 < getattr(self, name) <= LARGEST_COUNT:
                raise InvalidParameter(f"{name} must be above 0, at most {LARGEST_COUNT:g}.")
        if not -math.inf < self.offsets[0] <= self.offsets[1] < math.inf:
            raise InvalidParameter("offsets must be two finite numbers, the smaller one first.")
        most, cap = float(self.most), float(self.cap)
        longest = max(most, cap)
        vars(self).update(slope=longest, reach=longest, pull=longest)
        vars(self).update(bend=cap, stiffness=cap, start=self._start())

    def _start(self) -> float:
        # Beyond the cap the loss of a count above it falls for ever.
        if self.most > self.cap:
            return math.inf
        # Convex in the count: largest at an end, as it is in the offset.
        top, kink = self.most, math.log(self.cap)
        found = [0.0]
        for offset in self.offsets:
            z = min(offset, kink)
            mean = math.exp(z) + self.cap * (offset - z)
            found += [mean, mean - top * offset - top + top * math.log(top)]
        return max(found)

    @property
    def extreme_labels(self) -> Labels:
        """What audits try: residuals go from end to end."""
        return np.array([[y, offset] for y in (0.0, self.most) for offset in self.offsets])

    @override
    def check_labels(self, labels: Labels) -> None:
        low, high = self.offsets
        counts, offsets = np.reshape(labels, (-1, 2)).T
        fine = (counts >= 0) & (counts <= self.most) & (offsets >= low) & (offsets <= high)
        if not np.all(fine):
            raise InvalidData("y must be one count, and one exposure, in its bounds per row of X.")

    def _means(self, scores: Floats, labels: Labels) -> Floats:
        # The smaller one first: nothing overflows.
        scores += labels[:, 1]
        np.exp(np.minimum(scores, math.log(self.cap), out=scores), out=scores)
        return np.minimum(scores, self.cap, out=scores)

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        self._means(scores, labels)
        scores -= labels[:, 0]
        return scores

    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvatures of scores; where it jumps, the larger."""
        straight = scores + labels[:, 1] > math.log(self.cap)
        return np.where(straight, 0.0, self._means(np.array(scores), labels))

    @override
    def going(self, r: float, m: float) -> float:
        # A mean above its count, or below: then the Jacobian is dearest before 1/r.
        mean = min(max(1 / r - m if r > 0 else math.inf, 0.0), self.cap, self.most)
        below = r * (self.most - mean) + math.log1p(mean / m)
        return max(r * self.cap + math.log1p(self.cap / m), below)

    @override
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        taken, ends = np.array([self.jacobian(m)]), (self.most, self.cap)
        # Rows are where they are: two residuals may add up whatever their signs are.
        lengths = [a + b for a in ends for b in ends] if replaced else ends
        return [Move(length, taken) for length in lengths]


for _loss in (LogCosh, Huber):
    join(_loss, "docs/proofs/linear_regression.md")
join(Poisson, "docs/proofs/counts.md")
