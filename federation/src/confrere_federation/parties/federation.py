"""The boundary: a coordinator asks parties, and gets payloads or codes.

With it the in-process engine, for parties with books of their own that live here.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joblib import Parallel, delayed

from confrere.data.encoding import SchemaEncoder
from confrere.errors import ConfrereError, InvalidParameter, QuorumMissed
from confrere.methods.asking import Ask, Protocol, Receipts, Told, stacked
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.masks import Announcement, Masking
from confrere_federation.parties.messages import (
    Expect,
    PartyError,
    Payload,
    check_run,
    new_run,
    receipts_of,
)
from confrere_federation.parties.operation import Operation, SumOperation, request_for
from confrere_federation.parties.party import LocalParty, check_names
from confrere_federation.parties.serving import serve
from confrere_federation.parties.summing import (
    Ready,
    SpoiledSum,
    Summed,
    added,
    read_key,
    share_question,
)

T = TypeVar("T")


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
            said += f"Sent nothing: {_listed([f'{n} ({c})' for n, c in self.silent.items()])}. "
        if self._suspects:
            said += f"Sent something that no sum can hold: one of {_listed(self._suspects)}. "
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


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return ", ".join(every[:5]) + more


logger = logging.getLogger("confrere_federation.parties")

#: Why a party is left out without whom a sum is good that was spoiled with it.
SPOILED = "InvalidReply:sum"


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


@dataclass(frozen=True, eq=False)
class Round:
    """One question to several parties, and what their answers must be; see :meth:`gather`."""

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


class Federation(ABC):
    """Parties that can be asked; an engine decides how questions travel.

    Parameters
    ----------
    run : str, optional
        Name of the run. A party answers a question of a run once: whoever asks again under the
        same name gets the same bytes. By default a fresh name.

    Attributes
    ----------
    left_out : dict of str to str
        Parties without whose last answer :meth:`gather` went on, and why.
    """

    #: Whether nobody is really asked: what comes out of a rehearsal or a replay is not released.
    pretends = False
    #: Whether answers are made up, so that everything is asked that may be asked.
    rehearses = False

    def __init__(self, run: str | None = None) -> None:
        self.run = new_run() if run is None else check_run(run)
        self.left_out: dict[str, str] = {}
        self._tries: dict[str, int] = {}
        self._lost = LostTries()
        self._encoder: SchemaEncoder | None = None

    @abstractmethod
    def parties(self) -> list[str]:
        """Return the names of the parties that can be asked now."""

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
        """Ask parties to run an operation.

        Returns
        -------
        mapping of str to Payload or PartyError
            One entry per party asked.
        """
        return self._asked(Round(operation, payload, self._named(to), step, timeout))

    @abstractmethod
    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask everyone in ``asked.to``, in the engine's own way."""

    def _named(self, to: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(self.parties() if to is None else to)

    def run_protocol(
        self,
        protocol: Protocol[T],
        *,
        timeout: float | None = None,  # Seconds to wait for a question
        trusted: Any = None,  # Who adds noise to what parties send without: a :class:`Trusted`
    ) -> T:
        """Drive a protocol: ask what it asks, and return what it makes of the answers."""
        try:
            ask = next(protocol)
            while True:
                ask = protocol.send(self._answered_to(ask, timeout, trusted))
        except StopIteration as end:
            found: T = end.value
            return found

    def _answered_to(self, ask: Ask, timeout: float | None, trusted: Any) -> Told:
        """Ask one question of a protocol."""
        request = request_for(ask.asked)
        self._encoder = ask.encoder
        if not request.noised:
            if self.pretends:
                self.ask(request.operation, request.write(), to=list(ask.to))
                raise QuorumMissed(f"{request.operation}: nobody but a coordinator sees answers.")
            told: Told = trusted.poll(self, ask.asked, timeout)
            return told
        if isinstance(request, SumOperation):
            summed = self.sum(request, list(ask.to), timeout=timeout, later=ask.later)
            whole = {"sum": summed.value}
            return Told(summed.roster, whole, summed.receipts, self.rehearses)
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

        Raises
        ------
        QuorumMissed
            If fewer answered; it names them and their codes.
        """
        if isinstance(quorum, bool) or not 0 < quorum <= 1:
            raise InvalidParameter("quorum must be a number above 0 and at most 1.")
        wanted = cache(request.expected)
        return self._gathered(
            Round(
                request.operation,
                request.write(),
                tuple(to),
                step,
                timeout,
                quorum,
                lambda name: wanted(to[name]),
            )
        )

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
                f"quorum is {asked.quorum:g}. {_told(bad)}",
                bad,
            )
        if asked.whole is not None:
            asked.whole(payloads)
        return payloads

    def sum(
        self,
        request: SumOperation,  # The same for every party
        to: Sequence[str],  # Whom to ask
        *,
        timeout: float | None = None,  # Seconds to wait, for keys and again for the sum
        later: int = 0,  # How many sums of the same operation follow in this run
    ) -> Summed:
        """Add up what parties have, each under masks that only the sum of all undoes.

        Whoever is not ready is left out, down to the shortest roster that the noise was made for.
        If somebody who was ready sends nothing, or what no honest sum can hold, the try is lost,
        and paid for. The next one has fresh keys, fresh noise and a roster without those who sent
        nothing; who spoiled a sum is found by leaving parties out in turn (:class:`LostTries`). It
        goes on as long as the price covers another try, and each sum that follows.

        Raises
        ------
        QuorumMissed
            If too few are ready, or no try is left.
        """
        asked = Round(request.operation, request.write(), tuple(to), timeout=timeout, later=later)
        return self._added(asked, request)

    def _added(self, asked: Round, request: SumOperation) -> Summed:
        """Do what :meth:`sum` says."""
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
        question = Ready(summed=request)
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


def _told(bad: Mapping[str, str]) -> str:
    codes = [f"{name}: {code}" for name, code in bad.items()]
    more = f", and {len(codes) - 5} more" if len(codes) > 5 else ""
    return ", ".join(codes[:5]) + more


class LocalFederation(Federation):
    """Parties in this process.

    Parameters
    ----------
    parties : sequence of LocalParty
        Separate parties with books of their own.
    run : str, optional
        Name of the run.
    study : str, optional
        Hash of the study, or fingerprint of the schema, that questions are about.
    n_jobs : int, optional
        Parties asked at the same time, as joblib understands it; scikit-learn's and joblib's
        ``parallel_config`` choose the backend.
    on_error : {"report", "raise"}, default="report"
        ``"raise"`` lets a party's exception through instead of its code: for callers who own the
        data themselves.
    """

    def __init__(
        self,
        parties: Sequence[LocalParty],
        *,
        run: str | None = None,
        study: str | None = None,
        n_jobs: int | None = None,
        on_error: Literal["report", "raise"] = "report",
    ) -> None:
        super().__init__(run)
        if on_error not in ("report", "raise"):
            raise InvalidParameter("on_error must be 'report' or 'raise'.")
        self._parties = {party.name: party for party in parties}
        check_names([party.name for party in parties])
        self._study = study
        self._n_jobs = n_jobs
        self._raises = on_error == "raise"

    def parties(self) -> list[str]:
        """Return the parties' names."""
        return list(self._parties)

    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask parties one after the other, ``n_jobs`` at a time."""
        names = list(asked.to)
        if asked.operation == Ready.operation:
            self._introduce()
        unknown = [name for name in names if name not in self._parties]
        if unknown:
            raise InvalidParameter(f"to: there is no party {unknown[0]!r}.")
        served = Parallel(n_jobs=self._n_jobs, prefer="threads")(
            delayed(self._served)(self._parties[name].encoded_by(self._encoder), asked)
            for name in names
        )
        return dict(zip(names, served, strict=True))

    def _added(self, asked: Round, request: SumOperation) -> Summed:
        """Add up; or, where a run goes on, add up again what everyone has sent already.

        A try is used once. One that everybody answered before the process ended is whole, and its
        uploads are on disk; one that was cut short is lost.
        """
        operation, to, mechanism = asked.operation, asked.to, request.mechanism
        while self._parties and (step := self._tries.get(operation, 0)) < mechanism.releases:
            if not self._books(to[0]).asked(Key(self.run, operation, step)):
                break
            self._tries[operation] = step + 1
            kept = {name: self._books(name).kept(self.run).get((operation, step)) for name in to}
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
