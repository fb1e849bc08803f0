"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.assurance.audit.events import attainable
from confrere.views import Pairs, Panel, Shown, Span, Tone, Word


@dataclass(frozen=True)
class AuditResult(Shown):
    """A lower bound on epsilon, and the event that it rests on."""

    epsilon: float  #: The truth is at least this, with probability ``confidence``
    claimed: float | None  #: What was promised, if anything was
    confidence: float  #: Of the bound
    delta: float  #: What the claim concedes
    runs: int  #: Runs per data set, those that chose the event and those that counted it together
    pair: str  #: The neighbouring data sets, in words
    event: str  #: What was counted
    #: ``likely``, ``rare``: how often it happened and in how many runs, where it is more and where
    #: it is less likely.
    likely: tuple[int, int]
    rare: tuple[int, int]
    #: The statistic in the counting runs on those two data sets.
    values: tuple[NDArray[np.float64], NDArray[np.float64]] = field(repr=False)
    threshold: float  #: Where the event cuts the statistic
    above: bool  #: Whether the event is the part above

    @property
    def refuted(self) -> bool:
        """Whether the claim is shown to be false. A claim that is not may still be."""
        return self.claimed is not None and self.epsilon > self.claimed

    @property
    def attainable(self) -> float | None:
        """What no mechanism that keeps the claim would exceed in these runs, on average."""
        if self.claimed is None:
            return None
        return attainable(self.claimed, self.likely[1], confidence=self.confidence)

    def __str__(self) -> str:
        claim = "" if self.claimed is None else f" (claimed {self.claimed:g})"
        return (
            f"epsilon >= {self.epsilon:.3f}{claim} at {self.confidence:.1%} confidence: "
            f"{self.event} in {self.likely[0]} of {self.likely[1]} runs against {self.rare[0]} "
            f"of {self.rare[1]}; {self.pair}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, without the runs themselves."""
        names = [name for name in self.__dataclass_fields__ if name != "values"]
        return {name: getattr(self, name) for name in names} | {
            "likely": list(self.likely),
            "rare": list(self.rare),
            "refuted": self.refuted,
            "attainable": self.attainable,
        }

    @override
    def view(self) -> Panel:
        largest = 1.1 * max(self.epsilon, self.claimed or 0.0, 1e-9)
        claim = None if self.claimed is None else self.claimed / largest
        tone: Tone = "bad" if self.refuted else "good"
        told = {
            "epsilon is at least": f"{self.epsilon:.3f}, at {self.confidence:.1%} confidence",
            "claimed": "nothing" if self.claimed is None else f"{self.claimed:g}",
            "": Span(self.epsilon / largest, mark=claim, tone=tone),
            "event": f"{self.event}: in {self.likely[0]} of {self.likely[1]} runs against "
            f"{self.rare[0]} of {self.rare[1]}",
            "neighbours": self.pair,
        }
        verdict = "refuted" if self.refuted else "not refuted"
        return Panel(Word(f"Audit: {verdict}", tone), [Pairs(told)])
