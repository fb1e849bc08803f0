"""Reports from records: one self-contained page, and a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from confrere_research.cell_records import Record, read_records, records_path
from confrere_research.figures import figure_path, save_figure
from confrere_research.results import Point, summarise
from confrere_research.spec import Spec, load_specs
from confrere_research.verdicts import Verdict, judge


@dataclass(frozen=True)
class Chapter:
    """What the report says about one item."""

    spec: Spec
    verdict: Verdict
    points: list[Point]
    table: list[list[str]]
    figure: Markup
    repeats: int
    seconds: float


def recorded(out: Path | str) -> dict[str, list[Record]]:
    """Return the records of every item that has some and whose specification has not changed."""
    found: dict[str, list[Record]] = {}
    for item, spec in load_specs().items():
        current = {spec.key(cell) for cell in spec.cells()}
        records = [r for r in read_records(records_path(Path(out), item)) if r.key in current]
        if records:
            found[item] = records
    return found


def write_report(out: Path | str) -> Path:
    """Write ``report.html`` and ``figures/`` from the records under ``out``.

    Figures that are newer than their records are not drawn again.

    Returns
    -------
    Path
        The page: self-contained, to be opened in any browser or printed.
    """
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        (files("confrere_research") / "templates" / "report.html.jinja").read_text("utf-8")
    )
    records = recorded(out)
    specs = load_specs()
    chapters = [_chapter(specs[item], found, Path(out)) for item, found in records.items()]
    versions = next((r[0].versions for r in records.values()), {})
    path = Path(out) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page.render(chapters=chapters, versions=versions), encoding="utf-8")
    return path


def summary_table(records: Mapping[str, Sequence[Record]]) -> list[list[str]]:
    """Return a header and one row per item: the best of each kind at one budget, the verdict."""
    rows = [
        ["item", "what", "as published", "corrected", "recommended", "without noise", "verdict"]
    ]
    specs = load_specs()
    for item, found in records.items():
        spec = specs[item]
        points = summarise(found, spec.metric)
        best = [
            _headline(spec, points, v)
            for v in ("as published", "corrected", "recommended", "ceiling")
        ]
        rows.append([item, spec.title, *best, judge(spec, points).outcome])
    return rows


def markdown_summary(records: Mapping[str, Sequence[Record]]) -> str:
    """Return the table of :func:`summary_table` in Markdown."""
    return _markdown(summary_table(records))


def markdown_table(spec: Spec, points: Sequence[Point]) -> str:
    """Return an item's methods against its epsilons or settings."""
    return _markdown(result_table(spec, points))


def result_table(spec: Spec, points: Sequence[Point]) -> list[list[str]]:
    """Return a header and one row per method and variant; flips in brackets."""
    columns = list(dict.fromkeys(_column(spec, p) for p in points if _column(spec, p) is not None))
    axis = "epsilon" if spec.axis is None else spec.axis.name
    head = [
        "method",
        "variant",
        *(f"{axis} {column:g}" for column in columns if column is not None),
    ]
    rows = []
    for method, variant in dict.fromkeys((p.method, p.variant) for p in points):
        mine = {_column(spec, p): p for p in points if (p.method, p.variant) == (method, variant)}
        reference = mine.get(None)
        cells = [_cell(mine.get(column, reference)) for column in columns]
        rows.append([method, variant, *cells])
    return [head, *rows]


def _markdown(table: Sequence[Sequence[str]]) -> str:
    head, *rows = table
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _column(spec: Spec, point: Point) -> float | None:
    return point.epsilon if spec.axis is None else point.setting


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    flips = f" ({point.flips} flipped)" if point.flips else ""
    return f"{point.said}{flips}"


def _headline(spec: Spec, points: Sequence[Point], variant: str) -> str:
    """Return the best point of a variant at the middle budget: epsilon 1 wherever there is one."""
    epsilon = 1.0 if 1.0 in spec.epsilons else spec.epsilons[len(spec.epsilons) // 2]
    mine = [p for p in points if p.variant == variant and p.epsilon in (epsilon, None)]
    if not mine:
        return ""
    sign = 1 if spec.higher_is_better else -1
    best = max(mine, key=lambda p: sign * p.mean)
    return f"{best.method} {best.mean:.3f}"


def _chapter(spec: Spec, records: Sequence[Record], out: Path) -> Chapter:
    points = summarise(records, spec.metric)
    path = figure_path(spec, out)
    if not path.exists() or path.stat().st_mtime <= records_path(out, spec.item).stat().st_mtime:
        save_figure(spec, records, out)
    svg = path.read_text(encoding="utf-8")
    return Chapter(
        spec=spec,
        verdict=judge(spec, points),
        points=points,
        table=result_table(spec, points),
        figure=Markup(svg[svg.index("<svg") :]),  # noqa: S704 - drawn here, from numbers
        repeats=max(point.n for point in points),
        seconds=sum(record.seconds for record in records),
    )
