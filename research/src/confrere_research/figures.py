"""Figures from records: ours beside the published numbers, error bars, flips marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from confrere_research.cell_records import Record
from confrere_research.results import Point, summarise
from confrere_research.spec import Spec

LABELS = {"auc": "AUC", "error": "misclassification", "accuracy": "accuracy"}
UNBOUNDED = {"seconds": "CPU seconds"}
FLIPPED = "with runs below one half"


def draw_item(spec: Spec, records: Sequence[Record]) -> Figure:
    """Return an item's figure: the printed variants left, ours right, on one scale."""
    points = summarise(records, spec.metric)
    with house_style():
        if _is_bars(spec, points):
            figure = new_figure(2)
            _bars(figure.subplots(), spec, points)
        else:
            figure = new_figure(2)
            left, right = figure.subplots(1, 2, sharey=True)
            _lines(left, spec, points, ("as published", "ceiling"))
            _lines(right, spec, points, ("corrected", "recommended", "ceiling"))
            left.set_ylabel(_label(spec))
            left.set_title("as printed (no guarantee)")
            right.set_title("sound, and best at the same epsilon")
        title = spec.title + (" — simulated data" if spec.simulated_data else "")
        figure.suptitle(f"{spec.item}: {title}", fontsize=8)
    return figure


def figure_path(spec: Spec, out: Path) -> Path:
    """Return where the figure of an item is."""
    return Path(out) / "figures" / f"{spec.item}.svg"


def save_figure(spec: Spec, records: Sequence[Record], out: Path) -> Path:
    """Draw an item to ``figures/<item>.svg`` under ``out`` and return the path."""
    path = figure_path(spec, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = draw_item(spec, records)
    with house_style():
        figure.savefig(path, metadata={"Date": None})
    return path


def _is_bars(spec: Spec, points: Sequence[Point]) -> bool:
    """Whether nothing varies but the method, so that lines would have one point each."""
    return spec.axis is None and len({p.epsilon for p in points if p.epsilon is not None}) == 1


def _label(spec: Spec) -> str:
    return {**LABELS, **UNBOUNDED}[spec.metric]


def _lines(axes: Axes, spec: Spec, points: Sequence[Point], variants: tuple[str, ...]) -> None:
    names = list(dict.fromkeys(p.method for p in points))
    for method, variant in dict.fromkeys((p.method, p.variant) for p in points):
        if variant not in variants:
            continue
        line = [p for p in points if (p.method, p.variant) == (method, variant)]
        look = _look(names.index(method), variant)
        places = [place for p in line if (place := _place(spec, p)) is not None]
        if not places:
            axes.axhline(line[0].mean, label=method, color=look["color"], ls=look["ls"], lw=0.9)
            continue
        axes.errorbar(
            places,
            [p.mean for p in line],
            yerr=_bars_within([p.mean for p in line], [p.sd for p in line], spec.metric),
            label=method,
            capsize=2,
            elinewidth=0.7,
            **look,
        )
        _mark_flips(axes, places, line)
    if "as published" in variants:
        _published(axes, spec, names)
    _axis(axes, spec)
    _stretch(axes, spec, points)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)


def _look(index: int, variant: str) -> dict[str, Any]:
    # Where methods outnumber the colours, the next ones get other, white markers.
    turn = index // len(COLOURS)
    look = {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[(index + turn) % len(MARKERS)],
        "ls": DASHES[variant],
    }
    return look | ({"mfc": "white"} if turn else {})


def _place(spec: Spec, point: Point) -> float | None:
    return point.epsilon if spec.axis is None else point.setting


def _mark_flips(axes: Axes, places: list[float], line: list[Point]) -> None:
    """Ring the points with runs that ranked backwards, which the mean alone would hide."""
    flipped = [(place, p.mean) for place, p in zip(places, line, strict=True) if p.flips]
    if not flipped:
        return
    named = FLIPPED in axes.get_legend_handles_labels()[1]
    axes.plot(
        *zip(*flipped, strict=True),
        ls="none",
        marker="o",
        ms=8,
        mfc="none",
        mec="#B00000",
        mew=0.8,
        label=None if named else FLIPPED,
    )


def _published(axes: Axes, spec: Spec, names: list[str]) -> None:
    """Add the paper's numbers as hollow markers in the method's colour."""
    for entry in spec.published:
        if entry.method not in names:
            continue
        look = _look(names.index(entry.method), "as published")
        if spec.published_at == "branch":
            places, values = [spec.published_epsilon or 1.0], [float(np.mean(entry.values))]
        else:
            places, values = list(spec.epsilons), list(entry.values)
        axes.plot(
            places,
            values,
            ls="none",
            marker=look["marker"],
            mfc="none",
            mec=look["color"],
            ms=6,
            label=f"{entry.method}, published",
        )


def _axis(axes: Axes, spec: Spec) -> None:
    if spec.axis is None:
        axes.set_xscale("log")
        axes.set_xticks(spec.epsilons, [f"{epsilon:g}" for epsilon in spec.epsilons])
        axes.set_xlabel("epsilon")
        axes.minorticks_off()
    else:
        axes.set_xlabel(spec.axis.name.replace("_", " "))


def _bars_within(means: list[float], sds: list[float], metric: str) -> Any:
    """Return error bars that stay inside [0, 1], where these metrics live."""
    if metric in UNBOUNDED:
        return sds
    mean, sd = np.array(means), np.array(sds)
    return [np.minimum(sd, mean - 1e-4), np.clip(np.minimum(sd, 1 - 1e-4 - mean), 0, None)]


def _stretch(axes: Axes, spec: Spec, points: Sequence[Point]) -> None:
    """Stretch the neighbourhood of 1 where results crowd there, so that .99 and .997 differ."""
    if spec.metric == "auc" and max(point.mean for point in points) > 0.98:
        axes.set_yscale("logit")
        axes.set_ylim(0.4, 0.9995)
        ticks = [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def _bars(axes: Axes, spec: Spec, points: Sequence[Point]) -> None:
    for row, point in enumerate(points):
        axes.barh(
            row,
            point.mean,
            xerr=point.sd,
            color=COLOURS[row % len(COLOURS)],
            error_kw={"elinewidth": 0.7, "capsize": 2},
        )
        if point.flips:
            axes.text(point.mean, row, f" {point.flips} flipped", fontsize=5, color="#B00000")
    axes.set_yticks(range(len(points)), [f"{p.method} ({p.variant})" for p in points])
    axes.invert_yaxis()
    axes.set_xlabel(_label(spec))
    if spec.metric == "auc":
        axes.set_xlim(left=0.4)


#: Okabe and Ito's palette without yellow, which fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: How a variant is drawn; the paper's own numbers are grey crosses.
DASHES = {"as published": (0, (2, 2)), "corrected": "-", "recommended": "-", "ceiling": (0, (6, 2))}

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
