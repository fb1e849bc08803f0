"""reproduce: the papers' experiments, from written specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command
from confrere.extras import research


@command("reproduce")
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
    """Run the papers' experiments: what has no record yet is run, and everything is reported.

    The experiments come with confrere-research.
    """
    answer: Answer = research("commands").reproduce(
        items or [], quick=quick, out=out, jobs=jobs, fresh=fresh
    )
    return answer
