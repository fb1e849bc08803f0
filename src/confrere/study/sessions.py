"""A study between machines: what a party approves, and the two sides of its run.

Both sides take everything from their own copy of the study: its hash names the run, its protocol
says which question follows, its keys say who may answer. What may carry the messages is in
:mod:`confrere.federation.signed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from confrere.errors import GrantRefused, StudyError
from confrere.federation import Answers, run_name
from confrere.federation.answers import Journal
from confrere.federation.grant import Grant
from confrere.federation.messages import PartyError
from confrere.federation.signed import Carrier, PartySession, RunSteps, SignedFederation
from confrere.guarantee import exact
from confrere.ledger import LedgerReader
from confrere.release import (
    load_release,
    read_private_key,
)
from confrere.release.folder import SIGNATURES, read_folder
from confrere.release.signing import PrivateKey
from confrere.study.accepting import (
    accept_releases,
    keep_signatures,
    released_numbers_of,
    share_signatures,
)
from confrere.study.budget import budget_of
from confrere.study.local_file import Local
from confrere.study.peers import check_peers
from confrere.study.priced_plan import price_of
from confrere.study.protocols import Given, Learned, protocol_of
from confrere.study.running import (
    Made,
    auxiliary_rows,
    local_party,
    made_of,
    requests_of,
    rows_of,
    save_made,
)
from confrere.study.study_file import Study
from confrere.study.study_trust import trust_of

_JOURNAL, _RELEASES = "journal", "releases"


def make_grant(
    study: Study,
    local: Local,
    *,
    approved_by: str,
    reason: str,
    justification: str | None = None,
    attempts: int = 1,
    days: float = 30.0,
    now: datetime | None = None,
) -> Grant:
    """Return what a party would agree to: every question of the study, at its price.

    Parameters
    ----------
    study : Study
        The party's own copy.
    local : Local
        Its local file, whose policy must allow it.
    approved_by, reason : str
        Who agrees, and why.
    justification : str, optional
        Why this epsilon.
    attempts : int, default=1
        How many runs may be paid for: a second one only if the first cannot be finished.
    days : float, default=30
        How long the grant is good for.
    now : datetime, optional
        When it is approved.

    Raises
    ------
    OperationRefused
        If the party's policy does not allow the study.
    BudgetExceeded
        If a limit does not cover one run.
    """
    _check_engine(study)
    party = study.party(local.party)
    if local.policy is None:
        raise StudyError(f"policy: {party.name} needs a local file that says what it allows.")
    local.policy.check(study, party.name)
    check_peers(study, local)
    price = price_of(study)
    given = Given(auxiliary=auxiliary_rows(study, None, {party.name: local}))
    requests = requests_of(study, party.name, given)
    if not requests:
        raise StudyError(f"{party.name} is asked nothing: it uses the others' release as it is.")
    began = now or datetime.now(UTC)
    return Grant(
        party=party.name,
        account=budget_of(party, local, price).account,
        study_id=study.id,
        study_sha256=study.sha256,
        requests=requests,
        unit=study.promise.protects,
        relation=study.promise.relation,
        trust=str(trust_of(study)),
        epsilon_per_run=price.epsilon,
        delta_per_run=price.delta,
        epsilon=float(attempts * exact(price.epsilon)),
        delta=float(attempts * exact(price.delta)),
        attempts=attempts,
        expires=began + timedelta(days=days),
        approved_by=approved_by,
        reason=reason,
        approved_at=began,
        justification=justification,
    )


def party_session(
    study: Study,
    local: Local,
    *,
    grant: Path,
    out: Path,
    key: PrivateKey | None = None,
) -> PartySession[tuple[Learned, ...]]:
    """Return what answers for a party: its rows read, its account open, its grant checked.

    Parameters
    ----------
    study : Study
        The party's own copy.
    local : Local
    grant : Path
        What ``confrere approve`` wrote and the party's key signed.
    out : Path
        Where the release goes once it is checked.
    key : private key, optional
        The party's, opened already if its file has a passphrase; by default ``local.key_path``.

    Raises
    ------
    GrantRefused, SignatureError
        If the grant is of another study, another version of this library, or signed by another.
    """
    _check_engine(study)
    party = study.party(local.party)
    if local.coordinator is None:
        raise StudyError(
            "coordinator: the local file must name the key whose questions are answered."
        )
    if local.policy is None:
        raise StudyError(f"policy: {party.name} needs a local file that says what it allows.")
    if key is None and local.key_path is None:
        raise StudyError("key_path: between machines a party signs what it sends; name its key.")
    local.policy.check(study, party.name)
    opened = read_private_key(key if key is not None else str(local.key_path))
    agreed = Grant.load(grant, opened.public_key())
    _compare(agreed, study, local)
    if local.ledger_path.is_file():
        LedgerReader.look(local.ledger_path).check_agreed(study.sha256, agreed.approval)
    given = Given(auxiliary=auxiliary_rows(study, None, {party.name: local}))
    answering = local_party(study, local, rows_of(study, local), agreed.policy, given.rows(study))
    return PartySession(
        answering,
        agreed,
        protocol=protocol_of(study, given),
        parties=_keys(study),
        coordinator=local.coordinator,
        key=opened,
        accept=lambda files, found: accept_releases(study, files, found, out, opened, answering),
        share=lambda replies: share_signatures(study, replies, out),
    )


@dataclass(frozen=True)
class Finished:
    """How a run ended at the coordinator.

    Attributes
    ----------
    made : tuple of Made
        The releases.
    folders : mapping of str to Path
        Where each of them lies, with the signatures of those who signed.
    left_out : mapping of str to str
        Parties whose answers were not used, and why.
    unsigned : mapping of str to str
        Parties that did not sign what they paid for, and why.
    """

    made: tuple[Made, ...]
    folders: Mapping[str, Path]
    left_out: Mapping[str, str]
    unsigned: Mapping[str, str]


class CoordinatorSession:
    """The whole of a study at the coordinator; started again on the same folder it goes on.

    Parameters
    ----------
    study : Study
    key : private key
        The coordinator's: parties pin its public half.
    folder : Path
        Its files: the journal. A folder serves one run.
    carrier : Carrier
        How parties are reached.
    out : Path
        Where the releases go.
    auxiliary : Path, optional
        The public rows that parties vote on, where the study names them.
    attempt : int, default=1
        Which run of the study this is; parties have agreed to so many and no more.
    timeout : float, optional
        Seconds to wait for a round.
    steps : RunSteps, optional
        Is told who was asked what, and how that ended.
    """

    def __init__(
        self,
        study: Study,
        *,
        key: PrivateKey,
        folder: Path,
        carrier: Carrier,
        out: Path,
        auxiliary: Path | None = None,
        attempt: int = 1,
        timeout: float | None = None,
        steps: RunSteps | None = None,
    ) -> None:
        _check_engine(study)
        self._study = study
        self._out = out
        self._timeout = timeout
        self._given = Given(
            auxiliary=auxiliary_rows(study, auxiliary, {}),
            kept=Answers(folder / _RELEASES) if _noised_here(study) else None,
        )
        run = run_name(study.sha256, attempt)
        self._federation = SignedFederation(
            run=run,
            study=study.sha256,
            key=key,
            parties=_keys(study),
            carrier=carrier,
            journal=Journal(folder / _JOURNAL, run),
            simulated=study.simulated,
            steps=steps,
        )

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parties whose answers were not used so far, and why."""
        return dict(self._federation.left_out)

    def run(self) -> Finished:
        """Ask, validate, keep, release, and have the release signed; or go on doing so."""
        found = protocol_of(self._study, self._given, self._timeout)(self._federation)
        taken = {name for learned in found for name in learned.receipts}
        left_out = {n: c for n, c in self._federation.left_out.items() if n not in taken}
        made = tuple(made_of(self._study, learned) for learned in found)
        folders = {one.name: self._saved(one) for one in made}
        return Finished(made, folders, left_out, self._hand_out(made, folders))

    def _hand_out(self, made: Sequence[Made], folders: Mapping[str, Path]) -> dict[str, str]:
        """Give everyone all releases; keep who signed, and return who did not, and why."""
        files = {name: read_folder(folder).files for name, folder in folders.items()}
        whole = {f"{n}/{f}": c for n, inside in files.items() for f, c in inside.items()}
        signing = {
            name: [one.name for one in made if name in one.receipts] for name in _keys(self._study)
        }
        # Who has signed has ended: nobody waits for them when this is started again.
        lacking = [
            name
            for name, theirs in signing.items()
            if not theirs or any(not _signature(folders[n], name).exists() for n in theirs)
        ]
        unsigned: dict[str, str] = {}
        known = {
            name: json.dumps({n: _signature(folders[n], name).read_text() for n in theirs}).encode()
            for name, theirs in signing.items()
            if name not in lacking
        }
        handed = self._federation.hand_out(whole, to=lacking, timeout=self._timeout, known=known)
        for name, reply in handed.items():
            own = {n: folders[n] for n in signing[name]}
            if isinstance(reply, PartyError):
                unsigned[name] = reply.code
            elif not keep_signatures(self._study, name, reply, own):
                unsigned[name] = "InvalidReply:signature"
        return unsigned

    def _saved(self, made: Made) -> Path:
        """Write the release, unless an earlier start of this run did."""
        place = self._out / made.name
        if not place.exists():
            return save_made(self._study, made, self._out, {})
        kept = load_release(place, allow_simulated=self._study.simulated)
        if not np.array_equal(released_numbers_of(kept), released_numbers_of(made.release)):
            raise StudyError(f"out: {place.name} holds another release; give another folder.")
        return place.resolve()


def _noised_here(study: Study) -> bool:
    """Whether the coordinator adds the noise, which it draws once and keeps."""
    return study.method.shape == "votes" and study.trust == "coordinator"


def _signature(folder: Path, party: str) -> Path:
    return folder / SIGNATURES / f"{party}.sig"


def _check_engine(study: Study) -> None:
    if study.engine != "flower":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
    lacking = [party.name for party in study.payers if party.key is None]
    if lacking:
        raise StudyError(
            f"party.key: {lacking[0]} has none; between machines everyone signs: give the line of "
            "its .pub file, made by confrere keys new."
        )


def _keys(study: Study) -> dict[str, str]:
    return {party.name: str(party.key) for party in study.payers}


def _compare(grant: Grant, study: Study, local: Local) -> None:
    """Refuse a grant that this study, or this version of the library, would not give again."""
    again = make_grant(
        study,
        local,
        approved_by=grant.approved_by,
        reason=grant.reason,
        justification=grant.justification,
        attempts=grant.attempts,
        now=grant.approved_at,
    )
    if grant.study_sha256 != study.sha256:
        raise GrantRefused("grant: it is for other bytes than this study's; approve it again.")
    # Which of its accounts pays is the party's own affair: another study may have opened one since.
    same = {"expires": grant.expires, "account": grant.account}
    if again.model_copy(update=same) != grant:
        raise GrantRefused(
            "grant: it does not say what this study asks for and costs now; approve it again."
        )
