"""A run between machines: signed questions, signed answers, and nobody who has to be believed.

**What carries messages** (:mod:`~confrere_federation.engines.carrier`) moves bytes and knows who
sent them; it reads none. Everything about grants, signatures, replays, validation, journals and
prices lives behind two objects. At a party, one long-lived object, made from the study, the party's
local file and its grant::

    session = confrere_federation.studies.party_session(study, local, grant=grant_file)
    reply = session.handle(question)    # bytes in, bytes out; never raises about a message
    session.finished                    # True once the release was checked and signed: end, code 0
    session.state                       # "waiting", "asked", "answered", "released": for people

``handle`` may be called again with the same bytes at any time, after a crash too: the same bytes
come back and nothing is spent. Replies to wrong, foreign or hostile questions are codes. Calls come
one after the other. At the coordinator the transport is a :class:`Carrier`, and one call does the
whole study::

    session = CoordinatorSession(study, key=..., folder=..., carrier=carrier, ...)
    made = session.run()                # asks, validates, journals, releases, has it signed

The last message of a run hands the release to the parties, through the same ``exchange``; there is
no other kind of message. Started again on the same folder it goes on where it was.

**A protocol** is a generator of questions. Driven by made-up answers it tells, before anything is
asked, which questions there will be (:func:`rehearse`). Driven by the answers that the parties have
signed it tells which question is next, to the last number, or what the outcome is (:func:`replay`):
so a party can see for itself that it is asked what was agreed, and that what is released is what
everybody sent.

**The coordinator** (:class:`SignedFederation`) uses and keeps an answer once its signature, its
place in the run, its receipt and its numbers are right; otherwise the party is left out, and named.

**A party** (:class:`PartySession`) answers a question that the pinned key signed, that its own
grant contains, and that follows from what all parties have signed so far; at the end it runs the
protocol again over those signatures and signs the release only if it is what comes out.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from confrere.data.encoding import SchemaEncoder
from confrere.errors import (
    ConfrereError,
    FederationError,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
    QuorumMissed,
    SignatureError,
    StudyRefused,
)
from confrere.ledger import Receipt
from confrere.methods.asking import Protocol
from confrere.release.card import presentable
from confrere.release.signing import PrivateKey, PublicKey, public_line, read_private_key
from confrere.release.signing import read_public_key as _public
from confrere_federation.engines.carrier import Carrier
from confrere_federation.parties.answers import Journal
from confrere_federation.parties.federation import Federation, Round, checked
from confrere_federation.parties.grant import Grant, Request, array_digest
from confrere_federation.parties.masks import Masking
from confrere_federation.parties.messages import (
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    receipt_of,
    refusal,
    refused,
)
from confrere_federation.parties.operation import PartyFacts, SumOperation, installed
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.serving import answer
from confrere_federation.parties.summing import (
    OF,
    Ready,
    Summed,
    added,
    asked_of,
    rehearsed,
    roster_of,
    without_roster,
)

#: More steps than this are not remembered: a page with them could not be read.
_MOST = 200


class RunSteps:
    """The steps of a run, as far as it has come.

    Attributes
    ----------
    changed : callable or None
        Is called whenever there is something new to tell.
    """

    def __init__(self) -> None:
        self.changed: Callable[[], None] | None = None
        self._steps: dict[tuple[str, int], dict[str, Any]] = {}

    def asked(
        self, operation: str, step: int, names: Iterable[str], timeout: float | None = None
    ) -> None:
        """Note a question, and until when its answers are waited for."""
        now = datetime.now(UTC)
        until = (
            None
            if timeout is None
            else (now + timedelta(seconds=timeout)).isoformat("T", "seconds")
        )
        told = self._steps.setdefault(
            (operation, step), {"operation": operation, "step": step, "parties": {}}
        )
        told |= {"since": now.isoformat(timespec="seconds"), "until": until}
        told["parties"] |= {name: {"state": "asked"} for name in names}
        while len(self._steps) > _MOST:
            del self._steps[next(iter(self._steps))]
        self._tell()

    def answered(self, operation: str, step: int, name: str, receipt: Receipt | None) -> None:
        """Note an answer that was used, and what the party paid for it."""
        paid = {} if receipt is None else {"epsilon": receipt.guarantee.epsilon, "row": receipt.row}
        self._note(operation, step, name, {"state": "answered", **paid})

    def dropped(self, operation: str, step: int, name: str, code: str) -> None:
        """Note that a party was left out of a step, and why."""
        self._note(operation, step, name, {"state": "dropped", "code": code})

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain values, for JSON."""
        return [
            {**told, "parties": {name: dict(one) for name, one in told["parties"].items()}}
            for told in self._steps.values()
        ]

    def _note(self, operation: str, step: int, name: str, told: dict[str, Any]) -> None:
        if (operation, step) not in self._steps:
            self.asked(operation, step, [name])
        self._steps[operation, step]["parties"][name] = told
        self._tell()

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()


T = TypeVar("T")

#: The coordinator's side of an algorithm: from whom to ask to its questions.
Steps = Callable[[Sequence[str]], Protocol[T]]

#: Relative agreement of numbers that two machines derive: mathematical libraries differ in the
#: last bits.
AGREEMENT = 1e-9

_FACTS = 1000

#: What a signature, a receipt and a place on a roster take of a message, at the most.
_SIGNED = 4096


@dataclass(frozen=True)
class Next:
    """The question that follows from a transcript.

    That for a sum is without its roster, and in any of so many tries. Where it follows from the
    run by what rows are encoded, that is the encoder.
    """

    operation: str
    step: int
    payload: Payload
    to: tuple[str, ...]
    tries: int = 0
    encoder: SchemaEncoder | None = None


class _Stop(Exception):
    def __init__(self, question: Next) -> None:
        super().__init__()
        self.question = question


def rehearse(
    protocol: Steps[Any],  # The coordinator's side
    parties: Sequence[str],  # Everyone in the study
    study: str,  # Its hash
    n_features: int,  # Columns of encoded rows and declared labels, for the prices
    *,
    n_classes: int = 2,
    # Bytes of a message that can be carried: a run whose evidence grows beyond would end in the
    # middle, and paid for
    most: int | None = None,
) -> dict[str, tuple[Request, ...]]:
    """Return every question that a run may ask each party, and what in it depends on answers.

    Two rehearsals with different made-up answers, of parties with one record and with a million:
    what is the same in both is fixed.

    Raises InvalidMessage if the questions depend on answers, or the evidence grows beyond
    ``most``.
    """
    first, second = (_Rehearsal(parties, study, seed) for seed in (0, 1))
    for federation in (first, second):
        try:
            federation.run_protocol(protocol(list(parties)))
        except QuorumMissed:
            if not federation.asked:
                raise
    if most is not None and first.evidence > most:
        raise InvalidMessage(
            f"a run of {len(parties)} parties would carry about {first.evidence >> 20} MiB of "
            f"signed answers with its last question, and a message has {most >> 20} MiB at most: "
            "agree on fewer rounds or columns."
        )
    pairs = list(zip(first.asked, second.asked, strict=True))
    facts = PartyFacts(_FACTS, n_features, n_classes)
    sums = {one.operation: one.tries for one, _ in pairs if one.tries}
    asked = [(one.to, _request([one, other], facts)) for one, other in pairs if not one.tries]
    for operation, tries in sums.items():
        # A sum's tries are for whichever sum of the run needs them: one request for all.
        each = [one for pair in pairs for one in pair if one.operation == operation]
        ready = [replace(e, operation=Ready.operation, payload=_ready_for(e)) for e in each]
        both = [_request(ready, facts, tries), _request(each, facts, tries)]
        asked += [(each[0].to, one) for one in both]
    return {name: tuple(one for to, one in asked if name in to) for name in parties}


def _ready_for(question: Next) -> Payload:
    told = {**question.payload.values, OF: question.operation}
    return Payload(told, question.payload.arrays)


def _request(asked: Sequence[Next], facts: PartyFacts, steps: int = 1) -> Request:
    one = asked[0]
    if any((one.operation, one.step) != (other.operation, other.step) for other in asked):
        raise InvalidMessage("the protocol's questions depend on answers; it cannot be granted.")
    operation = installed(one.operation)
    if one.encoder is not None:
        facts = replace(facts, n_features=len(one.encoder.names))
    price = operation.read(one.payload, facts).price(facts.n_samples)
    a = one.payload
    chosen = [name for name in operation.chosen if one.tries or name in a.values]
    names = [name for each in asked for name in (*each.payload.values, *each.payload.arrays)]
    derived = [
        name
        for name in dict.fromkeys(names)
        if name not in chosen and not all(_same(name, a, other.payload) for other in asked[1:])
    ]
    loose = {*derived, *chosen}
    return Request(
        operation=one.operation,
        step=one.step,
        epsilon=0.0 if price is None else price.epsilon,
        delta=0.0 if price is None else price.delta,
        values={name: value for name, value in a.values.items() if name not in loose},
        arrays={n: array_digest(array) for n, array in a.arrays.items() if n not in loose},
        derived=tuple(derived),
        chosen=tuple(chosen),
        steps=steps,
    )


def _same(name: str, one: Payload, other: Payload) -> bool:
    if name in one.values and name in other.values:
        return bool(one.values[name] == other.values[name])
    both = name in one.arrays and name in other.arrays
    return both and np.array_equal(one.arrays[name], other.arrays[name])


class _Rehearsal(Federation):
    """Parties that answer with made-up numbers of the agreed kind."""

    pretends = True
    rehearses = True

    def __init__(self, parties: Sequence[str], study: str, seed: int) -> None:
        super().__init__(study[:64])
        self._names = list(parties)
        self._rng, self._size = np.random.default_rng(seed), float(seed)
        self.asked: list[Next] = []
        #: Bytes of signed questions and answers that the last question carries, or some more.
        self.evidence = 0

    def parties(self) -> list[str]:
        return list(self._names)

    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        one = Next(asked.operation, asked.step, asked.payload, asked.to, encoder=self._encoder)
        self.asked.append(one)
        return dict.fromkeys(asked.to, PartyError("Rehearsal"))

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        self._asked(asked)
        if asked.expect is None:
            raise InvalidMessage(f"{asked.operation}: nobody says what its answers must be.")
        made = {name: asked.expect(name).made_up(self._rng, self._size) for name in asked.to}
        if installed(asked.operation).noised:
            self._keep(asked, sum(len(answer.encode()) for answer in made.values()))
        return made

    def _keep(self, asked: Round, answers: int) -> None:
        self.evidence += _SIGNED + len(asked.payload.encode()) + answers + _SIGNED * len(asked.to)

    def _added(self, asked: Round, request: SumOperation) -> Summed:
        mechanism = request.mechanism
        self._keep(asked, 8 * mechanism.size * len(asked.to))
        tries = mechanism.releases
        every = Next(asked.operation, 0, asked.payload, asked.to, tries, self._encoder)
        self.asked.append(every)
        return rehearsed(mechanism, asked.to, self._rng)


@dataclass(frozen=True)
class Step:
    """One question of a run with the answers to it, each as it was signed."""

    question: Question
    answers: Mapping[str, SignedAnswer]

    @classmethod
    def open(cls, content: bytes, coordinator: PublicKey, parties: Mapping[str, PublicKey]) -> Step:
        """Read a record of a journal; refuse what somebody else signed, or signed for another.

        Raises InvalidMessage, SignatureError.
        """
        question, replies = Question.open(content, coordinator)
        answers: dict[str, SignedAnswer] = {}
        for reply in replies:
            answer = SignedAnswer.open(reply, parties)
            if answer.party in answers or not answer.answers(question):
                raise InvalidMessage("evidence holds an answer to another question, or one twice.")
            answers[answer.party] = answer
        return cls(question, answers)


def replay(protocol: Steps[T], parties: Sequence[str], run: str, steps: Sequence[Step]) -> T | Next:
    """Run a protocol over what was signed.

    Returns the question that no step answers, or what the protocol ends with.

    Raises OperationRefused if a step is not the one that the protocol asks for there, or is not
    used at all.
    """
    federation = _Replay(parties, run, steps)
    try:
        outcome = federation.run_protocol(protocol(list(parties)))
    except _Stop as stop:
        found: T | Next = replace(stop.question, encoder=federation.encoder)
    except (QuorumMissed, InvalidMessage) as error:
        told = f"the evidence does not bear the question: {error}"
        raise OperationRefused(told, "evidence") from None
    else:
        found = outcome
    if federation.left:
        raise OperationRefused("the evidence holds steps that are not asked for.", "evidence")
    return found


class _Replay(Federation):
    """Parties that answer what they have signed."""

    pretends = True

    def __init__(self, parties: Sequence[str], run: str, steps: Sequence[Step]) -> None:
        super().__init__(run)
        self._names = list(parties)
        self.left = {(s.question.operation, s.question.step): s for s in steps}
        if len(self.left) < len(steps):
            raise OperationRefused("the evidence holds a step twice.", "evidence")

    def parties(self) -> list[str]:
        return list(self._names)

    @property
    def encoder(self) -> SchemaEncoder | None:
        """By what rows of the last question are encoded, if that follows from the run."""
        return self._encoder

    def _asked(self, asked: Round) -> NoReturn:
        # Answers without noise of their own are nobody's evidence: such a question stands alone.
        raise _Stop(Next(asked.operation, asked.step, asked.payload, asked.to))

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        found = self.left.pop((asked.operation, asked.step), None)
        if found is None:
            self._asked(asked)
        if not agree(found.question.payload, asked.payload):
            raise OperationRefused("an earlier question was not the agreed one.", "evidence")
        answers = {n: found.answers[n].payload for n in asked.to if n in found.answers}
        faults = [
            name
            for name, answer in answers.items()
            if asked.expect is not None
            and isinstance(checked(answer, name, asked.expect), PartyError)
        ]
        if faults or len(answers) < len(found.answers):
            raise OperationRefused("the evidence holds an answer that is not valid.", "evidence")
        if not answers or len(answers) < asked.quorum * len(asked.to):
            raise OperationRefused("the evidence is of too few parties.", "evidence")
        return answers

    def _added(self, asked: Round, request: SumOperation) -> Summed:
        mechanism = request.mechanism
        found = [
            place
            for place, step in sorted(self.left.items())
            if place[0] == asked.operation
            and agree(without_roster(step.question.payload), asked.payload)
        ]
        if not found:
            raise _Stop(Next(asked.operation, 0, asked.payload, asked.to, mechanism.releases))
        step = self.left.pop(found[0])
        roster = [one.party for one in roster_of(step.question.payload)]
        answers = {name: step.answers[name].payload for name in roster if name in step.answers}
        whole = set(roster) == set(step.answers) <= set(asked.to)
        faulty = any(request.expected(0).fault(answer) for answer in answers.values())
        paid = len(roster) >= mechanism.roster and found[0][1] < mechanism.releases
        if not (whole and paid) or faulty:
            raise OperationRefused("the evidence holds a sum that is not valid.", "evidence")
        return added(mechanism, answers)


def agree(one: Payload, other: Payload) -> bool:
    """Whether two requests say the same, numbers but for their last bits."""
    if one.values.keys() != other.values.keys() or one.arrays.keys() != other.arrays.keys():
        return False
    values = all(_alike(one.values[name], other.values[name]) for name in one.values)
    return values and all(_close(one.arrays[n], other.arrays[n]) for n in one.arrays)


def _alike(one: object, other: object) -> bool:
    if type(one) is float and type(other) is float:
        return math.isclose(one, other, rel_tol=AGREEMENT, abs_tol=0.0)
    return one == other


def _close(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    scale = max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
    return bool(float(np.linalg.norm(one - other)) <= AGREEMENT * scale)


#: The question with which a run ends: it hands the release to the parties.
FINISH = "finish"

#: How long is waited for parties to take one another's signatures.
_FAREWELL_SECONDS = 30.0

logger = logging.getLogger("confrere_federation.parties")


class SignedFederation(Federation):
    """Parties behind a carrier: every question signed, every answer checked before it is kept.

    Parameters
    ----------
    run : str
        Name of the run; see :func:`~confrere_federation.parties.grant.run_name`.
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
    steps : RunSteps, optional
        Is told who was asked what, and how that ended.
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
        steps: RunSteps | None = None,
    ) -> None:
        super().__init__(run)
        self._told = steps or RunSteps()
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

    def _asked(self, asked: Round) -> dict[str, Payload | PartyError]:
        """Sign a question, send it with the evidence behind it, and open what comes back."""
        unknown = [name for name in asked.to if name not in self._keys]
        if unknown:
            raise InvalidParameter(f"to: there is no party {unknown[0]!r} in the study.")
        operation, step = asked.operation, asked.step
        question = self._question(asked)
        content = question.sign(self._key, self._steps)
        self._told.asked(operation, step, asked.to, asked.timeout)
        replies = self._carrier.exchange(dict.fromkeys(asked.to, content), asked.timeout)
        answers = {name: self._opened(name, replies.get(name), question) for name in asked.to}
        for name, one in answers.items():
            if isinstance(one, PartyError):
                self._told.dropped(operation, step, name, one.code)
            else:
                self._told.answered(operation, step, name, receipt_of(one))
        return answers

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        """Give back what was gathered before, or gather it, and keep what is valid."""
        operation, step, expect = asked.operation, asked.step, asked.expect
        if expect is None:
            raise FederationError(f"{operation}: nobody says what its answers must be.")
        digest = asked.payload.digest
        # One is ready for every sum of a run by itself.
        entry = operation
        if operation == Ready.operation:
            entry = f"{operation} {asked_of(operation, asked.payload)[0]}"
        kept = self._journal.kept(entry, step, digest)
        if kept:
            opened = {name: SignedAnswer.open(c, self._keys) for name, c in kept.items()}
            if asked.whole is not None:
                asked.whole({name: answer.payload for name, answer in opened.items()})
            for name, answer in opened.items():
                self._told.answered(operation, step, name, answer.receipt)
        else:
            receipted = replace(asked, expect=lambda name: replace(expect(name), receipted=True))
            kept = {name: self._replies[name] for name in super()._gathered(receipted)}
            opened = {name: SignedAnswer.open(c, self._keys) for name, c in kept.items()}
            paid = {name: one.receipt for name, one in opened.items()}
            receipts = {name: one for name, one in paid.items() if one is not None}
            self._journal.keep(entry, step, digest, kept, receipts)
            for name in self.left_out.keys() & set(asked.to):
                self._told.dropped(operation, step, name, self.left_out[name])
        if installed(operation).noised:
            self._steps.append(self._question(asked).sign(self._key, list(kept.values())))
        return {name: answer.payload for name, answer in opened.items()}

    def _lost_before(self, operation: str, step: int) -> Mapping[str, str] | None:
        return self._journal.lost(operation, step)

    def _lose(self, operation: str, step: int, roster: Mapping[str, str]) -> None:
        self._journal.lose(operation, step, roster)

    def hand_out(
        self,
        files: Mapping[str, bytes],
        *,
        to: Sequence[str] | None = None,
        timeout: float | None = None,
        known: Mapping[str, bytes] | None = None,
    ) -> dict[str, bytes | PartyError]:
        """Give the release to parties, and return their signatures or why there is none.

        Then everyone who has signed is given the signatures of all, ``known`` ones of earlier
        starts included; that it has them is not waited for longer than a while.
        """
        names = sorted(files)
        arrays = {f"file{k}": np.frombuffer(files[n], np.uint8) for k, n in enumerate(names)}
        answers = self.ask(FINISH, Payload({"files": names}, arrays), to=to, timeout=timeout)
        signed = {
            name: answer
            if isinstance(answer, PartyError)
            else answer.arrays.get("signature", np.zeros(0, np.uint8)).tobytes()
            for name, answer in answers.items()
        }
        made = {name: one for name, one in signed.items() if isinstance(one, bytes)}
        if made:
            every = {**(known or {}), **made}
            each = {f"of{k}": np.frombuffer(one, np.uint8) for k, one in enumerate(every.values())}
            asked = Payload({"parties": list(every)}, each)
            self.ask(FINISH, asked, to=list(made), step=1, timeout=_FAREWELL_SECONDS)
        return signed

    def _question(self, asked: Round) -> Question:
        return Question(self.run, self._study, asked.operation, asked.payload, asked.step)

    def _opened(
        self, name: str, reply: bytes | str | None, question: Question
    ) -> Payload | PartyError:
        """Return an answer that is the party's own, to this question, and continues its ledger."""
        self._replies.pop(name, None)
        if reply is None:
            return PartyError("Unreachable")
        if isinstance(reply, str):
            return PartyError(reply)
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
            if not presentable(receipt):
                return PartyError("InvalidReply:receipt")
            if receipt.simulated is not self._simulated:
                return PartyError("InvalidReply:simulated")
            if answer.head != receipt.hash or not self._journal.continues(name, receipt):
                logger.error("%s: its ledger does not continue what was seen of it before", name)
                return PartyError("InvalidReply:ledger")
        self._replies[name] = reply
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
    share : callable, optional
        ``(signatures) -> None``: keeps what the parties signed a release with, by their names.

    Attributes
    ----------
    finished : bool
        Whether there is nothing more to do.
    state : str
        "waiting", "asked", "answered", "released", "left out" or "withdrawn by ...": for people.
    """

    def __init__(
        self,
        local: LocalParty,
        grant: Grant,
        *,
        protocol: Steps[T],
        parties: Mapping[str, PublicKey],
        coordinator: PublicKey,
        key: PrivateKey,
        accept: Callable[[Mapping[str, bytes], T | None], bytes],
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
        self.finished = False
        self._released = False
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
        self._steps.asked(question.operation, question.step, [self.name])
        try:
            self._grant.check()
            made = answer(question, self._local.encoded_by(found.encoder))
        except Exception as error:
            code = PartyError.of(error).code
            self._steps.dropped(question.operation, question.step, self.name, code)
            raise
        self._steps.answered(question.operation, question.step, self.name, receipt_of(made))
        self.state = "answered"
        return SignedAnswer.sign(made, self._key).encode()

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
        names = question.payload.values.get("files")
        arrays = question.payload.arrays
        if not isinstance(names, list) or arrays.keys() != {f"file{k}" for k in range(len(names))}:
            raise InvalidMessage("a release has a name for every file.")
        files = {str(name): arrays[f"file{k}"].tobytes() for k, name in enumerate(names)}
        signature = self._accept(files, told_all)
        self._released, self.state = True, "released"
        return self._told(question, {"signature": np.frombuffer(signature, np.uint8)})

    def _shared(self, question: Question) -> bytes:
        """Keep the others' signatures, with which the run ends here."""
        if not self._released:
            raise OperationRefused("the release comes before its signatures.", "step")
        names = question.payload.values.get("parties")
        arrays = question.payload.arrays
        if not isinstance(names, list) or arrays.keys() != {f"of{k}" for k in range(len(names))}:
            raise InvalidMessage("signatures have a party each.")
        if self._share is not None:
            self._share({str(name): arrays[f"of{k}"].tobytes() for k, name in enumerate(names)})
        self.finished = True
        return self._told(question, {})

    def _told(self, question: Question, arrays: Mapping[str, Any]) -> bytes:
        about = question.about(self.name)
        told: dict[str, Any] = {"receipt": None, "head": None, "about": about}
        return SignedAnswer.sign(Payload(told, arrays), self._key).encode()

    def _has_answered(self, run: str, asked: Next) -> bool:
        """Whether the party has answered a question whose answers no party may see."""
        slot = installed(asked.operation).slot or asked.operation
        return (slot, asked.step) in self._local.books.answers.kept(run)

    def _grant_costs(self, step: Step) -> bool:
        asked = (step.question.operation, step.question.step)
        return any(r.epsilon > 0 for r in self._grant.requests if r.is_about(*asked))
