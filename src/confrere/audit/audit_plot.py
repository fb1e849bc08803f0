"""Two clouds of outputs and the event that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from confrere.extras import extra

if TYPE_CHECKING:
    from confrere.audit.result import AuditResult

_COLOURS = ("#0072b2", "#d55e00")  # distinguishable without red-green vision


def plot_result(result: AuditResult, ax: Any = None) -> Any:
    """Draw the statistic's distributions on both data sets, the event shaded."""
    plt = extra("plot", "matplotlib.pyplot")

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    pooled = np.concatenate(result.values)
    low, high = np.quantile(pooled, [0.002, 0.998])
    low, high = min(low, result.threshold), max(high, result.threshold)
    pad = 0.05 * (high - low) or 1.0
    edges = np.linspace(low - pad, high + pad, 81)
    for values, colour, label, (hits, runs) in zip(
        result.values,
        _COLOURS,
        ("where the event is likely", "on the neighbour"),
        (result.likely, result.rare),
        strict=True,
    ):
        shown = np.clip(values, edges[0], edges[-1])
        weights = np.full(len(shown), 1 / len(shown))
        text = f"{label}: {hits} of {runs}"
        ax.hist(shown, edges, weights=weights, color=colour, alpha=0.25, histtype="stepfilled")
        ax.hist(shown, edges, weights=weights, color=colour, histtype="step", label=text)
    ends = (result.threshold, edges[-1]) if result.above else (edges[0], result.threshold)
    ax.axvspan(*ends, color="0.5", alpha=0.15, lw=0, label=f"event: {result.event}")
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel(result.event.rsplit(" ", 2)[0])
    ax.set_ylabel("share of runs")
    claim = "" if result.claimed is None else f", claimed {result.claimed:g}"
    found = f"epsilon ≥ {result.epsilon:.2f}{claim}  ({result.confidence:.1%} confidence)"
    ax.set_title(f"{found}\n{result.pair}", fontsize=10)
    ax.set_ylim(0, ax.get_ylim()[1] * 1.35)
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
