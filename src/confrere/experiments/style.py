"""One house style for figures: colour-blind safe, readable at half a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

#: Okabe and Ito's palette without yellow, which fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: How a variant is drawn; the paper's own numbers are grey crosses.
DASHES = {"printed": (0, (2, 2)), "sound": "-", "best": "-", "ceiling": (0, (6, 2))}

SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 6.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "confrere",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house style."""
    with mpl.rc_context(SETTINGS):
        yield


def new_figure(panels: int = 1) -> Figure:
    """Return an empty figure of half a column's width per panel; no window is ever opened."""
    return Figure(figsize=(3.4 * panels, 3.8), dpi=200, layout="constrained")
