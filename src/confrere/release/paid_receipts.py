"""Receipts of facts that a schema's makers paid for: in the total of every release with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from confrere.errors import InvalidParameter, SchemaError
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.model import Encoder
from confrere.release.spending import Paid
from confrere.schema import PublicSchema, SchemaEncoder


def receipts_for_facts(schema: PublicSchema | None) -> tuple[Receipt, ...]:
    """Return the receipts that a schema carries.

    Raises
    ------
    SchemaError
        If what it carries is no receipt.
    """
    paid = () if schema is None else schema.paid
    try:
        return tuple(Receipt.from_dict(one) for each in paid for one in each.receipts.values())
    except (TypeError, ValueError, KeyError, AttributeError):
        raise SchemaError("paid.receipts: a receipt is not in the form that is written.") from None


def schema_of(encoder: SchemaEncoder | Encoder | None) -> PublicSchema | None:
    """Return the schema of what encodes raw tables, if anything does."""
    return None if encoder is None else encoder.schema


def seeded_facts(schema: PublicSchema | None) -> bool:
    """Whether facts were learned with seeded noise, so that nothing with them may leave."""
    return schema is not None and any(one.simulated for one in schema.paid)


def with_facts(
    parties: Mapping[str, Paid], receipt: Receipt | None, schema: PublicSchema | None
) -> dict[str, Paid]:
    """Return who paid what for a release, with what was paid for the facts of its schema.

    Who paid for both, from one account, paid the sum. Whoever else paid for facts stands beside
    them: other people are in their data.

    Parameters
    ----------
    parties : mapping of str to Receipt, tuple of Receipt, or Guarantee
        Who paid for the model, if not one organisation alone.
    receipt : Receipt or None
        What one organisation paid alone.
    schema : PublicSchema or None
        What the model reads.
    """
    facts = receipts_for_facts(schema)
    told = dict(parties)
    if not facts:
        return told
    if not told and receipt is not None:
        told = {receipt.account: receipt}
    for one in facts:
        if any(_row(one) == _row(other) for paid in told.values() for other in _several(paid)):
            continue  # of this very run
        name = next((n for n, paid in told.items() if _same_account(one, paid)), None)
        if name is None:
            told[_free(f"facts of {one.account}", told)] = one
        else:
            told[name] = (one, *_several(told[name]))
    return told


def promised_with(schema: PublicSchema | None, guarantee: Guarantee) -> Guarantee:
    """Return a promise that says what was paid before, for facts of the schema.

    Raises
    ------
    InvalidParameter
        Before anything is spent, if the two prices do not add up.
    """
    for one in receipts_for_facts(schema):
        then = one.guarantee
        if (then.unit, then.neighbours) != (guarantee.unit, guarantee.neighbours):
            raise InvalidParameter(
                f"schema: its facts were paid for per {then.unit}, {then.neighbours}; this is for "
                f"{guarantee.unit}, {guarantee.neighbours}, and the two do not add up. Declare the "
                "facts, or use a schema without them. Nothing was spent."
            )
    paid = () if schema is None else schema.paid
    told = [f"facts of the schema, paid for with epsilon {one.epsilon:g}" for one in paid]
    return replace(guarantee, public=(*guarantee.public, *told)) if told else guarantee


def _several(paid: Paid) -> tuple[Receipt, ...]:
    if isinstance(paid, Guarantee):
        return ()
    return paid if isinstance(paid, tuple) else (paid,)


def _row(receipt: Receipt) -> tuple[str, int]:
    return receipt.ledger_id, receipt.row


def _same_account(receipt: Receipt, paid: Paid) -> bool:
    return any(
        (one.ledger_id, one.account) == (receipt.ledger_id, receipt.account)
        for one in _several(paid)
    )


def _free(name: str, taken: Mapping[str, Paid]) -> str:
    return name if name not in taken else _free(f"{name}, again", taken)
