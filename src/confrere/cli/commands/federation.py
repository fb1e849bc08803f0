"""coordinator, party and status: a study between machines, carried by Flower."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confrere.cli.answers import Answer, aside, command, good
from confrere.cli.commands.fit import confirm
from confrere.cli.options import LedgerFile, StudyFile, pairs
from confrere.cli.views import entry_table, facts, price_table, promise_line, receipt_table
from confrere.errors import EngineFailed, StudyError
from confrere.ledger import Ledger
from confrere.release import load_release
from confrere.study import (
    Made,
    Study,
    check_destination,
    gather_locals,
    make_plan,
    read_study,
    save_made,
)
from confrere.study.federating import CoordinatorSession, job_of, party_session, release_of

if TYPE_CHECKING:
    from confrere.federation.flower.keys import Authority

Folder = Annotated[Path, typer.Option(help="Its files: state, journal, log.")]

#: Where a service puts the passphrase of its node key; people are asked for it.
PASSPHRASE = "CONFRERE_NODE_PASSPHRASE"  # noqa: S105  the name of a variable


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "coordinator")(coordinator)
    command(app, "party")(party)
    command(app, "status")(status)


def coordinator(
    study: StudyFile,
    node: Annotated[
        list[str],
        typer.Option(metavar="PARTY=FILE", help="A party's node certificate: keys node made it."),
    ],
    folder: Folder = Path("confrere-coordinator"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds to wait for the parties in a round.")
    ] = 600.0,
    out: Annotated[
        Path | None, typer.Option(envvar="CONFRERE_OUT", help="Where the release goes.")
    ] = None,
) -> Answer:
    """Ask the parties of a study, write the release of what they gave, and hand it to them.

    Started again on the same folder after a crash, it goes on: parties send again what they had
    answered, and pay nothing more.
    """
    found = read_study(study)
    nodes = pairs(node, "--node", found)
    for name in nodes:
        found.party(name)
    missing = [party.name for party in found.parties if party.name not in nodes]
    if missing:
        raise StudyError(f"--node: the certificate of {missing[0]} is missing.")
    need_flower()
    from confrere.federation.flower.carrying import carrying
    from confrere.federation.flower.progress import Progress, private

    job_of(found, timeout)
    place = out or Path("confrere-out") / found.id
    console = aside()
    with _stopped_by_services(), private(folder, "coordinator") as home:
        if not (home / "outcome").exists():
            check_destination(found, place, [])
        authority = _authority(home / "authority", host)
        progress = Progress(home, study=found.sha256)

        def tell(states: Mapping[str, str]) -> None:
            progress.say(_where(states), parties=dict(states))

        try:
            with carrying(
                nodes=nodes,
                authority=authority,
                host=host,
                port=port,
                log=home / "flower.log",
                tell=tell,
            ) as carrier:
                console.print(
                    f"listening on {host}:{port}; every party needs {authority.certificate}: "
                    f"confrere party STUDY --coordinator {host}:{port} --authority ca.pem"
                )
                progress = Progress(home, console.print, study=found.sha256)
                session = CoordinatorSession(found, folder=home, carrier=carrier, timeout=timeout)
                outcome = session.ask()
                made = release_of(found, outcome)
                saved = _save(found, made, place)
                without = session.hand_out(outcome)
        except Exception as error:
            progress.say(f"failed: {type(error).__name__}; started again it goes on")
            raise
        progress.say("released", release=str(saved), without=without)
    if without:
        console.print(f"not fetched by: {', '.join(without)}; start again to hand it out")
    return Answer(
        f"released; next: confrere release sign {saved} --party NAME --key FILE, at every party",
        {
            "folder": str(saved),
            "release_id": made.release.release_id,
            "parties": [*made.receipts],
            "without": without,
        },
        [receipt_table([made]), good("wrote", saved)],
    )


def party(
    study: StudyFile,
    coordinator: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it listens.")],
    authority: Annotated[Path, typer.Option(help="The coordinator's ca.pem.")],
    node_key: Annotated[Path, typer.Option(help="The private node key: keys node makes one.")],
    local: Annotated[
        Path, typer.Option(envvar="CONFRERE_LOCAL", help="The party's local file.")
    ] = Path("local.toml"),
    ledger: LedgerFile = None,
    folder: Folder = Path("confrere-party"),
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without a coordinator until it gives up.")
    ] = 3600.0,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the price without asking.")] = False,
) -> Answer:
    """Answer a study's coordinator, as far as the local policy and the ledger allow.

    Ends by itself, with code 0, when it has the release. Rows are in its memory only, and it
    listens on no port.
    """
    need_flower()
    from confrere.federation.flower.answering import run_party
    from confrere.federation.flower.keys import read_node_key
    from confrere.federation.flower.progress import Progress, private, read_progress

    found = read_study(study)
    locals_ = gather_locals(found, study, [local], ledger=ledger)
    (own,) = locals_.values()
    plan = make_plan(found, locals_)
    before = read_progress(folder) or {}
    going_on = before.get("study") == found.sha256
    if going_on and before.get("state") == "released":
        return Answer(f"{own.party} has the release", {"party": own.party, "state": "released"})
    if not going_on:
        plan.check()
    key = read_node_key(node_key, _passphrase(node_key))
    console = aside()
    console.print(price_table(plan))
    console.print(promise_line(plan, found.promise.unit))
    if not yes:
        confirm(plan.amount)
    with _stopped_by_services(), private(folder, "party") as home:
        session = party_session(found, plan, own, going_on=going_on)
        progress = Progress(
            home,
            lambda state: console.print(f"{own.party}: {state}"),
            party=own.party,
            study=found.sha256,
            coordinator=coordinator,
            ledger=str(own.ledger_path.resolve()),
            account=found.party(own.party).account,
        )
        try:
            run_party(
                session,
                coordinator=coordinator,
                authority=authority,
                key=key,
                progress=progress,
                patience=timeout,
            )
        except Exception as error:
            progress.say(f"failed: {type(error).__name__}; started again it goes on")
            raise
    return Answer(f"{own.party} has the release", {"party": own.party, "state": "released"})


def status(
    folder: Annotated[Path, typer.Argument(help="A coordinator's or a party's folder.")],
) -> Answer:
    """Say how far a coordinator or a party is."""
    need_flower()
    from confrere.federation.flower.progress import read_progress

    told = read_progress(folder)
    if told is None:
        raise StudyError(f"{folder.name} is neither a coordinator's nor a party's folder.")
    if "party" in told:
        return _party_status(told)
    parties = told.get("parties", {})
    seen = {"state": told["state"], **parties, "since": told["at"]}
    return Answer("", told, [facts("Coordinator", seen)])


def _party_status(told: dict[str, Any]) -> Answer:
    path, account = Path(str(told.get("ledger"))), str(told.get("account"))
    if not path.is_file():
        raise StudyError("the party's ledger is not there.")
    ledger = Ledger(path)
    entries = ledger.entries(account)
    seen = {
        "party": told["party"],
        "state": told["state"],
        "since": told["at"],
        "account": account,
        "left": ledger.left(account),
    }
    return Answer(
        "",
        {**told, "entries": [entry.to_dict() for entry in entries]},
        [facts("Party", seen), entry_table(entries)],
    )


def need_flower() -> None:
    """Refuse to go on without Flower, which is an extra, or with another version of it."""
    try:
        import confrere.federation.flower  # noqa: F401
    except ImportError as error:
        raise EngineFailed("it needs Flower: pip install 'confrere[flower]'.") from error


def _where(states: Mapping[str, str]) -> str:
    """Return in one line where all parties are."""
    kinds = dict.fromkeys(states.values())
    return "; ".join(
        f"{kind}: {', '.join(name for name, state in states.items() if state == kind)}"
        for kind in kinds
    )


def _save(study: Study, made: Made, place: Path) -> Path:
    """Write the release, unless a coordinator that was killed had written it."""
    there = place / made.name
    if there.exists():
        written = load_release(there, allow_simulated=study.simulated)
        if written.release_id == made.release.release_id:
            return there.resolve()
    return save_made(study, made, place, {})


def _passphrase(key: Path) -> str | None:
    from confrere.federation.flower.keys import is_locked

    if not is_locked(key):
        return None
    given = os.environ.get(PASSPHRASE)
    if given is None:
        given = str(typer.prompt(f"Passphrase of {key.name}", hide_input=True, err=True))
    return given


@contextmanager
def _stopped_by_services() -> Iterator[None]:
    """Let a service manager's way to stop a program be control-C: it leaves nothing behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _authority(folder: Path, host: str) -> Authority:
    """Return the coordinator's certificate, made when it is first needed."""
    from confrere.federation.flower.keys import Authority, make_authority

    place = folder
    if not place.exists():
        # Made whole under another name: a kill leaves all of it or nothing.
        draft = place.with_name(f".{place.name}")
        shutil.rmtree(draft, ignore_errors=True)
        make_authority(draft, [host])
        draft.replace(place)
    return Authority(place / "ca.pem", place / "server.pem", place / "server.key")
