"""init, check, price: all before anything is spent; fit: agree, learn, and write the releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, ExitCode, aside, command, good
from confrere.cli.options import (
    ApprovedBy,
    Auxiliary,
    Data,
    Justification,
    LedgerFile,
    Locals,
    Reason,
    SpendUnasked,
    StudyFile,
    approver,
    confirm,
    pairs,
    reason_of,
)
from confrere.cli.views import (
    facts,
    price_table,
    promise_line,
    receipt_facts,
    receipt_table,
    report_parts,
)
from confrere.release import Release
from confrere.schema import DataReport
from confrere.study import (
    Local,
    Made,
    Study,
    approval_of,
    check_destination,
    check_keys,
    check_table,
    gather_locals,
    make_plan,
    prepare,
    read_plan,
    read_study,
    reader_for,
    refuse_taken,
    save_made,
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


@command("fit")
def fit(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="The study file, or --plan.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan that confrere price wrote.")] = None,
    local: Locals = None,
    data: Data = None,
    ledger: LedgerFile = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="PARTY=FILE", help="The private key to sign with."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY=FOLDER", help="What a source elsewhere has released."),
    ] = None,
    source_key: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY=FILE", help="Its public key: it must have signed."),
    ] = None,
    auxiliary: Auxiliary = None,
    out: Annotated[
        Path | None,
        typer.Option(envvar="CONFRERE_OUT", help="Where releases go; confrere-out/ID by default."),
    ] = None,
    name: ApprovedBy = None,
    reason: Reason = None,
    justification: Justification = None,
    yes: SpendUnasked = False,
    allow_uncapped: Annotated[
        bool, typer.Option("--allow-uncapped", help="Go ahead where nothing caps the spending.")
    ] = False,
) -> Answer:
    """Learn what a study describes, for the parties that live here, and write the releases.

    Shows the price first and asks for the amount to be typed. Every party's own ledger is charged
    before any noise is drawn; a plan pays once, and carried out again it gives the same.
    """
    if study is None and plan is None:
        raise typer.BadParameter("give a study file or --plan.", param_hint="'STUDY'")
    agreed = None if plan is None else read_plan(plan)
    path = study if study is not None else agreed.study_path if agreed else Path()
    found = read_study(path)
    locals_ = gather_locals(
        found,
        path,
        local or (),
        data=pairs(data, "--data", found),
        keys=pairs(key, "--key", found),
        ledger=ledger,
    )
    priced = make_plan(found, locals_, None if agreed is None else agreed.plan_id)
    if agreed is not None:
        agreed.check(found, priced)
    folder = out or Path("confrere-out") / found.id
    sources = _sources(found, source, source_key)
    runner = prepare(
        found, priced, locals_, sources, auxiliary=auxiliary, allow_uncapped=allow_uncapped
    )
    check_keys(locals_)
    refuse_taken(found, folder, list(runner.rows))
    approval = approval_of(
        name=approver(name),
        reason=reason_of(reason, found),
        justification=justification or found.promise.justification,
    )
    console = aside()
    console.print(price_table(priced))
    console.print(promise_line(priced, found.promise.unit))
    if not yes:
        confirm(priced.amount)
    check_destination(found, folder, list(runner.rows))
    with console.status("learning"):
        made = runner.run(approval)
    places = {one.name: save_made(found, one, folder, locals_) for one in made}
    return _answer(found, made, places, locals_)


def _sources(
    study: Study, texts: list[str] | None, key_texts: list[str] | None
) -> dict[str, Release]:
    keys = pairs(key_texts, "--source-key")
    return {
        name: reader_for(study)(
            folder, require_signature_from={name: keys[name]} if name in keys else None
        )
        for name, folder in pairs(texts, "--source").items()
    }


def _answer(
    study: Study, made: list[Made], places: dict[str, Path], locals_: dict[str, Local]
) -> Answer:
    signed = [name for one in made for name in one.receipts if locals_[name].key_path]
    releases = [
        {
            "name": one.name,
            "folder": str(places[one.name]),
            "page": str(places[one.name].with_name(f"{one.name}.html")),
            "release_id": one.release.release_id,
            "status": one.release.card.status,
            "epsilon": one.release.card.epsilon,
            "receipts": [
                receipt_facts(name, receipt)
                for name, receipts in one.receipts.items()
                for receipt in receipts
            ],
        }
        for one in made
    ]
    first = places[made[0].name]
    return Answer(
        f"{len(made)} release(s), {'signed' if signed else 'not signed'}; next: confrere "
        f"{'release show' if study.simulated else 'verify'} {first}",
        {"study_sha256": study.sha256, "releases": releases},
        [receipt_table(made), *(good("wrote", f"{r['folder']} and {r['page']}") for r in releases)],
    )
