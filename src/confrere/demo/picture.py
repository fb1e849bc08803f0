"""One picture: every branch alone, near the main hospital's release, and without privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from confrere.demo.demo_models import EPSILON, DemoModels
from confrere.demo.world import World
from confrere.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, and a shape each: told apart without colour, too.
_MARKS = {
    "experts": ("no data: the experts' score", "#7f7f7f", "D", 26),
    "alone": ("private, the branch alone", "#E69F00", "s", 34),
    "transfer": ("private, near the main hospital's release", "#0072B2", "o", 40),
    "together": ("private, all 17 releases averaged", "#009E73", "^", 56),
    "ceiling": ("not private, all data pooled", "#000000", "|", 110),
}


def draw(world: World, learned: DemoModels, path: Path) -> None:
    """Draw a dot plot of the branches into ``path``."""
    names = sorted(learned.scores["together"], key=lambda name: learned.scores["together"][name])
    figure: Figure = extra("plot", "matplotlib.figure").Figure(
        figsize=(8.4, 7.2), layout="constrained"
    )
    axes = figure.subplots()
    rows = np.append(np.arange(len(names)) + 1.4, 0.0)
    _gains(axes, rows, names, learned)
    for method, (label, colour, marker, size) in _MARKS.items():
        values = [*(learned.scores[method][name] for name in names), learned.mean(method)]
        hollow = method == "experts"
        axes.scatter(
            values,
            rows,
            s=size,
            marker=marker,
            label=label,
            facecolors="white" if hollow else colour,
            edgecolors=colour if marker != "|" else None,
            linewidths=1.8 if marker == "|" else 1.2,
            zorder=3,
        )
    _dress(figure, axes, rows, names, world, learned)
    figure.savefig(path, dpi=160)


def _gains(axes: Axes, rows: np.ndarray, names: list[str], learned: DemoModels) -> None:
    before = [*(learned.scores["alone"][name] for name in names), learned.mean("alone")]
    after = [*(learned.scores["together"][name] for name in names), learned.mean("together")]
    axes.hlines(rows, before, after, color="#009E73", alpha=0.35, linewidth=2.4, zorder=2)


def _dress(
    figure: Figure,
    axes: Axes,
    rows: np.ndarray,
    names: list[str],
    world: World,
    learned: DemoModels,
) -> None:
    axes.set_yticks(rows, [*names, "mean of the branches"])
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.axhline(0.7, color="#bbbbbb", linewidth=0.8)
    axes.set_ylim(-0.7, rows[:-1].max() + 0.7)
    axes.set_xlabel("AUC on people kept aside (0.5 is guessing, 1 is perfect)")
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_title(
        f"{learned.above('together', 'alone')} of {len(names)} branches learn more together",
        loc="left",
        fontsize=13,
        fontweight="bold",
        pad=26,
    )
    axes.text(
        0,
        1.015,
        f"{world.people}; every organisation spends epsilon = {EPSILON:g}; one draw of the noise",
        transform=axes.transAxes,
        color="#555555",
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
