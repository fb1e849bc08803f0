"""The party's side of every question: check, claim, charge, act, keep, mark; then answer.

Whatever the engine, this is the only way from a question to a number about data. A question is
paid for once and answered with the same bytes for ever; killed at any moment, a party asked again
either sends what it had kept or, if nothing had left, finishes what it had paid for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from confrere.errors import (
    CompositionError,
    FederationError,
    LedgerError,
    OperationRefused,
    Unpaid,
)
from confrere.kernel.guarantee import Guarantee, Neighbours, PrivacyEvent, Unit
from confrere.kernel.ledger import Origin
from confrere.kernel.release import NoiseKey, Ticket, free_ticket, paying
from confrere.ledger import Receipt
from confrere.methods.sums import check_try
from confrere_federation.parties.answers import Key
from confrere_federation.parties.messages import (
    PROTOCOL,
    PartyError,
    Payload,
    Question,
    check_run,
    receipt_of,
)
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.requests import (
    Operation,
    Ready,
    SumOperation,
    agreed_masks,
    announce,
    hidden,
    installed,
    roster_of,
)

_MAX_STEP = 1_000_000

logger = logging.getLogger("confrere_federation.parties")


def serve(
    operation: str,
    payload: Payload,
    local: LocalParty,
    *,
    run: str,
    step: int = 0,
    protocol: int = PROTOCOL,
    study: str | None = None,
) -> Payload:
    """Answer one question, or refuse it.

    Parameters
    ----------
    operation : str
        What is asked for.
    payload : Payload
        The request.
    local : LocalParty
        Who is asked.
    run : str
        Name of the run.
    step : int, default=0
        Which time in the run.
    protocol : int, optional
        The asker's version.
    study : str, optional
        Hash of the study that the asker means, or fingerprint of the schema.

    Returns
    -------
    Payload
        The released arrays; ``values`` hold the ledger's receipt (None if only public facts
        leave), its head, and which question of whose is answered: what a party signs.

    Raises
    ------
    OperationRefused
        If the policy says no. Nothing was spent.
    InvalidMessage
        If the request is wrong. Nothing was spent.
    BudgetExceeded
        If the account does not cover the price. Nothing was spent.
    """
    return answer(Question(run, study, operation, payload, step, protocol), local)


def answer(question: Question, local: LocalParty) -> Payload:
    """Answer one question, or refuse it; see :func:`serve`."""
    policy, answers = local.books.policy, local.books.answers
    if question.protocol != PROTOCOL:
        raise OperationRefused(f"this party speaks protocol {PROTOCOL}.", "protocol")
    if question.study != policy.study:
        raise OperationRefused("the question is about another study or schema.", "study")
    if question.study is not None:  # a no holds for what is free, and for what was paid, too
        local.books.ledger.check_agreed(question.study, policy.approval)
    _check_step(question.step)
    check_run(question.run)
    policy.check(question.operation, question.step, question.payload, question.run)
    asked = installed(question.operation).read(question.payload, local.facts)
    if isinstance(asked, Ready):
        return _ready(question, asked, local)
    price = local.price(asked)
    policy.check_price(price)
    key = Key(question.run, asked.slot or question.operation, question.step)
    summed = asked if isinstance(asked, SumOperation) else None
    claim = answers.claim(
        key,
        question=question.digest,
        epsilon=0.0 if price is None else price.epsilon,
        cap=policy.epsilon_per_run,
        once=summed is not None,
    )
    if claim.failure is not None:
        raise FederationError(
            f"{question.operation} failed before ({claim.failure}); it is not repeated."
        )
    if claim.answer is not None:
        return _sent(claim.answer, local, key, asked, again=True)
    local = asked.encoded(local)  # what cannot be read fails here, and is not charged
    with ExitStack() as stack:
        try:
            masks, terms = None, None
            if summed is not None:
                masks = agreed_masks(summed, question, local)
                terms = _terms(summed, local, question.step)
            local, noise = _settled(question, asked, key, price, local)
            ticket = stack.enter_context(_paying(local, key, price, question, terms, noise))
            receipt = None if price is None else ticket.receipt
            if summed is not None and receipt is not None:
                _recognise(receipt, local, key)
        except Unpaid:
            # Another thread or process of this party has just answered: its bytes are the answer.
            kept = answers.answer_to(key)
            if kept is None:
                raise
            return _sent(kept, local, key, asked, again=True)
        except (LedgerError, CompositionError, OperationRefused):
            answers.withdraw(key)  # nothing was paid for this answer
            raise
        try:
            made = local.release(asked, ticket)
            if masks is not None:
                made = hidden(made, masks)  # what is kept and sent; the rest is forgotten
            kept = answers.keep(key, _signable(made, receipt, local, question).encode())
        except Exception as error:
            code = PartyError.of(error).code
            earlier = answers.fail(key, code)
            if earlier is None:
                logger.warning("%s: %s step %d of run %s failed (%s)", local.name, *key.named, code)
                raise
            kept = earlier  # another process of this party had answered meanwhile
        return _sent(kept, local, key, asked, again=False)


def _ready(question: Question, asked: Ready, local: LocalParty) -> Payload:
    """Say that one is ready for a sum: a key that is good for it alone, and not kept on disk."""
    _terms(asked.summed, local, question.step)
    if local.books.answers.asked(Key(question.run, asked.summed.operation, question.step)):
        raise OperationRefused("this try of the run is over; take the next one.", "repeated")
    return _signable(announce(asked.summed, question, local), None, local, question)


def _terms(asked: SumOperation, local: LocalParty, step: int) -> PrivacyEvent:
    """Return what a sum's mechanism does, of which a run has one, if there is a try left."""
    check_try(asked.mechanism, step)
    local.books.policy.check_price(asked.mechanism.guarantee())
    return asked.mechanism.event()


def _check_step(step: object) -> None:
    if type(step) is not int or not 0 <= step <= _MAX_STEP:
        raise OperationRefused(f"step must be an int from 0 to {_MAX_STEP}.", "step")


@contextmanager
def _paying(
    local: LocalParty,
    key: Key,
    price: Guarantee | None,
    question: Question,
    sums: PrivacyEvent | None,
    noise: NoiseKey | None,
) -> Iterator[Ticket]:
    """Pay for an answer, once per key; nothing is due for public facts.

    Sums are paid for once per run: by the first of them, for all. ``sums`` names their mechanism,
    so that another one is another charge, which the key refuses.
    """
    books, study = local.books, question.study
    simulation = local.simulation(question.operation, question.step)
    if price is None:
        yield free_ticket(simulation)
        return
    step = key.step if sums is None else None
    with paying(
        books.ledger,
        books.account,
        price,
        key=_charge_key(local, key, summed=sums is not None),
        purpose=f"answer {key.operation} in a federation",
        event=sums,
        origin=Origin(run=key.run, party=local.name, step=step, trust=books.policy.trust),
        simulation=simulation,
        study=None if study is None else (books.policy.study_id, study),
        approval=books.policy.approval,
        limit=books.limit,
        resumes=True,
        keyed=noise,
    ) as ticket:
        yield ticket


def _charge_key(local: LocalParty, key: Key, *, summed: bool) -> str:
    told = [local.name, *map(str, key[:2] if summed else key)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _settled(
    question: Question, asked: Operation, key: Key, price: Guarantee | None, local: LocalParty
) -> tuple[LocalParty, NoiseKey | None]:
    """Return the party with the rows that are paid for, and what noise on an answer follows from.

    All that enters a value or its law is in it: equal noise on two values is their difference.
    The request holds the statistic, norm, loss, ridge, centre, epsilon, delta, relation, declared
    sizes and tries; the study's hash stands for schema, outcome, columns and units. In a sum a
    party's part is drawn for one try of one run among one roster: of two rosters the difference
    would be its part under one share. Masks are not drawn from it, and stay fresh.
    """
    snapshots, summed = local.books.snapshots, isinstance(asked, SumOperation)
    if snapshots is None or price is None or local.simulated:
        return local, None
    paid = local.books.ledger.paid(_charge_key(local, key, summed=summed))
    settled, rows = snapshots.settled(local, question.study, paid=paid)
    policy = local.books.policy
    told_sizes = (policy.unit, policy.neighbours) == (Unit.RECORD, Neighbours.REPLACE_ONE)
    if told_sizes and len(settled.y) != len(local.y):
        raise OperationRefused(
            f"snapshot {snapshots.name!r} has another number of rows than the table has now; name "
            "a new one.",
            "snapshot",
        )
    told = [local.name, snapshots.name, question.study or "", asked.operation]
    about = [part.encode() for part in told] + [rows, str(local.n_classes).encode()]
    request = asked.write().encode()
    if not isinstance(asked, SumOperation):
        return settled, NoiseKey(snapshots.secret, [b"own noise", *about, request])
    masking, made = local.masking, asked.mechanism
    assert masking is not None  # it has agreed on masks with all of the roster
    own = masking.identity.public_key().public_bytes_raw()
    others = (masking.identities[one.party] for one in roster_of(question.payload))
    numbers = f"try {question.step} shares {made.parts} fewest {made.roster}".encode()
    drawn = [request, numbers, own, *sorted(one.public_bytes_raw() for one in others)]
    return settled, NoiseKey(snapshots.secret, [b"sum", question.run.encode(), *about], drawn)


def _recognise(receipt: Receipt, local: LocalParty, key: Key) -> None:
    """Refuse another sum of a run whose earlier ones the answer file does not know any more.

    One charge pays for so many sums, and only that file tells which tries were used: put back from
    a copy, it would let noise be drawn again for nothing. The ledger names what has left.
    """
    kept = local.books.answers.kept(key.run)
    known = {Payload.decode(one).digest for (slot, _), one in kept.items() if slot == key.operation}
    # What failed after its draw has left nothing: "draw 2" is a note of the kernel's.
    noted = local.books.ledger.entry(receipt).models
    if not known.issuperset(one for one in noted if not one.startswith("draw ")):
        raise OperationRefused(
            "the ledger knows sums of this run that the answer file does not: was it restored from "
            "a copy? Bring back the newest one, or agree to a new run.",
            "repeated",
        )


def _signable(
    made: Payload, receipt: Receipt | None, local: LocalParty, question: Question
) -> Payload:
    """Put with the arrays what a signature is to cover: receipt, ledger's head, and the question.

    The head is the one of the moment: that of the charge, where there is one.
    """
    head = local.books.ledger.head() if receipt is None else receipt.hash
    paid = None if receipt is None else receipt.to_dict()
    about = question.about(local.name)
    return Payload({"receipt": paid, "head": head, "about": about}, made.arrays)


def _sent(content: bytes, local: LocalParty, key: Key, asked: Operation, *, again: bool) -> Payload:
    answer = Payload.decode(content)
    receipt = receipt_of(answer)
    if receipt is not None:
        # Marking twice is harmless, and a kill may have come between keeping and marking. One
        # charge for several sums has no one digest.
        summed = isinstance(asked, SumOperation)
        local.books.ledger.mark_released(receipt, digest=None if summed else answer.digest)
        if summed:
            local.books.ledger.note_model(receipt, digest=answer.digest)
    logger.info(
        "%s: %s step %d of run %s %s, %s, digest %s",
        local.name,
        *key.named,
        "sent again" if again else "leaves",
        "nothing charged" if receipt is None else f"ledger row {receipt.row}",
        answer.digest[:16],
    )
    return answer
