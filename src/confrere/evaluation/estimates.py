"""What a private evaluation says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.notebook import grid, interval, panel


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval that covers the truth.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        Limits of the interval, of the confidence that :class:`Evaluation` states.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def to_dict(self) -> dict[str, float]:
        """Return plain values."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def complement(self) -> Estimate:
        """Return the estimate of one minus the quantity."""
        return Estimate(1 - self.value, 1 - self.high, 1 - self.low)


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Records whose predicted probability lies in ``[low, high)``.

    Attributes
    ----------
    low, high : float
        The bin.
    count : float
        Noised number of records in it.
    positive : Estimate
        Share of positives among such records.
    """

    low: float
    high: float
    count: float
    positive: Estimate


@dataclass(frozen=True)
class Evaluation:
    """A model's quality on private records, and what it cost to know.

    What was not asked for is None. Intervals speak of the population that the records are drawn
    from, each by itself at ``confidence``; ``errors`` speaks of these records.

    Attributes
    ----------
    n_samples : int
        Public number of records.
    confidence : float
        Of every interval.
    guarantees : mapping of str to Guarantee
        Price of each query: errors, confusion, scores.
    guarantee : Guarantee
        Of all queries together.
    receipt : Receipt
        The ledger entry that paid.
    simulated : bool
        Whether the noise came from a seed.
    positive : str or None
        Which of two labels probabilities are of.
    accuracy : Estimate or None
        Share of records predicted right.
    errors : Estimate or None
        Number of these records predicted wrong.
    confusion : mapping or None
        From (label, prediction) to the share of such records.
    auc : Estimate or None
        Area under the receiver operating characteristic.
    calibration : tuple of CalibrationBin or None
        Predicted against observed shares of positives.
    """

    n_samples: int
    confidence: float
    guarantees: Mapping[str, Guarantee]
    guarantee: Guarantee
    receipt: Receipt
    simulated: bool
    positive: str | None = None
    accuracy: Estimate | None = None
    errors: Estimate | None = None
    confusion: Mapping[tuple[Any, Any], Estimate] | None = None
    auc: Estimate | None = None
    calibration: tuple[CalibrationBin, ...] | None = None

    def quality(self) -> dict[str, Any]:
        """Return what was found as plain values: what a release's card can hold."""
        single = {"accuracy": self.accuracy, "auc": self.auc}
        measures = [(name, one) for name, one in single.items() if one is not None]
        measures += [
            (f"share of {label} predicted {predicted}", share)
            for (label, predicted), share in (self.confusion or {}).items()
        ]
        return {
            "records": self.n_samples,
            "confidence": self.confidence,
            "positive": self.positive,
            "measures": [{"name": name, **one.to_dict()} for name, one in measures],
            "calibration": [
                {"from": b.low, "to": b.high, "records": b.count, **b.positive.to_dict()}
                for b in self.calibration or ()
            ],
        }

    def __str__(self) -> str:
        single = {"accuracy": self.accuracy, "errors": self.errors, "auc": self.auc}
        return "\n".join(
            [
                f"{self.n_samples} records, {self.confidence:.0%} intervals, {self.guarantee}",
                *(f"{name:<9} {found}" for name, found in single.items() if found is not None),
                *(
                    f"{a} predicted {b}  {share}"
                    for (a, b), share in (self.confusion or {}).items()
                ),
                *(
                    f"p in [{b.low:.2f}, {b.high:.2f})  {b.positive}"
                    for b in self.calibration or ()
                ),
            ]
        )

    def _repr_html_(self) -> str:
        quality = self.quality()
        columns = ("measure", "", "estimate", "interval")
        rows = [
            (one["name"], *_interval_cells(one["value"], one["low"], one["high"]))
            for one in quality["measures"]
        ]
        parts = [grid(columns, rows, right=("estimate", "interval"))]
        bins = [
            (f"{b.low:.2f} to {b.high:.2f}", *_interval_cells(*astuple(b.positive)))
            for b in self.calibration or ()
            if b.positive.high - b.positive.low < 0.99
        ]
        if bins:
            names = ("predicted", "share of positives", "estimate", "interval")
            parts.append(grid(names, bins, right=("estimate", "interval")))
        seeded = " SIMULATED: seeded noise protects nobody." if self.simulated else ""
        note = f"{self.confidence:.0%} intervals, each by itself; paid: {self.guarantee}.{seeded}"
        return panel(f"Evaluation on {self.n_samples} records", *parts, note=note)

    def plot_calibration(self, ax: Any = None) -> Any:
        """Draw observed against predicted shares of positives; returns the axes."""
        from confrere.evaluation.evaluation_plot import plot_calibration

        return plot_calibration(self, ax)


def _interval_cells(value: float, low: float, high: float) -> tuple[object, ...]:
    return interval(value, low, high), f"{value:.3f}", f"{low:.3f} to {high:.3f}"
