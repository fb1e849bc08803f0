"""Predicted against observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from confrere.errors import InvalidParameter
from confrere.extras import extra

if TYPE_CHECKING:
    from confrere.evaluation.estimates import Evaluation


def plot_calibration(evaluation: Evaluation, ax: Any = None) -> Any:
    """Draw the observed share of positives in every bin, with its interval."""
    plt = extra("plot", "matplotlib.pyplot")

    if evaluation.calibration is None:
        raise InvalidParameter("metrics did not ask for 'calibration'.")
    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained")
    bins = evaluation.calibration
    middles = np.array([(each.low + each.high) / 2 for each in bins])
    values = np.array([each.positive.value for each in bins])
    limits = np.array([[each.positive.low, each.positive.high] for each in bins])
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls="--", label="calibrated")
    known = limits[:, 1] - limits[:, 0] < 0.99
    ax.errorbar(
        middles[known],
        values[known],
        yerr=np.abs(limits[known].T - values[known]),
        fmt="o",
        color="#0072b2",
        capsize=2,
        label=f"observed, {evaluation.confidence:.0%} intervals",
    )
    if not known.all():
        unknown = middles[~known]
        label = "too few records for the noise"
        ax.plot(unknown, np.full(len(unknown), 0.02), "x", color="0.6", label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="share of positives")
    ax.set_title(str(evaluation.guarantee), fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
