"""A party's side of a run between machines: it believes nobody.

What carries messages (:mod:`~confrere_federation.engines.carrier`) moves bytes and knows who sent
them; it reads none. One long-lived object answers for a party::

    session = confrere_federation.studies.party_session(study, local, grant=grant_file, out=folder)
    reply = session.handle(question)    # bytes in, bytes out; never raises about a message

``handle`` may be called again with the same bytes at any time, after a crash too: the same bytes
come back and nothing is spent. Replies to wrong, foreign or hostile questions are codes. A question
is answered that the pinned key signed, that the party's own grant contains, and that follows from
what all parties have signed so far. The last message of a run hands the release to the parties; a
party runs the protocol again over those signatures and signs the release only if it is what comes
out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from confrere.errors import (
    ConfrereError,
    FederationError,
    InvalidParameter,
    OperationRefused,
    SignatureError,
    StudyRefused,
)
from confrere.release.signing import PrivateKey, PublicKey, public_line, read_private_key
from confrere.release.signing import read_public_key as _public
from confrere_federation.parties.answers import Key
from confrere_federation.parties.federation import (
    FINISH,
    Next,
    Replay,
    RunSteps,
    Step,
    Steps,
    agree,
    unpacked,
)
from confrere_federation.parties.grant import Grant
from confrere_federation.parties.masks import Masking
from confrere_federation.parties.messages import (
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    refusal,
)
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.requests import asked_of, installed
from confrere_federation.parties.serving import answer

T = TypeVar("T")

logger = logging.getLogger("confrere_federation.parties")


class PartySession(Generic[T]):
    """A party's side of one run: bytes in, bytes out, until the release is signed."""

    def __init__(
        self,
        local: LocalParty,  # Its rows and books; the books' policy is the grant's
        grant: Grant,  # What it agreed to
        *,
        protocol: Steps[T],  # What a coordinator does, as the party's own study has it
        parties: Mapping[str, PublicKey],  # Everyone in the study, in its order
        coordinator: PublicKey,  # The one whose questions count
        key: PrivateKey,  # The party's own
        # ``(files, outcome) -> signature``: compares a release's files with what the protocol gave
        # here, keeps them, and signs; raises if they differ. The outcome is None where a
        # coordinator that is trusted with answers made it.
        accept: Callable[[Mapping[str, bytes], T | None], bytes],
        # ``(signatures) -> None``: keeps what the parties signed a release with, by their names
        share: Callable[[Mapping[str, bytes]], object] | None = None,
    ) -> None:
        self._grant = grant
        self._protocol = protocol
        self._keys = {name: _public(one) for name, one in parties.items()}
        self._coordinator = _public(coordinator)
        self._key = read_private_key(key)
        self._local = replace(local, masking=Masking(local.name, self._key, self._keys))
        self._accept = accept
        self._share = share
        self._one_at_a_time = threading.Lock()
        self._seen: set[str] = set()
        self._opened: dict[bytes, Step] = {}  # the last question's evidence, whose signatures hold
        self._replay: Replay[T] | None = None  # over that evidence
        self.finished = False  #: Whether there is nothing more to do
        self._released = False
        #: "waiting", "asked", "answered", "released", "left out" or "withdrawn by ...": for people
        self.state = "waiting"
        self._steps = RunSteps()
        self._check()

    @property
    def name(self) -> str:
        """Whose side it is."""
        return self._local.name

    @property
    def told(self) -> list[dict[str, Any]]:
        """What was asked and answered so far, and what it cost: for people too."""
        return self._steps.to_list()

    def handle(self, content: bytes) -> bytes:
        """Answer a question that came as bytes; what goes back is an answer or a code.

        Errors are logged here, inside the organisation. Only what would stop the process passes.
        """
        with self._one_at_a_time:
            try:
                return self._handled(content)
            except SignatureError as error:
                logger.warning("%s: a message was not answered: %s", self.name, error)
                return refusal(PartyError("OperationRefused:signature"))
            except StudyRefused as error:
                self._end_refused(error)
                return refusal(PartyError.of(error))
            except ConfrereError as error:
                logger.warning("%s: a question was not answered: %s", self.name, error)
                return refusal(PartyError.of(error))
            except Exception as error:
                logger.exception("%s: a question was not answered", self.name)
                return refusal(PartyError.of(error))

    def _check(self) -> None:
        books, grant = self._local.books, self._grant
        if grant.party != self.name or self.name not in self._keys:
            raise InvalidParameter("grant: it is another party's.")
        if books.policy != grant.policy:
            raise InvalidParameter("books: their policy must be the grant's.")
        if public_line(self._key.public_key()) != public_line(self._keys[self.name]):
            raise InvalidParameter("key: it is not the key that the study names for this party.")
        if books.snapshots is None and not self._local.simulated:
            raise InvalidParameter(
                "books: between machines noise follows from a key; give snapshots."
            )
        account = next(a for a in books.ledger.accounts() if a.name == books.account)
        if account.epsilon is None:
            raise InvalidParameter(
                f"account {account.name!r} has no lifetime cap: between organisations it needs "
                "one; give it to the study's party, or to the local policy."
            )

    def _handled(self, content: bytes) -> bytes:
        question, evidence = Question.open(content, self._coordinator)
        self.state = self.state if self.finished or self._released else "asked"
        if question.study != self._grant.study_sha256:
            raise OperationRefused("the question is about another study.", "study")
        if question.run not in self._grant.runs:
            raise OperationRefused("the run is not one that was agreed to.", "run")
        self._local.books.ledger.check_agreed(question.study, self._grant.approval)
        self._opened = {
            one: self._opened.get(one) or Step.open(one, self._coordinator, self._keys)
            for one in evidence
        }
        steps = [self._opened[one] for one in evidence]
        for step in steps:
            if (step.question.run, step.question.study) != (question.run, question.study):
                raise OperationRefused("the evidence is of another run or study.", "evidence")
            self._recognise(step)
        found = self._replayed(question, steps)
        if question.operation == FINISH:
            return self._finish(question, steps, found)
        if not isinstance(found, Next):
            raise OperationRefused("nothing is left to ask.", "step")
        self._compare(question, found)
        self._steps.asked(question.operation, question.step, [self.name])
        try:
            self._grant.check()
            made = answer(question, self._local.encoded_by(found.encoder))
        except Exception as error:
            why = {self.name: PartyError.of(error)}
            self._steps.ended(question.operation, question.step, why)
            raise
        self._steps.ended(question.operation, question.step, {self.name: made})
        self.state = "answered"
        return SignedAnswer.sign(made, self._key).encode()

    def _replayed(self, question: Question, steps: list[Step]) -> T | Next:
        """Return what follows from the evidence; where it only grows, what was replayed counts.

        A release is compared with what all of it gives, from the beginning.
        """
        known, self._replay = self._replay, None  # who is refused begins anew
        if known is None or (known.run, known.steps) != (question.run, steps[: len(known.steps)]):
            known = None
        if known is None or question.operation == FINISH:
            known = Replay(self._protocol, list(self._keys), question.run)
        found = known.after(steps[len(known.steps) :])
        self._replay = known
        return found

    def _end_refused(self, error: StudyRefused) -> None:
        """Have nothing more to do with a study that somebody here said no to."""
        logger.warning("%s: nothing more is answered: %s", self.name, error)
        standing = self._local.books.ledger.refusal(self._grant.study_sha256)
        self.finished = True
        self.state = "agreed to anew since" if standing is None else str(standing)

    def _compare(self, question: Question, found: Next) -> None:
        if found.tries > 0:
            # Any try that is left will do: those that were lost leave no evidence.
            operation, request = asked_of(question.operation, question.payload)
            if operation != found.operation or not 0 <= question.step < found.tries:
                raise OperationRefused("another question is next.", "step")
            if self.name not in found.to or not agree(request, found.payload):
                raise OperationRefused("the request is not what follows from the study.", "request")
            return
        if (question.operation, question.step) != (found.operation, found.step):
            raise OperationRefused("another question is next.", "step")
        chosen = installed(found.operation).chosen
        taken = {name: question.payload.values.get(name) for name in chosen}
        expected = Payload(dict(found.payload.values) | taken, found.payload.arrays)
        if self.name not in found.to or not agree(question.payload, expected):
            raise OperationRefused("the request is not what follows from the study.", "request")

    def _recognise(self, step: Step) -> None:
        """Refuse to go on where others hold an answer of ours that our own files do not."""
        own = step.answers.get(self.name)
        if own is None or own.payload.digest in self._seen:
            return
        question, books = step.question, self._local.books
        slot = installed(question.operation).slot or question.operation
        kept = books.answers.answer_to(Key(question.run, slot, question.step))
        if kept != own.payload.encode():
            raise FederationError(
                "others hold an answer of this party that its answer file does not: was the file "
                "restored from a copy? Nothing more is answered; bring back the newest one."
            )
        if own.receipt is not None:
            books.ledger.entry(own.receipt)  # the row that it names is there
        elif own.head is not None:
            books.ledger.verify(head=own.head)
        self._seen.add(own.payload.digest)

    def _finish(self, question: Question, steps: Sequence[Step], outcome: T | Next) -> bytes:
        if question.step == 1:
            return self._shared(question)
        told_all: T | None = None
        if not isinstance(outcome, Next):
            told_all = outcome
        elif installed(outcome.operation).noised or not self._has_answered(question.run, outcome):
            raise OperationRefused("the run is not at its end.", "step")
        paid = [step for step in steps if self._grant_costs(step)]
        if any(self.name not in step.answers for step in paid):
            self.finished, self.state = True, "left out"
            raise OperationRefused("the release does not hold this party's answer.", "left-out")
        signature = self._accept(unpacked("files", question.payload), told_all)
        self._released, self.state = True, "released"
        return self._told(question, {"signature": np.frombuffer(signature, np.uint8)})

    def _shared(self, question: Question) -> bytes:
        """Keep the others' signatures, with which the run ends here."""
        if not self._released:
            raise OperationRefused("the release comes before its signatures.", "step")
        signatures = unpacked("parties", question.payload)
        if self._share is not None:
            self._share(signatures)
        self.finished = True
        return self._told(question, {})

    def _told(self, question: Question, arrays: Mapping[str, Any]) -> bytes:
        about = question.about(self.name)
        told: dict[str, Any] = {"receipt": None, "head": None, "about": about}
        return SignedAnswer.sign(Payload(told, arrays), self._key).encode()

    def _has_answered(self, run: str, asked: Next) -> bool:
        """Whether the party has answered a question whose answers no party may see."""
        slot = installed(asked.operation).slot or asked.operation
        return self._local.books.answers.answer_to(Key(run, slot, asked.step)) is not None

    def _grant_costs(self, step: Step) -> bool:
        asked = (step.question.operation, step.question.step)
        return any(r.epsilon > 0 for r in self._grant.requests if r.is_about(*asked))
