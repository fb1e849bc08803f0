"""approve, coordinator and party: a study between machines, carried by Flower."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confrere.cli.envelope import Answer, aside, command, good
from confrere.cli.key_access import NODE_PASSPHRASE, need_flower, passphrase_of, signing_key
from confrere.cli.options import (
    ApprovedBy,
    Auxiliary,
    Justification,
    LedgerFile,
    Reason,
    StudyFile,
    approver,
    confirm,
    pairs,
    reason_of,
)
from confrere.cli.views import price_table, promise_line, receipt_table
from confrere.errors import FederationError, StudyError, StudyRefused
from confrere.federation.offline import without_network
from confrere.federation.signed import PartySession, RunSteps
from confrere.kernel.ledger import witness_folder
from confrere.ledger.witness import shared_storage
from confrere.study import (
    CoordinatorSession,
    Local,
    Study,
    approval_of,
    approve_study,
    check_destination,
    check_peers,
    confirm_peers,
    gather_locals,
    lift_refusal,
    make_plan,
    party_session,
    peer_lines,
    read_study,
    refuse_study,
    standing_refusal,
)

if TYPE_CHECKING:
    from confrere.federation.flower.keys import Authority

Folder = Annotated[Path, typer.Option(help="Its files: state, journal, log.")]
LocalFile = Annotated[Path, typer.Option(envvar="CONFRERE_LOCAL", help="The party's local file.")]
Yes = Annotated[bool, typer.Option("--yes", help="Agree to the price without asking.")]
Out = Annotated[Path | None, typer.Option(envvar="CONFRERE_OUT", help="Where the release goes.")]


@command("approve")
def approve(
    study: StudyFile,
    local: LocalFile = Path("local.toml"),
    ledger: LedgerFile = None,
    grant: Annotated[Path, typer.Option(help="The file to write.")] = Path("grant.json"),
    name: ApprovedBy = None,
    reason: Reason = None,
    justification: Justification = None,
    refuse: Annotated[
        bool,
        typer.Option(
            "--refuse", help="Do not agree, or not any more: nothing is charged from then on."
        ),
    ] = False,
    attempts: Annotated[
        int, typer.Option(min=1, max=100, help="Runs that may be paid for, each anew.")
    ] = 1,
    days: Annotated[float, typer.Option(min=0.01, help="How long it is good for.")] = 30.0,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHA256:...",
            help="Another party's fingerprint, as told by telephone; kept in the local file.",
        ),
    ] = None,
    yes: Yes = False,
) -> Answer:
    """Agree to what a study asks of a party, once, at its price.

    Writes a grant, signed by the party's key: the study's hash, every question that may be asked,
    relation and unit, the price, the number of runs and a last day. Nothing else is answered.
    With --refuse, at any time, the ledger says no: the grant is put aside, a running party ends,
    and nothing is charged for the study until it is approved again.
    """
    found = read_study(study)
    own = _own(found, study, local, ledger)
    if refuse:
        why = reason or "no reason was given"
        standing = refuse_study(found, own, name=approver(name), reason=why, grant=grant)
        return Answer(
            f"{standing}: nothing is charged to {own.party} for {found.id} from now on (ledger row "
            f"{standing.row}); what was charged before stays charged",
            {"party": own.party, "decision": standing.to_dict()},
        )
    said = {"name": approver(name), "reason": reason_of(reason, found)}
    if found.engine == "local" and standing_refusal(found, own) is not None:
        # It needs no grant, only that the no is lifted.
        lift_refusal(found, own, approval_of(name=said["name"], reason=said["reason"]))
        return Answer(f"agreed again; next: confrere fit {study}", {"party": own.party})
    words = {**said, "justification": justification}
    if peer:
        told = {name: str(said) for name, said in pairs(peer, "--peer").items()}
        confirm_peers(found, local, told)
        own = _own(found, study, local, ledger)
    _agree(found, own, grant, words, yes=yes, attempts=attempts, days=days)
    return Answer(
        f"approved; next: confrere party {study}",
        {"party": own.party, "grant": str(grant), "study_sha256": found.sha256},
        [good("wrote", grant)],
    )


@command("coordinator")
def coordinator(
    study: StudyFile,
    key: Annotated[Path, typer.Option(help="Its private key: parties name the public half.")],
    node: Annotated[
        list[str],
        typer.Option(
            metavar="PARTY=FILE",
            help="A party's node certificate: keys node made it. Or a folder of them, <party>.pem.",
        ),
    ],
    folder: Folder = Path("confrere-coordinator"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds to wait for the parties in a round.")
    ] = 600.0,
    attempt: Annotated[
        int, typer.Option(min=1, help="Which run: a second one is paid for anew.")
    ] = 1,
    authority: Annotated[
        Path | None,
        typer.Option(help="The folder of its TLS certificate; by default made where it works."),
    ] = None,
    auxiliary: Auxiliary = None,
    out: Out = None,
) -> Answer:
    """Ask the parties of a study, write the release of what they gave, and hand it to them.

    Started again on the same folder after a crash, it goes on: parties send again what they had
    answered, and pay nothing more.
    """
    found = read_study(study)
    need_flower()
    from confrere.provision import expiry_warnings, read_nodes

    folders = [Path(text) for text in node if Path(text).is_dir()]
    nodes = pairs([text for text in node if not Path(text).is_dir()], "--node", found)
    for place in folders:
        nodes |= read_nodes(place, found)
    for name in nodes:
        found.party(name)
    missing = [party.name for party in found.payers if party.name not in nodes]
    if missing:
        raise StudyError(f"--node: the certificate of {missing[0]} is missing.")
    opened = signing_key(key)
    from confrere.federation.flower.carrying import carrying
    from confrere.federation.flower.keys import read_authority, read_certificate
    from confrere.progress import Progress, places, private

    place = out or Path("confrere-out") / found.id
    console = aside()
    with _stopped_by_services(), private(folder, "coordinator") as home:
        if not (home / "journal").exists():
            check_destination(found, place, [party.name for party in found.payers])
        tls = _authority(authority or home / "authority", host)
        ends = {name: read_certificate(path) for name, path in nodes.items()}
        for line in expiry_warnings({"the coordinator": read_authority(tls.certificate), **ends}):
            console.print(line)
        progress = Progress(home, console.print, study=found.sha256, study_id=found.id)
        steps, where = RunSteps(), dict.fromkeys(nodes, "nobody yet")

        def tell(states: Mapping[str, str]) -> None:
            where.update(states)
            done = steps.to_list()
            now = places(where, done)
            progress.say(_where(now), parties=now, steps=done)

        steps.changed = lambda: tell({})

        console.print(
            f"listening on {host}:{port}; every party needs {tls.certificate}: "
            f"confrere party STUDY --coordinator {host}:{port} --authority ca.pem"
        )
        try:
            with carrying(
                nodes=nodes, authority=tls, host=host, port=port, log=home / "flower.log", tell=tell
            ) as carrier:
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
            failed = f"failed: {type(error).__name__}; started again it goes on"
            done = steps.to_list()
            progress.say(failed, parties=places(where, done), steps=done)
            raise
        done = steps.to_list()
        first, *_ = finished.folders.values()
        progress.say(
            "released",
            release=str(first),
            unsigned=dict(finished.unsigned),
            parties=places(where, done),
            steps=done,
        )
    for name, code in finished.left_out.items():
        console.print(f"left out: {name} ({code})")
    for name, code in finished.unsigned.items():
        console.print(f"not signed by {name} ({code}); start again to hand it out")
    return Answer(
        f"released; next: confrere verify {first}",
        {
            "folder": str(first),
            "release_id": finished.made[0].release.release_id,
            "parties": list(dict.fromkeys(n for one in finished.made for n in one.receipts)),
            "folders": {name: str(folder) for name, folder in finished.folders.items()},
            "left_out": dict(finished.left_out),
            "unsigned": dict(finished.unsigned),
        },
        [
            receipt_table(list(finished.made)),
            *(good("wrote", folder) for folder in finished.folders.values()),
        ],
    )


@command("party")
def party(
    study: StudyFile,
    coordinator: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it listens.")],
    authority: Annotated[Path, typer.Option(help="The coordinator's ca.pem.")],
    node_key: Annotated[Path, typer.Option(help="The private node key: keys node makes one.")],
    local: LocalFile = Path("local.toml"),
    ledger: LedgerFile = None,
    grant: Annotated[
        Path, typer.Option(help="What was approved; without one it is asked for.")
    ] = Path("grant.json"),
    folder: Folder = Path("confrere-party"),
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without a coordinator until it gives up.")
    ] = 3600.0,
    name: ApprovedBy = None,
    reason: Reason = None,
    justification: Justification = None,
    out: Out = None,
    yes: Yes = False,
    same_mount: Annotated[
        bool,
        typer.Option(
            "--same-mount", help="As a service, start though ledger and witness share a mount."
        ),
    ] = False,
) -> Answer:
    """Answer a study's coordinator: what was approved, and nothing else.

    Ends by itself, with code 0, when it has checked and signed the release. It listens on no port;
    rows are in the memory of a process that has no network, where the system allows it.
    """
    need_flower()
    from confrere.federation.flower.keys import (
        is_locked,
        read_authority,
        read_certificate,
        read_node_key,
    )
    from confrere.progress import Progress, private, read_progress
    from confrere.provision import expiry_warnings

    found = read_study(study)
    own = _own(found, study, local, ledger)
    before = read_progress(folder) or {}
    released = Answer(f"{own.party} has the release", {"party": own.party, "state": "released"})
    if (before.get("study"), before.get("state")) == (found.sha256, "released"):
        return released
    _check_not_refused(found, own)
    _check_witness(own.ledger_path, allowed=same_mount)
    node = read_node_key(
        node_key, passphrase_of(node_key, NODE_PASSPHRASE, locked=is_locked(node_key))
    )
    ends = {
        "the coordinator": read_authority(authority),
        own.party: read_certificate(node.certificate),
    }
    for line in expiry_warnings(ends):
        aside().print(line)
    if not grant.exists():
        said = {"name": approver(name), "reason": reason_of(reason, found)}
        _agree(found, own, grant, {**said, "justification": justification}, yes=yes)
    console = aside()
    place = out or Path("confrere-out") / found.id
    paying = {one.party: one.account for one in make_plan(found, {own.party: own}).prices}

    def make() -> PartySession[Any]:
        key = signing_key(own.key_path)
        return party_session(found, own, grant=grant, out=place, key=key)

    with (
        _stopped_by_services(),
        private(folder, "party") as home,
        without_network(make, console.print) as session,
    ):
        # Only now: what reads rows has not even Flower in its process.
        from confrere.federation.flower.answering import run_party

        progress = Progress(
            home,
            lambda state: console.print(f"{own.party}: {state}"),
            party=own.party,
            study=found.sha256,
            study_id=found.id,
            coordinator=coordinator,
            ledger=str(own.ledger_path.resolve()),
            account=paying[own.party],
        )
        try:
            run_party(
                session,
                coordinator=coordinator,
                authority=authority,
                key=node,
                progress=progress,
                patience=timeout,
                stopped=lambda: not grant.exists(),  # put aside by a no; no ledger is open here
            )
            _check_not_refused(found, own)
            if session.state != "released":
                raise FederationError(f"{own.party} is {session.state}: it signs no release.")
        except StudyRefused:
            progress.say(str(standing_refusal(found, own)), steps=session.told)
            raise
        except Exception as error:
            failed = f"failed: {type(error).__name__}; started again it goes on"
            progress.say(failed, steps=session.told)
            raise
    return released


def _check_not_refused(study: Study, own: Local) -> None:
    """End here if somebody said no: a party that is started does not say yes in their stead."""
    standing = standing_refusal(study, own)
    if standing is not None:
        raise standing.error()


def _check_witness(ledger: Path, *, allowed: bool) -> None:
    """Warn of a witness that a restored volume would take back with its ledger; refuse in services.

    Services say that they are one by the environment variable ``CONFRERE_SERVICE``: an image, unit
    or manifest can give the witness a mount of its own, and somebody who tries it out need not.
    """
    witness = witness_folder()
    shared = shared_storage(ledger.parent, witness)
    if shared is None:
        return
    text = (
        f"the ledger ({ledger.parent}) and its witness ({witness}) are on one {shared}: whoever "
        "puts back a copy of it puts back both, what was spent since is forgotten, and nothing "
        "notices. Name a folder on another mount in CONFRERE_WITNESS"
    )
    if shared == "mount" and os.environ.get("CONFRERE_SERVICE") and not allowed:
        raise StudyError(f"{text}, or say --same-mount. Nothing was spent.").hinting(
            "mount another disk or volume, and name it: CONFRERE_WITNESS=/var/lib/confrere-witness"
        )
    aside().print(f"WARNING: {text}.", style="bold red")


def _where(states: Mapping[str, str]) -> str:
    """Return in one line where all parties are."""
    kinds = dict.fromkeys(states.values())
    return "; ".join(
        f"{kind}: {', '.join(name for name, state in states.items() if state == kind)}"
        for kind in kinds
    )


def _own(study: Study, path: Path, local: Path, ledger: Path | None) -> Local:
    (own,) = gather_locals(study, path, [local], ledger=ledger).values()
    return own


def _agree(
    study: Study,
    own: Local,
    grant: Path,
    words: dict[str, Any],
    *,
    yes: bool,
    attempts: int = 1,
    days: float = 30.0,
) -> None:
    """Show what is agreed to, have the amount typed, and write the grant."""
    plan = make_plan(study, {own.party: own})
    plan.check()
    console = aside()
    console.print(price_table(plan))
    console.print(promise_line(plan, study.promise.unit))
    for line in peer_lines(study, own):
        console.print(line, soft_wrap=True)
    check_peers(study, own)
    if attempts > 1:
        console.print(f"for each of {attempts} runs")
    if not yes:
        confirm(attempts * plan.amount)
    key = signing_key(own.key_path)
    approve_study(study, own, key=key, grant=grant, attempts=attempts, days=days, **words)


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
