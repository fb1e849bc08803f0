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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, OperationRefused
from confrere.federation.masks import Announcement, Masking, Masks, SumContext, add_masked
from confrere.federation.messages import Expected, Numbers, Payload, Question, receipt_of
from confrere.federation.operation import Operation, PartyFacts, install, installed
from confrere.federation.party import LocalParty, PartyGroup
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.mechanisms.secure_sum import SecureSum

#: The question that comes before every sum.
READY = "ready"

#: The values that turn a request into the question whether one is ready for it, or into its sum.
_OF, _ROSTER = "sum", "roster"


class SpoiledSum(InvalidMessage):
    """A sum that honest parties cannot have made; masks hide whose part it was."""


@dataclass(frozen=True, eq=False)
class Summed:
    """A sum, as everybody may know it.

    Parameters
    ----------
    value : array
        The noised sum.
    roster : tuple of str
        Whose vectors are in it.
    receipts : mapping of str to tuple of Receipt
        What they paid, for all sums of the run.
    """

    value: Floats
    roster: tuple[str, ...]
    receipts: Mapping[str, tuple[Receipt, ...]]


def install_sum(
    name: str,
    mechanism: Callable[[Payload, PartyFacts], SecureSum],
    vector: Callable[[Payload, LocalParty], Floats],
    *,
    many_classes: bool = False,
) -> Operation:
    """Install an operation whose answers are added up.

    Parameters
    ----------
    name : str
    mechanism : callable
        ``(request, facts) -> SecureSum``: reads the whole request and refuses what does not fit.
    vector : callable
        ``(request, party) -> array``: what the party adds, before its share of the noise.
    many_classes : bool, default=False
        Whether it understands labels of more than two classes.
    """

    def run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
        asked = without_roster(request)
        upload = mechanism(asked, party.facts).upload(vector(asked, party), source=source)
        return Payload(arrays={"masked": upload.view(np.int64)})

    return install(
        Operation(
            name,
            price=lambda request, facts: mechanism(without_roster(request), facts).guarantee(),
            run=run,
            chosen=(_ROSTER,),
            sum_of=lambda request, facts: mechanism(without_roster(request), facts),
            many_classes=many_classes,
        )
    )


def _price_ready(request: Payload, facts: PartyFacts) -> None:
    """Read the request that one is to be ready for; nothing leaves but a key."""
    operation, asked = asked_of(READY, request)
    installed(operation).mechanism(asked, facts)


def _no_run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
    raise OperationRefused("a key is made by the party's own masking.", "unknown")


READY_OPERATION = install(Operation(READY, _price_ready, _no_run, noised=False, many_classes=True))


def ready_question(operation: str, request: Payload) -> Payload:
    """Return the question whether a party is ready for a sum."""
    return Payload({**request.values, _OF: operation}, request.arrays)


def share_question(request: Payload, roster: Sequence[Announcement]) -> Payload:
    """Return the question for a party's part in a sum of these."""
    told = {one.party: one.plain for one in roster}
    return Payload({**request.values, _ROSTER: told}, request.arrays)


def without_roster(request: Payload) -> Payload:
    """Return what is asked for, whoever takes part."""
    values = {name: value for name, value in request.values.items() if name != _ROSTER}
    return Payload(values, request.arrays)


def asked_of(operation: str, question: Payload) -> tuple[str, Payload]:
    """Return the operation and the request that a question of a try is about."""
    if operation != READY:
        return operation, without_roster(question)
    values = dict(question.values)
    summed = values.pop(_OF, None)
    if not isinstance(summed, str):
        raise InvalidMessage("a party is ready for a sum that is named.")
    return summed, Payload(values, question.arrays)


def roster_of(question: Payload) -> list[Announcement]:
    """Read the roster of a question."""
    told = question.values.get(_ROSTER)
    if not isinstance(told, dict):
        raise OperationRefused("a sum has a roster of signed keys.", "roster")
    return [Announcement.read(name, one) for name, one in told.items()]


def context_of(operation: str, request: Payload, question: Question) -> SumContext:
    """Return the name of a try: of the sum that a question is about."""
    return SumContext(
        study=hashlib.sha256((question.study or "").encode()).hexdigest(),
        run=question.run,
        step=0,
        attempt=question.step,
        question=hashlib.sha256(f"{operation} {request.digest}".encode()).hexdigest(),
    )


def check_try(mechanism: SecureSum, step: int) -> None:
    """Refuse a try that the price does not cover."""
    if step >= mechanism.releases:
        raise OperationRefused(
            f"the price is for {mechanism.releases} sums in this run; ask in a new run.", "step"
        )


def announce(question: Question, local: LocalParty | PartyGroup) -> Payload:
    """Return a party's key for a try."""
    operation, request = asked_of(READY, question.payload)
    one = _masking(local).ready(operation, context_of(operation, request, question))
    told = np.frombuffer(one.key + one.signature, dtype=np.uint8)
    return Payload(arrays={"announcement": told})


def agreed_masks(operation: Operation, question: Question, local: LocalParty | PartyGroup) -> Masks:
    """Check a roster against the identities that the party knows, and agree with everyone on it."""
    masking = _masking(local)
    assert isinstance(local, LocalParty)
    mechanism = operation.mechanism(question.payload, local.facts)
    roster = roster_of(question.payload)
    if len(roster) > mechanism.n_parties:
        raise OperationRefused("the roster is longer than the noise was made for.", "roster")
    context = context_of(operation.name, without_roster(question.payload), question)
    return masking.agree(operation.name, context, roster, fewest=mechanism.roster)


def hidden(answer: Payload, masks: Masks) -> Payload:
    """Return an upload under its masks."""
    words = answer.arrays["masked"].view(np.uint64)
    return Payload(arrays={"masked": masks.hide(words).view(np.int64)})


def expected_key() -> Expected:
    """Return what the answer to whether one is ready must be."""
    return Expected({"announcement": Numbers((96,), "|u1")})


def read_key(party: str, answer: Payload) -> Announcement:
    """Return the announcement in an answer that was found as it must be."""
    told = answer.arrays["announcement"].tobytes()
    return Announcement(party, told[:32], told[32:])


def expected_share(mechanism: SecureSum) -> Expected:
    """Return what a party's part in a sum must be: masked words, and the price of the run."""
    return Expected({"masked": Numbers((mechanism.size,), "<i8")}, mechanism.guarantee())


def added(mechanism: SecureSum, answers: Mapping[str, Payload]) -> Summed:
    """Add up; refuse a sum that honest parties cannot have made.

    One who lies can move the sum by as much as everybody together could, and no further.

    Raises
    ------
    SpoiledSum
        If it is longer.
    """
    uploads = [answer.arrays["masked"].view(np.uint64) for answer in answers.values()]
    value = mechanism.decode(add_masked(uploads))
    bound = 1.01 * (len(uploads) * mechanism.largest + mechanism.longest_noise)
    if not float(np.abs(value).max()) <= bound:
        raise SpoiledSum(
            "the sum is longer than honest parties can make it: somebody sent something else. "
            "Nothing of it is used."
        )
    paid = {name: receipt_of(answer) for name, answer in answers.items()}
    receipts = {name: () if one is None else (one,) for name, one in paid.items()}
    return Summed(value, tuple(answers), receipts)


def rehearsed(mechanism: SecureSum, names: Sequence[str], rng: np.random.Generator) -> Summed:
    """Return a made-up sum, for rehearsals."""
    value = rng.uniform(0.5, 1.0, size=mechanism.size) * mechanism.largest / mechanism.size
    return Summed(value, tuple(names), {})


def _masking(local: LocalParty | PartyGroup) -> Masking:
    if isinstance(local, PartyGroup) or local.masking is None:
        raise OperationRefused("this party has no identity to sign a key with.", "identity")
    return local.masking
