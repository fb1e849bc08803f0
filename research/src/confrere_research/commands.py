"""``reproduce``: the papers' experiments, from written specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from confrere.cli.envelope import Answer
from confrere.cli.views import listing
from confrere_research.cell_records import Record
from confrere_research.report import summary_table, write_report
from confrere_research.results import Point, summarise
from confrere_research.runner import run_items
from confrere_research.spec import Spec, load_specs
from confrere_research.verdicts import Verdict, judge

#: Up to so many items, every method is shown on the screen and not in the report only.
_FEW = 3


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ITEM]...", help="Such as S1, or all; none lists them."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats.")] = False,
    out: Annotated[Path, typer.Option(envvar="CONFRERE_OUT", help="Where records go.")] = Path(
        "confrere-out"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run every cell again.")] = False,
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
    shown = [_table(specs[item], each) for item, each in points.items()]
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
    table = listing("At epsilon 1, or the nearest", *head)
    for row in rows:
        table.add_row(*row)
    return table


def _listed() -> Answer:
    table = listing("Experiments", "item", "title", "source")
    for item, spec in load_specs().items():
        table.add_row(item, spec.title, spec.source)
    data = {item: {"title": s.title, "source": s.source} for item, s in load_specs().items()}
    return Answer(
        "next: python -m confrere_research reproduce ITEM --quick", {"items": data}, [table]
    )


def _table(spec: Spec, points: list[Point]) -> Table:
    title = f"{spec.item}: {spec.title}" + (" (SIMULATED DATA)" if spec.simulated_data else "")
    table = listing(title, "method", "variant", "epsilon", "setting", spec.metric, "flips")
    for point in points:
        table.add_row(
            point.method,
            point.variant,
            "" if point.epsilon is None else f"{point.epsilon:g}",
            "" if point.setting is None else f"{point.setting:g}",
            f"{point.mean:.4f} ± {point.sd:.4f}",
            str(point.flips or ""),
        )
    return table
