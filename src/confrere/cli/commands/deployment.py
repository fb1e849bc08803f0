"""approve, coordinator and party: a study between machines, carried by Flower."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confrere.cli.commands.studies import receipt_table
from confrere.cli.envelope import Answer, Option, command, tell, wrote
from confrere.cli.key_access import NODE_PASSPHRASE, need_flower, passphrase_of, signing_key
from confrere.cli.options import confirm, pairs, words_of
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
from confrere.views import Word

if TYPE_CHECKING:
    from confrere.federation.flower.keys import Authority

_LOCAL = Option("The party's local file.", envvar="CONFRERE_LOCAL")
_FOLDER = "Its files: state, journal, log."
_OUT = Option("Where the release goes.", envvar="CONFRERE_OUT")
_YES = "Agree to the price without asking."


@command(
    "approve",
    local=_LOCAL,
    grant="The file to write.",
    refuse="Do not agree, or not any more: nothing is charged from then on.",
    attempts=Option("Runs that may be paid for, each anew.", min=1, max=100),
    days=Option("How long it is good for.", min=0.01),
    peer=Option(
        "Another party's fingerprint, as told by telephone; kept in the local file.",
        metavar="NAME=SHA256:...",
    ),
    yes=_YES,
)
def approve(
    study: Path,
    *,
    local: Path = Path("local.toml"),
    ledger: Path | None = None,
    grant: Path = Path("grant.json"),
    name: str | None = None,
    reason: str | None = None,
    justification: str | None = None,
    refuse: bool = False,
    attempts: int = 1,
    days: float = 30.0,
    peer: list[str] | None = None,
    yes: bool = False,
) -> Answer:
    """Agree to what a study asks of a party, once, at its price.

    Writes a grant, signed by the party's key: the study's hash, every question that may be asked,
    relation and unit, the price, the number of runs and a last day. Nothing else is answered.
    With --refuse, at any time, the ledger says no: the grant is put aside, a running party ends,
    and nothing is charged for the study until it is approved again.
    """
    found = read_study(study)
    own = _own(found, study, local, ledger)
    words = words_of(name, reason, justification, found)
    by = {"name": str(words["name"]), "reason": reason or "no reason was given"}
    if refuse:
        standing = refuse_study(found, own, grant=grant, **by)
        return Answer(
            f"{standing}: nothing is charged to {own.party} for {found.id} from now on (ledger row "
            f"{standing.row}); what was charged before stays charged",
            {"party": own.party, "decision": standing.to_dict()},
        )
    if found.engine == "local" and standing_refusal(found, own) is not None:
        # It needs no grant, only that the no is lifted.
        lift_refusal(found, own, approval_of(**{**words, "justification": None}))
        return Answer(f"agreed again; next: confrere fit {study}", {"party": own.party})
    if peer:
        confirm_peers(found, local, {n: str(said) for n, said in pairs(peer, "--peer").items()})
        own = _own(found, study, local, ledger)
    _agree(found, own, grant, words, yes=yes, attempts=attempts, days=days)
    return Answer(
        f"approved; next: confrere party {study}",
        {"party": own.party, "grant": str(grant), "study_sha256": found.sha256},
        wrote(grant),
    )


@command(
    "coordinator",
    key="Its private key: parties name the public half.",
    node=Option(
        "A party's node certificate: keys node made it. Or a folder of them, <party>.pem.",
        metavar="PARTY=FILE",
    ),
    folder=_FOLDER,
    host="Address to listen on.",
    port=Option("Port to listen on.", min=1, max=65535),
    timeout=Option("Seconds to wait for the parties in a round.", min=1),
    attempt=Option("Which run: a second one is paid for anew.", min=1),
    authority="The folder of its TLS certificate; by default made where it works.",
    out=_OUT,
)
def coordinator(
    study: Path,
    *,
    key: Path,
    node: list[str],
    folder: Path = Path("confrere-coordinator"),
    host: str = "127.0.0.1",
    port: int = 8000,
    timeout: float = 600.0,
    attempt: int = 1,
    authority: Path | None = None,
    auxiliary: Path | None = None,
    out: Path | None = None,
) -> Answer:
    """Ask the parties of a study, write the release of what they gave, and hand it to them.

    Started again on the same folder after a crash, it goes on: parties send again what they had
    answered, and pay nothing more.
    """
    found = read_study(study)
    need_flower()
    from confrere.provision import expiry_warnings

    nodes = _nodes(found, node)
    opened = signing_key(key)
    from confrere.federation.flower.carrying import carrying
    from confrere.federation.flower.keys import read_authority, read_certificate
    from confrere.progress import Progress, places, private

    place = out or Path("confrere-out") / found.id
    with _stopped_by_services(), private(folder, "coordinator") as home:
        if not (home / "journal").exists():
            check_destination(found, place, [party.name for party in found.payers])
        tls = _authority(authority or home / "authority", host)
        ends = {name: read_certificate(path) for name, path in nodes.items()}
        tell(*expiry_warnings({"the coordinator": read_authority(tls.certificate), **ends}))
        progress = Progress(home, tell, study=found.sha256, study_id=found.id)
        steps, where = RunSteps(), dict.fromkeys(nodes, "nobody yet")

        def say(state: str | None = None, **more: Any) -> None:
            done = steps.to_list()
            now = places(where, done)
            progress.say(state or _where(now), parties=now, steps=done, **more)

        def moved(states: Mapping[str, str]) -> None:
            where.update(states)
            say()

        steps.changed = say
        tell(
            f"listening on {host}:{port}; every party needs {tls.certificate}: "
            f"confrere party STUDY --coordinator {host}:{port} --authority ca.pem"
        )
        try:
            with carrying(
                nodes=nodes,
                authority=tls,
                host=host,
                port=port,
                log=home / "flower.log",
                tell=moved,
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
            say(_failed(error))
            raise
        first, *_ = finished.folders.values()
        say("released", release=str(first), unsigned=dict(finished.unsigned))
    tell(*(f"left out: {name} ({code})" for name, code in finished.left_out.items()))
    lacking = finished.unsigned.items()
    tell(*(f"not signed by {name} ({code}); start again to hand it out" for name, code in lacking))
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
        [receipt_table(list(finished.made)), *wrote(*finished.folders.values())],
    )


def _nodes(study: Study, told: list[str]) -> dict[str, Path]:
    """Return every party's certificate, of files and of folders; nobody's may be missing."""
    from confrere.provision import read_nodes

    folders = [Path(text) for text in told if Path(text).is_dir()]
    nodes = pairs([text for text in told if not Path(text).is_dir()], "--node", study)
    for place in folders:
        nodes |= read_nodes(place, study)
    for name in nodes:
        study.party(name)
    missing = [party.name for party in study.payers if party.name not in nodes]
    if missing:
        raise StudyError(f"--node: the certificate of {missing[0]} is missing.")
    return nodes


def _failed(error: Exception) -> str:
    return f"failed: {type(error).__name__}; started again it goes on"


@command(
    "party",
    coordinator=Option("Where it listens.", metavar="HOST:PORT"),
    authority="The coordinator's ca.pem.",
    node_key="The private node key: keys node makes one.",
    local=_LOCAL,
    grant="What was approved; without one it is asked for.",
    folder=_FOLDER,
    timeout=Option("Seconds without a coordinator until it gives up.", min=1),
    out=_OUT,
    yes=_YES,
    same_mount="As a service, start though ledger and witness share a mount.",
)
def party(
    study: Path,
    *,
    coordinator: str,
    authority: Path,
    node_key: Path,
    local: Path = Path("local.toml"),
    ledger: Path | None = None,
    grant: Path = Path("grant.json"),
    folder: Path = Path("confrere-party"),
    timeout: float = 3600.0,
    name: str | None = None,
    reason: str | None = None,
    justification: str | None = None,
    out: Path | None = None,
    yes: bool = False,
    same_mount: bool = False,
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
    tell(*expiry_warnings(ends))
    if not grant.exists():
        _agree(found, own, grant, words_of(name, reason, justification, found), yes=yes)
    place = out or Path("confrere-out") / found.id
    paying = {one.party: one.account for one in make_plan(found, {own.party: own}).prices}

    def make() -> PartySession[Any]:
        key = signing_key(own.key_path)
        return party_session(found, own, grant=grant, out=place, key=key)

    with (
        _stopped_by_services(),
        private(folder, "party") as home,
        without_network(make, tell) as session,
    ):
        # Only now: what reads rows has not even Flower in its process.
        from confrere.federation.flower.answering import run_party

        progress = Progress(
            home,
            lambda state: tell(f"{own.party}: {state}"),
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
            progress.say(_failed(error), steps=session.told)
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
    tell(Word(f"WARNING: {text}.", "bad"))


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
    tell(plan.view(study.promise.unit), *peer_lines(study, own))
    check_peers(study, own)
    if attempts > 1:
        tell(f"for each of {attempts} runs")
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
