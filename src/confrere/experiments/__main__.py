"""``python -m confrere.experiments S1 --quick --out DIR``: run items and print what they gave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from confrere.experiments.runner import run_items
from confrere.experiments.spec import load_spec, load_specs
from confrere.experiments.summary import summarise

app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    items: Annotated[list[str] | None, typer.Argument(help="Such as S1; all if none.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats.")] = False,
    out: Annotated[Path, typer.Option(help="Where records go.")] = Path("confrere-out"),
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run every cell again.")] = False,
) -> None:
    """Run the papers' experiments, what has no record yet, and print the results."""
    chosen = items or list(load_specs())
    console = Console()
    for item, records in run_items(chosen, quick=quick, out=out, n_jobs=jobs, fresh=fresh).items():
        spec = load_spec(item)
        table = Table("method", "variant", "epsilon", "setting", spec.metric, "flips", title=item)
        for point in summarise(records, spec.metric):
            table.add_row(
                point.method,
                point.variant,
                "" if point.epsilon is None else f"{point.epsilon:g}",
                "" if point.setting is None else f"{point.setting:g}",
                f"{point.mean:.4f} ± {point.sd:.4f}",
                str(point.flips or ""),
            )
        console.print(table)


if __name__ == "__main__":
    app()
