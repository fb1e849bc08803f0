"""What stacking classifiers share: parameters, predictions, releases and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from confrere.estimators.base import Fitted, PrivateClassifier
from confrere.estimators.constraints import AutoFraction, Delta, Epsilon, Ridge
from confrere.extras import extra
from confrere.model import LowLevelModel, Stack


@dataclass(frozen=True)
class HighLevelModel:
    """The released combination of meta features ``tanh(score / 2) / sqrt(groups)``."""

    coef: NDArray[np.float64]
    intercept: float


class FittedStack(Fitted):
    """What every fitted stack has."""

    model_: Stack

    @property
    def low_level_(self) -> tuple[LowLevelModel, ...]:
        """Released models with their groups, importances and shares."""
        return self.model_.groups

    @property
    def high_level_(self) -> HighLevelModel | None:
        """The released combination; None for votes and for a single group."""
        if self.model_.combine != "stack":
            return None
        return HighLevelModel(self.model_.coef, self.model_.intercept)


@dataclass(kw_only=True, eq=False, repr=False)
class StackingClassifier(FittedStack, PrivateClassifier):
    """What every stacking classifier takes."""

    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    combiner: Literal["stack", "vote", "weighted_vote"] = "stack"
    high_fraction: AutoFraction = "auto"
    alpha: Ridge = "auto"
    high_alpha: Ridge = "auto"
    loss: Literal["capped", "logistic"] = "capped"
    calibration: Literal["tight", "printed"] = "tight"
    split_seed: int | None = 0

    _sparse = False

    def _draw_groups(self, ax: Any) -> Any:
        """Draw importances, shares and noise of the low level."""
        check_is_fitted(self)
        return plot_groups(self.low_level_, ax=ax)


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
