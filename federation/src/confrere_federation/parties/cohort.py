"""Table 1, and what intervals ask: docs/proofs/cohort.md, intervals.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.assurance.cohort import CohortCounts, CohortSummary
from confrere.assurance.inference import Intervals
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours
from confrere.kernel.measurements import Picked, Point, SecureSum
from confrere.kernel.noise import RandomSource
from confrere.methods.asking import (
    Arrays,
    Ask,
    AskedSum,
    Colluding,
    Labels,
    Measured,
    Protocol,
    Reader,
    Rows,
    colluders_of,
    known_sizes,
)
from confrere.methods.design import AddRemove
from confrere.methods.sums import STEPS, CountedSum
from confrere_federation.parties.messages import MOST_RECORDS, Numbers, ResponseSpec, Values
from confrere_federation.parties.requests import Operation, SumOperation, install

#: A party's number of records at most, where it is not public: what lies beyond is cut.
_MOST_HIDDEN = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class _OfSchema:
    neighbours: str
    schema: PublicSchema

    @cached_property
    def counts(self) -> CohortCounts:
        return CohortCounts(self.schema)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort(_OfSchema, Measured):
    """A party's own histograms, with noise of its own."""

    operation: ClassVar[str] = "cohort"
    farthest: ClassVar[int] = MOST_RECORDS * STEPS
    epsilon: float

    @property
    def size(self) -> int:
        return self.counts.size

    @cached_property
    def mechanism(self) -> Point:
        return self.counts.point(self.epsilon, Neighbours(self.neighbours))

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        ((noised,),) = source.draw(self.mechanism, X)
        return {"counts": np.clip(noised, -self.farthest, self.farthest)}


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortOfAll(_OfSchema, CountedSum, AskedSum):
    """Everybody's histograms, added up by secure aggregation."""

    operation: ClassVar[str] = "cohort_of_all"

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        relation = Neighbours(self.neighbours)
        return self.steps(relation, self.counts.size, self.counts.moved(relation))

    @override
    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        return np.asarray(X, dtype=np.float64)


@dataclass(frozen=True)
class CohortProtocol:
    """One table of several organisations: side by side and in all, or by a sum in all alone."""

    epsilon: float
    schema: PublicSchema
    _: KW_ONLY
    neighbours: AddRemove | Literal["replace-one"] = "replace-one"
    trust: str = "own noise"
    collusion_threshold: Colluding = "auto"
    max_retries: int = 1
    quorum: float = 1.0

    def __post_init__(self) -> None:
        if self.trust not in ("own noise", "sum"):
            raise InvalidParameter('trust must be "own noise", or "sum" for secure aggregation.')

    @staticmethod
    def instead_of(name: str, known: Sequence[str]) -> str:  # noqa: ARG004
        return f"it knows {', '.join(known)}"

    def asked(self, n_parties: int, largest: int) -> Cohort | CohortOfAll:
        """Return the question to so many parties, of which none has more records."""
        told: Values = {"epsilon": self.epsilon, "schema": self.schema}
        hidden = isinstance(self.neighbours, AddRemove)
        told["neighbours"] = str(Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE)
        if self.trust == "own noise":
            return Cohort(**told)
        return CohortOfAll(
            **told,
            n_parties=n_parties,
            collusion_threshold=colluders_of(self.collusion_threshold, n_parties, self.quorum),
            max_retries=self.max_retries,
            quorum=self.quorum,
            largest=largest,
        )

    def privacy_cost(self, n_samples: int, n_parties: int) -> Guarantee:
        return self.asked(n_parties, n_samples).mechanism.guarantee()

    def steps(self, parties: Sequence[str]) -> Protocol[CohortSummary | None]:
        """Ask everyone; what is described is post-processing. None where nobody has paid."""
        sizes = dict.fromkeys(sorted(parties), 0)
        if self.trust == "sum":
            sizes = dict.fromkeys(sizes, _MOST_HIDDEN)
            if not isinstance(self.neighbours, AddRemove):
                known = yield from known_sizes(list(sizes))
                sizes = dict(known.counts)
        asked = self.asked(len(parties), max(sizes.values()))
        told = yield Ask(asked, sizes)
        receipts = {name: paid[0].to_dict() for name, paid in told.receipts.items() if paid}
        if not receipts:
            return None
        counts, made = asked.counts, asked.mechanism
        deviation = made.deviation if isinstance(made, SecureSum) else made.deviations[0]
        (noised,) = told.arrays.values()
        if isinstance(asked, Cohort) and len(parties) > 1:
            counts = CohortCounts(self.schema, told.names)
        return CohortSummary.counted(self.epsilon, counts, np.ravel(noised), deviation, receipts)


class _Counts(Operation):
    @override
    def response(self, n_samples: int) -> ResponseSpec:
        size, far = (self.asked.size,), self.asked.farthest
        counts = Numbers(size, "<i8", lowest=-far, highest=far)
        return ResponseSpec({"counts": counts}, self.asked.mechanism.guarantee())


class _Intervals(_Counts):
    @override
    def told(self) -> Values:
        told = ("model", "n_samples", "epsilon", "sums")  # the space follows from the model
        return {name: getattr(self.asked, name) for name in told}


install(Intervals, _Intervals)
install(Cohort, _Counts, raw=True)
install(CohortOfAll, SumOperation, raw=True)
