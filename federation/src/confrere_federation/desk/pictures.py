"""Pictures made here: bars, and steps over time, as SVG without any script.

Colours are the style sheet's, by class, so that a picture is light, dark or printed as the page is;
nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from confrere.ledger import Entry
from confrere.views import shown

_WIDE, _HIGH = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 26


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
    steps = list(_steps(entries, times, yearly=yearly))
    begin, end = times[0], max(times[-1], times[0] + 1.0)
    top = max([*(value for _, value in steps), cap or 0.0]) * 1.05 or 1.0
    bottom, right = _HIGH - _BOTTOM, _WIDE - _RIGHT

    def x(time: float) -> float:
        return _LEFT + (time - begin) * (right - _LEFT) / (end - begin)

    def y(value: float) -> float:
        return bottom - value * (bottom - _TOP) / top

    def across(kind: str, value: float) -> Markup:
        return _drawn("line", class_=kind, x1=_LEFT, x2=right, y1=y(value), y2=y(value))

    path = [f"H{x(time):.1f}V{y(value):.1f}" for time, value in steps]
    marks = [0.0, top / 2, top]
    parts = [across("axis", value) for value in marks]
    parts += [_text(_LEFT - 6, y(value) + 4, f"{value:.3g}") for value in marks]
    whole = "".join([f"M{x(begin):.1f} {y(0.0):.1f}", *path, f"H{x(end):.1f}"])
    parts.append(_drawn("path", class_="line", d=whole))
    if cap is not None:
        parts += [across("cap", cap), _text(right, y(cap) + 15, f"cap {shown(cap)}")]
    parts.append(_text(_LEFT, _HIGH - 8, entries[0].time[:10], "start"))
    parts.append(_text(right, _HIGH - 8, entries[-1].time[:10]))
    box, label = f"0 0 {_WIDE} {_HIGH}", "what was spent over time"
    return _drawn("svg", *parts, class_="picture", viewBox=box, role="img", aria_label=label)


def _steps(
    entries: Sequence[Entry], times: Sequence[float], *, yearly: bool
) -> Iterator[tuple[float, float]]:
    """Yield when how much was spent; a new year begins with nothing."""
    year = entries[0].year
    for entry, time in zip(entries, times, strict=True):
        if yearly and entry.year is not None and entry.year != year:
            year = entry.year
            yield max(times[0], min(time, datetime(year, 1, 1, tzinfo=UTC).timestamp())), 0.0
        yield time, entry.counted if yearly else entry.spent


def _text(x: float, y: float, text: str, anchor: str = "end") -> Markup:
    return _drawn("text", text, x=x, y=y, text_anchor=anchor)


def _drawn(name: str, *inside: str, **said: object) -> Markup:
    """Return an element; what is in it and what is said of it is escaped unless it is one too."""
    told = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), f"{one:.1f}" if isinstance(one, float) else one
        )
        for key, one in said.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, told, Markup("").join(inside))
