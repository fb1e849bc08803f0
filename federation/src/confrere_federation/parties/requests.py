"""What a party can be asked: of every operation, what a message says, and by what it is answered.

A request is what a protocol asks (:mod:`confrere.methods`), as messages have it: named fields of
declared kinds. There is one reader, which refuses whatever is not exactly that, and one writer.
What a request costs, and what its answers must be, follow from the measurement that it stands for.

**Sums that nobody sees into** are asked for in numbered tries. In a try everyone is first asked
whether it is ready, which touches no data and gives a key that is good for this try alone; then
those who are on the roster send their vectors with a share of the noise, under masks that only the
sum of all undoes. A try is used once, and there are as many as the price was calculated for.

Proofs: docs/proofs/prior_check.md, averaging.md,
objective_perturbation.md, output_perturbation.md, functional_mechanism.md, secure_sums.md,
cohort.md, multiparty.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.frame import FACTS, LARGEST, BodyFrame, Frame
from confrere.data.schema import PublicSchema
from confrere.errors import (
    CalibrationError,
    InvalidData,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
    SchemaError,
)
from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours
from confrere.kernel.measurements import Objective, Point, SecureSum
from confrere.kernel.streams import RandomSource
from confrere.methods import average, votes
from confrere.methods.asking import Arrays, Asked, Size, Sizes, Told
from confrere.methods.plan import Coordinates
from confrere.methods.priors import Prior
from confrere.methods.sums import (
    Contrast,
    Gradient,
    GradientRounds,
    LabelContrast,
    Minimiser,
    OneMessage,
)
from confrere.methods.votes import WHOLE, Cells
from confrere_federation.parties.masks import add_masked
from confrere_federation.parties.messages import (
    MOST_RECORDS,
    Array,
    Numbers,
    Payload,
    ResponseSpec,
    Values,
    receipts_of,
)

if TYPE_CHECKING:
    from confrere_federation.parties.party import LocalParty

_UNKNOWN = "the request has missing or unknown fields."
_LEFT_OUT = object()

#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9

#: What reading a stranger's schema may raise.
UNREADABLE = (
    SchemaError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class PartyFacts:
    """What everyone may know about a party's data: its sizes, and how many labels there are."""

    n_samples: int
    n_features: int
    n_classes: int = 2


@dataclass(frozen=True)
class FieldKind:
    """What one field of a request may be."""

    words: str  #: For people
    fits: Callable[[Any], bool]  #: Whether something is that
    array: bool = False  #: Whether it is an array of the message, and not a plain value
    cast: Callable[[Any], object] | None = None  #: To the type that it is written in
    default: object = _LEFT_OUT  #: What it is where a message does not say; most must be said

    def take(self, name: str, values: Values, arrays: Arrays) -> Any:
        found = (arrays if self.array else values).pop(name, _LEFT_OUT)
        if found is _LEFT_OUT:
            if self.default is _LEFT_OUT:
                raise InvalidMessage(_UNKNOWN)
            return self.default
        if not self.fits(found):
            raise InvalidMessage(f"{name} must be {self.words}.")
        return found

    def put(self, name: str, value: Any) -> tuple[Values, Arrays]:
        if value is None or (not self.array and value == self.default):
            return {}, {}
        if self.array:
            return {}, {name: value}
        return {name: value if type(value) is str or self.cast is None else self.cast(value)}, {}


def number(
    kind: type,
    lowest: float = -math.inf,
    highest: float = math.inf,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    others: tuple[str, ...] = (),
    default: object = _LEFT_OUT,
) -> FieldKind:
    """Return the kind of numbers of one type within bounds; or one of a few words."""
    ends = {"from": lowest, "above": above, "to": highest, "below": below}
    words = [f"{word} {at:g}" for word, at in ends.items() if math.isfinite(at)]

    def fits(value: object) -> bool:
        told: Any = value if type(value) is kind else None
        if told is None:
            return type(value) is str and value in others
        return bool(lowest <= told <= highest and above < told < below)

    said = [f"a number ({kind.__name__})", *words, *(f"or {one!r}" for one in others)]
    return FieldKind(" ".join(said), fits, cast=kind, default=default)


def one_of(*choices: str, default: object = _LEFT_OUT) -> FieldKind:
    known = tuple(map(str, choices))
    fits = lambda value: type(value) is str and value in known  # noqa: E731
    return FieldKind(f"one of {', '.join(known)}", fits, cast=str, default=default)


def numbers(
    *dimensions: int,
    dtype: str = "<f8",
    lowest: float = -math.inf,
    highest: float = LARGEST,
    default: object = _LEFT_OUT,
) -> FieldKind:
    return FieldKind(
        f"an array ({dtype}) of {' or '.join(map(str, dimensions))} dimensions, in bounds",
        lambda array: bool(
            array.dtype.str == dtype
            and array.ndim in dimensions
            and array.size
            and array.min() >= max(lowest, -highest)
            and array.max() <= highest
        ),
        array=True,
        default=default,
    )


@dataclass(frozen=True)
class _Coordinates(FieldKind):
    """The public coordinates of a request, with the arrays that belong to them."""

    @override
    def take(self, name: str, values: Values, arrays: Arrays) -> Any:
        return super().take(name, {name: _read_frame(values.pop(name, None), arrays)}, arrays)

    @override
    def put(self, name: str, value: Coordinates) -> tuple[Values, Arrays]:
        told = {n: array for n, array in value.arrays().items() if array is not None}
        return {name: value.facts()}, told


def _read_frame(facts: object, arrays: Arrays) -> Coordinates:
    """Read coordinates that somebody else has written, and take their array out of a message's."""
    try:
        if isinstance(facts, dict) and "sizes" in facts:
            return BodyFrame.read(facts, arrays.pop("roots", None))
        if not isinstance(facts, dict) or facts.keys() != set(FACTS):
            raise InvalidMessage("a request must say in which coordinates: frame.")
        for name in ("data_norm", "constant"):
            if type(facts[name]) is not float:
                raise InvalidMessage(f"frame: {name} must be a float.")
        return Frame(**facts, feature_scale=_SCALE.take("feature_scale", {}, arrays))
    except (InvalidParameter, TypeError) as error:
        raise InvalidMessage(f"frame: {error}") from error


_SCALE = numbers(1, lowest=0.0, default=None)
_HEX = re.compile("[0-9a-f]{32,64}")

#: Beyond any sense, floats would not carry the noise.
EPSILON = number(float, 1e-6, 1e9)
DELTA = number(float, above=0.0, below=1.0)
_PURE = replace(DELTA, default=0.0)  #: Left out of what is pure
_LEAST = number(float, 0.0, LARGEST)
_POSITIVE = number(float, above=0.0, highest=LARGEST)
_SHARE = number(float, above=0.0, highest=1.0)
_WHOLE_NUMBER = number(int, 0, MOST_RECORDS)
FLAG = number(bool)
_COORDINATES = _Coordinates("public coordinates", lambda _: True)
_BALL = _Coordinates("coordinates of a ball", lambda one: getattr(one, "norm", "") == "l2")
_DIGEST = FieldKind("a digest", lambda value: bool(_HEX.fullmatch(str(value))))
_RECORDS = FieldKind(
    "a number of records for every party",
    lambda told: (
        type(told) is dict
        and bool(told)
        and all(type(n) is int and 0 < n <= MOST_RECORDS for n in told.values())
    ),
    cast=lambda told: {name: int(count) for name, count in told.items()},
)
SCHEMA = numbers(1, dtype="|u1", lowest=0)

RELATION = {"neighbours": one_of(*RELATIONS)}
#: Of rows that are hidden by a relation, under add-remove a number that stands for theirs.
_RELATED = {**RELATION, "declared": number(int, 0, LARGEST_DECLARED)}
_MODEL = {"coef": numbers(1), "intercept": number(float)}  # public, of two classes
_TRIES = {"collusion_threshold": _WHOLE_NUMBER, "max_retries": _WHOLE_NUMBER, "quorum": _SHARE}
_SPENT = {"frame": _COORDINATES, "epsilon": EPSILON}


class Operation:
    """A request: what a protocol asks, and what a message says of it."""

    operation: ClassVar[str]  #: How it is asked for
    about: ClassVar[type[Asked]]  #: What a protocol asks by it
    kinds: ClassVar[Mapping[str, FieldKind]] = {}  #: What a message says
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

    def __init__(self, asked: Any) -> None:
        self.asked = asked

    @property
    def n_classes(self) -> int:
        """Labels that it is about: what a party knows itself, and most messages need not say."""
        return int(getattr(self.holder, "n_classes", 2))

    @property
    def holder(self) -> Any:
        return getattr(self.asked, self.held) if self.held else self.asked

    def special(self) -> Values:
        """Return fields of the message that the holder has not under their names."""
        return {}

    def told(self) -> Values:
        known, holder = self.special(), self.holder
        return {n: known[n] if n in known else getattr(holder, n) for n in self.kinds}

    @classmethod
    def made(cls, told: Values) -> Any:
        known = {one.name for one in fields(cls.about)}  # type: ignore[arg-type]
        return cls.about(**{name: value for name, value in told.items() if name in known})

    @classmethod
    def read(cls, payload: Payload, facts: PartyFacts) -> Self:
        """Read a message to a party; what is not exactly a request for its rows is refused."""
        values, arrays = dict(payload.values), dict(payload.arrays)
        with refusing(cls.operation):
            found = {name: kind.take(name, values, arrays) for name, kind in cls.kinds.items()}
            if values or arrays:
                raise InvalidMessage(_UNKNOWN)
            request = cls(cls.made({"n_classes": facts.n_classes} | found))
            request.check(facts, found)
        return request

    def write(self) -> Payload:
        values: Values = {}
        arrays: Arrays = {}
        for name, value in self.told().items():
            told, sent = self.kinds[name].put(name, value)
            values |= told
            arrays |= sent
        return Payload(values, arrays)

    @property
    def n_features(self) -> int | None:
        return _columns(self.told())

    def check(self, facts: PartyFacts, told: Values) -> None:
        """Refuse what the fields' kinds do not, for a party's rows."""
        if _columns(told) not in (None, facts.n_features):
            raise InvalidMessage("the request is for rows of another number of columns.")
        if facts.n_classes != self.n_classes or (self.two_classes and facts.n_classes > 2):
            raise InvalidMessage("the request is for labels of another number of classes.")
        if "declared" in told and (told["declared"] > 0) != (
            told["neighbours"] == Neighbours.ADD_REMOVE
        ):
            raise InvalidMessage(
                "declared must be a number of records under add-remove neighbours, else 0."
            )
        for name in ("centre", "weights"):
            if told.get(name) is None:
                continue
            size = told["frame"].size
            if told[name].shape != ((size,) if self.n_classes == 2 else (self.n_classes, size)):
                raise InvalidMessage(f"{name} must be one number per coordinate of every class.")

    def response(self, n_samples: int) -> ResponseSpec:
        """Return what a party of that size may answer, and what it spends; touches no data."""
        made = self.asked.mechanism(n_samples)
        return ResponseSpec(
            dict(zip(self.answers, _released(made), strict=True)), guarantee=made.guarantee()
        )

    def encoded(self, party: LocalParty) -> LocalParty:
        """Return the party with rows as the question has them encoded, before it is paid for."""
        return party

    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        with party.opened_engine() as engine:
            found: Arrays = self.asked.release(party.X, party.y, source, engine)
            return found

    def cost(self, n_samples: int) -> Guarantee | None:
        """Return what answering spends, or say that the request is wrong; nothing is spent by it.

        None: only public facts leave.
        """
        with refusing(self.operation):
            return self.response(n_samples).guarantee


def _columns(told: Values) -> int | None:
    if "coef" in told:
        return len(told["coef"])
    return told["frame"].n_features if "frame" in told else None


def _released(made: Any) -> list[Numbers]:
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
    def check(self, facts: PartyFacts, told: Values) -> None:
        super().check(facts, told)
        # Uploads on different lattices would add up to nothing.
        if told.get("spacing", self.mechanism.spacing) != self.mechanism.spacing:
            raise InvalidMessage("spacing is not the one that follows from the request.")

    @override
    def response(self, n_samples: int) -> ResponseSpec:
        words = Numbers((self.mechanism.size,), "<i8")
        return ResponseSpec({"masked": words}, self.mechanism.guarantee())


@contextmanager
def refusing(operation: str) -> Iterator[None]:
    """Say that a request is wrong where a plan or a mechanism would not be made of it."""
    try:
        yield
    except (InvalidParameter, InvalidData, CalibrationError) as error:
        raise InvalidMessage(f"{operation}: {error}") from error


#: Every operation that this installation knows, by name.
OPERATIONS: dict[str, type[Operation]] = {}


def install(
    about: type[Asked],  # What a protocol asks by it
    kinds: Mapping[str, FieldKind],  # What a message says
    base: type[Operation] = Operation,
    **facts: object,  # As :class:`Operation` has them
) -> type[Operation]:
    """Make an operation known; a party's policy still decides whether it is allowed."""
    told: Values = {"operation": about.operation, "answers": getattr(about, "gives", ()), **facts}
    name = told["operation"]
    if name in OPERATIONS:
        raise InvalidParameter(f"operation {name!r} is already installed.")
    told |= {"__doc__": about.__doc__, "about": about, "kinds": kinds}
    OPERATIONS[name] = type(about.__name__, (base,), told)
    return OPERATIONS[name]


def installed(name: str) -> type[Operation]:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise OperationRefused("the operation is not installed here.", "unknown") from None


def request_for(asked: Asked) -> Operation:
    return installed(asked.operation)(asked)


# --- with noise of a party's own ------------------------------------------------------------------


class _Size(Operation):
    @override
    def response(self, n_samples: int) -> ResponseSpec:
        return ResponseSpec({"size": Numbers((), "<i8", lowest=1, highest=MOST_RECORDS)})


class _Check(Operation):
    @override
    def special(self) -> Values:
        prior = self.asked.prior
        known = {"coef": prior.coef[0], "intercept": float(prior.intercept[0])}
        return known | {name: getattr(prior, name) for name in _BOUNDED}

    @classmethod
    @override
    def made(cls, told: Values) -> average.PriorQuestion:
        known = {name: told.pop(name) for name in ("coef", "intercept", *_BOUNDED)}
        prior = Prior(**known)
        _ = prior.frame  # says so if there is none
        return average.PriorQuestion(prior=prior, **told)


_OPTIONAL = numbers(1, 2, default=None)
_BOUNDED = {"data_norm": _POSITIVE, "moments": _OPTIONAL}
_WEIGHTS = {
    **_SPENT,
    **dict.fromkeys(("ridge", "alpha", "cap"), _LEAST),
    **_RELATED,
    "delta": _PURE,
    "centre": numbers(1, 2, highest=FARTHEST_PRIOR, default=None),
}

install(Size, {}, _Size)
install(
    average.PriorQuestion,
    {**_MODEL, "epsilon": EPSILON, **_BOUNDED, **_RELATED},
    _Check,
    two_classes=True,
)
install(average.Weights, _WEIGHTS)
install(average.NoisedMinimiser, _WEIGHTS)
install(
    average.ExpandedLoss,
    {**_SPENT, "linear_share": number(float, above=0.0, below=1.0), **_RELATED, "delta": _PURE},
)


# --- sums -----------------------------------------------------------------------------------------


class _Addend(SumOperation):
    """What a party adds to a sum of all, whose sizes are known."""

    held: ClassVar[str] = "plan"

    @override
    def special(self) -> Values:
        asked, plan, mechanism = self.asked, self.asked.plan, self.asked.mechanism
        return {
            "frame": plan.space,
            "sizes": asked.sizes.counts,
            "neighbours": asked.sizes.neighbours,
            "spacing": mechanism.spacing,
            "collusion_threshold": mechanism.colluding,
            "weights": getattr(asked, "weights", plan.told),
            "round": getattr(asked, "round", 0),
        }

    @classmethod
    @override
    def made(cls, told: Values) -> Asked:
        kind = _PLANS[cls.about]
        names = {one.name for one in fields(kind)} & told.keys()
        plan, weights = kind(**{name: told[name] for name in names}), told["weights"]
        sizes = Sizes(told["sizes"], Neighbours(told["neighbours"]))
        if isinstance(plan, OneMessage):
            return Minimiser(replace(plan, prior=weights), sizes)
        if isinstance(plan, LabelContrast):
            return Contrast(plan, sizes, weights if plan.share else None)
        if weights is None or told["round"] >= told["rounds"]:
            raise InvalidMessage("a gradient is asked for at weights, in one of the rounds.")
        return Gradient(plan, sizes, weights, told["round"])


_ADDEND = {
    **_SPENT,
    "cap": _SHARE,
    **_TRIES,
    "sizes": _RECORDS,
    "spacing": _POSITIVE,
    **RELATION,
    "weights": numbers(1, 2, default=None),
}
_ANY_RIDGE = number(float, above=0.0, highest=LARGEST, others=("auto",))
_ROUND = {"rounds": number(int, 1, 10**6), "round": _WHOLE_NUMBER}

_PLANS: dict[type[Asked], Any] = {
    Minimiser: OneMessage,
    Gradient: GradientRounds,
    Contrast: LabelContrast,
}
_SLOPE = number(float, above=0.0, highest=0.5)
_COUNTED = {"positive": _SLOPE, "negative": _SLOPE, "share": number(float, 0.0, below=1.0)}

install(Contrast, {**_ADDEND, **_COUNTED}, _Addend, two_classes=True)
install(Minimiser, {**_ADDEND, "alpha": _ANY_RIDGE}, _Addend)
install(Gradient, {**_ADDEND, "delta": DELTA, **_ROUND}, _Addend)


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count for a table of the cohort."""

    schema: NDArray[np.uint8]  #: By which it is counted, as messages have it
    sums: NDArray[np.int64]  #: The sums of its own records, without noise


#: Of counts that are added up.
COUNTED = {
    "epsilon": EPSILON,
    "n_parties": _WHOLE_NUMBER,
    **_TRIES,
    "largest": number(int, 1, MOST_RECORDS),
}


def sent_schema(schema: PublicSchema) -> NDArray[np.uint8]:
    """Return a schema as bytes of JSON: of many columns, it is longer than a text may be."""
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def received_schema(written: NDArray[np.uint8]) -> PublicSchema:
    """Read the schema of a request.

    Raises InvalidMessage if it is none.
    """
    try:
        return PublicSchema.from_dict(json.loads(written.tobytes()))
    except UNREADABLE:
        raise InvalidMessage("schema is not one that can be read.") from None


# --- whole parties --------------------------------------------------------------------------------

#: A file of releases that is none.
_NOWHERE = "0" * 32

#: The arrays that a request of a method has besides the frame's.
_ARRAYS: dict[str, set[str]] = {"weights": set(), "cells": {"directions", "offsets"}}


class _Polled(Operation):
    """What is asked of a whole party: votes on public rows, shares of cells, or weights."""

    trust: ClassVar[votes.Trust] = "coordinator"
    held: ClassVar[str] = "voting"

    @override
    def special(self) -> Values:
        plan, count = self.asked.voting, self.asked.n_parties
        told = {"auxiliary": plan.auxiliary if plan.votes else None, **cell_arrays(plan, count)}
        return told | {"alpha": plan.local_alpha}

    @classmethod
    @override
    def made(cls, told: Values) -> votes.Polled:
        method, cells = told["method"], told["directions"]
        given = {n for n in ("auxiliary", "directions", "offsets") if told[n] is not None}
        if given != _ARRAYS.get(method, {"auxiliary"}):
            raise InvalidMessage("the request has missing or unknown arrays.")
        if cells is not None and cells.shape != (len(told["offsets"]), told["frame"].size):
            raise InvalidMessage("directions and offsets must be of the same cells.")
        names = {one.name for one in fields(votes.Voting)} & told.keys() - {"alpha"}
        alpha, weights = told.get("alpha", 1e-4), method == "weights"
        voting = votes.Voting(
            **{name: told[name] for name in names},
            alpha=alpha if weights else "auto",
            local_alpha=1e-4 if weights else alpha,
            partition=None if cells is None else Cells(cells, told["offsets"]),
            trust=cls.trust,
        )
        asked = voting.asked(told.get("n_parties", 1))
        if asked.operation != cls.operation:
            raise InvalidMessage("the method asks for something else.")
        return asked

    @override
    def check(self, facts: PartyFacts, told: Values) -> None:
        super().check(facts, told)
        if told["auxiliary"] is not None and told["auxiliary"].shape[1] != facts.n_features:
            raise InvalidMessage("auxiliary must be rows of one number per column.")

    def sent_by(self, party: LocalParty) -> tuple[Array, bool]:
        """Return what a party sends, without noise, and whether its own problem was solved."""
        plan = self.asked.voting
        whole = np.array([0, len(party.y)])
        (own,), (solved,) = plan.weights(party.X, party.codes, whole, self.asked.n_parties)
        return plan.sent(own), bool(solved)


class _PartyShare(SumOperation, _Polled):
    """What a party adds to the sum that a model is made of."""

    trust: ClassVar[votes.Trust] = "sum"

    @override
    def special(self) -> Values:
        plan, count, made = self.asked.voting, self.asked.n_parties, self.mechanism
        told = {"collusion_threshold": made.colluding, "spacing": made.spacing, "n_parties": count}
        return super().special() | told | _ridge(plan, count)

    @property
    @override
    def mechanism(self) -> SecureSum:
        found: SecureSum = self.asked.voting.shared(self.asked.n_parties)
        return found

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        (words,) = source.draw(self.mechanism.share, self.part(party))
        return {"masked": words.view(np.int64)}

    def part(self, party: LocalParty) -> Floats:
        """Return what a party adds; one whose own problem cannot be solved adds nothing."""
        found: Floats = self.asked.voting.part(*self.sent_by(party), self.asked.n_parties)
        return found


class UnnoisedPoll(_Polled):
    """What a trusted coordinator is told without noise; under a run there is one such poll."""

    slot: ClassVar[str] = "poll"
    noised: ClassVar[bool] = False
    chosen: ClassVar[tuple[str, ...]] = ("releases",)
    releases = _NOWHERE  #: Names the file that what is released is kept in

    @classmethod
    @override
    def read(cls, payload: Payload, facts: PartyFacts) -> Self:
        request = super().read(payload, facts)
        request.plan, request.releases = (payload.values[name] for name in ("plan", "releases"))
        return request

    @cached_property
    def plan(self) -> str:
        """The name of the plan: of all that the released numbers' law depends on."""
        plan, n_parties = self.asked.voting, self.asked.n_parties
        apart = {"frame", "auxiliary", "partition"}
        settings = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in apart}
        arrays = {"auxiliary": plan.auxiliary} | plan.frame.arrays()
        if plan.partition is not None:
            arrays |= cell_arrays(plan, n_parties)
        told = settings | {"n_parties": n_parties, "frame": plan.frame.facts()}
        return Payload(told, {n: one for n, one in arrays.items() if one is not None}).digest

    @override
    def special(self) -> Values:
        told = {"plan": self.plan, "releases": self.releases}
        return super().special() | told | _ridge(self.asked.voting, 1)

    @override
    def response(self, n_samples: int) -> ResponseSpec:
        plan = self.asked.voting
        if not plan.votes:  # how long an upload may be, the mechanism sees to
            whole = plan.method == "cells"
            shape = plan.mechanism(1).shape
            told = Numbers(shape, "<i8", lowest=0, highest=WHOLE) if whole else Numbers(shape)
        elif plan.n_classes == 2:
            told = Numbers((len(plan.rows),), "|b1")
        else:
            told = Numbers((len(plan.rows),), "<i8", lowest=0, highest=plan.n_classes - 1)
        return ResponseSpec({self.answers[0]: told}, plan.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {self.answers[0]: self.sent_by(party)[0]}


def _ridge(plan: votes.Voting, n_parties: int) -> Values:
    made: Any = plan.mechanism(n_parties) if plan.method == "weights" else None
    return {} if made is None else {"alpha": made.alpha}


def cell_arrays(plan: votes.Voting, n_parties: int) -> dict[str, Floats | None]:
    cells = plan.cells(n_parties) if plan.method == "cells" else None
    return {
        "directions": None if cells is None else cells.directions,
        "offsets": None if cells is None else cells.offsets,
    }


_POLLED = {
    "frame": _BALL,
    "epsilon": EPSILON,
    "delta": _PURE,
    "n_classes": number(int, 2, 10**4, default=2),
    "auxiliary": numbers(2, default=None),
    "directions": numbers(2, default=None),
    "offsets": numbers(1, default=None),
}
_TOLD = {
    **_POLLED,
    "method": one_of(*get_args(votes.Method)),
    **dict.fromkeys(("plan", "releases"), _DIGEST),
}
_OWN = {"alpha": _POSITIVE}

_BALLOT = {**_TOLD, **_OWN, "auxiliary_private": FLAG}

for _operation, _sent, _kinds in (
    ("ballot", "ballot", _BALLOT),
    ("upload", "weights", {**_TOLD, **_OWN}),
    ("shares", "shares", _TOLD),
):
    install(votes.Polled, _kinds, UnnoisedPoll, operation=_operation, answers=(_sent,))
install(
    votes.Polled,
    {
        **_POLLED,
        "method": one_of("statistic", "cells", "weights"),
        "n_parties": _WHOLE_NUMBER,
        **_TRIES,
        **_OWN,
        "spacing": _POSITIVE,
    },
    _PartyShare,
    operation="party_share",
)


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
    receipts = {name: receipts_of(answer) for name, answer in answers.items()}
    return Told(tuple(answers), {"sum": value}, receipts)
