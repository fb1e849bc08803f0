"""init, check and price: all that comes before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command, good
from confrere.cli.options import Data, LedgerFile, Locals, StudyFile, pairs
from confrere.cli.views import facts, price_table, promise_line
from confrere.study import (
    Study,
    gather_locals,
    make_plan,
    read_rows,
    read_study,
    write_example,
    write_template,
)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "init")(init)
    command(app, "check")(check)
    command(app, "price")(price)


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    example: Annotated[
        bool, typer.Option("--example", help="Write simulated patients too, to try it out.")
    ] = False,
) -> Answer:
    """Write a commented study file and a local file per party."""
    written = write_example(folder) if example else write_template(folder)
    message = f"{len(written)} files written; next: confrere check {folder / 'study.toml'}"
    return Answer(
        message,
        {"files": [str(path) for path in written]},
        [good("wrote", path) for path in written],
    )


def check(study: StudyFile, local: Locals = None, data: Data = None) -> Answer:
    """Check a study file, the local files beside it, and with --data a table's fit to the schema.

    Nothing is spent, and no value of a table is printed.
    """
    found = read_study(study)
    tables = pairs(data, "--data", found)
    locals_ = gather_locals(found, study, local or (), data=tables)
    rows = {name: len(read_rows(found, path).y) for name, path in tables.items()}
    return Answer(
        f"the study is valid{_fit_words(rows)}; next: confrere price {study}",
        {**_facts(found), "parties_here": list(locals_), "rows": rows},
        [facts(found.title, _facts(found))],
    )


def price(
    study: StudyFile,
    out: Annotated[Path | None, typer.Option(help="Write the plan, to be agreed to.")] = None,
    local: Locals = None,
    ledger: LedgerFile = None,
) -> Answer:
    """Say what a study would spend, by whom, and what would be left; touches no data."""
    found = read_study(study)
    plan = make_plan(found, gather_locals(found, study, local or (), ledger=ledger))
    plan.check()
    following = f"confrere fit {study if out is None else f'--plan {out}'}"
    if found.engine == "flower":
        following = f"confrere coordinator {study}, and confrere party {study} at every party"
    if out is not None:
        plan.save(out, study)
    return Answer(
        f"nothing was spent; next: {following}",
        {**plan.to_dict(), "plan_file": None if out is None else str(out)},
        [price_table(plan), promise_line(plan, found.promise.unit)],
    )


def _facts(study: Study) -> dict[str, object]:
    return {
        "id": study.id,
        "sha256": study.sha256,
        "mode": study.mode,
        "method": study.method.name,
        "epsilon": study.epsilon,
        "features": len(study.schema.feature_names),
        "parties": ", ".join(party.name for party in study.parties),
        "schema_fingerprint": study.schema.fingerprint(),
        "proof": study.method.proof,
    }


def _fit_words(rows: dict[str, int]) -> str:
    return "".join(f", {count} rows of {name} fit the schema" for name, count in rows.items())
