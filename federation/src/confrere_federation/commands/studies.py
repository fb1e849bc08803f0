"""init, check, price: all before anything is spent; fit: agree, learn, and write the releases."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from confrere.cli.envelope import Answer, ExitCode, Option, command, console, tell, wrote
from confrere.cli.options import confirm, pairs
from confrere.data.report import DataReport
from confrere.release import Release
from confrere.views import Pairs, Table
from confrere.views import price as shown_price
from confrere_federation.studies.running import (
    Made,
    approval_of,
    check_destination,
    check_keys,
    check_table,
    has_answered,
    make_plan,
    prepare,
    reader_for,
    refuse_taken,
    save_made,
    save_report,
)
from confrere_federation.studies.study_file import Local, Study, gather_locals, read_study
from confrere_federation.studies.template import write_example, write_template


@command("init")
def init(
    folder: Annotated[Path, "Where the files go."] = Path(),
    *,
    example: Annotated[bool, "Write simulated patients too, to try it out."] = False,
) -> Answer:
    """Write a commented study file and a local file per party."""
    written = write_example(folder) if example else write_template(folder)
    message = f"{len(written)} files written; next: confrere check {folder / 'study.toml'}"
    return Answer(message, {"files": [str(path) for path in written]}, wrote(*written))


@command("check")
def check(
    study: Path,
    *,
    local: list[Path] | None = None,
    data: list[str] | None = None,
    strict: Annotated[bool, "Fail on anything that the report finds."] = False,
    report: Annotated[
        Path | None, Option("Where reports go; by default beside the ledgers.", metavar="FOLDER")
    ] = None,
) -> Answer:
    """Check a study file, the local files beside it, and how the parties' tables fit the schema.

    Tables are those that local files name, and --data. What is found is for their owners alone:
    it is shown here and kept in a file that only they can read. Nothing is spent.
    """
    found = read_study(study)
    tables = pairs(data, "--data", found.alone)
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
    shown = [
        one.view(name, f"kept for {name} alone: {files[name]}") for name, one in reports.items()
    ]
    return Answer(
        f"{message}; next: confrere price {study}" if code is ExitCode.OK else message,
        {
            **_facts(found),
            "parties_here": list(locals_),
            "rows": {name: one.used for name, one in reports.items()},
            "reports": {name: one.to_dict() for name, one in reports.items()},
            "report_files": {name: str(path) for name, path in files.items()},
        },
        [Pairs(_facts(found), found.title), *shown],
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
    study: Path,
    *,
    local: list[Path] | None = None,
    ledger: Path | None = None,
) -> Answer:
    """Say what a study would spend, by whom, and what would be left; touches no data."""
    found = read_study(study)
    plan = make_plan(found, gather_locals(found, study, local or (), ledger=ledger))
    plan.check()
    following = f"confrere fit {study}"
    if found.engine != "local":
        following = f"confrere coordinator {study}, and confrere party {study} at every party"
    shown = [plan.view(found.promise.unit)]
    return Answer(f"nothing was spent; next: {following}", plan.to_dict(), shown)


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
    study: Path,
    *,
    attempt: Annotated[int, Option("Which run: a second one is paid for anew.", min=1)] = 1,
    local: list[Path] | None = None,
    data: list[str] | None = None,
    ledger: Path | None = None,
    key: Annotated[
        list[str] | None, Option("The private key to sign with.", metavar="PARTY=FILE")
    ] = None,
    source: Annotated[
        list[str] | None, Option("What a source elsewhere has released.", metavar="PARTY=FOLDER")
    ] = None,
    source_key: Annotated[
        list[str] | None, Option("Its public key: it must have signed.", metavar="PARTY=FILE")
    ] = None,
    auxiliary: Path | None = None,
    out: Annotated[
        Path | None, Option("Where releases go; confrere-out/ID by default.", envvar="CONFRERE_OUT")
    ] = None,
    name: str | None = None,
    reason: str | None = None,
    justification: str | None = None,
    yes: bool = False,
    allow_uncapped: Annotated[bool, "Go ahead where nothing caps the spending."] = False,
) -> Answer:
    """Learn what a study describes, for the parties that live here, and write the releases.

    Shows the price first and asks for the amount to be typed. Every party's own ledger is charged
    before any noise is drawn; a study pays once, and carried out again it gives the same.
    """
    found = read_study(study)
    alone = found.alone
    locals_ = gather_locals(
        found,
        study,
        local or (),
        data=pairs(data, "--data", alone),
        keys=pairs(key, "--key", alone),
        ledger=ledger,
    )
    priced = make_plan(found, locals_, attempt)
    folder = out or Path("confrere-out") / found.id
    sources = _sources(found, source, source_key)
    runner = prepare(
        found, priced, locals_, sources, auxiliary=auxiliary, allow_uncapped=allow_uncapped
    )
    check_keys(locals_)
    refuse_taken(found, folder, list(runner.rows))
    approval = approval_of(**words_of(name, reason, justification, found))
    tell(priced.view(found.promise.unit))
    if any(has_answered(one, (priced.run,)) for one in locals_.values()):
        tell("This run was begun before: what was paid for is sent again, whatever rows are now.")
    if not yes:
        confirm(priced.amount)
    check_destination(found, folder, list(runner.rows))
    with console().status("learning"):
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
                {"party": name, **receipt.to_dict()}
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
        [receipt_table(made), *wrote(*(f"{r['folder']} and {r['page']}" for r in releases))],
    )


def words_of(
    name: str | None, reason: str | None, justification: str | None, study: Study
) -> dict[str, Any]:
    """Return who agrees and why: as told, or the user, and what the study says."""
    return {
        "name": name or getpass.getuser(),
        "reason": (reason or study.purpose or study.title)[:200],
        "justification": justification or study.promise.justification,
    }


def receipt_table(made: Iterable[Made]) -> Table:
    """Show what was paid."""
    rows = [
        (
            party,
            shown_price(paid.guarantee.epsilon, paid.guarantee.delta),
            paid.account,
            paid.row,
            paid.hash[:12],
        )
        for one in made
        for party, receipts in one.receipts.items()
        for paid in receipts
    ]
    return Table(("party", "epsilon", "account", "ledger row", "hash"), rows, title="Receipts")
