"""The party's side of every question: check, claim, charge, act, keep, mark; then answer.

Whatever the engine, this is the only way from a question to a number about data. A question is
paid for once and answered with the same bytes for ever; killed at any moment, a party asked again
either sends what it had kept or, if nothing had left, finishes what it had paid for.
"""

from __future__ import annotations

import hashlib
import logging

from confrere.errors import CompositionError, FederationError, LedgerError, OperationRefused
from confrere.federation.answers import Key
from confrere.federation.expected import receipt_of
from confrere.federation.federation import PartyError, check_run
from confrere.federation.operation import Operation, installed
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt

#: Version of what is said; a question in another one is refused.
PROTOCOL = 1

_MAX_STEP = 1_000_000
_RECEIPT = "receipt"

logger = logging.getLogger("confrere.federation")


def serve(
    operation: str,
    payload: Payload,
    local: LocalParty | PartyGroup,
    *,
    run: str,
    step: int = 0,
    protocol: int = PROTOCOL,
    schema: str | None = None,
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
    schema : str, optional
        Fingerprint of the schema that the asker takes the rows to follow.

    Returns
    -------
    Payload
        The released arrays; ``values["receipt"]`` is what the ledger says about them, None if
        only public facts leave. For a group, arrays have one row per member.

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
    act = _allowed(operation, local, protocol=protocol, schema=schema)
    key = Key(check_run(run), act.slot or operation, _checked_step(step))
    if isinstance(local, PartyGroup):
        price = act.priced_group(payload, local)
    else:
        price = act.priced(payload, local.facts)
    claim = books.answers.claim(
        key,
        question=question_digest(payload, schema),
        epsilon=0.0 if price is None else price.epsilon,
        cap=books.epsilon_per_run,
    )
    if claim.failure is not None:
        raise FederationError(f"{operation} failed before ({claim.failure}); it is not repeated.")
    if claim.answer is not None:
        return _sent(claim.answer, local, key, again=True)
    receipt = None if price is None else _charge(local, key, price)
    try:
        answer = _act(act, payload, local, step)
        kept = books.answers.keep(key, _with_receipt(answer, receipt).encode())
    except Exception as error:
        _failed(local, key, receipt, PartyError.of(error).code)
        raise
    return _sent(kept, local, key, again=False)


def question_digest(payload: Payload, schema: str | None) -> str:
    """Return the name of a question, its key apart."""
    return hashlib.sha256(f"{payload.digest} {schema or ''}".encode()).hexdigest()


def _allowed(
    name: str, local: LocalParty | PartyGroup, *, protocol: int, schema: str | None
) -> Operation:
    policy = local.books.policy
    if protocol != PROTOCOL:
        raise OperationRefused(f"this party speaks protocol {PROTOCOL}.", "protocol")
    if name not in policy.operations:
        raise OperationRefused("the operation is not allowed here.", "operation")
    if schema != policy.schema:
        raise OperationRefused("the question is about rows of another schema.", "schema")
    return installed(name)


def _checked_step(step: object) -> int:
    if type(step) is not int or not 0 <= step <= _MAX_STEP:
        raise OperationRefused(f"step must be an int from 0 to {_MAX_STEP}.", "step")
    return step


def _charge(local: LocalParty | PartyGroup, key: Key, price: Guarantee) -> Receipt | None:
    name = hashlib.sha256("\n".join([local.name, *map(str, key.columns)]).encode()).hexdigest()
    try:
        return local.books.charge(
            price,
            key=name,
            purpose=f"answer {key.operation} in a federation",
            detail={"run": key.run, "step": key.step, "party": local.name},
            simulated=local.simulated,
        )
    except (LedgerError, CompositionError):
        local.books.answers.withdraw(key)
        raise


def _act(
    operation: Operation, payload: Payload, local: LocalParty | PartyGroup, step: int
) -> Payload:
    source = local.source(operation.name, step)
    if isinstance(local, PartyGroup):
        return operation.acted_group(payload, local, source)
    return operation.run(payload, local, source)


def _with_receipt(answer: Payload, receipt: Receipt | None) -> Payload:
    told = None if receipt is None else receipt.to_dict()
    return Payload({_RECEIPT: told}, answer.arrays)


def _failed(local: LocalParty | PartyGroup, key: Key, receipt: Receipt | None, code: str) -> None:
    if not local.books.answers.fail(key, code):
        return  # another process of this party had answered meanwhile
    if receipt is not None and local.books.ledger is not None:
        local.books.ledger.mark_failed(receipt, code=code)
    logger.warning("%s: %s step %d of run %s failed (%s)", local.name, *_named(key), code)


def _sent(content: bytes, local: LocalParty | PartyGroup, key: Key, *, again: bool) -> Payload:
    answer = Payload.decode(content)
    receipt = receipt_of(answer)
    if receipt is not None and local.books.ledger is not None:
        # Marking twice is harmless, and a kill may have come between keeping and marking.
        local.books.ledger.mark_released(receipt, digest=answer.digest)
    logger.info(
        "%s: %s step %d of run %s %s, %s, digest %s",
        local.name,
        *_named(key),
        "sent again" if again else "leaves",
        "nothing charged" if receipt is None else f"ledger row {receipt.row}",
        answer.digest[:16],
    )
    return answer


def _named(key: Key) -> tuple[str, int, str]:
    return (key.operation, key.step, key.run)
