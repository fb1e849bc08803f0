"""What a party can be asked: of every operation, what a message says, and by what it is answered.

A request is what a protocol asks (:mod:`confrere.methods`), as messages have it: named values and
arrays. Nobody reads one. A party runs the protocol itself over what all have signed, compares what
it would ask with what it is asked, and answers its own: no number of a stranger gets near its rows.
What a request costs, and what its answers must be, follow from the measurement that it stands for.

**Sums that nobody sees into** are asked for in numbered tries. In a try everyone is first asked
whether it is ready, which touches no data and gives a key that is good for this try alone; then
those who are on the roster send their vectors with a share of the noise, under masks that only the
sum of all undoes. A try is used once, and there are as many as the price was calculated for.

Proofs: docs/proofs/prior_check.md, averaging.md, objective_perturbation.md,
output_perturbation.md, functional_mechanism.md, secure_sums.md, cohort.md, multiparty.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder
from confrere.data.frame import BodyFrame, Frame
from confrere.data.schema import PublicSchema
from confrere.data.tables import opened_engine
from confrere.errors import InvalidMessage, OperationRefused
from confrere.kernel.measurements import Objective, Point, SecureSum
from confrere.kernel.noise import RandomSource
from confrere.methods import average, votes
from confrere.methods.asking import Arrays, Asked, Size, Told
from confrere.methods.priors import PriorCheck
from confrere.methods.sums import Addend, GradientRounds, LabelContrast, OneMessage
from confrere.methods.votes import WHOLE
from confrere_federation.parties.masks import add_masked
from confrere_federation.parties.messages import (
    Array,
    Numbers,
    Payload,
    ResponseSpec,
    Values,
    paid_for,
)

if TYPE_CHECKING:
    from confrere_federation.parties.party import LocalParty


def plain(value: Any, arrays: Arrays | None = None, place: str = "") -> Any:
    """Return a value as messages have it: numbers and texts of Python's own types, and lists.

    What has fields is a table of them, without those that are None. Arrays in it are put among the
    ``arrays``, under the names of their places.
    """
    if isinstance(value, PublicSchema):
        return value.fingerprint()
    if isinstance(value, Frame | BodyFrame):
        value = value.facts() | value.arrays()
    elif is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        at = f"{place}_" if place else ""
        named = {str(n): plain(one, arrays, f"{at}{n}") for n, one in value.items()}
        return {name: one for name, one in named.items() if one is not None}
    if isinstance(value, list | tuple):
        return [plain(one, arrays, f"{place}_{k}") for k, one in enumerate(value)]
    if isinstance(value, np.ndarray) and value.ndim and arrays is not None:
        arrays[place] = value
        return None
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, str) else value


class Operation:
    """A request: what a protocol asks, and what a message says of it."""

    operation: ClassVar[str]  #: How it is asked for
    answers: ClassVar[tuple[str, ...]] = ()  #: The arrays that are released, in their order
    #: What a run asks for once per step, if that is not the operation alone.
    slot: ClassVar[str] = ""
    #: Whether an answer carries noise of its own, or public facts alone. One that does not is for
    #: the coordinator only: it is never shown to another party.
    noised: ClassVar[bool] = True
    #: Values that mean nothing to the data, which a coordinator may choose.
    chosen: ClassVar[tuple[str, ...]] = ()
    two_classes: ClassVar[bool] = False  #: Whether it is for labels of two classes only
    held: ClassVar[str] = ""  #: What of the asked has the fields, if not that itself
    raw: ClassVar[bool] = False  #: Whether it is about what a party counts of raw rows

    def __init__(self, asked: Any, encodes: SchemaEncoder | None = None) -> None:
        self.asked, self.encodes = asked, encodes

    @property
    def holder(self) -> Any:
        return getattr(self.asked, self.held) if self.held else self.asked

    def told(self) -> Values:
        """Return what a message says: all that the asked is made of."""
        made = ((one, each.name) for one in (self.holder, self.asked) for each in fields(one))
        return {name: getattr(one, name) for one, name in made if name != self.held}

    @cached_property
    def payload(self) -> Payload:
        arrays: Arrays = {}
        return Payload(plain(self.told(), arrays), arrays)

    @property
    def columns(self) -> int | None:
        """How many columns the rows have that it is about, where that is known before."""
        frame = getattr(self.holder, "frame", None)
        return None if frame is None else int(frame.n_features)

    def check(self, party: LocalParty) -> None:
        """Refuse what is for other rows than a party has, before anything is paid."""
        if self.columns not in (None, party.X.shape[1]):
            raise InvalidMessage("the request is for rows of another number of columns.")
        classes = 2 if self.two_classes else getattr(self.holder, "n_classes", party.n_classes)
        if party.n_classes != classes:
            raise InvalidMessage("the request is for labels of another number of classes.")
        if self.raw and (party.raw is None or party.raw.schema != self.asked.schema.fingerprint()):
            raise InvalidMessage("this party has no raw rows of that schema to count.")

    def response(self, n_samples: int) -> ResponseSpec:
        """Return what a party of that size may answer, and what it spends; touches no data."""
        made = self.asked.mechanism(n_samples)
        return ResponseSpec(
            dict(zip(self.answers, _released(made), strict=True)), guarantee=made.guarantee()
        )

    def encoder(self, n_samples: int) -> SchemaEncoder | None:  # noqa: ARG002
        """Return by what rows are encoded that it is about; None, as a party has them."""
        return self.encodes

    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        with ExitStack() as stack:
            own = party.engine
            engine = None if own is None else stack.enter_context(opened_engine(own))
            X = party.raw.sums if self.raw and party.raw is not None else party.X
            found: Arrays = self.asked.release(X, party.y, source, engine)
            return found


def _released(made: Objective | Point | PriorCheck) -> list[Numbers]:
    """Return what a measurement releases: shapes, and norms that noise does not exceed."""
    if isinstance(made, Objective):
        return [Numbers(act.shape, longest=act.longest) for act in made.acts]
    if not isinstance(made, Point):
        return [Numbers((1,), longest=made.longest)]
    each = zip(made.parts, made.longest, strict=True)
    return [Numbers(part.told.shape(part.size), longest=far) for part, far in each]


class SumOperation(Operation):
    """A request whose answers are only ever added up.

    They leave under masks, and the price is for all sums of a run together.
    """

    @property
    def mechanism(self) -> SecureSum:
        """The sum that answers belong to: its law, its lattice, its price."""
        found: SecureSum = self.asked.mechanism
        return found

    @override
    def told(self) -> Values:
        # Uploads on different lattices would add up to nothing.
        return super().told() | {"spacing": self.mechanism.spacing}

    @override
    def response(self, n_samples: int) -> ResponseSpec:
        words = Numbers((self.mechanism.size,), "<i8")
        return ResponseSpec({"masked": words}, self.mechanism.guarantee())


#: Every operation that this installation knows, by name.
OPERATIONS: dict[str, type[Operation]] = {}


def install(
    about: type[Asked],  # What a protocol asks by it
    base: type[Operation] = Operation,
    **facts: object,  # As :class:`Operation` has them
) -> None:
    """Make an operation known; a party's policy still decides whether it is allowed."""
    told: Values = {"operation": about.operation, "answers": getattr(about, "gives", ()), **facts}
    told["__doc__"] = about.__doc__
    OPERATIONS[told["operation"]] = type(about.__name__, (base,), told)


def installed(name: str) -> type[Operation]:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise OperationRefused("the operation is not installed here.", "unknown") from None


def request_for(asked: Asked, encodes: SchemaEncoder | None = None) -> Operation:
    return installed(asked.operation)(asked, encodes)


class _Size(Operation):
    @override
    def response(self, n_samples: int) -> ResponseSpec:
        return ResponseSpec({"size": Numbers((), "<i8", lowest=1, highest=self.asked.most)})


class _Check(Operation):
    @property
    @override
    def columns(self) -> int:
        return int(self.asked.prior.coef.shape[1])


class _Addend(SumOperation):
    """What a party adds to a sum of all, whose sizes are known."""

    held: ClassVar[str] = "plan"


install(Size, _Size)
install(average.PriorQuestion, _Check, two_classes=True)
for _noised in (average.Weights, average.NoisedMinimiser, average.ExpandedLoss):
    install(_noised)
install(Addend, _Addend, operation=LabelContrast.operation, two_classes=True)
install(Addend, _Addend, operation=OneMessage.operation)
install(Addend, _Addend, operation=GradientRounds.operation)


# --- whole parties --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count for a table of the cohort."""

    schema: str  #: The fingerprint of that by which it is counted
    sums: NDArray[np.int64]  #: The sums of its own records, without noise


class _Polled(Operation):
    """What is asked of a whole party: votes on public rows, shares of cells, or weights."""

    @override
    def told(self) -> Values:
        plan = self.asked  # cells are found by arithmetic that another machine may do otherwise
        return super().told() | ({"partition": plan.cells} if plan.method == "cells" else {})

    def sent_by(self, party: LocalParty) -> Array:
        """Return what a party sends, without noise."""
        found: Array = self.asked.sent(self.asked.weights(party.X, party.codes))
        return found


class _PartyShare(SumOperation, _Polled):
    """What a party adds to the sum that a model is made of."""

    @property
    @override
    def mechanism(self) -> SecureSum:
        found: SecureSum = self.asked.shared
        return found

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        (words,) = source.draw(self.mechanism.share, self.part(party))
        return {"masked": words.view(np.int64)}

    def part(self, party: LocalParty) -> Floats:
        """Return what a party adds."""
        found: Floats = self.asked.mechanism.part(self.sent_by(party))
        return found


class UnnoisedPoll(_Polled):
    """What a trusted coordinator is told without noise; under a run there is one such poll."""

    slot: ClassVar[str] = "poll"
    noised: ClassVar[bool] = False
    chosen: ClassVar[tuple[str, ...]] = ("releases",)

    #: Names the file that what is released is kept in
    releases = "0" * 32

    @override
    def told(self) -> Values:
        return super().told() | {"releases": self.releases}

    @override
    def response(self, n_samples: int) -> ResponseSpec:
        plan = self.asked
        if not plan.votes:  # how long an upload may be, the mechanism sees to
            whole = plan.method == "cells"
            shape = plan.mechanism.shape
            told = Numbers(shape, "<i8", lowest=0, highest=WHOLE) if whole else Numbers(shape)
        elif plan.n_classes == 2:
            told = Numbers((len(plan.rows),), "|b1")
        else:
            told = Numbers((len(plan.rows),), "<i8", lowest=0, highest=plan.n_classes - 1)
        return ResponseSpec({self.answers[0]: told}, plan.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {self.answers[0]: self.sent_by(party)}


for _operation, _sent in (("ballot", "ballot"), ("upload", "weights"), ("shares", "shares")):
    install(votes.Voting, UnnoisedPoll, operation=_operation, answers=(_sent,))
install(votes.Voting, _PartyShare, operation="party_share")


# --- the tries of a sum ---------------------------------------------------------------------------

#: What who is ready for a try sends: a key for it alone, and a signature.
READY = ResponseSpec({"announcement": Numbers((96,), "|u1")})


class SpoiledSum(InvalidMessage):
    """A sum that honest parties cannot have made; masks hide whose part it was."""


def added(mechanism: SecureSum, answers: Mapping[str, Payload]) -> Told:
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
    return Told(tuple(answers), {"sum": value}, paid_for(answers))
