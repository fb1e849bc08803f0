"""The boundary: a coordinator asks parties, and gets payloads or codes.

With it the in-process engine, for parties that live here, from three to twenty thousand.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joblib import Parallel, delayed
from numpy.typing import NDArray

from confrere.errors import InvalidMessage, InvalidParameter, QuorumMissed
from confrere.federation.answers import Answers, Key
from confrere.federation.masks import Announcement, Masking
from confrere.federation.messages import Expect, PartyError, Payload, check_run, new_run
from confrere.federation.operation import Operation, SumOperation
from confrere.federation.party import LocalParty, PartyGroup, check_names
from confrere.federation.serving import serve
from confrere.federation.summing import (
    Ready,
    SpoiledSum,
    Summed,
    added,
    read_key,
    share_question,
)
from confrere.schema import PublicSchema


@dataclass(eq=False)
class LostTries:
    """What the tries of a run have told about its parties.

    Attributes
    ----------
    silent : dict of str to str
        Who was on a roster and sent nothing of use, and the code for it.
    named : set of str
        Without whom a sum was good that was spoiled with them.
    """

    silent: dict[str, str] = field(default_factory=dict)
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

    def roster(self, parties: Sequence[str], *, fewest: int, tries: int) -> list[str]:
        """Return whom to ask next.

        Parameters
        ----------
        parties : sequence of str
            Who may take part.
        fewest : int
            The shortest roster.
        tries : int
            How many are left for this sum: as many are left out at a time as it takes to come
            through all suspects, and no more.
        """
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


logger = logging.getLogger("confrere.federation")

#: Why a party is left out without whom a sum is good that was spoiled with it.
SPOILED = "InvalidReply:sum"


@dataclass(frozen=True, eq=False)
class Round:
    """One question to several parties, and what their answers must be; see :meth:`gather`.

    Attributes
    ----------
    operation, payload, step, timeout, quorum
        What is asked, and how.
    to : tuple of str
        Who is asked.
    expect : callable or None
        From a party's name to what its answer must be.
    whole : callable or None
        Is given all answers together before they are kept, and raises if they are not to be.
    later : int
        Of a sum: how many more of the run need a try of their own.
    """

    operation: str
    payload: Payload
    to: tuple[str, ...]
    step: int = 0
    timeout: float | None = None
    quorum: float = 1.0
    expect: Expect | None = None
    whole: Callable[[Mapping[str, Payload]], object] | None = None
    later: int = 0


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

    @abstractmethod
    def parties(self) -> list[str]:
        """Return the names of the parties that can be asked now."""

    def ask(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
    ) -> Mapping[str, Payload | PartyError]:
        """Ask parties to run an operation.

        Parameters
        ----------
        operation : str
            Name of an operation that the parties have installed and allow.
        payload : Payload
            The same request for every party.
        to : sequence of str, optional
            Whom to ask; everyone by default.
        step : int, default=0
            Which time it is in this run that the operation is asked for.
        timeout : float, optional
            Seconds to wait; a party that did not answer by then has code ``"Timeout"``.

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

    def use_schema(self, schema: PublicSchema) -> None:  # noqa: B027  nobody need live here
        """Have parties that live here encode their rows by facts that the run has learned."""

    def gather(
        self,
        request: Operation,
        to: Mapping[str, int],
        *,
        step: int = 0,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> Mapping[str, Payload]:
        """Ask, drop errors and answers that are not as they must be, and insist on enough.

        What an answer must be follows from the request and the party's size. One that is not has
        the code ``"InvalidReply:"`` and a word: nobody uses it, and it is not kept.

        Parameters
        ----------
        request : Operation
            The same for every party.
        to : mapping of str to int
            Whom to ask, with their public numbers of records.
        step, timeout
            As for :meth:`ask`.
        quorum : float, default=1.0
            Share of the parties asked that must answer.

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
        if isinstance(answers, StackedAnswers):
            return answers  # a group answers as a whole, in this process
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
        request: SumOperation,
        to: Sequence[str],
        *,
        timeout: float | None = None,
        later: int = 0,
    ) -> Summed:
        """Add up what parties have, each under masks that only the sum of all undoes.

        Whoever is not ready is left out, down to the shortest roster that the noise was made for.
        If somebody who was ready sends nothing, or what no honest sum can hold, the try is lost,
        and paid for. The next one has fresh keys, fresh noise and a roster without those who sent
        nothing; who spoiled a sum is found by leaving parties out in turn (:class:`LostTries`). It
        goes on as long as the price covers another try, and each sum that follows.

        Parameters
        ----------
        request : SumOperation
            The same for every party.
        to : sequence of str
            Whom to ask.
        timeout : float, optional
            Seconds to wait, for keys and again for the sum.
        later : int, default=0
            How many sums of the same operation follow in this run.

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
    fault = expect(name).fault(answer)
    return answer if fault is None else PartyError(f"InvalidReply:{fault}")


def _told(bad: Mapping[str, str]) -> str:
    codes = [f"{name}: {code}" for name, code in bad.items()]
    more = f", and {len(codes) - 5} more" if len(codes) > 5 else ""
    return ", ".join(codes[:5]) + more


@final
class StackedAnswers(Mapping[str, Payload]):
    """What twenty thousand parties answered, without twenty thousand objects.

    Parameters
    ----------
    names : sequence of str
        The parties.
    whole : Payload
        Every array has one row per party; the values are everyone's.
    """

    def __init__(self, names: Sequence[str], whole: Payload) -> None:
        if any(a.ndim == 0 or len(a) != len(names) for a in whole.arrays.values()):
            raise InvalidMessage("every array must have one row per party.")
        self._rows = {name: row for row, name in enumerate(names)}
        self.whole = whole

    def __getitem__(self, name: str) -> Payload:
        row = self._rows[name]
        return Payload(
            self.whole.values, {key: array[row] for key, array in self.whole.arrays.items()}
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def stacked(
    answers: Mapping[str, Payload], name: str, shape: tuple[int, ...], dtype: str = "<f8"
) -> NDArray[Any]:
    """Return everyone's array of that name, one row per party, in order.

    Raises
    ------
    InvalidMessage
        If a party's answer has no such array, or one of another shape or type.
    """
    if isinstance(answers, StackedAnswers):
        whole = answers.whole.arrays.get(name)
        rows = [] if whole is None else [whole[0]]
    else:
        whole = None
        rows = [a.arrays[name] for a in answers.values() if name in a.arrays]
        if len(rows) < len(answers):
            rows = []
    if not rows or any(row.shape != shape or row.dtype.str != dtype for row in rows):
        raise InvalidMessage(f"a party's answer has no {name} of the agreed shape.")
    return np.stack(rows) if whole is None else whole


class LocalFederation(Federation):
    """Parties in this process.

    Parameters
    ----------
    parties : sequence of LocalParty, or PartyGroup
        Separate parties with books of their own, or a group that is simulated at once.
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
        parties: Sequence[LocalParty] | PartyGroup,
        *,
        run: str | None = None,
        study: str | None = None,
        n_jobs: int | None = None,
        on_error: Literal["report", "raise"] = "report",
    ) -> None:
        super().__init__(run)
        if on_error not in ("report", "raise"):
            raise InvalidParameter("on_error must be 'report' or 'raise'.")
        self._group = parties if isinstance(parties, PartyGroup) else None
        self._parties = {} if isinstance(parties, PartyGroup) else {p.name: p for p in parties}
        if not isinstance(parties, PartyGroup):
            check_names([party.name for party in parties])
        self._study = study
        self._n_jobs = n_jobs
        self._raises = on_error == "raise"

    def parties(self) -> list[str]:
        """Return the parties' names."""
        return list(self._group.names if self._group is not None else self._parties)

    def _asked(self, asked: Round) -> Mapping[str, Payload | PartyError]:
        """Ask parties one after the other, ``n_jobs`` at a time, or all at once as a group."""
        names = list(asked.to)
        if asked.operation == Ready.operation:
            self._introduce()
        if self._group is not None:
            return self._ask_group(self._group, names, asked)
        unknown = [name for name in names if name not in self._parties]
        if unknown:
            raise InvalidParameter(f"to: there is no party {unknown[0]!r}.")
        served = Parallel(n_jobs=self._n_jobs, prefer="threads")(
            delayed(self._served)(self._parties[name], asked) for name in names
        )
        return dict(zip(names, served, strict=True))

    def use_schema(self, schema: PublicSchema) -> None:
        """Have everyone encode its rows anew."""
        self._parties = {name: one.encoded_by(schema) for name, one in self._parties.items()}

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

    def _ask_group(
        self, group: PartyGroup, names: list[str], asked: Round
    ) -> Mapping[str, Payload | PartyError]:
        if tuple(names) != group.names:
            raise InvalidParameter("to: a group is asked as a whole.")
        answer = self._served(group, asked)
        if isinstance(answer, PartyError):
            return dict.fromkeys(names, answer)
        return StackedAnswers(names, answer)

    def _served(self, local: LocalParty | PartyGroup, asked: Round) -> Payload | PartyError:
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
