"""The boundary: a coordinator asks parties, and gets payloads or codes; and who drives a protocol.

A protocol is driven over parties that live here (:class:`LocalFederation`) or behind a carrier
(:class:`SignedFederation`); over made-up answers, to tell what will be asked (:func:`dry_run`); and
over what parties have signed, to tell what is next, or comes out (:class:`Replay`): so a party sees
for itself that it is asked what was agreed, and that what is released is what everybody sent.

**A party between machines** (:class:`PartySession`) believes nobody. A question is answered that
the pinned key signed, that the party's own approval contains, and that follows from what all
have signed so far; asked again it sends the same bytes, after a crash too, and nothing is spent.

Proofs: docs/proofs/secure_sums.md, docs/proofs/multiparty.md.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, Generic, Literal, NoReturn, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import ArrayLike
from typing_extensions import override

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
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.release import paid_by_parties
from confrere.ledger import Receipt
from confrere.ledger.compose import Together
from confrere.methods.asking import Ask, Protocol, Receipts, Told, drive, over_parties, stacked
from confrere.release.card import presentable
from confrere.release.signing import (
    PrivateKey,
    PublicKey,
    public_line,
    read_private_key,
    read_public_key,
)
from confrere.simulation import Seed, SeededSource
from confrere_federation.engines.carrier import Carrier
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.masks import Masking
from confrere_federation.parties.messages import (
    MOST_SIGNED,
    Expect,
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    Values,
    alike,
    check_run,
    join_parts,
    new_run,
    paid_for,
    receipt_of,
    refusal,
    refused,
    split_parts,
)
from confrere_federation.parties.party import (
    LocalParty,
    Request,
    SignedApproval,
    answer,
    check_agreed,
    digests,
)
from confrere_federation.parties.requests import (
    READY,
    Operation,
    SpoiledSum,
    SumOperation,
    UnnoisedPoll,
    added,
    installed,
    request_for,
)

T = TypeVar("T")

#: The coordinator's side of an algorithm: from whom to ask to its questions.
Steps = Callable[[Sequence[str]], Protocol[T]]

#: Why a party is left out without whom a sum is good that was spoiled with it.
SPOILED = "InvalidReply:sum"

#: Relative agreement of numbers that two machines derive: mathematical libraries differ in the
#: last bits.
AGREEMENT = 1e-9

#: The question with which a run ends: it hands the release to the parties.
FINISH = "finish"

#: How long is waited for parties to take one another's signatures.
_FAREWELL_SECONDS = 30.0

#: Bytes of what a party signs a release with.
_LONGEST_SIGNATURE = 1 << 16

#: More steps than this are not remembered: a page with them could not be read.
_MOST = 200

#: Records of a party that prices are shown for, where they are not known.
_RECORDS = 1000

logger = logging.getLogger("confrere_federation.parties")


@dataclass(eq=False)
class LostTries:
    """What the tries of a run have told about its parties."""

    #: Who was on a roster and sent nothing of use, and the code for it
    silent: dict[str, str] = field(default_factory=dict)
    #: Without whom a sum was good that was spoiled with them
    named: set[str] = field(default_factory=set)
    _suspects: set[str] = field(default_factory=set)

    def lost(self, roster: Iterable[str], codes: Mapping[str, str]) -> None:
        """Note a try that came to nothing: who sent nothing; nobody, if the sum was spoiled."""
        self.silent |= codes
        if not codes:
            # One liar is in every spoiled sum. If nobody is, there are several: begin again.
            self._suspects = self._suspects & set(roster) or set(roster)

    def good(self, roster: Sequence[str]) -> set[str]:
        """Note a sum that is good; return who has spoiled the ones before it."""
        found = self._suspects - set(roster)
        self._suspects = set()
        self.named |= found
        return found

    def told(self) -> str:
        """Return, for people, why tries were lost; nothing if none was."""
        said = ""
        if self.silent:
            said += f"Sent nothing: {_listed(self.silent)}. "
        if self._suspects:
            suspects = _listed(dict.fromkeys(sorted(self._suspects), ""))
            said += f"Sent something that no sum can hold: one of {suspects}. "
        return said

    def roster(self, parties: Sequence[str], *, fewest: int, tries: int) -> list[str]:
        """Return whom to ask next; with so many tries left, suspects are left out in turn."""
        out = [name for name in parties if name in self.named or name in self.silent]
        suspects = [name for name in parties if name in self._suspects and name not in out]
        out += suspects[: math.ceil(len(suspects) / max(1, tries))]
        # Who sent nothing may only have been away: such are the first to be asked again.
        out.sort(key=lambda name: (name not in self.named, name in self.silent))
        kept = set(out[: max(0, len(parties) - fewest)])
        return [name for name in parties if name not in kept]


def _listed(codes: Mapping[str, str]) -> str:
    every = [f"{name} ({code})" if code else name for name, code in codes.items()]
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return ", ".join(every[:5]) + more


@dataclass(frozen=True, eq=False)
class Round:
    """One question to several parties, and what their answers must be; see :meth:`gather`.

    That for a sum which follows from a transcript is without its roster.
    """

    request: Operation  #: What is asked, and how
    to: tuple[str, ...]  #: Who is asked
    step: int = 0
    timeout: float | None = None
    quorum: float = 1.0
    #: From a party's name to what its answer must be; by default its word that it is ready
    expect: Expect = lambda _: READY
    #: Is given all answers together before they are kept, and raises if they are not to be
    whole: Callable[[Mapping[str, Payload]], object] | None = None
    later: int = 0  #: Of a sum: how many more of the run need a try of their own
    tries: int = 0  #: Of a sum that follows from a transcript: it may be any of so many
    roster: Mapping[str, str] | None = None  #: As :class:`Question` has it

    @property
    def operation(self) -> str:
        return self.request.operation

    @property
    def label(self) -> str:
        return "ready" if self.roster == {} else self.operation

    def question(self, run: str, study: str | None) -> Question:
        roster = None if self.roster is None else dict(self.roster)
        return Question(run, study, self.operation, self.request.payload, self.step, roster)


class Federation(ABC):
    """Parties that can be asked; an engine decides how questions travel."""

    #: Whether answers are made up, so that everything is asked that may be asked.
    is_dry_run = False

    def __init__(self, run: str | None, parties: Iterable[str]) -> None:
        self._names = list(parties)
        #: Name of the run. A party answers a question of a run once: whoever asks again under the
        #: same name gets the same bytes.
        self.run = new_run() if run is None else check_run(run)
        #: Parties without whose last answer :meth:`gather` went on, and why.
        self.left_out: dict[str, str] = {}
        self._tries: dict[str, int] = {}
        self._lost = LostTries()

    def parties(self) -> list[str]:
        return list(self._names)

    @abstractmethod
    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask everyone in ``asked.to``, in the engine's own way."""

    def run_protocol(
        self,
        protocol: Protocol[T],
        *,
        timeout: float | None = None,  # Seconds to wait for a question
        trusted: Trusted | None = None,  # Who adds noise to what parties send without
    ) -> T:
        return drive(protocol, lambda ask: self._answered_to(ask, timeout, trusted))

    def _answered_to(
        self, ask: Ask, timeout: float | None = None, trusted: Trusted | None = None
    ) -> Told:
        request = request_for(ask.asked, ask.encoder)
        asked = Round(request, tuple(ask.to), ask.step, timeout)
        if isinstance(request, SumOperation):
            return self._added(replace(asked, step=0, later=ask.later), request)
        asked = replace(asked, quorum=ask.quorum, expect=expected(request, ask.to))
        if isinstance(request, UnnoisedPoll):
            return self._polled(asked, request, trusted)
        answers = self._gathered(asked)
        answers = {name: answers[name] for name in ask.to if name in answers}  # in one order
        arrays = stacked([one.arrays for one in answers.values()])
        return Told(tuple(answers), arrays, paid_for(answers), self.is_dry_run)

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        """Ask, drop errors and answers that are not as they must be, and insist on enough.

        An answer that is not as it must be has the code ``"InvalidReply:"`` and a word: nobody
        uses it, and it is not kept.

        Raises QuorumMissed if fewer answered; it names them and their codes.
        """
        operation, step = asked.operation, asked.step
        answers = self._asked(asked)
        answers = {name: checked(a, name, asked.expect) for name, a in answers.items()}
        bad = {n: a.code for n, a in answers.items() if isinstance(a, PartyError)}
        for name, code in bad.items():
            logger.warning("%s is left out of %s step %d: %s", name, operation, step, code)
        self.left_out |= bad
        payloads = {name: a for name, a in answers.items() if isinstance(a, Payload)}
        if not payloads or len(payloads) < asked.quorum * len(answers):
            raise QuorumMissed(
                f"{operation}: {len(payloads)} of {len(answers)} parties answered, the quorum is "
                f"{asked.quorum:g}. {_listed(bad)}",
                bad,
            )
        if asked.whole is not None:
            asked.whole(payloads)
        return payloads

    def _added(self, asked: Round, request: SumOperation) -> Told:
        """Add up what parties have, each under masks that only the sum of all undoes.

        Whoever is not ready is left out, down to the shortest roster that the noise was made for.
        A try is lost, and paid for, if somebody who was ready sends nothing, or what no honest sum
        can hold. The next has fresh keys and noise, and leaves out who sent nothing, or in turn
        who may have spoiled it (:class:`LostTries`), as long as the price covers another.
        """
        mechanism, wanted = request.mechanism, request.response(0)
        operation, most = asked.operation, mechanism.releases - asked.later
        while (step := self._tries.get(operation, 0)) < most:
            before = self._tried(replace(asked, step=step), request)
            self._tries[operation] = step + 1
            if before is not None:
                if before:
                    return added(mechanism, before)
                continue
            roster = self._roster(asked, request, step, most - step)
            names = tuple(roster)
            told = replace(asked, to=names, step=step, roster=roster, expect=lambda _: wanted)
            codes: Mapping[str, str] = {}
            try:
                answers = self._gathered(replace(told, whole=lambda sent: added(mechanism, sent)))
            except (SpoiledSum, QuorumMissed) as error:
                logger.error("%s: try %d is lost: %s", operation, step, error)
                codes = getattr(error, "codes", {})
            else:
                for name in self._lost.good(names):
                    logger.error("%s: a sum is spoiled with %s, good without", operation, name)
                    self.left_out[name] = SPOILED
                return added(mechanism, answers)
            self._lost.lost(names, codes)
            if not codes or step + 1 < most:
                # What is silent in the last try may still come, if the run is started again.
                self._lose(operation, step, {name: codes.get(name, "") for name in names})
        raise QuorumMissed(
            f"{operation}: no try is left of the {mechanism.releases} that a run pays for. "
            f"{self._lost.told()}Begin a new run, which everyone pays again, or declare a larger "
            "max_retries.",
            self._lost.silent,
        )

    def _roster(self, asked: Round, request: SumOperation, step: int, tries: int) -> dict[str, str]:
        """Return the keys of those who are ready for a try, of those who are to be in it."""
        fewest = request.mechanism.fewest
        chosen = self._lost.roster(asked.to, fewest=fewest, tries=tries)
        asked = replace(asked, step=step, roster={})
        for to in (tuple(chosen), asked.to):
            try:
                quorum = min(1.0, fewest / len(to))
                keys = self._gathered(replace(asked, to=to, quorum=quorum))
                break
            except QuorumMissed:
                if len(to) == len(asked.to):
                    raise
        return {name: one.arrays["announcement"].tobytes().hex() for name, one in keys.items()}

    def _tried(
        self,
        asked: Round,  # noqa: ARG002
        request: SumOperation,  # noqa: ARG002
    ) -> Mapping[str, Payload] | None:
        """Return what an earlier start has of a try: nothing if it is lost, None if it is new."""
        return None

    def _lose(self, operation: str, step: int, roster: Mapping[str, str]) -> None:  # noqa: B027
        """Keep in mind, beyond this process, that a try is lost."""

    def _polled(self, asked: Round, request: UnnoisedPoll, trusted: Trusted | None) -> Told:
        """Ask everyone, add up what is valid, and noise it; or return what was released before."""
        if trusted is None or (trusted.releases is None and trusted.random_state is None):
            raise InvalidParameter(
                "trusted must say in which Answers file the coordinator keeps what it releases: "
                "noise is drawn once per run."
            )
        releases = trusted.releases or Answers()
        key = Key(self.run, "released", 0)
        kept = releases.claim(key, question=request.payload.digest).answer
        if kept is None:
            named = type(request)(request.asked, request.encodes)
            named.releases = releases.id
            noised = self._noised(replace(asked, request=named), trusted.random_state)
            kept = releases.keep(key, noised.encode())
        found = Payload.decode(kept)
        self.left_out |= found.values["left_out"]
        receipts = {
            name: tuple(map(Receipt.from_dict, paid))
            for name, paid in found.values["receipts"].items()
        }
        return Told(tuple(receipts), {"noised": found.arrays["noised"]}, receipts)

    def _noised(self, asked: Round, random_state: Seed | None) -> Payload:
        answers, plan = dict(sorted(self._gathered(asked).items())), asked.request.asked
        receipts = paid_for(answers)
        paid = [receipt for each in receipts.values() for receipt in each]
        sent = [answer.arrays[asked.request.answers[0]] for answer in answers.values()]
        simulation = None if random_state is None else SeededSource(random_state)
        with paid_by_parties(paid, plan.guarantee(), simulation) as ticket:
            noised = plan.noised(sum(plan.mechanism.clipped(one) for one in sent), ticket)
        out = {n: code for n, code in self.left_out.items() if n not in answers}
        told = {name: [one.to_dict() for one in each] for name, each in receipts.items()}
        return Payload({"receipts": told, "left_out": out}, {"noised": noised})


@dataclass(frozen=True, eq=False)
class Trusted:
    """How a coordinator whom parties trust adds the noise: once per run, and kept on disk.

    Every question carries a digest of the whole plan and names the file of releases, so that
    another plan, or another file, under the same run is another question: every party refuses it
    and spends nothing.
    """

    #: The file that what is released is kept in. Only a simulation can do without.
    releases: Answers | None = None
    random_state: Seed | None = None  #: Of the coordinator's noise, for simulation only


def expected(request: Operation, sizes: Mapping[str, int]) -> Expect:
    """Return what parties of these public sizes may answer."""
    wanted = cache(request.response)
    return lambda name: wanted(sizes[name])


def checked(answer: Payload | PartyError, name: str, expect: Expect) -> Payload | PartyError:
    """Return an answer that is as it must be, or else the code for what it is not."""
    if isinstance(answer, PartyError):
        return answer
    try:
        fault = expect(name).fault(answer)
    except ConfrereError:  # no answer fits the size that it gave: others have paid by now
        fault = "size"
    return answer if fault is None else PartyError(f"InvalidReply:{fault}")


class LocalFederation(Federation):
    """Parties in this process."""

    def __init__(
        self,
        parties: Sequence[LocalParty],  # Separate parties with books of their own
        *,
        run: str | None = None,  # Its name
        # Hash of the study, or fingerprint of the schema, that questions are about
        study: str | None = None,
        # "raise" lets a party's exception through instead of its code: for callers who own the
        # data themselves
        on_error: Literal["report", "raise"] = "report",
    ) -> None:
        super().__init__(run, [party.name for party in parties])
        own = {party.name: Ed25519PrivateKey.generate() for party in parties}
        if not parties or len(own) < len(parties):
            raise InvalidParameter("parties must have names, and different ones.")
        public = {name: key.public_key() for name, key in own.items()}
        self._parties = {
            one.name: replace(one, masking=Masking(one.name, own[one.name], public))
            for one in parties
        }
        self._study = study
        self._raises = on_error == "raise"

    @override
    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        return {name: self._served(self._parties[name], asked) for name in asked.to}

    @override
    def _tried(self, asked: Round, request: SumOperation) -> Mapping[str, Payload] | None:
        """Return what everyone has sent already: a try that was cut short is lost."""
        key = Key(self.run, asked.operation, asked.step)
        books = {name: self._parties[name].books.answers for name in asked.to}
        if not any(key in one.asked() for one in books.values()):
            return None
        kept = {name: one.answer_to(key) for name, one in books.items()}
        answers = {name: Payload.decode(one) for name, one in kept.items() if one is not None}
        questions = {answer.values["about"]["question"] for answer in answers.values()}
        return answers if len(answers) == len(kept) and len(questions) == 1 else {}

    def _served(self, local: LocalParty, asked: Round) -> Payload | PartyError:
        try:
            return answer(asked.question(self.run, self._study), asked.request, local)
        except Exception as error:
            if self._raises:
                raise
            logger.warning("%s: %s was not answered", local.name, asked.operation, exc_info=True)
            return PartyError.of(error)


class _Stop(Exception):
    """Asks what no step has answered: its argument."""


def dry_run(
    protocol: Steps[object],  # The coordinator's side
    parties: Sequence[str],  # Everyone in the study
    study: str,  # Its hash
    *,
    # Bytes of a message that can be carried: a run whose evidence grows beyond would end in the
    # middle, and paid for
    most: int | None = None,
) -> dict[str, tuple[Request, ...]]:
    """Return every question that a run may ask each party, and what in it depends on answers.

    What is the same for made-up answers of parties with one record and with a million is fixed.
    """
    first, second = (_DryRun(parties, study, seed, most) for seed in (0, 1))
    for federation in (first, second):
        try:
            federation.run_protocol(protocol(list(parties)))
        except QuorumMissed:
            if not federation.asked:
                raise
    pairs = list(zip(first.asked, second.asked, strict=True))
    sums = {one.operation: one.tries for one, _ in pairs if one.tries}
    asked = [(one.to, _request([one, other])) for one, other in pairs if not one.tries]
    for operation, tries in sums.items():
        # A sum's tries are for whichever sum of the run needs them: one request for all.
        each = [one for pair in pairs for one in pair if one.operation == operation]
        asked.append((each[0].to, _request(each, tries)))
    return {name: tuple(one for to, one in asked if name in to) for name in parties}


def _request(asked: Sequence[Round], steps: int = 1) -> Request:
    one = asked[0]
    if any((one.operation, one.step) != (other.operation, other.step) for other in asked):
        raise InvalidMessage("the protocol's questions depend on answers; it cannot be approved.")
    price = one.request.response(_RECORDS).guarantee
    payloads = [each.request.payload for each in asked]
    said = [dict(payload.values) | digests(payload) for payload in payloads]
    names = [
        n for n in dict.fromkeys(n for each in said for n in each) if n not in one.request.chosen
    ]
    derived = [n for n in names if len({repr(each.get(n)) for each in said}) > 1]
    return Request(
        operation=one.operation,
        step=one.step,
        epsilon=0.0 if price is None else price.epsilon,
        delta=0.0 if price is None else price.delta,
        values={name: said[0][name] for name in names if name not in derived},
        derived=tuple(derived),
        steps=steps,
    )


class _DryRun(Federation):
    """Parties that answer with made-up numbers of the agreed kind."""

    is_dry_run = True

    def __init__(self, parties: Sequence[str], study: str, seed: int, most: int | None) -> None:
        super().__init__(study[:64], parties)
        self._most = most
        self._rng, self._size = np.random.default_rng(seed), float(seed)
        self.asked: list[Round] = []
        #: Bytes of signed questions and answers that the last question carries, or some more.
        self.evidence = 0

    @override
    def _asked(self, asked: Round) -> NoReturn:
        raise AssertionError(asked)  # nobody is

    @override
    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        self.asked.append(asked)
        made = {name: asked.expect(name).made_up(self._rng, self._size) for name in asked.to}
        self._carry(asked, sum(len(answer.encode()) for answer in made.values()))
        return made

    def _carry(self, asked: Round, answers: int) -> None:
        question = len(asked.request.payload.encode())
        self.evidence += MOST_SIGNED + question + answers + MOST_SIGNED * len(asked.to)
        if self._most is not None and self.evidence > self._most:  # whatever else would come
            raise InvalidMessage(
                f"a question of the run would carry more than {self._most >> 20} MiB of signed "
                "answers, and a message has no more: agree on fewer rounds or columns."
            )

    @override
    def _added(self, asked: Round, request: SumOperation) -> Told:
        mechanism = request.mechanism
        self._carry(asked, 8 * mechanism.size * len(asked.to))
        self.asked.append(replace(asked, tries=mechanism.releases))
        made_up = self._rng.uniform(0.5, 1.0, size=mechanism.size)
        whole = {"sum": made_up * mechanism.largest / mechanism.size}
        return Told(asked.to, whole, made_up=True)

    @override
    def _polled(self, asked: Round, request: UnnoisedPoll, trusted: Trusted | None) -> NoReturn:
        self.asked.append(asked)
        raise QuorumMissed(f"{asked.operation}: only a coordinator sees the answers.")


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


class Replay(Federation, Generic[T]):
    """A protocol run over what parties have signed; it goes on as more of that comes."""

    def __init__(self, protocol: Steps[T], parties: Sequence[str], run: str) -> None:
        super().__init__(run, parties)
        self._protocol = protocol(list(parties))
        self._next: Ask | None = None  # what no step has answered yet
        self._ended: tuple[T, ...] = ()
        self._left: dict[tuple[str, int], Step] = {}
        self.steps: dict[bytes, Step] = {}  #: What it has run over, by its bytes

    def after(self, steps: Mapping[bytes, Step]) -> T | Round:
        """Return the question that follows after more steps, or what the protocol ends with.

        Raises OperationRefused if a step is not the one that the protocol asks for there, or is not
        used at all; then nothing more follows from these steps.
        """
        self._left = {(s.question.operation, s.question.step): s for s in steps.values()}
        before = {(s.question.operation, s.question.step) for s in self.steps.values()}
        if len(self._left) < len(steps) or before & self._left.keys():
            raise OperationRefused("the evidence holds a step twice.", "evidence")
        self.steps |= steps
        found: T | Round
        try:
            while not self._ended:
                self._next = self._next or next(self._protocol)
                told = self._answered_to(self._next)
                self._next = self._protocol.send(told)
            (found,) = self._ended
        except StopIteration as end:
            self._ended = (end.value,)
            found = end.value
        except _Stop as stop:
            found = stop.args[0]
        except (QuorumMissed, InvalidMessage) as error:
            why = f"the evidence does not bear the question: {error}"
            raise OperationRefused(why, "evidence") from None
        if self._left:
            raise OperationRefused("the evidence holds steps that are not asked for.", "evidence")
        return found

    @override
    def _asked(self, asked: Round) -> NoReturn:
        raise _Stop(asked)

    @override
    def _polled(self, asked: Round, request: UnnoisedPoll, trusted: Trusted | None) -> NoReturn:
        # Answers without noise of their own are nobody's evidence: such a question stands alone.
        raise _Stop(asked)

    @override
    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        found = self._left.pop((asked.operation, asked.step), None)
        if found is None:
            self._asked(asked)
        if not agree(found.question.payload, asked.request.payload):
            raise OperationRefused("an earlier question was not the agreed one.", "evidence")
        answers = {name: one.payload for name, one in found.answers.items()}
        sent = [checked(one, name, asked.expect) for name, one in answers.items()]
        if not answers.keys() <= set(asked.to) or any(isinstance(a, PartyError) for a in sent):
            raise OperationRefused("the evidence holds an answer that is not valid.", "evidence")
        if not answers or len(answers) < asked.quorum * len(asked.to):
            raise OperationRefused("the evidence is of too few parties.", "evidence")
        return answers

    @override
    def _tried(self, asked: Round, request: SumOperation) -> Mapping[str, Payload] | None:
        """Return who is in a sum and what they sent; tries that were lost leave no evidence."""
        tries = [step for operation, step in self._left if operation == asked.operation]
        if not tries:
            raise _Stop(replace(asked, step=0, tries=request.mechanism.releases))
        if asked.step not in tries:
            return {}
        roster = self._left[asked.operation, asked.step].question.keys
        if len(roster) < request.mechanism.fewest or not set(roster) <= set(asked.to):
            raise OperationRefused("the evidence is of a sum of other parties.", "evidence")
        wanted = request.response(0)
        return self._gathered(replace(asked, to=tuple(roster), expect=lambda _: wanted))


def agree(one: Payload, other: Payload) -> bool:
    """Whether two requests say the same, numbers but for their last bits."""
    same = alike(one.values, other.values, AGREEMENT)
    return same and alike(one.arrays, other.arrays, AGREEMENT)


class RunSteps:
    """The steps of a run, as far as it has come."""

    def __init__(self) -> None:
        #: Is called whenever there is something new to tell.
        self.changed: Callable[[], object] = lambda: None
        self._steps: dict[tuple[str, int], Values] = {}

    def asked(
        self, operation: str, step: int, names: Iterable[str], timeout: float | None = None
    ) -> None:
        now = datetime.now(UTC)
        until = None if timeout is None else now + timedelta(seconds=timeout)
        new: Values = {"operation": operation, "step": step, "parties": {}}
        told = self._steps.setdefault((operation, step), new)
        for what, when in (("since", now), ("until", until)):
            told[what] = None if when is None else when.isoformat(timespec="seconds")
        told["parties"] |= {name: {"state": "asked"} for name in names}
        while len(self._steps) > _MOST:
            del self._steps[next(iter(self._steps))]
        self.changed()

    def ended(self, operation: str, step: int, answers: Mapping[str, Payload | PartyError]) -> None:
        """Note answers that were used, and what each cost; or who was left out, and why."""
        new: dict[str, Values] = {}
        for name, one in answers.items():
            if isinstance(one, PartyError):
                new[name] = {"state": "dropped", "code": one.code}
                continue
            paid = receipt_of(one)
            cost = {} if paid is None else {"epsilon": paid.guarantee.epsilon, "row": paid.row}
            new[name] = {"state": "answered", **cost}
        if new and (operation, step) not in self._steps:
            self.asked(operation, step, new)
        if new:
            self._steps[operation, step]["parties"] |= new
            self.changed()

    def to_list(self) -> list[Values]:
        return copy.deepcopy([*self._steps.values()])


def packed(what: str, named: Mapping[str, bytes]) -> Payload:
    parts = np.frombuffer(join_parts(list(named.values())), np.uint8)
    return Payload({what: list(named)}, {"parts": parts})


def unpacked(what: str, payload: Payload) -> dict[str, bytes]:
    if payload.values.keys() != {what} or payload.arrays.keys() != {"parts"}:
        raise InvalidMessage(f"{what} come with their names, and nothing comes with them.")
    names, found = payload.values[what], split_parts(payload.arrays["parts"].tobytes())
    if not isinstance(names, list) or len(names) != len(found):
        raise InvalidMessage(f"{what} have a name each.")
    return {str(name): one for name, one in zip(names, found, strict=True)}


class _Handed(Operation):
    """What a run ends with: parties are given the release, then one another's signatures."""

    operation = FINISH

    @cached_property
    def payload(self) -> Payload:
        handed: Payload = self.asked
        return handed


class SignedFederation(Federation):
    """Parties behind a carrier: every question signed, every answer checked before it is kept."""

    def __init__(
        self,
        *,
        study: str,  # Its hash
        key: PrivateKey,  # The coordinator's
        parties: Mapping[str, PublicKey],  # Everyone in the study, in its order
        carrier: Carrier,  # What moves the messages
        run: str,  # Its name
        journal: Answers,  # What was gathered in it
        simulated: bool = False,  # Whether the study's noise is seeded: receipts must say the same
        steps: RunSteps | None = None,  # Is told who was asked what, and how that ended
    ) -> None:
        super().__init__(run, parties)
        self._told = steps or RunSteps()
        self._study = study
        self._key = read_private_key(key)
        self._keys = {name: read_public_key(one) for name, one in parties.items()}
        self._carrier = carrier
        self._journal = journal
        self._simulated = simulated
        self._replies: dict[str, SignedAnswer] = {}
        self._steps: list[bytes] = []
        self._paid: dict[str, list[Receipt]] = {}  # what was used so far, of all starts of the run

    @override
    def _asked(self, asked: Round) -> dict[str, Payload | PartyError]:
        """Sign a question, send it with the evidence behind it, and open what comes back."""
        question = asked.question(self.run, self._study)
        content = question.sign(self._key, self._steps)
        self._told.asked(asked.label, asked.step, asked.to, asked.timeout)
        replies = self._carrier.exchange(dict.fromkeys(asked.to, content), asked.timeout)
        answers = {name: self._opened(name, replies.get(name), question) for name in asked.to}
        self._told.ended(asked.label, asked.step, answers)
        return answers

    @override
    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        """Give back what was gathered before, or gather it, and keep what is valid."""
        if not asked.request.noised:
            return super()._gathered(asked)  # what others sent without noise is not kept
        question = asked.question(self.run, self._study)
        what = f"ready {asked.operation}" if question.asks_ready else asked.operation
        key = Key(self.run, what, asked.step)
        kept = self._journal.claim(key, question=question.digest).answer
        told: dict[str, Payload | PartyError] = {}
        if kept is None:
            found = {name: self._replies[name] for name in super()._gathered(asked)}
            kept = question.sign(self._key, [answer.encode() for answer in found.values()])
            self._journal.keep(key, kept)
            told |= {n: PartyError(self.left_out[n]) for n in asked.to if n in self.left_out}
        else:
            found = dict(Step.open(kept, self._key.public_key(), self._keys).answers)
            used = {name: answer.payload for name, answer in found.items()}
            told |= used
            if asked.whole is not None:
                asked.whole(used)
        self._told.ended(asked.label, asked.step, told)
        for name, one in found.items():
            if one.receipt is not None:
                self._paid.setdefault(name, []).append(one.receipt)
        if not question.asks_ready:
            self._steps.append(kept)
        return {name: answer.payload for name, answer in found.items()}

    @override
    def _tried(self, asked: Round, request: SumOperation) -> Mapping[str, Payload] | None:
        kept = self._journal.answer_to(Key(self.run, f"lost {asked.operation}", asked.step))
        if kept is None:
            return None
        known = json.loads(kept)
        codes = {name: code for name, code in known.items() if code}
        self._lost.lost(known, codes)
        self.left_out |= codes
        return {}

    @override
    def _lose(self, operation: str, step: int, roster: Mapping[str, str]) -> None:
        key, told = Key(self.run, f"lost {operation}", step), json.dumps(dict(roster)).encode()
        self._journal.claim(key, question="")
        self._journal.keep(key, told)

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
        everyone = tuple(self.parties() if to is None else to)
        handed = _Handed(packed("files", files))
        answers = self._asked(Round(handed, everyone, timeout=timeout))
        signed = {name: _signature_in(answer) for name, answer in answers.items()}
        made = {name: one for name, one in signed.items() if isinstance(one, bytes)}
        if made:
            handed = _Handed(packed("parties", {**(known or {}), **made}))
            self._asked(Round(handed, tuple(made), 1, _FAREWELL_SECONDS))
        return signed

    def _opened(
        self, name: str, reply: bytes | str | None, question: Question
    ) -> Payload | PartyError:
        """Return an answer that is the party's own, to this question, and continues its ledger."""
        self._replies.pop(name, None)
        if not isinstance(reply, bytes):
            return PartyError(reply or "Unreachable")
        told = refused(reply)
        if told is not None:
            return told
        try:
            answer = SignedAnswer.open(reply, {name: self._keys[name]})
            fault = self._fault(answer, question)
        except SignatureError:
            fault = "signature"
        except InvalidMessage:
            fault = "form"
        if fault is not None:
            return PartyError(f"InvalidReply:{fault}")
        self._replies[name] = answer
        return answer.payload

    def _fault(self, answer: SignedAnswer, question: Question) -> str | None:
        """Return the word for what is wrong with an answer's place in the run, if anything is."""
        if not answer.answers(question):
            return "question"
        receipt = answer.receipt
        if receipt is None:
            return None
        if not presentable(receipt):
            return "receipt"
        if receipt.simulated is not self._simulated:
            return "simulated"
        # A ledger that was restored from a copy, cut or made anew gives a row again, or goes back.
        seen = self._paid.get(answer.party, [])
        last = max(seen, key=lambda one: one.row, default=receipt)
        goes_on = receipt.ledger_id == last.ledger_id and receipt.row > last.row
        known = {(one.ledger_id, one.row, one.hash) for one in seen or [receipt]}
        if answer.head == receipt.hash and (
            goes_on or (receipt.ledger_id, receipt.row, receipt.hash) in known
        ):
            return None
        logger.error("%s: its ledger does not continue what was seen of it before", answer.party)
        return "ledger"


def _signature_in(answer: Payload | PartyError) -> bytes | PartyError:
    """Return what all others are sent with theirs; of any length, no message could hold it."""
    if isinstance(answer, PartyError):
        return answer
    found = answer.arrays.get("signature", np.zeros(0, np.uint8))
    fine = found.nbytes <= _LONGEST_SIGNATURE
    return found.tobytes() if fine else PartyError("InvalidReply:signature")


def with_quorum(protocol: Protocol[T], quorum: float) -> Protocol[T]:
    """Run a protocol as part of another, in which such a share of the parties must answer."""
    found, _ = yield from with_receipts(protocol, quorum=quorum)
    return found


def with_receipts(protocol: Protocol[T], **changes: Any) -> Protocol[tuple[T, Receipts]]:
    """Run a protocol as part of another, and return also what parties have paid for it.

    Its questions are changed as said before they are asked.
    """
    paid: dict[str, tuple[Receipt, ...]] = {}
    try:
        ask = next(protocol)
        while True:
            told = yield replace(ask, **changes)
            for name, receipts in told.receipts.items():
                if receipts:  # who was only asked for what is free, and then lost, has no part
                    # One that several answers share counts once.
                    paid[name] = tuple(dict.fromkeys(paid.get(name, ()) + receipts))
            ask = protocol.send(told)
    except StopIteration as end:
        return end.value, paid


def guarantee_of(receipts: Receipts) -> Guarantee:
    """Return what a person in one party's data is promised about everything released.

    In sequence within a party, in parallel over parties: they hold disjoint records.
    """
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [Together([one.guarantee for one in paid]).guarantee() for paid in distinct.values()]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


class PartySession(Generic[T]):
    """A party's side of one run: bytes in, bytes out, until the release is signed."""

    gone = False
    facts: Mapping[str, str] = {}

    def __init__(
        self,
        local: LocalParty,  # Its rows and books; the books' policy is the approval's
        approval: SignedApproval,  # What it agreed to
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
        self._approval = approval
        self._protocol = protocol
        self._keys = {name: read_public_key(one) for name, one in parties.items()}
        self._coordinator = read_public_key(coordinator)
        self._key = read_private_key(key)
        books = replace(local.books, policy=approval.policy)
        masking = Masking(local.name, self._key, self._keys)
        self._local = replace(local, books=books, masking=masking)
        self._accept = accept
        self._share = share
        self._one_at_a_time = threading.Lock()
        self._seen: set[str] = set()
        self._replay: Replay[T] | None = None  # over the last question's evidence
        self.finished = False  #: Whether there is nothing more to do
        self._released = False
        #: "waiting", "asked", "answered", "released", "left out" or "withdrawn by ...": for people
        self.state = "waiting"
        self._steps = RunSteps()
        self._check()

    @property
    def name(self) -> str:
        return self._local.name

    @property
    def told(self) -> list[Values]:
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
            except Exception as error:
                ours = isinstance(error, ConfrereError)
                told = "%s: a question was not answered: %s"
                logger.warning(told, self.name, error, exc_info=None if ours else error)
                if isinstance(error, StudyRefused):  # somebody here has said no to all of it
                    refused_by = self._local.books.ledger.refusal(self._approval.study_sha256)
                    self.state = "agreed to anew since" if refused_by is None else str(refused_by)
                    self.finished = True
                return refusal(PartyError.of(error))

    def end(self) -> None:
        refusal = self._local.books.ledger.refusal(self._approval.study_sha256)
        if refusal is not None:
            self.state = str(refusal)
            raise refusal.error()

    def _check(self) -> None:
        books, approval = self._local.books, self._approval
        if approval.party != self.name or self.name not in self._keys:
            raise InvalidParameter("approval: it is another party's.")
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
        check_agreed(question, self._local.books)
        found, steps = self._replayed(question, evidence)
        if question.operation == FINISH:
            return self._finish(question, steps, found)
        if not isinstance(found, Round):
            raise OperationRefused("nothing is left to ask.", "step")
        request = self._compared(question, found)
        place = "ready" if question.asks_ready else question.operation, question.step
        self._steps.asked(*place, [self.name])
        try:
            self._approval.check()
            made = answer(question, request, self._local)
        except Exception as error:
            why = {self.name: PartyError.of(error)}
            self._steps.ended(*place, why)
            raise
        self._steps.ended(*place, {self.name: made})
        self.state = "answered"
        return SignedAnswer.sign(made, self._key).encode()

    def _replayed(
        self, question: Question, evidence: Sequence[bytes]
    ) -> tuple[T | Round, list[Step]]:
        """Return what follows from the evidence; where it only grows, what was replayed counts.

        A release is compared with what all of it gives, from the beginning.
        """
        known, self._replay = self._replay, None  # who is refused begins anew
        opened = {} if known is None else known.steps
        steps = {
            one: opened.get(one) or Step.open(one, self._coordinator, self._keys)
            for one in evidence
        }
        for step in steps.values():
            if (step.question.run, step.question.study) != (question.run, question.study):
                raise OperationRefused("the evidence is of another run or study.", "evidence")
            self._recognise(step)
        same = known is not None and list(opened) == list(evidence[: len(opened)])
        if known is None or known.run != question.run or not same or question.operation == FINISH:
            known, opened = Replay(self._protocol, list(self._keys), question.run), {}
        if len(steps) < len(evidence):
            raise OperationRefused("the evidence holds a step twice.", "evidence")
        found = known.after({one: step for one, step in steps.items() if one not in opened})
        self._replay = known
        return found, list(steps.values())

    def _compared(self, question: Question, found: Round) -> Operation:
        """Return what follows, if it is what is asked; of a sum's tries any will do."""
        request, expected = question.payload, found.request.payload
        steps = range(found.step, found.step + 1)
        if found.tries > 0:
            steps = range(found.tries)  # those that were lost leave no evidence
        taken = {name: request.values.get(name) for name in found.request.chosen}
        expected = Payload(dict(expected.values) | taken, expected.arrays)
        if question.operation != found.operation or question.step not in steps:
            raise OperationRefused("another question is next.", "step")
        # Uploads on different lattices would add up to nothing.
        same = request.values.get("spacing") == expected.values.get("spacing")
        if self.name not in found.to or not (same and agree(request, expected)):
            raise OperationRefused("the request is not what follows from the study.", "request")
        return found.request

    def _recognise(self, step: Step) -> None:
        """Refuse to go on where others hold an answer of ours that our own files do not."""
        own = step.answers.get(self.name)
        if own is None or own.payload.digest in self._seen:
            return
        question, books = step.question, self._local.books
        if self._kept(question.run, question) != own.payload.encode():
            raise FederationError(
                "others hold an answer of this party that its answer file does not: was the file "
                "restored from a copy? Nothing more is answered; bring back the newest one."
            )
        if own.receipt is not None:
            books.ledger.entry(own.receipt)  # the row that it names is there
        elif own.head is not None:
            books.ledger.verify(head=own.head)
        self._seen.add(own.payload.digest)

    def _finish(self, question: Question, steps: Sequence[Step], outcome: T | Round) -> bytes:
        if question.step == 1:
            return self._shared(question)
        told_all: T | None = None
        if not isinstance(outcome, Round):
            told_all = outcome
        elif outcome.request.noised or self._kept(question.run, outcome) is None:
            raise OperationRefused("the run is not at its end.", "step")
        costs = [request for request in self._approval.requests if request.epsilon > 0]
        away = [one.question for one in steps if self.name not in one.answers]
        if any(r.is_about(q.operation, q.step) for r in costs for q in away):
            self.finished, self.state = True, "left out"
            raise OperationRefused("the release does not hold this party's answer.", "left-out")
        signature = self._accept(unpacked("files", question.payload), told_all)
        self._released, self.state = True, "released"
        return self._told(question, {"signature": np.frombuffer(signature, np.uint8)})

    def _shared(self, question: Question) -> bytes:
        if not self._released:
            raise OperationRefused("the release comes before its signatures.", "step")
        signatures = unpacked("parties", question.payload)
        if self._share is not None:
            self._share(signatures)
        self.finished = True
        return self._told(question, {})

    def _told(self, question: Question, arrays: Mapping[str, ArrayLike]) -> bytes:
        about = question.about(self.name)
        told: Values = {"receipt": None, "head": None, "about": about}
        return SignedAnswer.sign(Payload(told, arrays), self._key).encode()

    def _kept(self, run: str, asked: Question | Round) -> bytes | None:
        slot = installed(asked.operation).slot or asked.operation
        return self._local.books.answers.answer_to(Key(run, slot, asked.step))
