"""A protocol run again from what was signed: which question follows, and what comes out.

A protocol is a function of a federation. Run over made-up answers it tells, before anything is
asked, which questions there will be (:func:`rehearse`). Run over the answers that the parties have
signed it tells which question is next, to the last number, or what the outcome is
(:func:`replay`): so a party can see for itself that it is asked what was agreed, and that what is
released is what everybody sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import numpy as np

from confrere.errors import InvalidMessage, OperationRefused, QuorumMissed
from confrere.federation.federation import Federation, Round, checked
from confrere.federation.grant import Request, array_digest
from confrere.federation.messages import PartyError, Question, SignedAnswer
from confrere.federation.operation import PartyFacts, installed
from confrere.federation.payload import Payload
from confrere.federation.summing import (
    READY,
    Summed,
    added,
    expected_share,
    ready_question,
    rehearsed,
    roster_of,
    without_roster,
)
from confrere.mechanisms.secure_sum import SecureSum
from confrere.release.signing import PublicKey
from confrere.schema import PublicSchema

T = TypeVar("T")

#: A protocol: the coordinator's side of an algorithm, as a function of whom to ask.
Protocol = Callable[[Federation], T]

#: Relative agreement of numbers that two machines derive: mathematical libraries differ in the
#: last bits.
AGREEMENT = 1e-9

_FACTS = 1000

#: What a signature, a receipt and a place on a roster take of a message, at the most.
_SIGNED = 4096


@dataclass(frozen=True)
class Next:
    """The question that follows from a transcript.

    That for a sum is without its roster, and in any of so many tries. Where facts of the schema
    were learned before it, rows are to be encoded by them.
    """

    operation: str
    step: int
    payload: Payload
    to: tuple[str, ...]
    tries: int = 0
    schema: PublicSchema | None = None


class _Stop(Exception):
    def __init__(self, question: Next) -> None:
        super().__init__()
        self.question = question


def rehearse(
    protocol: Protocol[Any],
    parties: Sequence[str],
    study: str,
    n_features: int,
    *,
    n_classes: int = 2,
    party: str | None = None,
    most: int | None = None,
) -> tuple[Request, ...]:
    """Return every question that a run may ask, and what in it depends on answers.

    Two rehearsals with different made-up answers, of parties with one record and with a million:
    what is the same in both is fixed.

    Parameters
    ----------
    protocol : callable
        The coordinator's side.
    parties : sequence of str
        Everyone in the study.
    study : str
        Its hash.
    n_features, n_classes : int
        Columns of encoded rows and declared labels, for the prices.
    party : str, optional
        Leave out what is not asked of this one.
    most : int, optional
        Bytes of a message that can be carried: a run whose evidence grows beyond would end in the
        middle, and paid for.

    Raises
    ------
    InvalidMessage
        If the questions depend on answers, or the evidence grows beyond ``most``.
    """
    first, second = (_Rehearsal(parties, study, seed) for seed in (0, 1))
    for federation in (first, second):
        try:
            protocol(federation)
        except QuorumMissed:
            if not federation.asked:
                raise
    if most is not None and first.evidence > most:
        raise InvalidMessage(
            f"a run of {len(parties)} parties would carry about {first.evidence >> 20} MiB of "
            f"signed answers with its last question, and a message has {most >> 20} MiB at most: "
            "agree on fewer rounds or columns."
        )
    every = zip(first.asked, second.asked, strict=True)
    pairs = [pair for pair in every if party in (None, *pair[0].to)]
    facts = PartyFacts(_FACTS, n_features, n_classes)
    sums = {one.operation: one.tries for one, _ in pairs if one.tries}
    asked = [_request([one, other], facts) for one, other in pairs if not one.tries]
    for operation, tries in sums.items():
        # A sum's tries are for whichever sum of the run needs them: one request for all.
        each = [one for pair in pairs for one in pair if one.operation == operation]
        ready = [replace(e, operation=READY, payload=_ready(e)) for e in each]
        asked += [_request(ready, facts, tries), _request(each, facts, tries)]
    return tuple(asked)


def _ready(question: Next) -> Payload:
    return ready_question(question.operation, question.payload)


def _request(asked: Sequence[Next], facts: PartyFacts, steps: int = 1) -> Request:
    one = asked[0]
    if any((one.operation, one.step) != (other.operation, other.step) for other in asked):
        raise InvalidMessage("the protocol's questions depend on answers; it cannot be granted.")
    operation = installed(one.operation)
    price = operation.priced(one.payload, facts)
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
        self.asked.append(Next(asked.operation, asked.step, asked.payload, asked.to))
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

    def _added(self, asked: Round, mechanism: SecureSum) -> Summed:
        self._keep(asked, 8 * mechanism.size * len(asked.to))
        every = Next(asked.operation, 0, asked.payload, asked.to, mechanism.releases)
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

        Raises
        ------
        InvalidMessage, SignatureError
        """
        question, replies = Question.open(content, coordinator)
        answers: dict[str, SignedAnswer] = {}
        for reply in replies:
            answer = SignedAnswer.open(reply, parties)
            if answer.party in answers or not answer.answers(question):
                raise InvalidMessage("evidence holds an answer to another question, or one twice.")
            answers[answer.party] = answer
        return cls(question, answers)


def replay(
    protocol: Protocol[T], parties: Sequence[str], run: str, steps: Sequence[Step]
) -> T | Next:
    """Run a protocol over what was signed.

    Returns
    -------
    Next or outcome
        The question that no step answers, or what the protocol ends with.

    Raises
    ------
    OperationRefused
        If a step is not the one that the protocol asks for there, or is not used at all.
    """
    federation = _Replay(parties, run, steps)
    try:
        outcome = protocol(federation)
    except _Stop as stop:
        found: T | Next = replace(stop.question, schema=federation.schema)
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
        self.schema: PublicSchema | None = None
        self.left = {(s.question.operation, s.question.step): s for s in steps}
        if len(self.left) < len(steps):
            raise OperationRefused("the evidence holds a step twice.", "evidence")

    def parties(self) -> list[str]:
        return list(self._names)

    def use_schema(self, schema: PublicSchema) -> None:
        self.schema = schema

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

    def _added(self, asked: Round, mechanism: SecureSum) -> Summed:
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
        faulty = any(expected_share(mechanism).fault(answer) for answer in answers.values())
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
