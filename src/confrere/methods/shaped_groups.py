"""Groups of a schema's columns, each with the body that it declares.

Proof: docs/proofs/feature_groups.md, "Noise shaped like the rows".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.maths.geometry import LOG_ODDS
from confrere.maths.partition import Clipping, Groups
from confrere.methods.body import schema_frame
from confrere.methods.design import Allowance
from confrere.rows.body import GroupBodies, GroupRows
from confrere.schema import SchemaEncoder


@dataclass(frozen=True, eq=False)
class SchemaGroups:
    """Groups of whole columns of a schema, before it is known how many records each has.

    Parameters
    ----------
    encoder : SchemaEncoder
        Of a form for bodies.
    columns : tuple of int arrays
        Positions of the schema's columns, of every group in use.
    """

    encoder: SchemaEncoder
    columns: Groups
    #: Bodies that were made: many beliefs in a prior lead to the same.
    _made: dict[Any, GroupBodies] = field(default_factory=dict, init=False)

    #: As of :class:`GroupBodies`.
    clipping: ClassVar[Clipping] = GroupBodies.clipping

    @classmethod
    def of_encoded(cls, encoder: SchemaEncoder, groups: Groups) -> SchemaGroups:
        """Return groups of encoded columns as groups of columns.

        Raises
        ------
        InvalidParameter
            If one column's encoded ones are in several groups, or only in part in one.
        """
        blocks = encoder.blocks()
        owner = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
        found = cls(encoder, tuple(np.unique(owner[group]) for group in groups))
        if [np.sort(group).tolist() for group in groups] != [g.tolist() for g in found.groups]:
            raise InvalidParameter("noise='schema' needs groups of whole columns of the schema.")
        return found

    @cached_property
    def groups(self) -> Groups:
        """Encoded columns of every group."""
        return encoded_columns([block.size for block in self.encoder.blocks()], self.columns)

    def at(
        self,
        allowed: Allowance,
        shares: Sequence[float],
        *,
        variance: float | None = None,
    ) -> GroupBodies:
        """Return the bodies for so many records and every group's part of the price.

        Parameters
        ----------
        allowed : Allowance
            Of the low level.
        shares : sequence of float
            Part of the price that every group may spend.
        variance : float, optional
            Of the log odds around what groups shrink towards, where that is known.
        """
        asked = (allowed, tuple(shares), variance)
        if asked not in self._made:
            frames = tuple(
                schema_frame(
                    self.encoder,
                    allowed.at(epsilon=share * allowed.epsilon),
                    log_odds=LOG_ODDS if variance is None else variance,
                    columns=columns.tolist(),
                )
                for columns, share in zip(self.columns, shares, strict=True)
            )
            self._made[asked] = GroupBodies(self.groups, frames)
        return self._made[asked]


def encoded_columns(sizes: Sequence[int], columns: Sequence[NDArray[np.intp]]) -> Groups:
    """Return the encoded columns of groups of columns that have so many each."""
    ends = np.cumsum(sizes)
    return tuple(
        np.concatenate([np.arange(ends[j] - sizes[j], ends[j]) for j in group]) for group in columns
    )


#: What a plan is made for: groups in a ball, or in bodies that follow from their records.
PlannedGroups = GroupRows | SchemaGroups
