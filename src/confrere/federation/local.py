"""The in-process engine: parties that live here, from three to twenty thousand."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joblib import Parallel, delayed

from confrere.errors import InvalidParameter
from confrere.federation.answers import Answers, Key
from confrere.federation.federation import Federation, Round, StackedAnswers
from confrere.federation.masks import Masking
from confrere.federation.messages import PartyError
from confrere.federation.party import LocalParty, PartyGroup, check_names
from confrere.federation.payload import Payload
from confrere.federation.serving import serve
from confrere.federation.summing import READY, Summed, added
from confrere.mechanisms.secure_sum import SecureSum
from confrere.schema import PublicSchema

logger = logging.getLogger("confrere.federation")


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
        if asked.operation == READY:
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

    def _added(self, asked: Round, mechanism: SecureSum) -> Summed:
        """Add up; or, where a run goes on, add up again what everyone has sent already.

        A try is used once. One that everybody answered before the process ended is whole, and its
        uploads are on disk; one that was cut short is lost.
        """
        operation, to = asked.operation, asked.to
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
        return super()._added(asked, mechanism)

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
