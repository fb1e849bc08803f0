"""Pictures made here: bars, steps over time, curves and weights, as SVG without any script.

Colours are the style sheet's, by class, so that a picture is light, dark or printed as the page is;
nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup, escape

from confrere.ledger import Entry
from confrere.views import shown

_WIDE, _HIGH = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 26


def bar(part: float | None, label: str) -> Markup:
    """Return how much of a cap is spent; hatched where there is no cap."""
    width = 0.0 if part is None else 100 * max(0.0, min(1.0, part))
    kind = "none" if part is None else "full" if part > 0.9 else "spent"
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="track" width="100" height="8" rx="1"/>'
        '<rect class="{}" width="{}" height="8" rx="1"/></svg>'
    ).format(label, kind, f"{width:.2f}")


def over_time(entries: Sequence[Entry], cap: float | None, *, yearly: bool) -> Markup:
    """Return what was spent as steps over time, with the cap as a line."""
    if not entries:
        return Markup("")
    times = [datetime.fromisoformat(one.time).timestamp() for one in entries]
    values = [one.counted if yearly else one.spent for one in entries]
    begin, end = times[0], max(times[-1], times[0] + 1.0)
    top = max([*values, cap or 0.0]) * 1.05 or 1.0
    x = _scale(begin, end, _LEFT, _WIDE - _RIGHT)
    y = _scale(0.0, top, _HIGH - _BOTTOM, _TOP)
    path = [f"M{x(begin):.1f} {y(0.0):.1f}"]
    year = entries[0].year
    for entry, time, value in zip(entries, times, values, strict=True):
        if yearly and entry.year is not None and entry.year != year:
            year = entry.year  # a new year begins with nothing spent
            opened = max(begin, min(time, datetime(year, 1, 1, tzinfo=UTC).timestamp()))
            path.append(f"H{x(opened):.1f}V{y(0.0):.1f}")
        path.append(f"H{x(time):.1f}V{y(value):.1f}")
    path.append(f"H{x(end):.1f}")
    parts = [_axes(y, top), Markup('<path class="line" d="{}"/>').format("".join(path))]
    if cap is not None:
        parts.append(
            Markup('<line class="cap" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
                _LEFT, _WIDE - _RIGHT, y=f"{y(cap):.1f}"
            )
        )
        parts.append(_text(_WIDE - _RIGHT, y(cap) + 15, f"cap {shown(cap)}", "end"))
    parts.append(_text(_LEFT, _HIGH - 8, entries[0].time[:10], "start"))
    parts.append(_text(_WIDE - _RIGHT, _HIGH - 8, entries[-1].time[:10], "end"))
    return _svg("what was spent over time", *parts)


def curve(
    points: Sequence[tuple[float, float]],
    *,
    label: str,
    at: float | None = None,
    logarithmic: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    wide: int = _WIDE,
) -> Markup:
    """Return a curve of a share or probability, with a mark where somebody is."""
    place = math.log10 if logarithmic else float
    xs = [place(x) for x, _ in points]
    x = _scale(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, _LEFT, wide - _RIGHT)
    y = _scale(low, high, _HIGH - _BOTTOM, _TOP)
    line = " ".join(f"{x(place(a)):.1f},{y(b):.1f}" for a, b in points)
    parts = [_axes(y, high, low, wide), Markup('<polyline class="line" points="{}"/>').format(line)]
    if at is not None and min(xs) <= place(at) <= max(xs):
        value = _at(points, at)
        parts.append(
            Markup('<circle class="mark" cx="{}" cy="{}" r="5"/>').format(
                f"{x(place(at)):.1f}", f"{y(value):.1f}"
            )
        )
        parts.append(_text(x(place(at)), y(value) - 9, f"{value:.3g}", "middle"))
    parts.append(_text(_LEFT, _HIGH - 8, f"{points[0][0]:g}", "start"))
    parts.append(_text(wide - _RIGHT, _HIGH - 8, f"{points[-1][0]:g}", "end"))
    return _svg(label, *parts, wide=wide)


def choices(points: Sequence[tuple[str, float]], *, label: str, at: str | None = None) -> Markup:
    """Return a bar per value of a column; the chosen one is named with a dot."""
    rows = []
    for number, (name, value) in enumerate(points):
        top = _TOP + 24 * number
        length = 150 * max(0.0, min(1.0, value))
        rows.append(
            Markup('<rect class="{}" x="120" y="{}" width="{}" height="16" rx="2"/>').format(
                "mark" if name == at else "weight", top, f"{length:.1f}"
            )
        )
        dot = "● " if name == at else ""
        rows.append(_text(112, top + 13, f"{dot}{_short(name, 14)}", "end"))
        rows.append(_text(126 + length, top + 13, f"{value:.3g}", "start"))
    return _svg(label, *rows, high=_TOP + 24 * len(points) + 4, wide=320)


def weights(found: Sequence[tuple[str, float]]) -> Markup:
    """Return a linear model's weights as bars to both sides of zero."""
    if not found:
        return Markup("")
    largest = max(abs(weight) for _, weight in found) or 1.0
    rows = [Markup('<line class="axis" x1="420" x2="420" y1="4" y2="{}"/>').format(24 * len(found))]
    for number, (name, weight) in enumerate(found):
        length = 190 * abs(weight) / largest
        rows.append(
            Markup('<rect class="{}" x="{}" y="{}" width="{}" height="16" rx="2"/>').format(
                "weight" if weight >= 0 else "against",
                f"{420 if weight >= 0 else 420 - length:.1f}",
                _TOP + 24 * number - 8,
                f"{length:.1f}",
            )
        )
        rows.append(_text(220, _TOP + 24 * number + 5, f"{_short(name)} {weight:+.2g}", "end"))
    return _svg("weights of the encoded columns", *rows, high=24 * len(found) + 8)


def _short(name: str, longest: int = 26) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _at(points: Sequence[tuple[float, float]], place: float) -> float:
    before = max((p for p in points if p[0] <= place), key=lambda p: p[0])
    after = min((p for p in points if p[0] >= place), key=lambda p: p[0])
    if after[0] == before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (place - before[0]) / (after[0] - before[0])


class _scale:  # noqa: N801  it is used as a function
    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._begin = low, begin
        self._slope = (end - begin) / (high - low)

    def __call__(self, value: float) -> float:
        return self._begin + (value - self._low) * self._slope


def _axes(y: _scale, top: float, low: float = 0.0, wide: int = _WIDE) -> Markup:
    parts = []
    for part in (0.0, 0.5, 1.0):
        value = low + part * (top - low)
        parts.append(
            Markup('<line class="axis" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
                _LEFT, wide - _RIGHT, y=f"{y(value):.1f}"
            )
        )
        parts.append(_text(_LEFT - 6, y(value) + 4, f"{value:.3g}", "end"))
    return Markup("").join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, text
    )


def _svg(label: str, *parts: Markup, high: float = _HIGH, wide: int = _WIDE) -> Markup:
    return Markup(
        '<svg class="picture" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(wide, f"{high:.0f}", escape(label), Markup("").join(parts))
