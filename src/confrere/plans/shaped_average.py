"""An average in the body that a schema declares, made once the parties' sizes are known.

Proof: docs/proofs/averaging.md, "Noise shaped like the rows".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.plans.base_plan import Term
from confrere.plans.body_plan import refuse_beyond, schema_frame
from confrere.plans.checked_average import AroundAveraging
from confrere.plans.collaborative_plan import Averaging
from confrere.plans.design import LossName, allowance
from confrere.plans.party_rows import PartyRows, Sizes
from confrere.rows.body import BodyFrame
from confrere.schema import SchemaEncoder


def shared_encoder(schema: Any, n_features: int, beyond: Mapping[str, bool]) -> SchemaEncoder:
    """Return by what all parties encode their rows, or say why they cannot be asked so.

    Parameters
    ----------
    schema : SchemaEncoder
        Of a form for bodies. A schema alone does not do: its form would follow from sizes.
    n_features : int
        Of the rows as encoded.
    beyond : mapping of str to bool
        By name, what noise shaped like the rows does not know, and whether it is set.
    """
    if not isinstance(schema, SchemaEncoder) or not schema.shaped:
        raise InvalidParameter(
            "noise='schema' needs schema=, the encoder (of form 'linear' or 'curves') by which all "
            "parties encode their rows: how many they have is not known yet."
        )
    if len(schema.names) != n_features:
        raise InvalidParameter("n_features must be the number of columns that schema encodes.")
    refuse_beyond(beyond)
    return schema


@dataclass(frozen=True, eq=False)
class ShapedAveraging(AroundAveraging):
    """What every party releases once everybody's size is known: the body is made for all records.

    Parameters
    ----------
    averaging : Averaging
        What is asked; its frame stands for the body's, which is made by :meth:`at`.
    encoder : SchemaEncoder
        Of a form for bodies: how parties encode their rows.
    loss : {"capped", "logistic"}
        Of the model.
    constant : bool, default=True
        Whether there is an intercept.
    intercept : float, default=0.0
        Public log odds that intercepts shrink towards.
    """

    averaging: Averaging
    encoder: SchemaEncoder
    loss: LossName
    constant: bool = True
    intercept: float = 0.0

    @property
    def frame(self) -> BodyFrame:
        """The body for one record: only what does not depend on how many there are is asked."""
        return self._frame(1)

    def at(self, sizes: Sizes) -> Averaging:
        """Return the average of parties of these public sizes."""
        frame = self._frame(sizes.total)
        prior = frame.weights(None, self.intercept) if self.intercept else None
        return replace(self.averaging, frame=frame, prior=prior)

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what all rounds promise together, for parties of these public sizes."""
        return self.at(sizes).guarantee(sizes)

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the average of the last round, weighted by records."""
        return self.at(sizes).run(parties, sizes, source)

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's mechanism and rows."""
        return self.at(sizes).terms(parties, sizes)

    def _frame(self, n_samples: int) -> BodyFrame:
        price = self.averaging.round_epsilons[0]
        allowed = allowance(price, n_samples, loss=self.loss, n_classes=self.averaging.n_classes)
        return schema_frame(self.encoder, allowed, constant=self.constant)
