"""From a fitted estimator to what may leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sklearn.utils.validation import check_is_fitted

from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.model import Encoder, Model
from confrere.release import Release
from confrere.schema import PublicSchema

LINEAR_KINDS = ("plr", "simcomb", "collaborative", "multiparty")


class Fitted(Protocol):
    """What every fitted private classifier has."""

    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool

    @property
    def model_(self) -> Model:
        """What was learned."""


def release_of(
    fitted: Fitted,
    kind: str,
    schema: PublicSchema | None,
    sources: Sequence[Release] = (),
) -> Release:
    """Return the release of a fitted classifier; ``sources`` are other organisations' data in it.

    Parameters
    ----------
    fitted : private classifier
        Holds one model, its guarantee and its receipt.
    kind : str
        The method's name in the catalogue.
    schema : PublicSchema or None
        What its columns mean.
    sources : sequence of Release
        What it was started from.
    """
    check_is_fitted(fitted)
    encoder = None if schema is None else Encoder(schema)
    return Release(
        kind=kind,
        model=replace(fitted.model_, encoder=encoder),
        guarantee=fitted.guarantee_,
        receipt=fitted.receipt_,
        simulated=fitted.simulated_,
        parties=_parties(fitted, sources),
    )


def _parties(fitted: Fitted, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    paid: dict[str, Receipt | Guarantee] = {"target": fitted.receipt_}
    for k, release in enumerate(sources):
        name = "source" if len(sources) == 1 else f"source {k + 1}"
        paid[name] = release.receipt or release.guarantee
    return paid
