"""The boundary: a coordinator asks parties, and gets payloads or codes; and who drives a protocol.

A protocol is a generator of questions. It is driven over parties with books of their own that live
here (:class:`LocalFederation`) or behind a carrier (:class:`SignedFederation`), which uses and
keeps an answer once its signature, its place in the run, its receipt and its numbers are right;
otherwise the party is left out, and named. Driven by made-up answers it tells, before anything is
asked, which questions there will be (:func:`rehearse`). Driven by the answers that the parties have
signed it tells which question is next, to the last number, or what the outcome is
(:class:`Replay`): so a party can see for itself that it is asked what was agreed, and that what is
released is what everybody sent.

With them the protocols that are no method's own. Counts of a public model's errors, by every party
or over all as one sum: then there is one price per record, whatever the number of parties; a count
of each with noise of its own would have their number times the variance, and tell how each of them
fares. Facts of a schema: nobody's own means are seen.

**Whom to trust with votes.** With ``trust="coordinator"`` what a party sends carries no noise of
its own (:class:`Trusted`). The promise is about what the coordinator publishes: everyone else sees
noised numbers only, and the coordinator sees votes on the auxiliary rows (or weights), never rows
or labels of a party. With ``trust="sum"`` nobody sees what a party adds: every party draws a share
of the noise; what is made of the noised sum everybody can compute. All of a party's data are
protected together, and nothing about their number is asked. A party pays its whole price when it
answers, published or not.

**A party between machines** believes nobody. What carries messages
(:mod:`~confrere_federation.engines.carrier`) moves bytes and knows who sent them; it reads none.
One long-lived object answers for a party::

    session = confrere_federation.studies.party_session(study, local, grant=grant_file, out=folder)
    reply = session.handle(question)    # bytes in, bytes out; never raises about a message

``handle`` may be called again with the same bytes at any time, after a crash too: the same bytes
come back and nothing is spent. Replies to wrong, foreign or hostile questions are codes. A question
is answered that the pinned key signed, that the party's own grant contains, and that follows from
what all parties have signed so far. The last message of a run hands the release to the parties; a
party runs the protocol again over those signatures and signs the release only if it is what comes
out.

Proofs: docs/proofs/secure_sums.md, docs/proofs/learned_facts.md, docs/proofs/multiparty.md.
"""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Generic, Literal, NoReturn, TypeVar, get_args

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder
from confrere.data.fact_counts import STEPS
from confrere.data.schema import PaidFacts, PublicSchema
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
from confrere.kernel.guarantee import Guarantee, Neighbours, Together, Unit
from confrere.kernel.release import paid_by_parties
from confrere.kernel.streams import Seed, simulation_of
from confrere.ledger import Receipt
from confrere.methods.asking import (
    Ask,
    Protocol,
    Receipts,
    Sizes,
    Told,
    drive,
    known_sizes,
    over_parties,
    stacked,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.sums import Hides
from confrere.methods.votes import Polled, Tally, Voting, accumulate_votes
from confrere.release.card import presentable
from confrere.release.signing import (
    PrivateKey,
    PublicKey,
    public_line,
    read_private_key,
    read_public_key,
)
from confrere_federation.engines.carrier import Carrier
from confrere_federation.parties.answers import Answers, Journal, Key
from confrere_federation.parties.masks import Announcement, Masking
from confrere_federation.parties.messages import (
    Expect,
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    check_run,
    new_run,
    receipt_of,
    receipts_of,
    refusal,
    refused,
)
from confrere_federation.parties.party import (
    Grant,
    LocalParty,
    Request,
    answer,
    array_digest,
    check_names,
    serve,
)
from confrere_federation.parties.requests import (
    OF,
    Errors,
    ErrorsOfAll,
    FactsOfAll,
    Operation,
    PartyFacts,
    Ready,
    SpoiledSum,
    SumOperation,
    UnnoisedPoll,
    Values,
    added,
    asked_of,
    installed,
    read_key,
    request_for,
    roster_of,
    sent_schema,
    share_question,
    without_roster,
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

#: More steps than this are not remembered: a page with them could not be read.
_MOST = 200

_FACTS = 1000

#: What a signature, a receipt and a place on a roster take of a message, at the most.
_SIGNED = 4096

logger = logging.getLogger("confrere_federation.parties")


@dataclass(eq=False)
class LostTries:
    """What the tries of a run have told about its parties."""

    #: Who was on a roster and sent nothing of use, and the code for it
    silent: dict[str, str] = field(default_factory=dict)
    #: Without whom a sum was good that was spoiled with them
    named: set[str] = field(default_factory=set)
    _suspects: set[str] = field(default_factory=set)

    def lost(self, roster: Sequence[str], codes: Mapping[str, str]) -> None:
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

    def roster(
        self,
        parties: Sequence[str],  # Who may take part
        *,
        fewest: int,  # The shortest roster
        # How many are left for this sum: as many are left out at a time as it takes to come through
        # all suspects, and no more
        tries: int,
    ) -> list[str]:
        """Return whom to ask next."""
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

    operation: str  #: What is asked, and how
    payload: Payload
    to: tuple[str, ...]  #: Who is asked
    step: int = 0
    timeout: float | None = None
    quorum: float = 1.0
    expect: Expect | None = None  #: From a party's name to what its answer must be
    #: Is given all answers together before they are kept, and raises if they are not to be
    whole: Callable[[Mapping[str, Payload]], object] | None = None
    later: int = 0  #: Of a sum: how many more of the run need a try of their own
    tries: int = 0  #: Of a sum that follows from a transcript: it may be any of so many
    encoder: SchemaEncoder | None = None  #: By what rows are encoded, if that follows from the run


class Federation(ABC):
    """Parties that can be asked; an engine decides how questions travel."""

    #: Whether nobody is really asked: what comes out of a rehearsal or a replay is not released.
    pretends = False
    #: Whether answers are made up, so that everything is asked that may be asked.
    rehearses = False

    def __init__(self, run: str | None, parties: Iterable[str]) -> None:
        self._names = list(parties)
        #: Name of the run. A party answers a question of a run once: whoever asks again under the
        #: same name gets the same bytes.
        self.run = new_run() if run is None else check_run(run)
        #: Parties without whose last answer :meth:`gather` went on, and why.
        self.left_out: dict[str, str] = {}
        self._tries: dict[str, int] = {}
        self._lost = LostTries()
        self._encoder: SchemaEncoder | None = None

    def parties(self) -> list[str]:
        """Return the names of the parties that can be asked."""
        return list(self._names)

    def ask(
        self,
        operation: str,  # Name of an operation that the parties have installed and allow
        payload: Payload,  # The same request for every party
        *,
        to: Sequence[str] | None = None,  # Whom to ask; everyone by default
        step: int = 0,  # Which time it is in this run that the operation is asked for
        # Seconds to wait; a party that did not answer by then has code ``"Timeout"``
        timeout: float | None = None,
    ) -> Mapping[str, Payload | PartyError]:
        """Ask parties to run an operation; one entry per party asked."""
        everyone = self.parties() if to is None else to
        return self._asked(Round(operation, payload, tuple(everyone), step, timeout))

    @abstractmethod
    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask everyone in ``asked.to``, in the engine's own way."""

    def run_protocol(
        self,
        protocol: Protocol[T],
        *,
        timeout: float | None = None,  # Seconds to wait for a question
        trusted: Any = None,  # Who adds noise to what parties send without: a :class:`Trusted`
    ) -> T:
        """Drive a protocol: ask what it asks, and return what it makes of the answers."""
        return drive(protocol, lambda ask: self._answered_to(ask, timeout, trusted))

    def _answered_to(self, ask: Ask, timeout: float | None, trusted: Any) -> Told:
        """Ask one question of a protocol."""
        request = request_for(ask.asked)
        self._encoder = ask.encoder
        if not request.noised:
            if self.pretends:
                self.ask(request.operation, request.write(), to=list(ask.to))
                raise QuorumMissed(f"{request.operation}: nobody but a coordinator sees answers.")
            released: Told = trusted.poll(self, ask.asked, timeout)
            return released
        if isinstance(request, SumOperation):
            told = (request.operation, request.write(), tuple(ask.to))
            return self._added(Round(*told, timeout=timeout, later=ask.later), request)
        answers = self.gather(request, ask.to, step=ask.step, timeout=timeout, quorum=ask.quorum)
        answers = {name: answers[name] for name in ask.to if name in answers}  # in one order
        arrays = stacked([one.arrays for one in answers.values()])
        receipts = {name: receipts_of(one) for name, one in answers.items()}
        return Told(tuple(answers), arrays, receipts, self.rehearses)

    def gather(
        self,
        request: Operation,  # The same for every party
        to: Mapping[str, int],  # Whom to ask, with their public numbers of records
        *,
        step: int = 0,  # As for :meth:`ask`
        timeout: float | None = None,
        quorum: float = 1.0,  # Share of the parties asked that must answer
    ) -> Mapping[str, Payload]:
        """Ask, drop errors and answers that are not as they must be, and insist on enough.

        What an answer must be follows from the request and the party's size. One that is not has
        the code ``"InvalidReply:"`` and a word: nobody uses it, and it is not kept.

        Raises QuorumMissed if fewer answered; it names them and their codes.
        """
        if isinstance(quorum, bool) or not 0 < quorum <= 1:
            raise InvalidParameter("quorum must be a number above 0 and at most 1.")
        wanted, told = cache(request.expected), (request.operation, request.write(), tuple(to))
        asked = Round(*told, step, timeout, quorum, lambda name: wanted(to[name]))
        return self._gathered(asked)

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        """Do what :meth:`gather` says; an engine that keeps or makes up answers does otherwise."""
        answers = self.ask(
            asked.operation, asked.payload, to=asked.to, step=asked.step, timeout=asked.timeout
        )
        if asked.expect is not None:
            answers = {name: checked(a, name, asked.expect) for name, a in answers.items()}
        bad = {n: a.code for n, a in answers.items() if isinstance(a, PartyError)}
        for name, code in bad.items():
            logger.warning(
                "%s is left out of %s step %d: %s", name, asked.operation, asked.step, code
            )
        self.left_out |= bad
        payloads = {name: a for name, a in answers.items() if isinstance(a, Payload)}
        if not payloads or len(payloads) < asked.quorum * len(answers):
            raise QuorumMissed(
                f"{asked.operation}: {len(payloads)} of {len(answers)} parties answered, the "
                f"quorum is {asked.quorum:g}. {_listed(bad)}",
                bad,
            )
        if asked.whole is not None:
            asked.whole(payloads)
        return payloads

    def _added(self, asked: Round, request: SumOperation) -> Told:
        """Add up what parties have, each under masks that only the sum of all undoes.

        Whoever is not ready is left out, down to the shortest roster that the noise was made for.
        If somebody who was ready sends nothing, or what no honest sum can hold, the try is lost,
        and paid for. The next one has fresh keys, fresh noise and a roster without those who sent
        nothing; who spoiled a sum is found by leaving parties out in turn (:class:`LostTries`). It
        goes on as long as the price covers another try, and each sum that follows.

        Raises QuorumMissed if too few are ready, or no try is left.
        """
        mechanism, wanted = request.mechanism, request.expected(0)
        operation, most = asked.operation, mechanism.releases - asked.later
        while (step := self._tries.get(operation, 0)) < most:
            self._tries[operation] = step + 1
            known = self._lost_before(operation, step)
            if known is not None:
                codes = {name: code for name, code in known.items() if code}
                self._lost.lost(list(known), codes)
                self.left_out |= codes
                continue
            roster = self._roster(asked, request, step, most - step)
            names = [one.party for one in roster]
            codes = {}
            try:
                answers = self._gathered(
                    Round(
                        operation,
                        share_question(asked.payload, roster),
                        tuple(names),
                        step,
                        asked.timeout,
                        expect=lambda _: wanted,
                        whole=lambda found: added(mechanism, found),
                    )
                )
            except SpoiledSum as error:
                logger.error("%s: try %d is lost: %s", operation, step, error)
            except QuorumMissed as error:
                logger.warning("%s: try %d is lost: %s", operation, step, error)
                codes = error.codes
            else:
                for name in self._lost.good(names):
                    logger.error(
                        "%s: a sum was spoiled with %s and is good without", operation, name
                    )
                    self.left_out[name] = SPOILED
                return added(mechanism, answers)
            self._lost.lost(names, codes)
            if not codes or step + 1 < most:
                # What is silent in the last try may still come, if the run is started again.
                self._lose(operation, step, {name: codes.get(name, "") for name in names})
        raise QuorumMissed(
            f"{operation}: no try is left of the {mechanism.releases} that a run pays for. "
            f"{self._lost.told()}Begin a new run, which everyone pays again, or declare a larger "
            "reserve.",
            self._lost.silent,
        )

    def _roster(
        self, asked: Round, request: SumOperation, step: int, tries: int
    ) -> list[Announcement]:
        """Return the keys of those who are ready for a try, of those who are to be in it."""
        fewest = request.mechanism.roster
        chosen = self._lost.roster(asked.to, fewest=fewest, tries=tries)
        question = Ready(request)
        for to in (chosen, asked.to):
            try:
                keys = self.gather(
                    question,
                    dict.fromkeys(to, 0),
                    step=step,
                    timeout=asked.timeout,
                    quorum=min(1.0, fewest / len(to)),
                )
            except QuorumMissed:
                if len(to) == len(asked.to):
                    raise
            else:
                break
        return [read_key(name, answer) for name, answer in keys.items()]

    def _lost_before(self, operation: str, step: int) -> Mapping[str, str] | None:  # noqa: ARG002
        """Return who was in a try that was lost before the run was started again, and why not."""
        return None

    def _lose(self, operation: str, step: int, roster: Mapping[str, str]) -> None:  # noqa: B027
        """Keep in mind, beyond this process, that a try is lost."""


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
        if on_error not in ("report", "raise"):
            raise InvalidParameter("on_error must be 'report' or 'raise'.")
        self._parties = {party.name: party for party in parties}
        check_names(self._names)
        self._study = study
        self._raises = on_error == "raise"

    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask parties one after the other."""
        names = list(asked.to)
        if asked.operation == Ready.operation:
            self._introduce()
        unknown = [name for name in names if name not in self._parties]
        if unknown:
            raise InvalidParameter(f"to: there is no party {unknown[0]!r}.")
        here = {name: self._parties[name].encoded_by(self._encoder) for name in names}
        return {name: self._served(one, asked) for name, one in here.items()}

    def _added(self, asked: Round, request: SumOperation) -> Told:
        """Add up; or, where a run goes on, add up again what everyone has sent already.

        A try is used once. One that everybody answered before the process ended is whole, and its
        uploads are on disk; one that was cut short is lost.
        """
        operation, to, mechanism = asked.operation, asked.to, request.mechanism
        while self._parties and (step := self._tries.get(operation, 0)) < mechanism.releases:
            if not self._books(to[0]).asked(Key(self.run, operation, step)):
                break
            self._tries[operation] = step + 1
            kept = {
                name: self._books(name).answer_to(Key(self.run, operation, step)) for name in to
            }
            answers = {name: Payload.decode(one) for name, one in kept.items() if one is not None}
            questions = {answer.values["about"]["question"] for answer in answers.values()}
            if len(answers) == len(to) and len(questions) == 1:
                return added(mechanism, answers)
            logger.warning("%s: try %d was cut short and is lost", operation, step)
        return super()._added(asked, request)

    def _books(self, name: str) -> Answers:
        return self._parties[name].books.answers

    def _introduce(self) -> None:
        """Give identities for sums to parties that have none: they all live here."""
        if all(party.masking is not None for party in self._parties.values()):
            return
        own = {name: Ed25519PrivateKey.generate() for name in self._parties}
        public = {name: key.public_key() for name, key in own.items()}
        for name, party in self._parties.items():
            self._parties[name] = replace(party, masking=Masking(name, own[name], public))

    def _served(self, local: LocalParty, asked: Round) -> Payload | PartyError:
        try:
            return serve(
                asked.operation,
                asked.payload,
                local,
                run=self.run,
                step=asked.step,
                study=self._study,
            )
        except Exception as error:
            if self._raises:
                raise
            logger.warning("%s: %s was not answered", local.name, asked.operation, exc_info=True)
            return PartyError.of(error)


class _Stop(Exception):
    def __init__(self, question: Round) -> None:
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


def _ready_for(question: Round) -> Payload:
    told = {**question.payload.values, OF: question.operation}
    return Payload(told, question.payload.arrays)


def _request(asked: Sequence[Round], facts: PartyFacts, steps: int = 1) -> Request:
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
        super().__init__(study[:64], parties)
        self._rng, self._size = np.random.default_rng(seed), float(seed)
        self.asked: list[Round] = []
        #: Bytes of signed questions and answers that the last question carries, or some more.
        self.evidence = 0

    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        self.asked.append(replace(asked, encoder=self._encoder))
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

    def _added(self, asked: Round, request: SumOperation) -> Told:
        mechanism = request.mechanism
        self._keep(asked, 8 * mechanism.size * len(asked.to))
        self._asked(replace(asked, tries=mechanism.releases))
        made_up = self._rng.uniform(0.5, 1.0, size=mechanism.size)
        whole = {"sum": made_up * mechanism.largest / mechanism.size}
        return Told(asked.to, whole, made_up=True)


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

    pretends = True

    def __init__(self, protocol: Steps[T], parties: Sequence[str], run: str) -> None:
        super().__init__(run, parties)
        self._protocol = protocol(list(parties))
        self._next: Ask | None = None  # what no step has answered yet
        self._ended: tuple[T, ...] = ()
        self._left: dict[tuple[str, int], Step] = {}
        self.steps: list[Step] = []  #: What it has run over

    def after(self, steps: Sequence[Step]) -> T | Round:
        """Return the question that follows after more steps, or what the protocol ends with.

        Raises OperationRefused if a step is not the one that the protocol asks for there, or is not
        used at all; then nothing more follows from these steps.
        """
        self._left = {(s.question.operation, s.question.step): s for s in steps}
        before = {(s.question.operation, s.question.step) for s in self.steps}
        if len(self._left) < len(steps) or before & self._left.keys():
            raise OperationRefused("the evidence holds a step twice.", "evidence")
        self.steps += steps
        found: T | Round
        try:
            while not self._ended:
                self._next = self._next or next(self._protocol)
                self._next = self._protocol.send(self._answered_to(self._next, None, None))
            (found,) = self._ended
        except StopIteration as end:
            self._ended = (end.value,)
            found = end.value
        except _Stop as stop:
            found = replace(stop.question, encoder=self._encoder)
        except (QuorumMissed, InvalidMessage) as error:
            told = f"the evidence does not bear the question: {error}"
            raise OperationRefused(told, "evidence") from None
        if self._left:
            raise OperationRefused("the evidence holds steps that are not asked for.", "evidence")
        return found

    def _asked(self, asked: Round) -> NoReturn:
        # Answers without noise of their own are nobody's evidence: such a question stands alone.
        raise _Stop(asked)

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        found = self._left.pop((asked.operation, asked.step), None)
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

    def _added(self, asked: Round, request: SumOperation) -> Told:
        mechanism = request.mechanism
        found = [
            place
            for place, step in sorted(self._left.items())
            if place[0] == asked.operation
            and agree(without_roster(step.question.payload), asked.payload)
        ]
        if not found:
            raise _Stop(replace(asked, tries=mechanism.releases))
        step = self._left.pop(found[0])
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


class RunSteps:
    """The steps of a run, as far as it has come."""

    def __init__(self) -> None:
        #: Is called whenever there is something new to tell.
        self.changed: Callable[[], None] | None = None
        self._steps: dict[tuple[str, int], Values] = {}

    def asked(
        self, operation: str, step: int, names: Iterable[str], timeout: float | None = None
    ) -> None:
        """Note a question, and until when its answers are waited for."""
        now = datetime.now(UTC)
        end = None if timeout is None else now + timedelta(seconds=timeout)
        until = None if end is None else end.isoformat("T", "seconds")
        told = self._steps.setdefault(
            (operation, step), {"operation": operation, "step": step, "parties": {}}
        )
        told |= {"since": now.isoformat(timespec="seconds"), "until": until}
        told["parties"] |= {name: {"state": "asked"} for name in names}
        while len(self._steps) > _MOST:
            del self._steps[next(iter(self._steps))]
        self._tell()

    def ended(self, operation: str, step: int, answers: Mapping[str, Payload | PartyError]) -> None:
        """Note answers that were used, and what each cost; or who was left out, and why."""
        new = {name: _outcome(one) for name, one in answers.items()}
        if new and (operation, step) not in self._steps:
            self.asked(operation, step, new)
        if new:
            self._steps[operation, step]["parties"] |= new
            self._tell()

    def to_list(self) -> list[Values]:
        """Return plain values, for JSON."""
        return [
            {**told, "parties": {name: dict(one) for name, one in told["parties"].items()}}
            for told in self._steps.values()
        ]

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()


def _outcome(answer: Payload | PartyError) -> Values:
    if isinstance(answer, PartyError):
        return {"state": "dropped", "code": answer.code}
    paid = receipt_of(answer)
    cost = {} if paid is None else {"epsilon": paid.guarantee.epsilon, "row": paid.row}
    return {"state": "answered", **cost}


def packed(what: str, named: Mapping[str, bytes]) -> Payload:
    """Return a message of named byte strings."""
    parts = enumerate(named.values())
    return Payload({what: list(named)}, {f"part{k}": np.frombuffer(b, np.uint8) for k, b in parts})


def unpacked(what: str, payload: Payload) -> dict[str, bytes]:
    """Read what :func:`packed` wrote."""
    names, arrays = payload.values.get(what), payload.arrays
    if not isinstance(names, list) or arrays.keys() != {f"part{k}" for k in range(len(names))}:
        raise InvalidMessage(f"{what} have a name each.")
    return {str(name): arrays[f"part{k}"].tobytes() for k, name in enumerate(names)}


class SignedFederation(Federation):
    """Parties behind a carrier: every question signed, every answer checked before it is kept."""

    def __init__(
        self,
        *,
        run: str,  # See :func:`~confrere_federation.parties.party.run_name`
        study: str,  # Its hash
        key: PrivateKey,  # The coordinator's
        parties: Mapping[str, PublicKey],  # Everyone in the study, in its order
        carrier: Carrier,  # What moves the messages
        journal: Journal,  # Of this run
        simulated: bool = False,  # Whether the study's noise is seeded: receipts must say the same
        steps: RunSteps | None = None,  # Is told who was asked what, and how that ended
    ) -> None:
        super().__init__(run, parties)
        self._told = steps or RunSteps()
        if journal.run != run:
            raise FederationError("the journal is of another run; use a new folder.")
        self._study = study
        self._key = read_private_key(key)
        self._keys = {name: read_public_key(one) for name, one in parties.items()}
        self._carrier = carrier
        self._journal = journal
        self._simulated = simulated
        self._replies: dict[str, SignedAnswer] = {}
        self._steps: list[bytes] = []

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
        self._told.ended(operation, step, answers)
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
            self._told.ended(operation, step, {name: a.payload for name, a in opened.items()})
        else:
            receipted = replace(asked, expect=lambda name: replace(expect(name), receipted=True))
            opened = {name: self._replies[name] for name in super()._gathered(receipted)}
            kept = {name: answer.encode() for name, answer in opened.items()}
            paid = {name: one.receipt for name, one in opened.items()}
            receipts = {name: one for name, one in paid.items() if one is not None}
            self._journal.keep(entry, step, digest, kept, receipts)
            out = {n: PartyError(self.left_out[n]) for n in asked.to if n in self.left_out}
            self._told.ended(operation, step, out)
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
        answers = self.ask(FINISH, packed("files", files), to=to, timeout=timeout)
        signed = {
            name: answer
            if isinstance(answer, PartyError)
            else answer.arrays.get("signature", np.zeros(0, np.uint8)).tobytes()
            for name, answer in answers.items()
        }
        made = {name: one for name, one in signed.items() if isinstance(one, bytes)}
        if made:
            asked = packed("parties", {**(known or {}), **made})
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
        self._replies[name] = answer
        return answer.payload


OnFaulty = Literal["leave-out", "refuse"]

#: What stands for all parties where their counts are one.
ALL = "all parties"

#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: A party's number of records at most, where it is not public and nothing else is said.
MOST_HIDDEN = 1 << 20


def changed(protocol: Protocol[T], change: Callable[[Ask], Ask]) -> Protocol[T]:
    """Run a protocol as part of another, whose questions are changed before they are asked."""
    try:
        ask = next(protocol)
        while True:
            ask = protocol.send((yield change(ask)))
    except StopIteration as end:
        found: T = end.value
        return found


def with_quorum(protocol: Protocol[T], quorum: float) -> Protocol[T]:
    """Run a protocol as part of another, in which such a share of the parties must answer."""
    if isinstance(quorum, bool) or not 0 < quorum <= 1:
        raise InvalidParameter("quorum must be a number above 0 and at most 1.")
    return changed(protocol, lambda ask: replace(ask, quorum=quorum))


def with_receipts(protocol: Protocol[T]) -> Protocol[tuple[T, Receipts]]:
    """Run a protocol as part of another, and return also what parties have paid for it."""
    paid: Receipts = {}
    try:
        ask = next(protocol)
        while True:
            told = yield ask
            paid = joined(paid, told.receipts)
            ask = protocol.send(told)
    except StopIteration as end:
        return end.value, paid


def joined(earlier: Receipts, later: Receipts) -> Receipts:
    """Append receipts, party by party; one that several answers share counts once."""
    every = {
        name: tuple(dict.fromkeys(earlier.get(name, ()) + later.get(name, ())))
        for name in {**earlier, **later}
    }
    # Who was only asked for what is free, and then lost, has no part in it.
    return {name: paid for name, paid in every.items() if paid}


def guarantee_of(receipts: Receipts) -> Guarantee:
    """Return what a person in one party's data is promised about everything released.

    In sequence within a party, in parallel over parties: they hold disjoint records.
    """
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [Together([one.guarantee for one in paid]).guarantee() for paid in distinct.values()]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


@dataclass(frozen=True, eq=False)
class Outcome(Combined):
    """A model of several parties: post-processing of what each of them released."""

    receipts: Receipts = field(default_factory=dict)  #: What each party paid, in order

    @property
    def guarantee(self) -> Guarantee:
        """What a person in one party's data is promised."""
        return guarantee_of(self.receipts)


def collaborate(
    federation: Federation,  # Whom to ask, and under which run
    plan: Collaboration,  # What to ask
    *,
    # Of all parties, where they are declared; by default everyone is asked for its own
    sizes: Sizes | None = None,
    quorum: float = 1.0,  # Share of the parties that must answer in every round
    timeout: float | None = None,  # Seconds to wait for a round
) -> Outcome:
    """Run the protocol of a plan."""
    steps = plan.steps(federation.parties() if sizes is None else sizes)
    asking = with_quorum(with_receipts(steps), quorum)
    made, paid = federation.run_protocol(asking, timeout=timeout)
    return Outcome(made.frame, made.weights, made.sizes, made.prior, paid)


@dataclass(frozen=True)
class FederatedEvaluation:
    """Noised counts of errors."""

    #: Per party, or of all together under one name; noise may take it below 0 or above the size.
    errors: Mapping[str, float]
    sizes: Mapping[str, int]  #: Records per party
    receipts: Receipts  #: What each party paid

    @property
    def error_rate(self) -> float:
        """Share of all records that the model gets wrong, clipped to [0, 1]."""
        rate = sum(self.errors.values()) / sum(self.sizes.values())
        return min(1.0, max(0.0, rate))


def evaluation(
    coef: ArrayLike,  # Public coefficients for rows as encoded
    intercept: float,
    sizes: Mapping[str, int],  # Records of the parties to ask
    *,
    epsilon: float,  # What each party spends
    step: int = 0,  # Which evaluation of the run this is
) -> Protocol[FederatedEvaluation]:
    """Have every party count the errors of a public model."""
    public = np.asarray(coef, dtype=np.float64).ravel()
    told = yield Ask(Errors(epsilon=epsilon, coef=public, intercept=intercept), sizes, step)
    counts = dict(zip(told.names, told.arrays["errors"].tolist(), strict=True))
    return FederatedEvaluation(counts, {name: sizes[name] for name in counts}, told.receipts)


def evaluation_together(
    coef: ArrayLike,
    intercept: float,
    sizes: Mapping[str, int],
    *,
    epsilon: float,
    quorum: float = 1.0,  # Share of the parties that a sum needs
    # ``colluding``: how many parties may pool what they know, by default a minority of those of a
    # sum; ``reserve``: how many lost sums are paid for.
    **tries: Any,
) -> Protocol[FederatedEvaluation]:
    """Count, over all parties as one, the errors of a public model."""
    asked = ErrorsOfAll.among(
        len(sizes),
        quorum=quorum,
        epsilon=epsilon,
        largest=max(sizes.values()),
        coef=np.asarray(coef, dtype=np.float64).ravel(),
        intercept=intercept,
        **tries,
    )
    told = yield Ask(asked, sizes)
    there = {name: sizes[name] for name in told.names}
    return FederatedEvaluation({ALL: float(told.arrays["sum"][0])}, there, told.receipts)


def facts_together(
    parties: Sequence[str],
    schema: PublicSchema,  # What it declares is not learned again
    *,
    epsilon: float,  # What each party spends
    # What is hidden: a record that is replaced, or that comes or goes, in which case the number of
    # records is counted with the rest; or all records of a party, in which case facts are means
    # over parties of their means, and nobody tells how many records it has.
    unit: Unit = Unit.RECORD,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # Where records may come or go, a public bound on a party's number of them: sums beyond it are
    # cut.
    most_records: int = MOST_HIDDEN,
    quorum: float = 1.0,
    **tries: Any,  # As for :func:`evaluation_together`
) -> Protocol[PublicSchema]:
    """Learn the facts that a schema lacks from the records of all; receipts are in ``paid``."""
    hides = Hides.of(unit, neighbours)
    sizes = dict.fromkeys(parties, 1 if hides is Hides.PARTY else most_records)
    if hides is Hides.RECORD:
        known = yield from known_sizes(parties, step=_SIZES_STEP)
        sizes = dict(known.counts)
    asked = FactsOfAll.among(
        len(parties),
        quorum=quorum,
        epsilon=epsilon,
        largest=max(sizes.values()),
        hides=str(hides),
        schema=sent_schema(schema),
        **tries,
    )
    told = yield Ask(asked, sizes)
    n_samples, summed = float(sum(sizes[name] for name in told.names)), told.arrays["sum"]
    if hides is Hides.PRESENCE:
        n_samples = max(1.0, float(summed[-1]) / STEPS)
    total = summed[: asked.counts.size]
    learned, what = asked.counts.learned(total, n_samples, asked.mechanism.deviation)
    receipts = {name: paid[0].to_dict() for name, paid in told.receipts.items() if paid}
    if receipts:  # in a rehearsal nobody has paid
        learned = replace(learned, paid=(*schema.paid, PaidFacts(what, receipts)))
    return learned


@dataclass(frozen=True, eq=False)
class Trusted:
    """How a coordinator whom parties trust adds the noise: once per run, and kept on disk.

    Every question carries a digest of the whole plan and names the file of releases, so that
    another plan, or another file, under the same run is another question: every party refuses it
    and spends nothing.
    """

    #: The file that what is released is kept in. Only a simulation can do without.
    releases: Answers | None = None
    #: Without a party's valid answer: count it as a split vote (zero weights), or release nothing.
    on_faulty: OnFaulty = "leave-out"
    random_state: Seed | None = None  #: Of the coordinator's noise, for simulation only

    def __post_init__(self) -> None:
        if self.on_faulty not in get_args(OnFaulty):
            raise InvalidParameter("on_faulty must be 'leave-out' or 'refuse'.")

    def poll(self, federation: Federation, asked: Polled, timeout: float | None) -> Told:
        """Ask everyone, add up what is valid, and noise it; or return what was released before."""
        releases = self.releases
        if releases is None:
            if self.random_state is None and not federation.pretends:
                raise InvalidParameter(
                    "releases must be the Answers file that keeps what is released: noise is drawn "
                    "once per run."
                )
            releases = Answers()
        request = request_for(asked)
        assert isinstance(request, UnnoisedPoll)
        key = Key(federation.run, "released", 0)
        epsilon = asked.voting.epsilon
        kept = releases.claim(key, question=request.plan, epsilon=epsilon, cap=None).answer
        if kept is None:
            request.releases = releases.id
            told = request.operation, request.write()
            answers = federation.ask(*told, to=federation.parties(), timeout=timeout)
            kept = releases.keep(key, self._noised(asked, request, answers).encode())
        found = Payload.decode(kept)
        federation.left_out |= found.values["left_out"]
        paid = [tuple(map(Receipt.from_dict, each)) for each in found.values["receipts"]]
        receipts = dict(zip(found.values["parties"], paid, strict=True))
        return Told(tuple(receipts), {"noised": found.arrays["noised"]}, receipts)

    def _noised(
        self,
        asked: Polled,
        request: UnnoisedPoll,
        answers: Mapping[str, Payload | PartyError],
    ) -> Payload:
        wanted, plan, count = request.expected(0), asked.voting, len(answers)
        found = {name: checked(one, name, lambda _: wanted) for name, one in answers.items()}
        valid = {n: one for n, one in sorted(found.items()) if isinstance(one, Payload)}
        left_out = {name: one.code for name, one in found.items() if isinstance(one, PartyError)}
        if not valid or (left_out and self.on_faulty == "refuse"):
            told = f"{len(left_out)} of {count} parties sent nothing valid. {_listed(left_out)}"
            raise QuorumMissed(told)
        receipts = {name: receipts_of(answer) for name, answer in valid.items()}
        paid = [receipt for each in receipts.values() for receipt in each]
        sent = [answer.arrays[request.answers[0]] for answer in valid.values()]
        simulation = simulation_of(self.random_state)
        with paid_by_parties(paid, plan.guarantee(), simulation) as ticket:
            noised = plan.noised(_total(plan, sent, count), count, source=ticket)
        values = {
            "parties": list(receipts),
            "receipts": [[one.to_dict() for one in each] for each in receipts.values()],
            "left_out": left_out,
        }
        return Payload(values, {"noised": noised})


def _total(plan: Voting, sent: Sequence[NDArray[Any]], n_parties: int) -> Tally | Floats:
    """Return valid ballots or uploads, added up."""
    if plan.votes:
        codes = (ballot.astype(np.int64) for ballot in sent)
        votes, counted = accumulate_votes(codes, n_rows=len(plan.rows), n_classes=plan.n_classes)
        return Tally(votes, counted, n_parties)
    mechanism: Any = plan.mechanism(n_parties)
    total = np.zeros(mechanism.shape)
    for upload in sent:
        total += mechanism.clipped(upload[None])[0]
    return total


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
        self._keys = {name: read_public_key(one) for name, one in parties.items()}
        self._coordinator = read_public_key(coordinator)
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
        if not isinstance(found, Round):
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

    def _replayed(self, question: Question, steps: list[Step]) -> T | Round:
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

    def _compare(self, question: Question, found: Round) -> None:
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

    def _finish(self, question: Question, steps: Sequence[Step], outcome: T | Round) -> bytes:
        if question.step == 1:
            return self._shared(question)
        told_all: T | None = None
        if not isinstance(outcome, Round):
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

    def _has_answered(self, run: str, asked: Round) -> bool:
        """Whether the party has answered a question whose answers no party may see."""
        slot = installed(asked.operation).slot or asked.operation
        return self._local.books.answers.answer_to(Key(run, slot, asked.step)) is not None

    def _grant_costs(self, step: Step) -> bool:
        asked = (step.question.operation, step.question.step)
        return any(r.epsilon > 0 for r in self._grant.requests if r.is_about(*asked))
