"""A run between machines: the coordinator's side of it, and a party's.

Neither side trusts the other. A party answers a question that the pinned key signed, that its own
grant contains, and that follows, to the last number, from what all parties have signed so far; at
the end it runs the protocol again over those signatures and signs the release only if it is what
comes out. A coordinator uses and keeps an answer once its signature, its place in the run, its
receipt and its numbers are right; otherwise the party is left out, and named. What carries the
messages is a :class:`~confrere.federation.carrier.Carrier`.
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
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
    SignatureError,
)
from confrere.federation.carrier import Carrier
from confrere.federation.expected import Expect
from confrere.federation.federation import Federation, PartyError
from confrere.federation.grant import Grant
from confrere.federation.journal import Journal
from confrere.federation.masks import Masking
from confrere.federation.messages import Question, SignedAnswer, refusal, refused
from confrere.federation.operation import installed
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.serving import about, serve
from confrere.federation.summing import asked_of
from confrere.federation.transcript import Next, Protocol, Step, agree, replay
from confrere.release.signing import PrivateKey, PublicKey, public_line, read_private_key
from confrere.release.signing import read_public_key as _public

T = TypeVar("T")

#: The question with which a run ends: it hands the release to the parties.
FINISH = "finish"

logger = logging.getLogger("confrere.federation")


class SignedFederation(Federation):
    """Parties behind a carrier: every question signed, every answer checked before it is kept.

    Parameters
    ----------
    run : str
        Name of the run; see :func:`~confrere.federation.grant.run_name`.
    study : str
        Hash of the study.
    key : private key
        The coordinator's.
    parties : mapping of str to public key
        Everyone in the study, in its order.
    carrier : Carrier
        What moves the messages.
    journal : Journal
        Of this run.
    simulated : bool, default=False
        Whether the study's noise is seeded: receipts must say the same.
    """

    def __init__(
        self,
        *,
        run: str,
        study: str,
        key: PrivateKey,
        parties: Mapping[str, PublicKey],
        carrier: Carrier,
        journal: Journal,
        simulated: bool = False,
    ) -> None:
        super().__init__(run)
        if journal.run != run:
            raise FederationError("the journal is of another run; use a new folder.")
        self._study = study
        self._key = read_private_key(key)
        self._keys = {name: _public(one) for name, one in parties.items()}
        self._carrier = carrier
        self._journal = journal
        self._simulated = simulated
        self._replies: dict[str, bytes] = {}
        self._steps: list[bytes] = []

    def parties(self) -> list[str]:
        """Return everyone in the study, connected or not."""
        return list(self._keys)

    def ask(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
    ) -> dict[str, Payload | PartyError]:
        """Sign a question, send it with the evidence behind it, and open what comes back."""
        names = self.parties() if to is None else list(to)
        unknown = [name for name in names if name not in self._keys]
        if unknown:
            raise InvalidParameter(f"to: there is no party {unknown[0]!r} in the study.")
        question = self._question(operation, payload, step)
        content = question.sign(self._key, self._steps)
        replies = self._carrier.exchange(dict.fromkeys(names, content), timeout)
        return {name: self._opened(name, replies.get(name), question) for name in names}

    def gather(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
        quorum: float = 1.0,
        expect: Expect | None = None,
    ) -> Mapping[str, Payload]:
        """Give back what was gathered before, or gather it, and keep what is valid."""
        if expect is None:
            raise FederationError(f"{operation}: nobody says what its answers must be.")
        kept = self._journal.kept(operation, step, payload.digest)
        if not kept:
            answers = super().gather(
                operation,
                payload,
                to=to,
                step=step,
                timeout=timeout,
                quorum=quorum,
                expect=lambda name: replace(expect(name), receipted=True),
            )
            kept = {name: self._replies[name] for name in answers}
            opened = {n: SignedAnswer.open(c, self._keys).receipt for n, c in kept.items()}
            receipts = {name: one for name, one in opened.items() if one is not None}
            self._journal.keep(operation, step, payload.digest, kept, receipts)
        if installed(operation).noised:
            question = self._question(operation, payload, step)
            self._steps.append(question.sign(self._key, list(kept.values())))
        return {n: SignedAnswer.open(content, self._keys).payload for n, content in kept.items()}

    def hand_out(
        self,
        files: Mapping[str, bytes],
        *,
        to: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> dict[str, bytes | PartyError]:
        """Give the release to parties, and return their signatures or why there is none."""
        names = sorted(files)
        arrays = {f"file{k}": np.frombuffer(files[n], np.uint8) for k, n in enumerate(names)}
        answers = self.ask(FINISH, Payload({"files": names}, arrays), to=to, timeout=timeout)
        return {
            name: answer
            if isinstance(answer, PartyError)
            else answer.arrays.get("signature", np.zeros(0, np.uint8)).tobytes()
            for name, answer in answers.items()
        }

    def _question(self, operation: str, payload: Payload, step: int) -> Question:
        return Question(self.run, self._study, operation, payload, step)

    def _opened(
        self, name: str, reply: bytes | PartyError | None, question: Question
    ) -> Payload | PartyError:
        """Return an answer that is the party's own, to this question, and continues its ledger."""
        self._replies.pop(name, None)
        answer = self._read(name, reply, question)
        if isinstance(answer, Payload) and isinstance(reply, bytes):
            self._replies[name] = reply
        return answer

    def _read(
        self, name: str, reply: bytes | PartyError | None, question: Question
    ) -> Payload | PartyError:
        if reply is None:
            return PartyError("Unreachable")
        if isinstance(reply, PartyError):
            return reply
        told = refused(reply)
        if told is not None:
            return told
        try:
            answer = SignedAnswer.open(reply, {name: self._keys[name]})
            receipt = answer.receipt
            fits = answer.answers(question)
        except SignatureError:
            return PartyError("InvalidReply:signature")
        except InvalidMessage:
            return PartyError("InvalidReply:form")
        if not fits:
            return PartyError("InvalidReply:question")
        if receipt is not None:
            if receipt.simulated is not self._simulated:
                return PartyError("InvalidReply:simulated")
            if answer.head != receipt.hash or not self._journal.continues(name, receipt):
                logger.error("%s: its ledger does not continue what was seen of it before", name)
                return PartyError("InvalidReply:ledger")
        return answer.payload


class PartySession(Generic[T]):
    """A party's side of one run: bytes in, bytes out, until the release is signed.

    Parameters
    ----------
    local : LocalParty
        Its rows and books; the books' policy is the grant's.
    grant : Grant
        What it agreed to.
    protocol : callable
        What a coordinator does, as the party's own study has it.
    parties : mapping of str to public key
        Everyone in the study, in its order.
    coordinator : public key
        The one whose questions count.
    key : private key
        The party's own.
    accept : callable
        ``(files, outcome) -> signature``: compares a release's files with what the protocol gave
        here, keeps them, and signs; raises if they differ. The outcome is None where a coordinator
        that is trusted with answers made it.

    Attributes
    ----------
    finished : bool
        Whether there is nothing more to do.
    state : str
        "waiting", "asked", "answered", "released" or "left out": for people.
    """

    def __init__(
        self,
        local: LocalParty,
        grant: Grant,
        *,
        protocol: Protocol[T],
        parties: Mapping[str, PublicKey],
        coordinator: PublicKey,
        key: PrivateKey,
        accept: Callable[[Mapping[str, bytes], T | None], bytes],
    ) -> None:
        self._grant = grant
        self._protocol = protocol
        self._keys = {name: _public(one) for name, one in parties.items()}
        self._coordinator = _public(coordinator)
        self._key = read_private_key(key)
        self._local = replace(local, masking=Masking(local.name, self._key, self._keys))
        self._accept = accept
        self._one_at_a_time = threading.Lock()
        self._seen: set[str] = set()
        self.finished = False
        self.state = "waiting"
        self._check()

    @property
    def name(self) -> str:
        """Whose side it is."""
        return self._local.name

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
        if books.policy != grant.policy or books.account != grant.account:
            raise InvalidParameter("books: their ledger, account and policy must be the grant's.")
        if public_line(self._key.public_key()) != public_line(self._keys[self.name]):
            raise InvalidParameter("key: it is not the key that the study names for this party.")
        account = next(a for a in books.ledger.accounts() if a.name == books.account)
        if account.epsilon is None:
            raise InvalidParameter(
                f"account {grant.account!r} has no lifetime cap: between organisations it needs "
                "one; give it to the study's party, or to the local policy."
            )

    def _handled(self, content: bytes) -> bytes:
        question, evidence = Question.open(content, self._coordinator)
        self.state = self.state if self.finished else "asked"
        if question.study != self._grant.study_sha256:
            raise OperationRefused("the question is about another study.", "study")
        if question.run not in self._grant.runs:
            raise OperationRefused("the run is not one that was agreed to.", "run")
        steps = [Step.open(one, self._coordinator, self._keys) for one in evidence]
        for step in steps:
            if (step.question.run, step.question.study) != (question.run, question.study):
                raise OperationRefused("the evidence is of another run or study.", "evidence")
            self._recognise(step)
        found = replay(self._protocol, list(self._keys), question.run, steps)
        if question.operation == FINISH:
            return self._finish(question, steps, found)
        if not isinstance(found, Next):
            raise OperationRefused("nothing is left to ask.", "step")
        self._compare(question, found)
        self._grant.check()
        answer = serve(
            question.operation,
            question.payload,
            self._local,
            run=question.run,
            step=question.step,
            protocol=question.protocol,
            study=question.study,
        )
        self.state = "answered"
        return SignedAnswer.sign(answer, self._key).encode()

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
        kept = books.answers.kept(question.run).get((slot, question.step))
        if kept != own.payload.encode():
            raise FederationError(
                "others hold an answer of this party that its answer file does not: was the file "
                "restored from a copy? Nothing more is answered; bring back the newest one."
            )
        if own.head is not None:
            books.ledger.verify(head=own.head)
        self._seen.add(own.payload.digest)

    def _finish(self, question: Question, steps: Sequence[Step], outcome: T | Next) -> bytes:
        told_all: T | None = None
        if not isinstance(outcome, Next):
            told_all = outcome
        elif installed(outcome.operation).noised or not self._has_answered(question.run, outcome):
            raise OperationRefused("the run is not at its end.", "step")
        paid = [step for step in steps if self._grant_costs(step)]
        if any(self.name not in step.answers for step in paid):
            self.finished, self.state = True, "left out"
            raise OperationRefused("the release does not hold this party's answer.", "left-out")
        names = question.payload.values.get("files")
        arrays = question.payload.arrays
        if not isinstance(names, list) or arrays.keys() != {f"file{k}" for k in range(len(names))}:
            raise InvalidMessage("a release has a name for every file.")
        files = {str(name): arrays[f"file{k}"].tobytes() for k, name in enumerate(names)}
        signature = self._accept(files, told_all)
        self.finished, self.state = True, "released"
        facts = about(self._local, question.run, question.study, FINISH, 0, question.payload)
        told: dict[str, Any] = {"receipt": None, "head": None, "about": facts}
        reply = Payload(told, {"signature": np.frombuffer(signature, np.uint8)})
        return SignedAnswer.sign(reply, self._key).encode()

    def _has_answered(self, run: str, asked: Next) -> bool:
        """Whether the party has answered a question whose answers no party may see."""
        slot = installed(asked.operation).slot or asked.operation
        return (slot, asked.step) in self._local.books.answers.kept(run)

    def _grant_costs(self, step: Step) -> bool:
        asked = (step.question.operation, step.question.step)
        return any(r.epsilon > 0 for r in self._grant.requests if r.is_about(*asked))
