"""A study between machines: what a party approves, and the two sides of its run.

Both sides take everything from their own copy of the study: its hash names the run, its protocol
says which question follows, its keys say who may answer. What may carry the messages is in
:mod:`confrere.federation.carrier`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from confrere.errors import ConfrereError, GrantRefused, OperationRefused, StudyError
from confrere.federation import Answers, Books, LocalParty, Outcome, run_name
from confrere.federation.carrier import Carrier
from confrere.federation.federation import PartyError
from confrere.federation.grant import Grant
from confrere.federation.journal import Journal
from confrere.federation.session import PartySession, SignedFederation
from confrere.federation.transcript import rehearse
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.ledger.amounts import exact
from confrere.release import (
    Release,
    load_release,
    read_private_key,
    sign_sums,
    verify_signature,
)
from confrere.release.folder import SIGNATURES, SUMS, add_file, read_folder, sums_of, write_folder
from confrere.release.signing import PrivateKey
from confrere.study.encoded_rows import read_rows
from confrere.study.federating import protocol_of, release_of
from confrere.study.local_file import Local, open_account
from confrere.study.parameters import NOMINAL_ROWS, estimator_for
from confrere.study.running import Made
from confrere.study.saving import save_made
from confrere.study.study_file import Study

#: Relative agreement of a released model with the one that a party computes from the answers.
AGREEMENT = 1e-6

_JOURNAL = "journal"


def price_of(study: Study) -> Guarantee:
    """Return what one run costs a party."""
    price: Guarantee = estimator_for(study, study.method).price(
        NOMINAL_ROWS, len(study.schema.feature_names)
    )
    return price


def make_grant(
    study: Study,
    local: Local,
    *,
    approved_by: str,
    reason: str,
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
    price = price_of(study)
    names = [each.name for each in study.parties]
    requests = rehearse(protocol_of(study), names, study.sha256, len(study.schema.feature_names))
    began = now or datetime.now(UTC)
    return Grant(
        party=party.name,
        account=party.account,
        study_id=study.id,
        study_sha256=study.sha256,
        requests=requests,
        unit=study.promise.protects,
        relation=study.promise.relation,
        epsilon_per_run=price.epsilon,
        delta_per_run=price.delta,
        epsilon=float(attempts * exact(price.epsilon)),
        delta=float(attempts * exact(price.delta)),
        attempts=attempts,
        expires=began + timedelta(days=days),
        approved_by=approved_by,
        reason=reason,
        approved_at=began,
    )


def party_session(
    study: Study,
    local: Local,
    *,
    grant: Path,
    out: Path,
    key: PrivateKey | None = None,
) -> PartySession[Outcome]:
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
    if local.data_path is None:
        raise StudyError(f"data_path: the local file of {party.name} does not say where it lies.")
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
    rows = read_rows(study, local.data_path)
    ledger = _ledger(study, local, price_of(study), agreed)
    books = Books(
        ledger=ledger,
        account=party.account,
        policy=agreed.policy,
        answers=Answers(f"{ledger.path}.answers"),
    )
    X, y = rows.X.to_numpy(dtype=np.float64), rows.y.astype(np.float64)
    return PartySession(
        LocalParty(party.name, X, y, books, study.seed_for(party.name)),
        agreed,
        protocol=protocol_of(study),
        parties=_keys(study),
        coordinator=local.coordinator,
        key=opened,
        accept=lambda files, outcome: _accept(study, files, outcome, out, opened, party.name),
    )


@dataclass(frozen=True)
class Finished:
    """How a run ended at the coordinator.

    Attributes
    ----------
    made : Made
        The release.
    folder : Path
        Where it lies, with the signatures of those who signed.
    left_out : mapping of str to str
        Parties whose answers were not used, and why.
    unsigned : mapping of str to str
        Parties that did not sign the release, and why.
    """

    made: Made
    folder: Path
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
        Where the release goes.
    attempt : int, default=1
        Which run of the study this is; parties have agreed to so many and no more.
    timeout : float, optional
        Seconds to wait for a round.
    """

    def __init__(
        self,
        study: Study,
        *,
        key: PrivateKey,
        folder: Path,
        carrier: Carrier,
        out: Path,
        attempt: int = 1,
        timeout: float | None = None,
    ) -> None:
        _check_engine(study)
        self._study = study
        self._out = out
        self._timeout = timeout
        run = run_name(study.sha256, attempt)
        self._federation = SignedFederation(
            run=run,
            study=study.sha256,
            key=key,
            parties=_keys(study),
            carrier=carrier,
            journal=Journal(folder / _JOURNAL, run),
            simulated=study.simulated,
        )

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parties whose answers were not used so far, and why."""
        return dict(self._federation.left_out)

    def run(self) -> Finished:
        """Ask, validate, keep, release, and have the release signed; or go on doing so."""
        outcome = protocol_of(self._study, self._timeout)(self._federation)
        left_out = {n: c for n, c in self._federation.left_out.items() if n not in outcome.sizes}
        made = release_of(self._study, outcome)
        folder = self._saved(made)
        files = read_folder(folder).files
        sums = sums_of(files)
        unsigned: dict[str, str] = {}
        # Who has signed has ended: nobody waits for them when this is started again.
        lacking = [name for name in _keys(self._study) if not _signature(folder, name).exists()]
        handed = self._federation.hand_out(files, to=lacking, timeout=self._timeout)
        for name, signature in handed.items():
            code = self._signed(folder, name, signature, sums)
            if code is not None:
                unsigned[name] = code
        return Finished(made, folder, left_out, unsigned)

    def _saved(self, made: Made) -> Path:
        """Write the release, unless an earlier start of this run did."""
        place = self._out / made.name
        if not place.exists():
            return save_made(self._study, made, self._out, {})
        kept = load_release(place, allow_simulated=self._study.simulated)
        if not np.array_equal(_numbers(kept), _numbers(made.release)):
            raise StudyError(f"out: {place.name} holds another release; give another folder.")
        return place.resolve()

    def _signed(
        self, folder: Path, name: str, signature: bytes | PartyError, sums: bytes
    ) -> str | None:
        """Keep a party's signature; return the code if there is none."""
        if isinstance(signature, PartyError):
            return signature.code
        try:
            verify_signature(signature, sums, [_keys(self._study)[name]])
        except ConfrereError:
            return "InvalidReply:signature"
        add_file(_signature(folder, name), signature)
        return None


def _signature(folder: Path, party: str) -> Path:
    return folder / SIGNATURES / f"{party}.sig"


def _check_engine(study: Study) -> None:
    if study.engine != "flower":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
    lacking = [party.name for party in study.parties if party.key is None]
    if lacking:
        raise StudyError(
            f"party.key: {lacking[0]} has none; between machines everyone signs: give the line of "
            "its .pub file, made by confrere keys new."
        )


def _keys(study: Study) -> dict[str, str]:
    return {party.name: str(party.key) for party in study.parties}


def _compare(grant: Grant, study: Study, local: Local) -> None:
    """Refuse a grant that this study, or this version of the library, would not give again."""
    again = make_grant(
        study,
        local,
        approved_by=grant.approved_by,
        reason=grant.reason,
        attempts=grant.attempts,
        now=grant.approved_at,
    )
    if grant.study_sha256 != study.sha256:
        raise GrantRefused("grant: it is for other bytes than this study's; approve it again.")
    if again.model_copy(update={"expires": grant.expires}) != grant:
        raise GrantRefused(
            "grant: it does not say what this study asks for and costs now; approve it again."
        )


def _ledger(study: Study, local: Local, price: Guarantee, grant: Grant) -> Ledger:
    """Return the ledger with the account open; a party that goes on need not afford all again."""
    party = study.party(local.party)
    if local.ledger_path.exists():
        ledger = Ledger(local.ledger_path)
        answers = Path(f"{ledger.path}.answers")
        if answers.exists() and any(Answers(answers).kept(run) for run in grant.runs):
            return ledger
    return open_account(party, local, price)


def _accept(
    study: Study,
    files: Mapping[str, bytes],
    outcome: Outcome,
    out: Path,
    key: PrivateKey,
    party: str,
) -> bytes:
    """Compare a release with what the signed answers give here, keep it and sign it."""
    own = release_of(study, outcome)
    with tempfile.TemporaryDirectory() as aside:
        place = write_folder(Path(aside) / "release", files, {})
        release = load_release(place, allow_simulated=study.simulated)
    same = (
        release.kind == own.release.kind
        and release.simulated == own.release.simulated
        and release.guarantee == own.release.guarantee
        and release.parties == own.release.parties
        and release.card.study_sha256 == study.sha256
        and release.model.classes == own.release.model.classes
        and release.model.features == own.release.model.features
    )
    given, found = _numbers(release), _numbers(own.release)
    close = given.shape == found.shape and bool(
        np.linalg.norm(given - found) <= AGREEMENT * np.linalg.norm(found)
    )
    if not (same and close):
        raise OperationRefused(
            "the release is not what the parties' answers give; it is not signed.", "release"
        )
    signature = sign_sums(sums_of(files), key)
    target = out / own.name
    if not target.exists():
        write_folder(target, files, {party: signature})
    elif (target / SUMS).read_bytes() != sums_of(files):
        raise OperationRefused("another release lies where this one should go.", "release")
    return signature


def _numbers(release: Release) -> NDArray[np.float64]:
    arrays = release.model.arrays()
    return np.concatenate([np.ravel(arrays[name]) for name in sorted(arrays)])
