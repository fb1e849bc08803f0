"""A study between machines: the coordinator's session, a party's, and the release at the end.

Questions carry the study's hash in place of the schema's, and a party answers for its own study's
only: both sides are about the same bytes, features, encoding and price.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from confrere.errors import EngineFailed, InvalidMessage, StudyError
from confrere.federation import (
    Answers,
    Books,
    Expansion,
    Journalled,
    LocalParty,
    Outcome,
    Payload,
    Policy,
    answer,
    average,
    expand,
)
from confrere.federation.carrier import Carrier
from confrere.federation.transcript import Protocol
from confrere.ledger import Ledger
from confrere.model import Facts, Linear
from confrere.release import Release
from confrere.study.describing import described
from confrere.study.local_file import Local, open_account
from confrere.study.parameters import estimator_for
from confrere.study.plan import Plan
from confrere.study.rows import read_rows
from confrere.study.running import Made
from confrere.study.study_file import Study

if TYPE_CHECKING:
    from confrere.federation.flower.job import Job

_JOB, _JOURNAL, _OUTCOME, _RELEASE = "job", "journal", "outcome", "release"


def job_of(study: Study, timeout: float) -> Job:
    """Return what the coordinator is to do; needs the ``flower`` extra."""
    from confrere.federation.flower.job import Job

    _check(study)
    model = estimator_for(study, study.method)
    return Job(
        plan=model.protocol(len(study.schema.feature_names)),
        parties=tuple(party.name for party in study.parties),
        quorum=study.quorum,
        timeout=timeout,
        schema=study.sha256,
    )


def protocol_of(study: Study, timeout: float | None = None) -> Protocol[Outcome]:
    """Return the coordinator's side of the study's method, as a function of whom to ask.

    It is the study's and nobody's: whoever has the same bytes has the same questions.
    """
    plan = estimator_for(study, study.method)._plan(len(study.schema.feature_names))
    act = expand if isinstance(plan, Expansion) else average
    return lambda federation: act(federation, plan, quorum=study.quorum, timeout=timeout)


class CoordinatorSession:
    """The whole of a study at the coordinator; started again on the same folder it goes on.

    Parameters
    ----------
    study : Study
    folder : Path
        Its files: job, journal, outcome. A folder serves one job.
    carrier : Carrier
        How parties are reached.
    timeout : float
        Seconds to wait for a round.
    """

    def __init__(self, study: Study, *, folder: Path, carrier: Carrier, timeout: float) -> None:
        self._study = study
        self._folder = folder
        self._carrier = carrier
        self._job = job_of(study, timeout)

    def ask(self) -> Outcome:
        """Ask the parties, or go on, and keep the outcome."""
        from confrere.federation.flower.engine import FlowerFederation
        from confrere.federation.flower.progress import write_whole

        folder, job = self._folder, self._job
        content = job.to_payload().encode()
        if not (folder / _JOB).exists():
            write_whole(folder / _JOB, content)
        elif (folder / _JOB).read_bytes() != content:
            raise EngineFailed(f"{folder}: there is another job in this folder; use a new one.")
        if (folder / _OUTCOME).exists():
            return Outcome.from_payload(Payload.decode((folder / _OUTCOME).read_bytes()))
        outcome = job.run(
            Journalled(
                lambda run: FlowerFederation(
                    self._carrier, job.parties, run=run, schema=job.schema
                ),
                folder / _JOURNAL,
            )
        )
        write_whole(folder / _OUTCOME, outcome.to_payload().encode())
        return outcome

    def hand_out(self, outcome: Outcome) -> list[str]:
        """Give every party the release; return who did not fetch it in time."""
        told = Payload({_RELEASE: outcome.to_payload().digest}, {"weights": outcome.weights})
        message = told.encode()
        replies = self._carrier.exchange(
            dict.fromkeys(self._job.parties, message), self._job.timeout
        )
        return [name for name, reply in replies.items() if not isinstance(reply, bytes)]


class PartySession:
    """A party's side of one study: questions in, answers out, until the release.

    Parameters
    ----------
    party : LocalParty
        Whose rows, books and policy.
    """

    def __init__(self, party: LocalParty) -> None:
        self.party = party
        self.finished = False
        self.state = "waiting"

    def handle(self, question: bytes) -> bytes:
        """Answer a message; what goes back is an answer or a code."""
        try:
            found = Payload.decode(question)
        except InvalidMessage:
            found = Payload()
        if found.values.keys() == {_RELEASE}:
            self.finished, self.state = True, "released"
            return Payload({_RELEASE: found.values[_RELEASE]}).encode()
        reply = answer(question, self.party)
        self.state = "answered"
        return reply


def party_session(
    study: Study, plan: Plan, local: Local, *, going_on: bool = False
) -> PartySession:
    """Return what answers for a party, its rows read and its account open.

    Parameters
    ----------
    study : Study
    plan : Plan
        With the party's price.
    local : Local
    going_on : bool
        Whether the party was in this study before: then part of the price may be paid, and no
        budget need cover the whole of it again; the ledger still refuses what is beyond its cap.
    """
    _check(study)
    party = study.party(local.party)
    if local.data_path is None:
        raise StudyError(f"data_path: the local file of {party.name} does not say where it lies.")
    if local.policy is not None:
        local.policy.check(study, party.name)
    rows = read_rows(study, local.data_path)
    price = next(p.guarantee for p in plan.prices if p.party == party.name)
    resumes = going_on and local.ledger_path.exists()
    ledger = Ledger(local.ledger_path) if resumes else open_account(party, local, price)
    books = Books(
        ledger=ledger,
        account=ledger.account_for(party.account),
        policy=Policy(
            operations=frozenset(study.method.operations),
            unit=price.unit,
            neighbours=price.neighbours,
            epsilon_per_run=price.epsilon,
            study=study.sha256,
        ),
        answers=Answers(f"{ledger.path}.answers"),
    )
    X = rows.X.to_numpy(dtype=np.float64)
    y = rows.y.astype(np.float64)
    return PartySession(LocalParty(party.name, X, y, books, study.seed_for(party.name)))


def release_of(study: Study, outcome: Outcome) -> Made:
    """Return the release of what all parties gave."""
    model = estimator_for(study, study.method)
    release = Release(
        kind="collaborative",
        model=Linear(
            coef=outcome.coef[None, :],
            intercept=np.array([outcome.intercept]),
            classes=tuple(np.unique(model.classes).tolist()),
            features=tuple(study.schema.feature_names),
            facts=Facts(
                method=study.method.name,
                parties=len(outcome.sizes),
                rounds=study.parameters.get("rounds", 1),
                n_samples=sum(outcome.sizes.values()),
                **outcome.frame.learned_with(),
            ),
        ),
        guarantee=outcome.guarantee,
        receipt=None,
        simulated=outcome.simulated,
        parties=outcome.receipts,
    )
    return Made(study.id, described(study, release), outcome.receipts)


def _check(study: Study) -> None:
    if study.engine != "flower":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
