"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.audit.bounds import attainable


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on epsilon, and the event that it rests on.

    Attributes
    ----------
    epsilon : float
        The truth is at least this, with probability ``confidence``.
    claimed : float or None
        What was promised, if anything was.
    confidence : float
        Of the bound.
    delta : float
        What the claim concedes.
    runs : int
        Runs per data set, those that chose the event and those that counted it together.
    pair : str
        The neighbouring data sets, in words.
    event : str
        What was counted.
    likely, rare : tuple of int
        How often it happened and in how many runs, where it is more and where it is less likely.
    values : pair of arrays
        The statistic in the counting runs on those two data sets, for :meth:`plot`.
    threshold : float
        Where the event cuts the statistic.
    above : bool
        Whether the event is the part above.
    """

    epsilon: float
    claimed: float | None
    confidence: float
    delta: float
    runs: int
    pair: str
    event: str
    likely: tuple[int, int]
    rare: tuple[int, int]
    values: tuple[NDArray[np.float64], NDArray[np.float64]] = field(repr=False)
    threshold: float
    above: bool

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

    def plot(self, ax: Any = None) -> Any:
        """Draw the two distributions of the statistic and the event; returns the axes."""
        from confrere.audit.audit_plot import plot_result

        return plot_result(self, ax)
