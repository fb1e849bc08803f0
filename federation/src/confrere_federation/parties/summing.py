"""Sums that nobody sees into: what a party does, and the question whether it is ready.

A run asks for sums one after the other, in numbered tries. In a try everyone is first asked whether
it is ready, which touches no data and gives a key that is good for this try alone; then those who
are on the roster send their vectors with a share of the noise, under masks that only the sum of all
undoes. A try is used once: another roster is another try, with fresh keys and fresh noise, and
there are as many tries as the price was calculated for.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, OperationRefused
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.mechanisms.secure_sum import SecureSum
from confrere_federation.parties.masks import Announcement, Masking, Masks, SumContext, add_masked
from confrere_federation.parties.messages import Expected, Numbers, Payload, Question, receipts_of
from confrere_federation.parties.operation import (
    ROSTER,
    Operation,
    PartyFacts,
    SumOperation,
    install,
    installed,
)
from confrere_federation.parties.party import LocalParty

#: The value that turns a request into the question whether one is ready for it.
OF = "sum"


class SpoiledSum(InvalidMessage):
    """A sum that honest parties cannot have made; masks hide whose part it was."""


@dataclass(frozen=True, eq=False)
class Summed:
    """A sum, as everybody may know it."""

    value: Floats  #: The noised sum
    roster: tuple[str, ...]  #: Whose vectors are in it
    receipts: Mapping[str, tuple[Receipt, ...]]  #: What they paid, for all sums of the run


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Ready(Operation):
    """Whether a party is ready for a sum; nothing leaves but a key, of its own masking's making."""

    operation: ClassVar[str] = "ready"
    noised: ClassVar[bool] = False
    summed: SumOperation

    @classmethod
    @override
    def read(cls, payload: Payload, facts: PartyFacts) -> Self:
        operation, request = asked_of(cls.operation, payload)
        summed = installed(operation).read(request, facts)
        if not isinstance(summed, SumOperation):
            raise InvalidMessage(f"{operation}: its answers are not for a sum.")
        return cls(summed=summed, n_classes=facts.n_classes)

    @override
    def write(self) -> Payload:
        request = self.summed.write()
        return Payload({**request.values, OF: self.summed.operation}, request.arrays)

    @override
    def expected(self, n_samples: int) -> Expected:
        return Expected({"announcement": Numbers((96,), "|u1")})

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> NoReturn:
        raise OperationRefused("a key is made by the party's own masking.", "unknown")


def share_question(request: Payload, roster: Sequence[Announcement]) -> Payload:
    """Return the question for a party's part in a sum of these."""
    told = {one.party: one.plain for one in roster}
    return Payload({**request.values, ROSTER: told}, request.arrays)


def without_roster(request: Payload) -> Payload:
    """Return what is asked for, whoever takes part."""
    values = {name: value for name, value in request.values.items() if name != ROSTER}
    return Payload(values, request.arrays)


def asked_of(operation: str, question: Payload) -> tuple[str, Payload]:
    """Return the operation and the request that a question of a try is about."""
    if operation != Ready.operation:
        return operation, without_roster(question)
    values = dict(question.values)
    summed = values.pop(OF, None)
    if not isinstance(summed, str):
        raise InvalidMessage("a party is ready for a sum that is named.")
    return summed, Payload(values, question.arrays)


def roster_of(question: Payload) -> list[Announcement]:
    """Read the roster of a question."""
    told = question.values.get(ROSTER)
    if not isinstance(told, dict):
        raise OperationRefused("a sum has a roster of signed keys.", "roster")
    return [Announcement.read(name, one) for name, one in told.items()]


def context_of(asked: SumOperation, question: Question) -> SumContext:
    """Return the name of a try: of the sum that a question is about."""
    return SumContext(
        study=hashlib.sha256((question.study or "").encode()).hexdigest(),
        run=question.run,
        step=0,
        attempt=question.step,
        question=hashlib.sha256(f"{asked.operation} {asked.write().digest}".encode()).hexdigest(),
    )


def announce(asked: SumOperation, question: Question, local: LocalParty) -> Payload:
    """Return a party's key for a try."""
    one = _masking(local).ready(asked.operation, context_of(asked, question))
    told = np.frombuffer(one.key + one.signature, dtype=np.uint8)
    return Payload(arrays={"announcement": told})


def agreed_masks(asked: SumOperation, question: Question, local: LocalParty) -> Masks:
    """Check a roster against the identities that the party knows, and agree with everyone on it."""
    masking, mechanism = _masking(local), asked.mechanism
    roster = roster_of(question.payload)
    if len(roster) > mechanism.n_parties:
        raise OperationRefused("the roster is longer than the noise was made for.", "roster")
    context = context_of(asked, question)
    return masking.agree(asked.operation, context, roster, fewest=mechanism.roster)


def hidden(answer: Payload, masks: Masks) -> Payload:
    """Return an upload under its masks."""
    words = answer.arrays["masked"].view(np.uint64)
    return Payload(arrays={"masked": masks.hide(words).view(np.int64)})


def read_key(party: str, answer: Payload) -> Announcement:
    """Return the announcement in an answer that was found as it must be."""
    told = answer.arrays["announcement"].tobytes()
    return Announcement(party, told[:32], told[32:])


def added(mechanism: SecureSum, answers: Mapping[str, Payload]) -> Summed:
    """Add up; refuse a sum that honest parties cannot have made.

    One who lies can move the sum by as much as everybody together could, and no further.

    Raises SpoiledSum if it is longer.
    """
    uploads = [answer.arrays["masked"].view(np.uint64) for answer in answers.values()]
    value = mechanism.decode(add_masked(uploads))
    bound = 1.01 * (len(uploads) * mechanism.largest + mechanism.longest_noise)
    if not float(np.abs(value).max()) <= bound:
        raise SpoiledSum(
            "the sum is longer than honest parties can make it: somebody sent something else. "
            "Nothing of it is used."
        )
    receipts = {name: receipts_of(answer) for name, answer in answers.items()}
    return Summed(value, tuple(answers), receipts)


def rehearsed(mechanism: SecureSum, names: Sequence[str], rng: np.random.Generator) -> Summed:
    """Return a made-up sum, for rehearsals."""
    value = rng.uniform(0.5, 1.0, size=mechanism.size) * mechanism.largest / mechanism.size
    return Summed(value, tuple(names), {})


def _masking(local: LocalParty) -> Masking:
    if local.masking is None:
        raise OperationRefused("this party has no identity to sign a key with.", "identity")
    return local.masking
