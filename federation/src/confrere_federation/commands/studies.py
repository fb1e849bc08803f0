"""Studies, in one process or between machines; the organisation's home, and how runs stand."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

from confrere.assurance.inference import flags_of_one
from confrere.cli.app import Answer, ExitCode, Option, command, confirm, console, pairs, tell, wrote
from confrere.data.report import DataReport, data_report
from confrere.errors import StudyError
from confrere.files import write_whole
from confrere.ledger import Account, Ledger, LedgerReader
from confrere.ledger.accounts import account_table, charge_table
from confrere.ledger.witness import witness_folder
from confrere.release import Release
from confrere.release.signing import fingerprint
from confrere.views import Pairs, Table, Word, amount
from confrere.views import cost as shown_cost
from confrere_federation.commands.party import (
    APPROVAL,
    Released,
    kit_address,
    signing_key,
    stopped_by_services,
)
from confrere_federation.engines.carrier import Answering
from confrere_federation.engines.keys import Authority, expiry_warnings, read_certificate
from confrere_federation.parties.federation import RunSteps
from confrere_federation.parties.messages import Values
from confrere_federation.parties.party import check_witness
from confrere_federation.progress import OPERATION_WORDS, Progress, private, read_progress
from confrere_federation.studies.running import (
    CoordinatorSession,
    Made,
    approval_of,
    approve_study,
    asked_lines,
    check_destination,
    check_engine,
    has_answered,
    lift_refusal,
    make_plan,
    party_session,
    prepare,
    reader_for,
    refuse_study,
    save_result,
)
from confrere_federation.studies.study_file import (
    Local,
    Study,
    check_peers,
    confirm_peers,
    gather_locals,
    home_folder,
    home_of,
    open_home,
    peer_lines,
    read_study,
    standing_refusal,
    write_template,
)


@command("init")
def init(
    folder: Annotated[Path, "Where the files go."] = Path(),
    *,
    example: Annotated[bool, "Write simulated patients too, to try it out."] = False,
) -> Answer:
    """Write a commented study file and a local file per party."""
    place, written = folder / "study.toml", write_template(folder, seed=0 if example else None)
    own = "" if example else f" your columns into {place}, your tables into {folder / 'local'};"
    message = f"{len(written)} files written; next:{own} confrere check {place}"
    return Answer(message, {"files": written}, wrote(*written))


@command("check")
def check(
    study: Path,
    *,
    local: list[Path] | None = None,
    strict: Annotated[bool, "Fail on anything that the report finds."] = False,
) -> Answer:
    """Check a study file, the local files beside it, and how the parties' tables fit the schema.

    Tables are those that local files name. What is found is for their owners alone: it is shown
    here and kept beside the ledger, in a file that only they can read. Nothing is spent.
    """
    found = read_study(study)
    locals_ = gather_locals(found, study, local or ())
    reports: dict[str, DataReport] = {}
    files: dict[str, Path] = {}
    missing: dict[str, Path] = {}
    for name, own in locals_.items():
        if own.data_path is not None and not own.data_path.exists():
            missing[name] = own.data_path
        elif own.has_table:
            reports[name] = data_report(
                found.schema,
                own.table(),
                unit_column=found.privacy.unit_column,
                max_rows_per_unit=found.privacy.max_rows_per_unit,
            )
            place = own.ledger_path.parent / f"{name}.check.txt"
            title = f"{found.id}: {name}'s own table; not to leave {name}"
            with suppress(OSError):  # it is shown anyway
                write_whole(place, f"{title}\n{reports[name]}".encode())  # for its owner alone
                files[name] = place
    tell(*flags_of_one(found.schema.features))
    code, message = _outcome(reports, strict)
    if missing:
        there = ", ".join(f"{path} of {name}" for name, path in missing.items())
        code = ExitCode.INVALID
        message = f"the study is valid, but there is no {there}; see data_path"
    elif untold := [name for name in locals_ if name not in reports]:
        message += f"; no table is named for {', '.join(untold)}: data_path in its local file"
    shown = [
        one.view(name, f"kept for {name} alone: {files.get(name, 'nowhere, its folder is closed')}")
        for name, one in reports.items()
    ]
    return Answer(
        f"{message}; next: confrere cost {study}" if code is ExitCode.OK else message,
        {
            **_facts(found),
            "parties_here": list(locals_),
            "missing": missing,
            "rows": {name: one.used for name, one in reports.items()},
            "reports": reports,
            "report_files": files,
        },
        [Pairs(_facts(found), found.title), *shown],
        exit_code=code,
        error_code=None if code is ExitCode.OK else "InvalidData",
    )


def _outcome(reports: dict[str, DataReport], strict: bool) -> tuple[ExitCode, str]:
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


@command("cost")
def cost(study: Path, *, local: list[Path] | None = None) -> Answer:
    """Show the privacy cost of a study, who spends it, what would be left; touches no data."""
    found = read_study(study)
    plan = make_plan(found, gather_locals(found, study, local or ()))
    plan.check()
    following = f"confrere fit {study}"
    if found.engine != "local":
        following = f"confrere coordinator {study}, and confrere party {study} at every party"
    return Answer(f"nothing was spent; next: {following}", plan.to_dict(), [plan])


@command("assessment")
def assessment(
    study: Path,
    *,
    local: list[Path] | None = None,
    release: Annotated[Path | None, "What came of the study, to be described too."] = None,
    out: Annotated[Path, "The page."] = Path("assessment.html"),
) -> Answer:
    """Write the officer's file: a printable impact assessment of a study; touches no data."""
    from confrere.assurance.assessment import assessment_page
    from confrere_federation.dashboard.state import study_facts

    found, asker = read_study(study), study.parent / "coordinator.pub"
    locals_ = gather_locals(found, study, local or ())
    plan, facts = make_plan(found, locals_), study_facts(study)
    if "fault" in facts:
        raise StudyError(str(facts["fault"]))
    facts |= {"trust_sentence": plan.trusted, "together": plan.together}
    facts["ran"] = any(has_answered(one, (plan.run,)) for one in locals_.values())
    page = assessment_page(
        facts | {"asked": [OPERATION_WORDS[one] for one in found.operations]},
        method=found.method.title,
        asker=fingerprint(asker) if asker.is_file() else None,
        keys={one.name: fingerprint(one.key) for one in found.parties if one.key},
        card=None if release is None else reader_for(found)(release).card,
    )
    out.write_text(page, encoding="utf-8")
    return Answer("ten lines are left for the officer to fill in", {"page": out}, wrote(out))


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
    source: Annotated[
        list[str] | None,
        Option("What a source elsewhere has released, and signed.", metavar="PARTY=FOLDER"),
    ] = None,
    auxiliary: Path | None = None,
    out: Annotated[
        Path | None, Option("Where releases go; confrere-out/ID by default.", envvar="CONFRERE_OUT")
    ] = None,
    name: str | None = None,
    reason: str | None = None,
    justification: str | None = None,
    yes: bool = False,
) -> Answer:
    """Learn what a study describes, for the parties that live here, and write the releases.

    Shows the privacy cost first and asks for the amount to be typed. Every party's own ledger is
    charged before any noise is drawn; a study pays once, and carried out again it gives the same.
    """
    found = read_study(study)
    locals_ = gather_locals(found, study, local or ())
    plan = make_plan(found, locals_, attempt)
    folder = out or Path("confrere-out") / found.id
    runner = prepare(found, plan, locals_, _sources(found, source), auxiliary=auxiliary)
    check_destination(found, folder, list(runner.rows))
    approval = approval_of(**words_of(name, reason, justification, found))
    tell(plan)
    if found.n_classes == 2:
        none = [n for n, rows in runner.rows.items() if not (rows.y == found.classes[1]).any()]
        tell(*(f"{name}: no row has a positive label; see confrere check {study}" for name in none))
    if any(has_answered(one, (plan.run,)) for one in locals_.values()):
        tell("This run was begun before: what was paid for is sent again, whatever rows are now.")
    if not yes:
        confirm(plan.amount)
    with console().status("learning"):
        made = runner.run(approval)
    places = {one.name: save_result(found, one, folder, locals_) for one in made}
    return _answer(found, made, places, locals_)


def _sources(study: Study, texts: list[str] | None) -> dict[str, Release]:
    """Return what sources elsewhere have released, signed by the keys that the study names."""
    keys = {one.name: one.key for one in study.parties if one.key}
    return {
        name: reader_for(study)(
            folder, require_signature_from={p: key for p, key in keys.items() if p == name}
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
            "folder": places[one.name],
            "page": places[one.name].with_name(f"{one.name}.html"),
            **one.told(),
            "receipts": [
                {"party": name, **receipt.to_dict()}
                for name, receipts in one.receipts.items()
                for receipt in receipts
            ],
        }
        for one in made
    ]
    told = "no release: everybody has its source's, and nothing was charged"
    if made:
        told = f"{len(made)} release(s), {'signed' if signed else 'not signed'}; next: confrere "
        told += f"{'release show' if study.simulated else 'verify'} {places[made[0].name]}"
    return Answer(
        told,
        {"study_sha256": study.sha256, "releases": releases},
        [
            receipt_table(made, locals_),
            *wrote(*(f"{r['folder']} and {r['page']}" for r in releases)),
        ],
    )


def words_of(
    name: str | None, reason: str | None, justification: str | None, study: Study
) -> Values:
    """Return who agrees and why: as told, or the user, and what the study says."""
    return {
        "name": name or getpass.getuser(),
        "reason": (reason or study.purpose or study.title)[:200],
        "justification": justification or study.privacy.justification,
    }


def receipt_table(made: Collection[Made], asked: Iterable[str] = ()) -> Table:
    """Show what was paid, and who was asked for nothing because its source is its model."""
    rows: list[tuple[object, ...]] = [
        (
            party,
            shown_cost(paid.guarantee.epsilon, paid.guarantee.delta),
            paid.account,
            paid.row,
            paid.hash[:12],
        )
        for one in made
        for party, receipts in one.receipts.items()
        for paid in receipts
    ]
    paying = {party for one in made for party in one.receipts}
    free = ("nothing", "the source's model, as it is", "", "")
    rows += [(party, *free) for party in asked if party not in paying]
    return Table(("party", "epsilon", "account", "ledger row", "hash"), rows, title="Receipts")


_TOLD = "Another party's fingerprint, as told by telephone; kept in the home's peers.toml."
_PEER = Option(_TOLD, metavar="NAME=SHA256:...")
_WHOSE = "The party's local file; by default beside the study."


@command("approve")
def approve(
    study: Path,
    *,
    local: Annotated[Path | None, Option(_WHOSE, envvar="CONFRERE_LOCAL")] = None,
    name: str | None = None,
    reason: str | None = None,
    justification: str | None = None,
    refuse: Annotated[
        bool, "Do not agree, or not any more: nothing is charged from then on."
    ] = False,
    attempts: Annotated[int, Option("Runs that may be paid for, each anew.", min=1, max=100)] = 1,
    days: Annotated[float, Option("How long it is good for.", min=0.01)] = 30.0,
    peer: Annotated[list[str] | None, _PEER] = None,
    yes: Annotated[bool, "Approve the privacy cost without asking."] = False,
) -> Answer:
    """Approve what a study asks of a party, once, at its privacy cost.

    Writes approval.json beside the study, signed by the party's key: its hash, every question that
    may be asked, relation and unit, the privacy cost, the number of runs and a last day. Nothing
    else is answered. With --refuse, at any time, the ledger says no: the approval is put aside, a
    running party ends, and nothing is charged for the study until it is approved again.
    """
    found, approval = read_study(study), study.parent / APPROVAL
    own = _own(found, study, local)
    words = words_of(name, reason, justification, found)
    by = {"name": str(words["name"]), "reason": reason or "no reason was given"}
    if refuse:
        standing = refuse_study(found, own, approval=approval, **by)
        return Answer(
            f"{standing}: nothing is charged to {own.party} for {found.id} from now on (ledger row "
            f"{standing.row}); what was charged before stays charged",
            {"party": own.party, "decision": standing},
        )
    if found.engine == "local" and standing_refusal(found, own) is not None:
        # It needs no approval, only that the no is lifted.
        lift_refusal(found, own, approval_of(**{**words, "justification": None}))
        return Answer(f"agreed again; next: confrere fit {study}", {"party": own.party})
    if peer:
        told = {n: str(said) for n, said in pairs(peer, "--peer").items()}
        own = own.model_copy(update={"peers": confirm_peers(found, own, home_of(study), told)})
    plan = make_plan(found, {own.party: own})
    plan.check()
    tell(plan, *asked_lines(found, own), *peer_lines(found, own))
    check_peers(found, own)
    if attempts > 1:
        tell(f"for each of {attempts} runs")
    if not yes:
        confirm(attempts * plan.amount)
    key = signing_key(own.key_path)
    approve_study(found, own, key=key, approval=approval, attempts=attempts, days=days, **words)
    return Answer(
        f"approved; next: confrere party {study}",
        {"party": own.party, "approval": approval, "study_sha256": found.sha256},
        wrote(approval),
    )


@command("coordinator")
def coordinator(
    study: Path,
    *,
    folder: Annotated[Path, "Its files: state, journal, log."] = Path("confrere-coordinator"),
    host: Annotated[str | None, "Address to listen on; by default as the kit says."] = None,
    timeout: Annotated[float, Option("Seconds to wait for the parties in a round.", min=1)] = 600.0,
    attempt: Annotated[int, Option("Which run: a second one is paid for anew.", min=1)] = 1,
    auxiliary: Path | None = None,
    out: Released = None,
) -> Answer:
    """Ask the parties of a study, write the release of what they gave, and hand it to them.

    Its kit lies beside the study, with coordinator.key. Started again on the same folder after a
    crash, it goes on: parties send again what they had answered, and pay nothing more.
    """
    found, beside = read_study(study), study.parent
    check_engine(found)
    by_flare = found.engine == "flare"  # it has the port, and is on standard input
    names = [party.name for party in found.payers]
    opened = signing_key(beside / "coordinator.key")
    from confrere_federation.engines.line import LOG, LineCarrier, carrying
    from confrere_federation.kits import read_nodes

    place = out or Path("confrere-out") / found.id
    with stopped_by_services(), private(folder, "coordinator") as home:
        if not (home / "journal").exists():
            check_destination(found, place, names)
        progress = Progress(home, tell, study=found.sha256, study_id=found.id)
        steps, where = RunSteps(), dict.fromkeys(names, "nobody yet")

        def say(state: str | None = None, **more: object) -> None:
            told = {"parties": dict(where), "steps": steps.to_list()}
            progress.say(state or _where(where), **told, **more)

        def moved(states: Mapping[str, str]) -> None:
            where.update(states)
            say()

        steps.changed = say
        line: AbstractContextManager[LineCarrier]
        if by_flare:
            line = nullcontext(LineCarrier(Connection(0), names, moved))
        else:
            nodes, tls = read_nodes(beside / "nodes", found), Authority.in_(beside / "authority")
            ends = {"the coordinator": tls.certificate, **nodes}
            tell(*expiry_warnings({name: read_certificate(path) for name, path in ends.items()}))
            reached, _, port = kit_address(beside).rpartition(":")
            at = host or reached.strip("[]")
            tell(f"listening on {at}:{port}")
            line = carrying(
                nodes=nodes, authority=tls, host=at, port=int(port), log=home / LOG, tell=moved
            )
        try:
            with line as carrier:
                finished = CoordinatorSession(
                    found,
                    key=opened,
                    folder=home,
                    carrier=carrier,
                    out=place,
                    auxiliary=auxiliary,
                    attempt=attempt,
                    timeout=timeout,
                    steps=steps,
                ).run()
        except Exception as error:
            say(f"failed: {type(error).__name__}; started again it goes on")
            raise
        first, *_ = finished.folders.values()
        say("released", release=str(first), unsigned=dict(finished.unsigned))
    tell(*(f"left out: {name} ({code})" for name, code in finished.left_out.items()))
    lacking = finished.unsigned.items()
    tell(*(f"not signed by {name} ({code}); start again to hand it out" for name, code in lacking))
    return Answer(
        f"released; next: confrere verify {first}",
        {
            "folder": first,
            "release_id": finished.made[0].told()["release_id"],
            "parties": list(dict.fromkeys(n for one in finished.made for n in one.receipts)),
            "folders": finished.folders,
            "left_out": finished.left_out,
            "unsigned": finished.unsigned,
        },
        [receipt_table(finished.made, finished.as_released), *wrote(*finished.folders.values())],
    )


def answering(study: Path, out: Path | None = None, *, same_mount: bool = False) -> Answering:
    """Return what answers for a party, once all that is checked first is in order."""
    found, approval = read_study(study), study.parent / APPROVAL
    own = _own(found, study)
    standing = standing_refusal(found, own)
    if standing is not None:
        raise standing.error()  # who starts a party does not say yes in somebody's stead
    loud = check_witness(own.ledger_path, allowed=same_mount)
    if loud is not None:
        tell(Word(f"WARNING: {loud}.", "bad"))
    if not approval.exists():
        raise StudyError(f"approval: nobody has approved it here: confrere approve {study}.")
    key, place = signing_key(own.key_path), out or Path("confrere-out") / found.id
    return party_session(found, own, approval=approval, out=place, key=key)


def _where(states: Mapping[str, str]) -> str:
    kinds = dict.fromkeys(states.values())
    return "; ".join(
        f"{kind}: {', '.join(name for name, state in states.items() if state == kind)}"
        for kind in kinds
    )


def _own(study: Study, path: Path, local: Path | None = None) -> Local:
    (own,) = gather_locals(study, path, [local or path.parent / "local.toml"]).values()
    if study.engine != "local" and own.dataset is None:
        raise StudyError(
            "dataset: between machines a party answers from its home, where studies of its data "
            "add up: confrere home --data NAME=FILE, then confrere kit open KIT."
        )
    return own


@command("home")
def home(
    folder: Annotated[
        Path | None,
        Option("By default CONFRERE_HOME, or confrere in the user's data folder.", metavar="DIR"),
    ] = None,
    *,
    data: Annotated[
        list[str] | None, Option("Name a table: its ledger is for good.", metavar="NAME=FILE")
    ] = None,
    unit_column: Annotated[str | None, "The column that says whose a row of it is."] = None,
    service: Annotated[
        bool, "Make the user and the folders that units for systemd name; by root."
    ] = False,
) -> Answer:
    """Make an organisation's home, name its data sets, and show what was spent on each."""
    if service:
        return _make_service()
    own = open_home(folder or home_folder())
    for name, table in pairs(data, "--data").items():
        own.add(name, table, unit_column)
    books = {name: _accounts(own.ledger_of(name)) for name in own.datasets()}
    studies = sorted(one.parent.name for one in own.studies.glob("*/study.toml"))
    told = {
        "keys": own.keys,
        "policy": own.folder / "policy.toml",
        "data sets": ", ".join(books) or "none yet: confrere home --data NAME=FILE",
        "studies": ", ".join(studies) or "none yet: confrere kit open KIT --fingerprint SHA256:...",
        "witness": witness_folder(),
    }
    return Answer(
        f"the home is {own.folder}",
        {
            "home": own.folder,
            "witness": witness_folder(),
            "datasets": {
                name: {"ledger": own.ledger_of(name), "accounts": accounts}
                for name, accounts in books.items()
            },
            "studies": studies,
        },
        [
            Pairs(told, f"Home {own.folder}"),
            account_table((one for each in books.values() for one in each), "Accounts"),
        ],
    )


def _accounts(ledger: Path) -> list[Account]:
    return LedgerReader.look(ledger).accounts() if ledger.is_file() else []


def _make_service() -> Answer:
    from confrere_federation.kits import SERVICE, service_commands

    for words in service_commands():
        if os.geteuid() != 0:
            raise StudyError("--service: root makes a user and folders: give it by sudo.")
        # Ours, word by word; 9 says that the user is there.
        if subprocess.run(words, check=False).returncode not in (0, 9):  # noqa: S603
            raise StudyError(f"--service: it ended there: {' '.join(words)}.")
    return Answer(f"the user confrere and its home are made; next: CONFRERE_HOME={SERVICE}")


@command("status")
def status(folder: Annotated[Path, "A coordinator's or a party's folder."]) -> Answer:
    """Say how far a coordinator or a party is."""
    from confrere_federation.dashboard.state import Run

    told, run = read_progress(folder), Run.read(folder)
    if told is None or run is None:
        what = f"folder: {folder.name} is none that a coordinator or party wrote."
        where = "confrere-coordinator or confrere-party, unless --folder names another"
        raise StudyError(what).hinting(f"give the folder that it works in: {where}")
    told = {"steps": []} | told | {"role": run.role, "parties": run.where, "counts": run.counts}
    seen: dict[str, object] = {"state": run.state, "since": told["at"]}
    columns = ("question", "party", "state", "epsilon", "ledger row", "why")
    rows = [
        (step.question, name, one.state, *("" if x is None else x for x in one[1:]))
        for step in run.steps
        for name, one in step.parties.items()
    ]
    steps = Table(columns, rows, title="Steps")
    if run.party is None:
        return Answer("", told, [Pairs({**seen, **run.where, **run.counts}, "Coordinator"), steps])
    path, account = Path(str(told.get("ledger"))), str(told.get("account"))
    if not path.is_file():
        raise StudyError("the party's ledger is not there.")
    ledger = Ledger(path)
    entries = ledger.entries(account)
    seen |= {"party": run.party, "account": account, "left": amount(ledger.left(account))}
    return Answer(
        "",
        told | {"entries": entries},
        [Pairs(seen, "Party"), steps, charge_table(entries, "Charges")],
    )
