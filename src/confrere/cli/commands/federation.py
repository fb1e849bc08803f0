"""coordinator, party and status: a study between machines, carried by Flower."""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from confrere.cli.answers import Answer, aside, command, good
from confrere.cli.commands.fit import confirm
from confrere.cli.options import LedgerFile, StudyFile, pairs
from confrere.cli.views import entry_table, facts, price_table, promise_line, receipt_table
from confrere.errors import EngineFailed, StudyError
from confrere.ledger import Ledger
from confrere.study import check_destination, gather_locals, make_plan, read_study, save_made
from confrere.study.federating import (
    forget_rows,
    job_of,
    joined_before,
    party_files,
    release_of,
)
from confrere.study.tables import parse, read_bytes

if TYPE_CHECKING:
    from confrere.federation.flower.keys import Authority

Folder = Annotated[Path, typer.Option(help="Its files: state, journal, logs.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "coordinator")(coordinator)
    command(app, "party")(party)
    command(app, "status")(status)


def coordinator(
    study: StudyFile,
    node: Annotated[
        list[str],
        typer.Option(metavar="PARTY=FILE", help="A party's public node key: keys node made it."),
    ],
    folder: Folder = Path("confrere-coordinator"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds to wait for the parties, and for a round.")
    ] = 600.0,
    out: Annotated[
        Path | None, typer.Option(envvar="CONFRERE_OUT", help="Where the release goes.")
    ] = None,
) -> Answer:
    """Ask the parties of a study, and write the release of what they gave.

    Started again on the same folder after a crash, it goes on: parties send again what they had
    answered, and pay nothing more.
    """
    found = read_study(study)
    nodes = pairs(node, "--node", found)
    for name in nodes:
        found.party(name)
    flower = load_flower()
    job = job_of(found, timeout)
    place = out or Path("confrere-out") / found.id
    check_destination(found, place, [])
    authority = _authority(folder / "authority", host)
    _tell_events()
    aside().print(
        f"listening on {host}:{port}; every party needs {authority.certificate}: "
        f"confrere party STUDY --superlink {host}:{port} --authority ca.pem"
    )
    with _stopped_by_services():
        outcome = flower.run_coordinator(
            flower.Coordinator(
                folder=folder, authority=authority, nodes=nodes, host=host, port=port
            ),
            job,
        )
    made = release_of(found, outcome)
    saved = save_made(found, made, place, {})
    return Answer(
        f"released; next: confrere release sign {saved} --party NAME --key FILE, at every party",
        {"folder": str(saved), "release_id": made.release.release_id, "parties": [*made.receipts]},
        [receipt_table([made]), good("wrote", saved)],
    )


def party(
    study: StudyFile,
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The coordinator's.")],
    authority: Annotated[Path, typer.Option(help="The coordinator's ca.pem.")],
    node_key: Annotated[Path, typer.Option(help="The private node key: keys node makes one.")],
    local: Annotated[
        Path, typer.Option(envvar="CONFRERE_LOCAL", help="The party's local file.")
    ] = Path("local.toml"),
    ledger: LedgerFile = None,
    folder: Folder = Path("confrere-party"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Local port of the node.")] = 9094,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the price without asking.")] = False,
) -> Answer:
    """Answer a study's coordinator, as far as the local policy and the ledger allow.

    Runs until it is stopped with control-C. The encoded rows are on disk while it runs, readable by
    their owner alone, and go when it stops; what a killed party left goes when it starts again.
    """
    found = read_study(study)
    flower = load_flower()
    if folder.exists():
        with flower.programs.alone(folder, "party"):
            forget_rows(folder)
    locals_ = gather_locals(found, study, [local], ledger=ledger)
    (own,) = locals_.values()
    plan = make_plan(found, locals_)
    if not joined_before(found, own, folder):
        plan.check()
    console = aside()
    console.print(price_table(plan))
    console.print(promise_line(plan, found.promise.unit))
    if not yes:
        confirm(plan.amount)
    _tell_events()
    with (
        _stopped_by_services(),
        flower.programs.alone(folder, "party"),
        party_files(found, plan, own, folder) as file,
    ):
        console.print(f"{own.party} is answering {superlink}; control-C stops it")
        flower.run_party(
            file, superlink=superlink, authority=authority, key=node_key, folder=folder, port=port
        )
    return Answer(f"{own.party} has stopped", {"party": own.party})


def status(
    folder: Annotated[Path, typer.Argument(help="A coordinator's or a party's folder.")],
) -> Answer:
    """Say how far a coordinator or a party is."""
    if (folder / "party.toml").is_file():
        return _party_status(folder / "party.toml")
    if not (folder / "job").is_file():
        raise StudyError(f"{folder.name} is neither a coordinator's nor a party's folder.")
    state = "waiting for answers"
    if (folder / "outcome").is_file():
        state = "finished"
    elif (folder / "failure").is_file():
        state = "failed; started again it goes on"
    registered = folder / "registered"
    known = sorted(p.read_text() for p in registered.iterdir()) if registered.is_dir() else []
    told = {"state": state, "parties registered": ", ".join(known) or "none yet"}
    return Answer("", {"state": state, "registered": known}, [facts("Coordinator", told)])


def _party_status(file: Path) -> Answer:
    settings = parse(read_bytes(file, "the party file"), "the party file").values
    path, account = Path(str(settings.get("ledger"))), str(settings.get("account"))
    if not path.is_file():
        raise StudyError("the party's ledger is not there.")
    ledger = Ledger(path)
    entries = ledger.entries(account)
    told = {"party": settings.get("name"), "account": account, "left": ledger.left(account)}
    return Answer(
        "",
        {"party": settings.get("name"), "entries": [entry.to_dict() for entry in entries]},
        [facts("Party", told), entry_table(entries)],
    )


def load_flower() -> ModuleType:
    """Return the launchers; they need Flower, which is an extra."""
    try:
        import confrere.federation.flower as flower
    except ImportError as error:
        raise EngineFailed("it needs Flower: pip install 'confrere[flower]'.") from error
    return flower


def _tell_events() -> None:
    """Show on the side what the launchers report: a program that is started again."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("confrere: %(message)s"))
    logging.getLogger("confrere.federation.flower").addHandler(handler)


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

    place = folder.resolve()
    if not place.exists():
        # Made whole under another name: a kill leaves all of it or nothing.
        draft = place.with_name(f".{place.name}")
        shutil.rmtree(draft, ignore_errors=True)
        make_authority(draft, [host])
        draft.replace(place)
    return Authority(place / "ca.pem", place / "server.pem", place / "server.key")
