"""The party's side of every question: check, claim, charge, act, keep, mark; then answer.

Whatever the engine, this is the only way from a question to a number about data. A question is
paid for once and answered with the same bytes for ever; killed at any moment, a party asked again
either sends what it had kept or, if nothing had left, finishes what it had paid for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from confrere.errors import CompositionError, FederationError, LedgerError, OperationRefused
from confrere.federation.answers import Key
from confrere.federation.expected import receipt_of
from confrere.federation.federation import PartyError, check_run
from confrere.federation.operation import Operation, installed
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.federation.summing import (
    READY,
    agreed_masks,
    announce,
    asked_of,
    check_try,
    hidden,
    mechanism_digest,
)
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt, paying

#: Version of what is said; a question in another one is refused.
PROTOCOL = 2

_MAX_STEP = 1_000_000

logger = logging.getLogger("confrere.federation")


def serve(
    operation: str,
    payload: Payload,
    local: LocalParty | PartyGroup,
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
    local : LocalParty or PartyGroup
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
        leave), its head, and which question of whose is answered: what a party signs. For a
        group, arrays have one row per member.

    Raises
    ------
    OperationRefused
        If the policy says no. Nothing was spent.
    InvalidMessage
        If the request is wrong. Nothing was spent.
    BudgetExceeded
        If the account does not cover the price. Nothing was spent.
    """
    books = local.books
    if protocol != PROTOCOL:
        raise OperationRefused(f"this party speaks protocol {PROTOCOL}.", "protocol")
    policy = books.policy
    if study != policy.study:
        raise OperationRefused("the question is about another study or schema.", "study")
    policy.check(operation, _checked_step(step), payload, check_run(run))
    act = installed(operation)
    if operation == READY:
        return _ready(payload, local, run=run, study=study, step=step)
    key = Key(run, act.slot or operation, step)
    if isinstance(local, PartyGroup):
        price = act.priced_group(payload, local)
    else:
        price = act.priced(payload, local.facts)
    policy.check_price(price)
    question = question_digest(payload, study)
    claim = books.answers.claim(
        key,
        question=question,
        epsilon=0.0 if price is None else price.epsilon,
        cap=books.policy.epsilon_per_run,
        once=act.sum_of is not None,
    )
    if claim.failure is not None:
        raise FederationError(f"{operation} failed before ({claim.failure}); it is not repeated.")
    if claim.answer is not None:
        return _sent(claim.answer, local, key, act, again=True)
    with ExitStack() as stack:
        try:
            masks, terms = None, None
            if act.sum_of is not None:
                masks = agreed_masks(act, payload, local, run=run, study=study, step=step)
                terms = _terms(act, payload, local, step)
            receipt = stack.enter_context(_paying(local, key, price, study, terms))
        except (LedgerError, CompositionError, OperationRefused):
            books.answers.withdraw(key)  # nothing was paid for this answer
            raise
        try:
            answer = _act(act, payload, local, step)
            if masks is not None:
                answer = hidden(answer, masks)  # what is kept and sent; the rest is forgotten
            facts = about(local, run, study, operation, step, payload)
            kept = books.answers.keep(key, _signable(answer, receipt, local, facts).encode())
        except Exception as error:
            code = PartyError.of(error).code
            earlier = books.answers.fail(key, code)
            if earlier is None:
                logger.warning("%s: %s step %d of run %s failed (%s)", local.name, *key.named, code)
                raise
            kept = earlier  # another process of this party had answered meanwhile
        return _sent(kept, local, key, act, again=False)


def _ready(
    payload: Payload, local: LocalParty | PartyGroup, *, run: str, study: str | None, step: int
) -> Payload:
    """Say that one is ready for a sum: a key that is good for it alone, and not kept on disk."""
    operation, request = asked_of(READY, payload)
    act = installed(operation)
    _terms(act, request, local, step)
    if local.books.answers.asked(Key(run, operation, step)):
        raise OperationRefused("this try of the run is over; take the next one.", "repeated")
    answer = announce(payload, local, run=run, study=study, step=step)
    return _signable(answer, None, local, about(local, run, study, READY, step, payload))


def _terms(act: Operation, payload: Payload, local: LocalParty | PartyGroup, step: int) -> str:
    """Return the name of a sum's mechanism, of which a run has one, if there is a try left."""
    if isinstance(local, PartyGroup):
        raise OperationRefused("members of a group have no masks of their own.", "identity")
    mechanism = act.mechanism(payload, local.facts)
    check_try(mechanism, step)
    local.books.policy.check_price(mechanism.guarantee())
    return mechanism_digest(mechanism)


def question_digest(payload: Payload, study: str | None) -> str:
    """Return the name of a question, its key apart."""
    return hashlib.sha256(f"{payload.digest} {study or ''}".encode()).hexdigest()


def _checked_step(step: object) -> int:
    if type(step) is not int or not 0 <= step <= _MAX_STEP:
        raise OperationRefused(f"step must be an int from 0 to {_MAX_STEP}.", "step")
    return step


@contextmanager
def _paying(
    local: LocalParty | PartyGroup,
    key: Key,
    price: Guarantee | None,
    study: str | None,
    sums: str | None = None,
) -> Iterator[Receipt | None]:
    """Pay for an answer, once per key; nothing is due for public facts.

    Sums are paid for once per run: by the first of them, for all. ``sums`` names their mechanism,
    so that another one is another charge, which the key refuses.
    """
    books = local.books
    if price is None:
        yield None
        return
    detail: dict[str, Any] = {"run": key.run, "party": local.name}
    detail |= {"step": key.step} if sums is None else {"sums": sums}
    columns = key.columns if sums is None else key.columns[:2]
    study_id = books.policy.study_id
    named = None if study is None or study_id is None else (study_id, study)
    if study is not None and named is None:
        detail["study_sha256"] = study
    with paying(
        books.ledger,
        books.account,
        price,
        key=hashlib.sha256("\n".join([local.name, *map(str, columns)]).encode()).hexdigest(),
        purpose=f"answer {key.operation} in a federation",
        detail=detail,
        simulated=local.simulated,
        study=named,
        approval=books.policy.approval,
        resumes=True,
    ) as receipt:
        yield receipt


def _act(
    operation: Operation, payload: Payload, local: LocalParty | PartyGroup, step: int
) -> Payload:
    source = local.source(operation.name, step)
    if isinstance(local, PartyGroup):
        return operation.acted_group(payload, local, source)
    return operation.run(payload, local, source)


def about(
    local: LocalParty | PartyGroup,
    run: str,
    study: str | None,
    operation: str,
    step: int,
    payload: Payload,
) -> dict[str, Any]:
    """Say whose answer it is, and to which question."""
    return {
        "party": local.name,
        "run": run,
        "study": study,
        "operation": operation,
        "step": step,
        "question": payload.digest,
    }


def _signable(
    answer: Payload,
    receipt: Receipt | None,
    local: LocalParty | PartyGroup,
    facts: Mapping[str, Any],
) -> Payload:
    """Put with the arrays what a signature is to cover: receipt, ledger's head, and the question.

    The head is the one of the moment: that of the charge, where there is one.
    """
    ledger = local.books.ledger
    head = ledger.head() if receipt is None else receipt.hash
    paid = None if receipt is None else receipt.to_dict()
    return Payload({"receipt": paid, "head": head, "about": dict(facts)}, answer.arrays)


def _sent(
    content: bytes, local: LocalParty | PartyGroup, key: Key, act: Operation, *, again: bool
) -> Payload:
    answer = Payload.decode(content)
    receipt = receipt_of(answer)
    if receipt is not None:
        # Marking twice is harmless, and a kill may have come between keeping and marking. One
        # charge for several sums has no one digest.
        digest = answer.digest if act.sum_of is None else None
        local.books.ledger.mark_released(receipt, digest=digest)
    logger.info(
        "%s: %s step %d of run %s %s, %s, digest %s",
        local.name,
        *key.named,
        "sent again" if again else "leaves",
        "nothing charged" if receipt is None else f"ledger row {receipt.row}",
        answer.digest[:16],
    )
    return answer
