"""approve and coordinator: a study between machines; and what a party does in one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

from confrere.cli.app import Answer, Option, command, confirm, pairs, tell, wrote
from confrere.errors import StudyError
from confrere.views import Word
from confrere_federation.commands.party import (
    APPROVAL,
    Released,
    kit_address,
    signing_key,
    stopped_by_services,
)
from confrere_federation.commands.studies import receipt_table, words_of
from confrere_federation.engines.carrier import Answering
from confrere_federation.engines.keys import Authority, expiry_warnings, read_certificate
from confrere_federation.parties.federation import RunSteps
from confrere_federation.parties.party import check_witness
from confrere_federation.progress import Progress, private
from confrere_federation.studies.running import (
    CoordinatorSession,
    approval_of,
    approve_study,
    asked_lines,
    check_destination,
    lift_refusal,
    make_plan,
    party_session,
    refuse_study,
)
from confrere_federation.studies.study_file import (
    Local,
    Study,
    check_peers,
    confirm_peers,
    gather_locals,
    home_of,
    peer_lines,
    read_study,
    standing_refusal,
)

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
