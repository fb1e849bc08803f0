"""init, check and price: all that comes before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, ExitCode, command, good
from confrere.cli.options import Data, LedgerFile, Locals, StudyFile, pairs
from confrere.cli.views import facts, price_table, promise_line, report_parts
from confrere.schema import DataReport
from confrere.study import (
    Study,
    check_table,
    gather_locals,
    make_plan,
    read_study,
    save_report,
    write_example,
    write_template,
)


@command("init")
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


@command("check")
def check(
    study: StudyFile,
    local: Locals = None,
    data: Data = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on anything that the report finds.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where reports go; by default beside the ledgers."),
    ] = None,
) -> Answer:
    """Check a study file, the local files beside it, and how the parties' tables fit the schema.

    Tables are those that local files name, and --data. What is found is for their owners alone:
    it is shown here and kept in a file that only they can read. Nothing is spent.
    """
    found = read_study(study)
    tables = pairs(data, "--data", found)
    locals_ = gather_locals(found, study, local or (), data=tables)
    reports: dict[str, DataReport] = {}
    files: dict[str, Path] = {}
    for name, own in locals_.items():
        # A table that was named here must be there; a local file may be older than its table.
        older = own.data_path is not None and name not in tables and not own.data_path.exists()
        if own.has_table and not older:
            reports[name] = check_table(found, own.table())
            place = (report or own.ledger_path.parent) / f"{name}.check.txt"
            title = f"{found.id}: {name}'s own table; not to leave {name}"
            files[name] = save_report(reports[name], place, title=title)
    code, message = _outcome(reports, strict)
    shown = [part for name, one in reports.items() for part in report_parts(name, one, files[name])]
    return Answer(
        f"{message}; next: confrere price {study}" if code is ExitCode.OK else message,
        {
            **_facts(found),
            "parties_here": list(locals_),
            "rows": {name: one.used for name, one in reports.items()},
            "reports": {name: one.to_dict() for name, one in reports.items()},
            "report_files": {name: str(path) for name, path in files.items()},
        },
        [facts(found.title, _facts(found)), *shown],
        exit_code=code,
        error_code=None if code is ExitCode.OK else "InvalidData",
    )


def _outcome(reports: dict[str, DataReport], strict: bool) -> tuple[ExitCode, str]:
    """Return how a check ends, and what it says in one line."""
    refused = [name for name, one in reports.items() if one.refused]
    if refused:
        return ExitCode.INVALID, f"the study is valid, but fit would refuse {_tables(refused)}"
    found = [name for name, one in reports.items() if one.findings]
    if found and strict:
        return ExitCode.INVALID, f"the study is valid, but look at {_tables(found)} (--strict)"
    fits = "".join(f", {one.used} rows of {name} fit the schema" for name, one in reports.items())
    return ExitCode.OK, f"the study is valid{fits}{f'; look at {_tables(found)}' if found else ''}"


def _tables(names: list[str]) -> str:
    return f"the table{'s' * (len(names) > 1)} of {', '.join(names)}"


@command("price")
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
