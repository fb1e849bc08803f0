"""HTML for notebooks: small pieces that escape what they are given and need nothing from outside.

Colours are neither light nor dark: text and background are the notebook's own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup

#: Readable on white and on black.
GOOD, BAD, ACCENT = "#2e8b57", "#d1495b", "#3a86b8"
_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.2em .9em .2em 0;border:0;border-bottom:{_LINE};text-align:left;"
_NUMBER = "text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;"
_SOFT = "opacity:.7;"


def panel(title: object, *parts: object, note: object = "") -> str:
    """Return a framed block: a title, parts one under the other, and a line in small print."""
    body = Markup("").join(Markup("<div style='margin:.45em 0'>{}</div>").format(p) for p in parts)
    small = Markup("<div style='{}font-size:.85em'>{}</div>").format(_SOFT, note) if note else ""
    return str(
        Markup(
            "<div style='border:{};border-radius:6px;padding:.7em 1em;margin:.3em 0;"
            "max-width:60em;line-height:1.4;color:inherit;background:none;overflow-x:auto'>"
            "<div style='font-weight:600'>{}</div>{}{}</div>"
        ).format(_LINE, title, body, small)
    )


def grid(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()
) -> Markup:
    """Return a table; columns named in ``right`` hold numbers."""
    styles = [_CELL + (_NUMBER if name in right else "") for name in columns]
    head = Markup("").join(
        Markup("<th style='{}{}font-weight:600'>{}</th>").format(style, _SOFT, name)
        for name, style in zip(columns, styles, strict=True)
    )
    body = Markup("").join(
        Markup("<tr style='background:none'>{}</tr>").format(
            Markup("").join(
                Markup("<td style='{}'>{}</td>").format(style, cell)
                for cell, style in zip(row, styles, strict=True)
            )
        )
        for row in rows
    )
    return Markup(
        "<table style='border-collapse:collapse;margin:0'>"
        "<thead><tr style='background:none'>{}</tr></thead>{}</table>"
    ).format(head, body)


def facts(values: Mapping[str, object]) -> Markup:
    """Return names and values, one pair a line; lists become lines of their own."""
    rows = Markup("").join(
        Markup(
            "<tr style='background:none'><td style='{}{}vertical-align:top'>{}</td>"
            "<td style='{}white-space:normal'>{}</td></tr>"
        ).format(_CELL, _SOFT, name, _CELL, _lines(value))
        for name, value in values.items()
        if value not in (None, "", (), [])
    )
    return Markup("<table style='border-collapse:collapse;margin:0'>{}</table>").format(rows)


def _lines(value: object) -> object:
    if isinstance(value, list | tuple):
        return Markup("<br>").join(value)
    return value


def bar(share: float, *, colour: str = ACCENT, mark: float | None = None) -> Markup:
    """Return a bar that is filled to a share of its width; ``mark`` draws a line across it."""
    width = 100 * min(max(share, 0.0), 1.0)
    line = Markup("")
    if mark is not None:
        line = Markup(
            "<i style='position:absolute;left:{:.1f}%;top:0;width:2px;height:100%;"
            "background:currentColor'></i>"
        ).format(100 * min(max(mark, 0.0), 1.0))
    return Markup(
        "<div style='position:relative;display:inline-block;width:12em;height:.8em;"
        "vertical-align:middle;border-radius:3px;overflow:hidden;background:rgba(128,128,128,.22)'>"
        "<i style='display:block;height:100%;width:{:.1f}%;background:{}'></i>{}</div>"
    ).format(width, colour, line)


def interval(value: float, low: float, high: float) -> Markup:
    """Return an interval inside [0, 1] as a stretch of a line, with the estimate on it."""
    left, right = (100 * min(max(end, 0.0), 1.0) for end in (low, high))
    return Markup(
        "<div style='position:relative;display:inline-block;width:12em;height:.8em;"
        "vertical-align:middle;border-radius:3px;background:rgba(128,128,128,.22)'>"
        "<i style='position:absolute;left:{:.1f}%;width:{:.1f}%;height:100%;background:{};"
        "opacity:.55'></i>"
        "<i style='position:absolute;left:{:.1f}%;top:0;width:2px;height:100%;"
        "background:currentColor'></i></div>"
    ).format(left, max(right - left, 0.5), ACCENT, 100 * min(max(value, 0.0), 1.0))


def word(text: object, colour: str = ACCENT) -> Markup:
    """Return a word that stands out."""
    return Markup("<b style='color:{}'>{}</b>").format(colour, text)


@contextmanager
def progress_bar(label: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show how far something is, on a terminal or in a notebook; elsewhere nothing is shown.

    Yields
    ------
    callable
        To be told how many of ``total`` are done.
    """
    place = _display() if shown else None
    if place is not None:
        yield lambda done: place.update(_HTML(_progress_html(label, done, total)))
        return
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def _progress_html(what: str, done: int, total: int) -> str:
    return str(
        Markup("<div style='color:inherit'>{} {} <span style='{}'>{} of {}</span></div>").format(
            bar(done / total if total else 1.0), what, _SOFT, done, total
        )
    )


class _HTML:
    """Something that a notebook shows as HTML."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


def _display() -> Any:
    """Return a place in the notebook that can be written again, or None outside of one."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if running is None or not hasattr(running, "kernel"):
        return None
    return importlib.import_module("IPython.display").display(_HTML(""), display_id=True)
