"""reproduce: the papers' experiments, from written specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from confrere.cli.answers import Answer, command
from confrere.cli.views import listing
from confrere.experiments import Point, load_spec, load_specs, run_items, summarise


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "reproduce")(reproduce)


def reproduce(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[ITEM]...", help="Such as S1; none lists them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats.")] = False,
    out: Annotated[Path, typer.Option(envvar="CONFRERE_OUT", help="Where records go.")] = Path(
        "confrere-out"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run every cell again.")] = False,
) -> Answer:
    """Run the papers' experiments: what has no record yet is run, and everything is printed."""
    specs = load_specs()
    if not items:
        return _listed()
    unknown = [item for item in items if item not in specs]
    if unknown:
        raise typer.BadParameter(f"there is {', '.join(specs)}.", param_hint="'ITEM'")
    found = run_items(items, quick=quick, out=out, n_jobs=jobs, fresh=fresh)
    points = {item: summarise(rs, load_spec(item).metric) for item, rs in found.items()}
    return Answer(
        f"records in {out / 'records'}",
        {"items": {item: [vars(point) for point in each] for item, each in points.items()}},
        [_table(item, each) for item, each in points.items()],
    )


def _listed() -> Answer:
    table = listing("Experiments", "item", "title", "source")
    for item, spec in load_specs().items():
        table.add_row(item, spec.title, spec.source)
    data = {item: {"title": s.title, "source": s.source} for item, s in load_specs().items()}
    return Answer("next: confrere reproduce ITEM --quick", {"items": data}, [table])


def _table(item: str, points: list[Point]) -> Table:
    spec = load_spec(item)
    title = f"{item}: {spec.title}" + (" (SIMULATED DATA)" if spec.simulated_data else "")
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
