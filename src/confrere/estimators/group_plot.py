"""A picture of what every group of features is worth, costs and suffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from confrere.extras import extra
from confrere.model import LowLevelModel


def plot_groups(models: Sequence[LowLevelModel], *, ax: Any = None) -> Any:
    """Draw importance and share of epsilon as bars, and noise as points on its own axis.

    Parameters
    ----------
    models : sequence of LowLevelModel
        Released low-level models.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes
    """
    plt = extra("plot", "matplotlib.pyplot")

    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    places = np.arange(len(models))
    shares = np.array([model.epsilon for model in models])
    ax.bar(places - 0.2, [m.importance for m in models], 0.38, color="#0072b2", label="importance")
    ax.bar(places + 0.2, shares / shares.sum(), 0.38, color="#56b4e9", label="share of epsilon")
    names = [f"{model.name}\n{len(model.features)} features" for model in models]
    ax.set_xticks(places, names)
    ax.set_ylabel("share")
    ax.set_ylim(0, None)
    noise = ax.twinx()
    noise.plot(places, [model.noise for model in models], "o", color="#d55e00", label="noise")
    noise.set_ylabel("expected norm of the noise")
    noise.set_ylim(0, 1.08 * max(model.noise for model in models))
    handles = [*ax.get_legend_handles_labels()[0], *noise.get_legend_handles_labels()[0]]
    # Above the axes, where no bar or point can be.
    ax.legend(
        handles,
        [handle.get_label() for handle in handles],
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    ax.spines["top"].set_visible(False)
    noise.spines["top"].set_visible(False)
    return ax
