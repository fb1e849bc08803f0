"""``reproduce``: the papers' experiments, from written specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.app import Answer, Option, command
from confrere.views import Table
from confrere_research.cell_records import Record
from confrere_research.report import summary_table, write_report
from confrere_research.results import Point, summarise
from confrere_research.runner import run_items
from confrere_research.spec import Spec, load_specs
from confrere_research.verdicts import Verdict, judge

#: Up to so many items, every method is shown on the screen and not in the report only.
_FEW = 3


@command("reproduce")
def reproduce(
    items: Annotated[
        list[str] | None, Option("Such as S1, or all; none lists them.", metavar="[ITEM]...")
    ] = None,
    *,
    quick: Annotated[bool, "Fewer repeats."] = False,
    out: Annotated[Path, Option("Where records go.", envvar="CONFRERE_OUT")] = Path("confrere-out"),
    jobs: Annotated[int, Option("Processes.", min=1)] = 2,
    fresh: Annotated[bool, "Run every cell again."] = False,
) -> Answer:
    """Run the papers' experiments: what has no record yet is run, and everything is reported."""
    specs = load_specs()
    if not items:
        return _listed()
    if "all" in items:
        items = list(specs)
    unknown = [item for item in items if item not in specs]
    if unknown:
        raise typer.BadParameter(f"there is {', '.join(specs)}; or all.", param_hint="'ITEM'")
    found = run_items(items, quick=quick, out=out, n_jobs=jobs, fresh=fresh)
    points = {item: summarise(rs, specs[item].metric) for item, rs in found.items()}
    shown: list[object] = [_table(specs[item], each) for item, each in points.items()]
    if len(items) > _FEW:
        shown = [_summary(found)]
    report = write_report(out)
    verdicts = {item: judge(specs[item], each) for item, each in points.items()}
    return Answer(
        f"wrote report: {report} (records and figures beside it)",
        {
            "items": {item: [vars(point) for point in each] for item, each in points.items()},
            "verdicts": {item: verdict.outcome for item, verdict in verdicts.items()},
            "report": str(report),
        },
        [*shown, *(_said(verdict) for verdict in verdicts.values() if len(items) <= _FEW)],
    )


def _said(verdict: Verdict) -> str:
    return f"{verdict.item} {verdict.outcome}. {verdict.why}"


def _summary(found: dict[str, list[Record]]) -> Table:
    head, *rows = ([row[0], *row[2:]] for row in summary_table(found))  # titles take too much room
    return Table(head, rows, title="At epsilon 1, or the nearest")


def _listed() -> Answer:
    specs = load_specs()
    rows = [(item, spec.title, spec.source) for item, spec in specs.items()]
    return Answer(
        "next: python -m confrere_research reproduce ITEM --quick",
        {"items": {item: {"title": s.title, "source": s.source} for item, s in specs.items()}},
        [Table(("item", "title", "source"), rows, title="Experiments")],
    )


def _table(spec: Spec, points: list[Point]) -> Table:
    rows = [
        (
            point.method,
            point.variant,
            "" if point.epsilon is None else f"{point.epsilon:g}",
            "" if point.setting is None else f"{point.setting:g}",
            point.said,
            str(point.flips or ""),
        )
        for point in points
    ]
    title = f"{spec.item}: {spec.title}" + (" (SIMULATED DATA)" if spec.simulated_data else "")
    columns = ("method", "variant", "epsilon", "setting", spec.metric, "flips")
    return Table(columns, rows, title=title)
