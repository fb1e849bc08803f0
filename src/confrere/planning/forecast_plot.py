"""Expected quality against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from confrere.extras import extra

if TYPE_CHECKING:
    from confrere.planning.forecast import Forecast

_EPSILONS = np.geomspace(0.05, 10, 16)
_COLOURS = ("#56b4e9", "#0072b2", "#003a5d")


def plot_plan(plan: Forecast, ax: Any = None) -> Any:
    """Draw expected AUC against epsilon, for a quarter, once and four times the records."""
    plt = extra("plot", "matplotlib.pyplot")

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for factor, colour in zip((0.25, 1, 4), _COLOURS, strict=True):
        n = max(1, round(plan.n * factor))
        areas = [plan.resized(n, epsilon).expected_auc() for epsilon in _EPSILONS]
        ax.plot(_EPSILONS, areas, color=colour, label=f"n = {n}")
        free = plan.resized(n, _EPSILONS[-1]).auc_without_noise()
        ax.plot(_EPSILONS[-1] * 1.15, free, "<", color=colour, clip_on=False)
    ax.axhline(plan.area, color="0.6", lw=1, ls="--", label="best linear model")
    ax.plot(plan.epsilon, plan.expected_auc(), "o", color=_COLOURS[1], label="this plan")
    ax.plot([], [], "<", color="0.5", label="without noise")
    ax.set_xscale("log")
    ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    ax.set_xlim(_EPSILONS[0], _EPSILONS[-1])
    ax.set_ylim(0.48, min(1.0, plan.area + 0.04))
    who = "" if plan.parties == 1 else f", {plan.parties} parties"
    what = "" if plan.groups == 1 else f", {plan.groups} groups"
    ax.set(xlabel="epsilon", ylabel="expected AUC", title=f"{plan.d} features{who}{what}")
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
