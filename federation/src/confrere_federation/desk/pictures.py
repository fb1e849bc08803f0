"""Pictures made here: bars, steps over time, curves and weights, as SVG without any script.

Colours are the style sheet's, by class, so that a picture is light, dark or printed as the page is;
nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from confrere.ledger import Entry
from confrere.views import shown

_WIDE, _HIGH = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 26

_Scale = Callable[[float], float]


def bar(part: float | None, label: str) -> Markup:
    """Return how much of a cap is spent; hatched where there is no cap."""
    width = 0.0 if part is None else 100 * max(0.0, min(1.0, part))
    kind = "none" if part is None else "full" if part > 0.9 else "spent"
    return _drawn(
        "svg",
        _drawn("rect", class_="track", width=100, height=8, rx=1),
        _drawn("rect", class_=kind, width=f"{width:.2f}", height=8, rx=1),
        class_="bar",
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


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
    parts = [*_axes(y, top), _drawn("path", class_="line", d="".join([*path, f"H{x(end):.1f}"]))]
    if cap is not None:
        parts += [_across("cap", y(cap)), _text(_WIDE - _RIGHT, y(cap) + 15, f"cap {shown(cap)}")]
    parts += _ends(entries[0].time[:10], entries[-1].time[:10])
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
    parts = [*_axes(y, high, low, wide), _drawn("polyline", class_="line", points=line)]
    if at is not None and min(xs) <= place(at) <= max(xs):
        value = _at(points, at)
        parts.append(_drawn("circle", class_="mark", cx=x(place(at)), cy=y(value), r=5))
        parts.append(_text(x(place(at)), y(value) - 9, f"{value:.3g}", "middle"))
    parts += _ends(f"{points[0][0]:g}", f"{points[-1][0]:g}", wide)
    return _svg(label, *parts, wide=wide)


def choices(points: Sequence[tuple[str, float]], *, label: str, at: str | None = None) -> Markup:
    """Return a bar per value of a column; the chosen one is named with a dot."""
    rows = []
    for number, (name, value) in enumerate(points):
        top, length = _TOP + 24 * number, 150 * max(0.0, min(1.0, value))
        rows.append(_block("mark" if name == at else "weight", 120, top, length))
        rows.append(_text(112, top + 13, f"{'● ' if name == at else ''}{_short(name, 14)}"))
        rows.append(_text(126 + length, top + 13, f"{value:.3g}", "start"))
    return _svg(label, *rows, high=_TOP + 24 * len(points) + 4, wide=320)


def weights(found: Sequence[tuple[str, float]]) -> Markup:
    """Return a linear model's weights as bars to both sides of zero."""
    if not found:
        return Markup("")
    largest = max(abs(weight) for _, weight in found) or 1.0
    rows = [_drawn("line", class_="axis", x1=420, x2=420, y1=4, y2=24 * len(found))]
    for number, (name, weight) in enumerate(found):
        length, top = 190 * abs(weight) / largest, _TOP + 24 * number
        kind, left = ("weight", 420.0) if weight >= 0 else ("against", 420 - length)
        rows.append(_block(kind, left, top - 8, length))
        rows.append(_text(220, top + 5, f"{_short(name)} {weight:+.2g}"))
    return _svg("weights of the encoded columns", *rows, high=24 * len(found) + 8)


def _short(name: str, longest: int = 26) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _at(points: Sequence[tuple[float, float]], place: float) -> float:
    left, before = max(p for p in points if p[0] <= place)
    right, after = min(p for p in points if p[0] >= place)
    return before + (after - before) * (place - left) / ((right - left) or 1.0)


def _scale(low: float, high: float, begin: float, end: float) -> _Scale:
    return lambda value: begin + (value - low) * (end - begin) / (high - low)


def _axes(y: _Scale, top: float, low: float = 0.0, wide: int = _WIDE) -> list[Markup]:
    values = [low + part * (top - low) for part in (0.0, 0.5, 1.0)]
    lines = [_across("axis", y(value), wide) for value in values]
    return lines + [_text(_LEFT - 6, y(value) + 4, f"{value:.3g}") for value in values]


def _across(kind: str, y: float, wide: int = _WIDE) -> Markup:
    return _drawn("line", class_=kind, x1=_LEFT, x2=wide - _RIGHT, y1=y, y2=y)


def _block(kind: str, x: float, y: float, width: float) -> Markup:
    return _drawn("rect", class_=kind, x=x, y=y, width=width, height=16, rx=2)


def _ends(first: str, last: str, wide: int = _WIDE) -> list[Markup]:
    return [_text(_LEFT, _HIGH - 8, first, "start"), _text(wide - _RIGHT, _HIGH - 8, last)]


def _text(x: float, y: float, text: str, anchor: str = "end") -> Markup:
    return _drawn("text", text, x=x, y=y, text_anchor=anchor)


def _svg(label: str, *parts: Markup, high: int = _HIGH, wide: int = _WIDE) -> Markup:
    box = f"0 0 {wide} {high}"
    return _drawn("svg", *parts, class_="picture", viewBox=box, role="img", aria_label=label)


def _drawn(name: str, *inside: str, **said: object) -> Markup:
    """Return an element; what is in it and what is said of it is escaped unless it is one too."""
    told = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), f"{one:.1f}" if isinstance(one, float) else one
        )
        for key, one in said.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, told, Markup("").join(inside))
