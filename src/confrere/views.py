"""What people look at, described once: on a terminal, and in a notebook.

A thing that is :class:`Shown` has a view: a title, facts and tables. Notebooks get HTML with styles
in place, because sites that show them drop style sheets and scripts; colours are neither light nor
dark: text and background are the notebook's own.
"""

from __future__ import annotations

import importlib
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Tone = Literal["good", "bad", "accent", "soft", "strong"]

#: In a notebook, readable on white and on black; and on a terminal.
_COLOURS = {"good": "#2e8b57", "bad": "#d1495b", "accent": "#3a86b8"}
_STYLES = {"good": "green", "bad": "red", "accent": "cyan", "soft": "dim", "strong": "bold"}

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.2em .9em .2em 0;border:0;border-bottom:{_LINE};text-align:left;"
_NUMBER = "text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;"
_SOFT = "opacity:.7;"


@dataclass(frozen=True)
class Word:
    """A word that stands out, and what follows it."""

    text: object
    tone: Tone = "accent"
    then: object = ""


@dataclass(frozen=True)
class Span:
    """A stretch of a line from 0 to 1, with a mark on it: a share, or an interval."""

    end: float
    begin: float = 0.0
    mark: float | None = None
    tone: Tone = "accent"


@dataclass(frozen=True)
class Table:
    """Rows under named columns, of which some hold numbers, and some pictures for notebooks."""

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]
    right: Sequence[str] = ()
    title: str = ""
    pictures: Sequence[str] = ()


@dataclass(frozen=True)
class Pairs:
    """Names and values, a pair a line; lists have lines of their own, and None is left out."""

    values: Mapping[str, object]
    title: str = ""


@dataclass(frozen=True)
class Panel:
    """A title, parts one under the other, and a line in small print."""

    title: object
    parts: Sequence[object] = ()
    note: str = ""


class Shown:
    """Something that people look at."""

    @abstractmethod
    def view(self) -> Panel:
        """Return what is shown of it."""

    def _repr_html_(self) -> str:
        return str(html(self))


def shown(value: float) -> str:
    """Return at most four significant digits, rounded up: a cost is never shown as less."""
    return _digits(value, ROUND_CEILING)


def shown_down(value: float) -> str:
    """Return at most four significant digits, rounded down: for what is left to spend."""
    return _digits(value, ROUND_FLOOR)


def amount(value: float | None) -> str:
    """Return what is left to spend, in words where nobody set a limit."""
    if value is None or math.isinf(value):
        return "no limit"
    return shown_down(value) if value >= 0 else f"{value:.4g}"


def cost(epsilon: float, delta: float) -> str:
    """Return what is paid, rounded up; delta only where there is one."""
    return f"{shown(epsilon)}, delta {shown(delta)}" if delta else shown(epsilon)


def _digits(value: float, rounding: str) -> str:
    rounded = Context(prec=4, rounding=rounding).create_decimal(repr(float(value)))
    return f"{rounded.normalize():f}" if abs(rounded) < Decimal("1e9") else f"{rounded:.3e}"


def moment(time: str) -> str:
    """Return a time for people."""
    return time[:19].replace("T", " ")


def share(spent: float, limit: float | None, before: float | None = None) -> object:
    """Return how much of a limit is spent, and was before."""
    if not limit:
        return Word("no limit", "bad") if limit is None else Span(1.0, tone="bad")
    mark = None if before is None else before / limit
    return Span(spent / limit, mark=mark, tone="bad" if spent >= limit else "accent")


def _told(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if value is not None and not (isinstance(value, list | tuple) and not value):
            yield name, value


def html(thing: object) -> Markup:
    """Return a thing, or a part of one, for a notebook."""
    match thing:
        case Shown():
            return html(thing.view())
        case Word(text, tone, then):
            return Markup("<b style='color:{}'>{}</b>{}").format(_COLOURS.get(tone, ""), text, then)
        case list() | tuple():
            return Markup("<br>").join(map(html, thing))
        case Span():
            return _span(thing)
        case Table() | Pairs():
            return _table(thing)
        case Panel(title, parts, note):
            body = [Markup("<div style='margin:.45em 0'>{}</div>").format(html(p)) for p in parts]
            small = Markup("<div style='{}font-size:.85em'>{}</div>").format(_SOFT, note)
            return Markup(
                "<div style='border:{};border-radius:6px;padding:.7em 1em;margin:.3em 0;"
                "max-width:60em;line-height:1.4;color:inherit;background:none;overflow-x:auto'>"
                "<div style='font-weight:600'>{}</div>{}{}</div>"
            ).format(_LINE, html(title), Markup("").join(body), small if note else "")
    return Markup("{}").format(thing)


def _row(cells: Iterable[object], styles: Iterable[str]) -> Markup:
    made = (
        Markup("<td style='{}'>{}</td>").format(style, html(cell))
        for cell, style in zip(cells, styles, strict=True)
    )
    return Markup("<tr style='background:none'>{}</tr>").format(Markup("").join(made))


def _table(part: Table | Pairs) -> Markup:
    if isinstance(part, Table):
        styles = [_CELL + (_NUMBER if name in part.right else "") for name in part.columns]
        heads = [f"{style}{_SOFT}font-weight:600" for style in styles]
        head = Markup("<thead>{}</thead>").format(_row(part.columns, heads))
        rows = [head, *(_row(row, styles) for row in part.rows)]
    else:
        styles = [f"{_CELL}{_SOFT}vertical-align:top", f"{_CELL}white-space:normal"]
        rows = [_row(pair, styles) for pair in _told(part.values)]
    style = "border-collapse:collapse;margin:0"
    return Markup("<table style='{}'>{}</table>").format(style, Markup("").join(rows))


def _span(span: Span) -> Markup:
    def place(share: float) -> float:
        return 100 * min(max(share, 0.0), 1.0)

    piece = Markup(
        "<i style='position:absolute;left:{:.1f}%;top:0;width:{};height:100%;background:{}'></i>"
    )
    begin, width = place(span.begin), max(place(span.end) - place(span.begin), 0.5)
    mark = "" if span.mark is None else piece.format(place(span.mark), "2px", "currentColor")
    return Markup(
        "<div style='position:relative;display:inline-block;width:12em;height:.8em;overflow:hidden;"
        "vertical-align:middle;border-radius:3px;background:rgba(128,128,128,.22)'>{}{}</div>"
    ).format(piece.format(begin, f"{width:.1f}%", _COLOURS[span.tone]), mark)


def terminal(thing: object) -> Iterator[RenderableType]:
    """Yield what rich prints of a thing, or of a part of one."""
    from rich.text import Text

    match thing:
        case Shown():
            yield from terminal(thing.view())
        case Panel(title, parts, note):
            yield Text(style="bold").append_text(_line(title))
            for part in parts:
                yield from terminal(part)
            if note:
                yield Text(note, style="dim")
        case Table() | Pairs():
            yield _grid(thing)
        case _:
            yield _line(thing)


def _line(value: object) -> Text:
    from rich.text import Text

    match value:
        case Word(text, tone, then):
            return Text.assemble((str(text), _STYLES[tone]), str(then))
        case Span(end=end):
            return Text(f"{end:.0%}")
        case list() | tuple():
            return Text("\n").join(map(_line, value))
    return Text(str(value))


def _grid(part: Table | Pairs) -> RenderableType:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(title=part.title or None, title_justify="left", title_style="bold", box=None)
    if isinstance(part, Pairs):
        grid.show_header = False
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for pair in _told(part.values):
            grid.add_row(*map(_line, pair))
        return grid
    grid.box = box.SIMPLE_HEAD
    shown = [name not in part.pictures for name in part.columns]
    for name in compress(part.columns, shown):
        grid.add_column(name, justify="right" if name in part.right else "left", overflow="fold")
    for row in part.rows:
        grid.add_row(*map(_line, compress(row, shown)))
    return grid


@contextmanager
def progress_bar(label: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield what is told how many are done, and shows it on a terminal or in a notebook."""
    place = _display() if shown else None
    if place is not None:
        yield lambda done: place.update(_InPlace(label, done, total))
        return
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


@dataclass(frozen=True)
class _InPlace:
    label: str
    done: int
    total: int

    def _repr_html_(self) -> str:
        share = html(Span(self.done / self.total if self.total else 1.0))
        told = Markup("<div style='color:inherit'>{} {} {} of {}</div>")
        return str(told.format(share, self.label, self.done, self.total))


def _display() -> Any:
    """Return a place in the notebook that can be written again, or None outside of one."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if running is None or not hasattr(running, "kernel"):
        return None
    first = _InPlace("", 0, 0)
    return importlib.import_module("IPython.display").display(first, display_id=True)
