"""The coordinator's side of a run between machines: signed questions, answers checked and kept.

An answer is used and kept once its signature, its place in the run, its receipt and its numbers are
right; otherwise the party is left out, and named. What carries the messages is a
:class:`~confrere.federation.carrier.Carrier`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from confrere.errors import FederationError, InvalidMessage, InvalidParameter, SignatureError
from confrere.federation.carrier import Carrier
from confrere.federation.expected import receipt_of
from confrere.federation.federation import Federation, Round
from confrere.federation.journal import Journal
from confrere.federation.messages import PartyError, Question, SignedAnswer, refused
from confrere.federation.operation import installed
from confrere.federation.payload import Payload
from confrere.federation.run_steps import RunSteps
from confrere.federation.summing import READY, asked_of
from confrere.release.card import presentable
from confrere.release.signing import PrivateKey, PublicKey, read_private_key
from confrere.release.signing import read_public_key as _public

#: The question with which a run ends: it hands the release to the parties.
FINISH = "finish"

#: How long is waited for parties to take one another's signatures.
_FAREWELL_SECONDS = 30.0

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
        for name, answer in answers.items():
            if isinstance(answer, PartyError):
                self._told.dropped(operation, step, name, answer.code)
            else:
                self._told.answered(operation, step, name, receipt_of(answer))
        return answers

    def _gathered(self, asked: Round) -> Mapping[str, Payload]:
        """Give back what was gathered before, or gather it, and keep what is valid."""
        operation, step, expect = asked.operation, asked.step, asked.expect
        if expect is None:
            raise FederationError(f"{operation}: nobody says what its answers must be.")
        digest = asked.payload.digest
        # One is ready for every sum of a run by itself.
        entry = f"{READY} {asked_of(READY, asked.payload)[0]}" if operation == READY else operation
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
        self, name: str, reply: bytes | PartyError | None, question: Question
    ) -> Payload | PartyError:
        """Return an answer that is the party's own, to this question, and continues its ledger."""
        self._replies.pop(name, None)
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
            if not presentable(receipt):
                return PartyError("InvalidReply:receipt")
            if receipt.simulated is not self._simulated:
                return PartyError("InvalidReply:simulated")
            if answer.head != receipt.hash or not self._journal.continues(name, receipt):
                logger.error("%s: its ledger does not continue what was seen of it before", name)
                return PartyError("InvalidReply:ledger")
        self._replies[name] = reply
        return answer.payload
