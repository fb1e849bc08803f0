"""The table of audits: every promise that is offered, dimension by dimension, and what is compared.

A row is data: a method, which neighbours it speaks of, the law of its noise, how many classes, and
the shape of its rows. Four things are compared in every row, on the plan that ``fit`` would run:

- ``ratio``: the exact loss of privacy, on data sets through all of the classifier's own scaling,
  clipping and splits, and on neighbours built for each of its mechanisms;
- ``noise``: what is drawn with the law that is priced, read back from what is released;
- ``theorem``: what the proof says of this noise, worked out a second time;
- ``price``: what all parts that see one record spend, in every way that a run can go.

Each is a share of what is promised: above one the promise is refuted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import optimize, stats

from confrere.accounting import total
from confrere.assurance.audit.densities import densities_of
from confrere.assurance.audit.estimator import prepared
from confrere.assurance.audit.exact import exact_audit, gaussian_epsilon, loss_between
from confrere.assurance.cohort import CohortCounts, CohortSummary
from confrere.assurance.evaluation import evaluate
from confrere.assurance.inference import infer
from confrere.assurance.noise_law import noise_audit
from confrere.assurance.theorems import theorem_audit, tries_let_through
from confrere.catalogue import find_method
from confrere.data.features import Category, Label, Number, Outcome
from confrere.data.schema import PublicSchema
from confrere.errors import (
    CalibrationError,
    CompositionError,
    InvalidData,
    InvalidParameter,
    NotInstalled,
)
from confrere.estimators import PrivateLogisticRegression, designed
from confrere.kernel.guarantee import Guarantee, Neighbours, check_relation
from confrere.kernel.measurements import Objective, Point, SecureSum
from confrere.kernel.noise import Law, Pure, RandomSource
from confrere.ledger import Ledger
from confrere.methods.asking import PartyRows
from confrere.methods.average import Averaging
from confrere.methods.design import AddRemove
from confrere.methods.plan import Plan, Term
from confrere.methods.priors import CheckedPlan, PriorCheck
from confrere.methods.sums import CountedSum, GradientRounds
from confrere.outcomes import (
    CollaborativeRegression,
    Count,
    PrivateLinearRegression,
    PrivatePoissonRegression,
    Quantity,
)
from confrere.simulation import SeededSource
from confrere.survival import PrivateSurvivalRegression, SurvivalCurve, TimeToEvent

COMPARED = ("ratio", "noise", "theorem", "price")

#: Rounding of sums of prices, and of ratios.
_ABOVE = 1 + 1e-9

#: Of rows with a delta: so small that a corner that is forgotten shows.
_DELTA = 1e-10

#: Records of made-up tables, and of a crowd of parties; sums that may be tried again; rounds.
_RECORDS, _RESERVE, _ROUNDS = 24, 2, 2

#: A ridge that leaves next to nothing to the Jacobian, and one that leaves it its part.
_STRONG, _MODERATE = 1e3, 2.0

#: Log odds of somebody who is sure, and what is released around a public point unchecked.
_SURE, _CENTRED = 10.0, ("ofpa", "laplace", "sums")
#: Where the line has its border for who is sure on both sides, and what is just below.
_BORDER, _BELOW = 0.99, 0.98

#: What the constant takes of a row's length.
_CONSTANT = 0.05


@dataclass(frozen=True)
class AuditCase:
    """One promise."""

    method: str  #: Of the catalogue, or of :data:`OTHERS`
    law: str  #: Of the noise, by its name; checked against what runs
    relation: str = "replace-one"  #: Which change is hidden
    classes: int = 2  #: How many labels there are; 0 where they are numbers
    #: Of the rows: a ``ball``, a ``body`` of three groups of columns; of a stack over features
    #: groups that share a row's length (``joint``), that do not (``apart``), or a body each.
    geometry: str = "ball"
    delta: bool = False  #: Whether a delta is offered
    #: What else is asked for: a ``check`` of a prior, a ``reserve`` of tries, ``rounds``, noise of
    #: the parties' own (``sum``), whole parties hidden (``party``), an evaluation's subgroups
    #: (``by``), intervals' second question (``products``), ``huber``'s loss, a high ``cap``; of
    #: numbers several organisations' ``average`` or ``sums``.
    option: str = ""

    @property
    def bordered(self) -> bool:
        """Whether noise is a ball's, where no rows are opposite: a misfit turns into the other."""
        ball = self.method in ("laplace", "sums") and self.option != "contrast"
        return ball and self.geometry == "body" and self.relation == "replace-one"

    @property
    def declared(self) -> bool:
        """Whether rows are those of a schema."""
        return self.geometry in ("body", "bodies")

    @property
    def dimensions(self) -> tuple[str, str, int, str, bool, str]:
        """What is asked for; the law is what comes of it."""
        return self.method, self.relation, self.classes, self.geometry, self.delta, self.option

    def __str__(self) -> str:
        told = f"{self.method}, {self.relation}, {self.classes or 'no'} classes, {self.geometry}"
        return told + (", delta" if self.delta else "") + (f", {self.option}" * bool(self.option))


@dataclass(frozen=True)
class RowAudit:
    """What was found in one row."""

    row: AuditCase
    #: By what was compared, the share of the promise; what does not apply is left out.
    shares: Mapping[str, float]
    where: str  #: On what the largest of them rests
    cpu_seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the promise is shown to be false."""
        return max(self.shares.values(), default=0.0) > _ABOVE

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        told = {"shares": dict(self.shares), "where": self.where, "refuted": self.refuted}
        return {**asdict(self.row), **told, "cpu_seconds": self.cpu_seconds}


@dataclass(frozen=True)
class Sides:
    """A plan, and its terms on two neighbouring data sets."""

    plan: Any
    first: list[Term]
    second: list[Term]

    @property
    def mechanisms(self) -> list[Any]:
        """All that noises, each kind once."""
        every = [*(term.check or term.mechanism for term in self.first), *self.later]
        return list({repr(one): one for one in every}.values())

    @property
    def later(self) -> Sequence[Any]:
        """What learns from what was released."""
        return self.plan.later_mechanisms() if isinstance(self.plan, Plan) else ()


# --- the table ------------------------------------------------------------------------------------

_RELATIONS = ("replace-one", "add-remove")
_ONE = ("replace-one",)
_COUNTS = (2, 3, 4)
#: Laws by the number of classes.
_L2, _LAPLACE, _GAUSSIAN = (dict.fromkeys(_COUNTS, name) for name in ("L2", "L1", "Gaussian"))
_CLASSES, _OFPA, _BODY = (
    {k: name + " per class" * (k > 2) for k in _COUNTS} for name in ("L2", "L1", "Max")
)
_TWO_LAPLACE = {2: "L1"}
_CHECKED, _ROUNDS_TOO, _RESERVED = ("", "check"), ("", "rounds"), ("", "reserve")
_SHARED = (*_RESERVED, "sum")
_TOGETHER = ("average", "sums")

#: Method, relations, the law by the number of classes, geometries, whether with a delta, options.
_LINES: list[tuple[str, Sequence[str], Mapping[int, str], str, bool, Sequence[str]]] = [
    *(
        (method, _RELATIONS, law, geometry, delta, options)
        for method, options, delta_in_a_body in (
            ("plr", _CHECKED, False),
            ("pst-s", _CHECKED, False),
            ("transfer", ("",), False),
            ("simcomb", _CHECKED, False),
            ("pst-h", _CHECKED, True),
            ("average", (*_ROUNDS_TOO, "check"), True),
        )
        for law, geometry, delta in (
            (_CLASSES, "ball", False),
            (_GAUSSIAN, "ball", True),
            (_BODY, "body", False),
            *([(_GAUSSIAN, "body", True)] if delta_in_a_body else []),
        )
    ),
    *(
        ("pst-f", _RELATIONS, law, geometry, delta, _CHECKED)
        for geometry, pure in (("joint", _CLASSES), ("apart", _CLASSES), ("bodies", _BODY))
        for law, delta in ((pure, False), (_GAUSSIAN, True))
    ),
    *(
        (method, _RELATIONS, law, geometry, law is _GAUSSIAN, options)
        for geometry in ("ball", "body")
        for method, law, options in (
            ("ofpa", _OFPA, _ROUNDS_TOO),
            ("ofaa", _L2, ("",)),
            ("ofaa", _GAUSSIAN, ("",)),
            ("laplace", _L2, _ROUNDS_TOO),
            ("laplace", _GAUSSIAN, _ROUNDS_TOO),
            ("sums", _L2, _RESERVED),
            ("sums", _GAUSSIAN, (*_RESERVED, "rounds")),
        )
    ),
    ("sums", _RELATIONS, _TWO_LAPLACE, "body", False, ("contrast",)),
    *(
        (method, _ONE, law, "ball", law is _GAUSSIAN, options)
        for method, options in zip(
            ("vote", "soft", "weights", "statistic"), ([""], [""], _SHARED, _SHARED), strict=True
        )
        for law in (_L2, _GAUSSIAN)
    ),
    ("cells", _ONE, _LAPLACE, "ball", False, _SHARED),
    ("table1", _RELATIONS, _TWO_LAPLACE, "ball", False, ("", "sum")),
    ("evaluate", _ONE, _LAPLACE, "ball", False, ("",)),
    ("evaluate", _ONE, _TWO_LAPLACE, "body", False, ("", "by")),
    ("infer", _ONE, _TWO_LAPLACE, "body", False, ("", "products")),
    *(
        (method, _RELATIONS, {0: law}, geometry, law == "Gaussian", options)
        for method, option in (("linear", "huber"), ("poisson", "cap"), ("survival", "cap"))
        for law, geometry, options in (
            *((law, "ball", ("", option, *_TOGETHER)) for law in ("L2", "Gaussian")),
            ("Gaussian", "body", _TOGETHER),
            ("Max", "body", ("", option, "average")),
            ("L2", "body", ("sums",)),
        )
    ),
    ("curve", _RELATIONS, {0: "L1"}, "ball", False, ("", "by")),
    ("total", _ONE, {2: "L2"}, "ball", False, ("",)),
    ("total", _ONE, {2: "Gaussian"}, "ball", True, ("",)),
]

#: Every promise that is offered: the audit goes through it, and so does its page.
ROWS = tuple(
    AuditCase(method, law, relation, classes, geometry, delta, option)
    for method, relations, laws, geometry, delta, options in _LINES
    for relation in relations
    for classes, law in laws.items()
    for option in options
)


# --- what is made up ------------------------------------------------------------------------------

_SCHEMA = PublicSchema(
    (
        Number("line", bounds=(-1, 1), curve=False),
        Number("curve", bounds=(0, 1), curve=(0, 0.3, 0.6, 1)),
        Category("block", values=("a", "b", "c")),
    )
)
_GROUPS: tuple[object, object] = ([[0, 1], [2, 3]], [["line", "curve"], ["block"]])
#: Of Table 1.
_PEOPLE = PublicSchema(
    (Number("age", bounds=(0, 100)), Category("job", values=("a", "b", "c"))),
    outcome=Label("ill", positive=("yes",)),
)


def sides_of(
    row: AuditCase,  # Its dimensions alone are looked at
    epsilon: float = 1.0,  # The price
) -> Sides:
    """Return what a row's method would run on two neighbours; raise where it is not offered."""
    if row.method in OTHERS:
        return OTHERS[row.method](row, epsilon)
    if not row.classes:
        raise InvalidParameter(f"numbers are not offered by {row.method}.")
    estimator = _estimator(row, epsilon)
    first, second = _neighbours(row)
    (plan, one), (_, other) = (prepared(estimator, data) for data in (first, second))
    sides = Sides(plan, _terms(plan, one), _terms(plan, other))
    checked = any(term.check is not None for term in sides.first)
    noised = any(term.mechanism.guarantee().delta > 0 for term in sides.first)
    if (checked, noised) != (row.option == "check", row.delta):
        raise InvalidParameter(f"a check, or a delta, is not offered by {row.method}.")
    return sides


def _estimator(row: AuditCase, epsilon: float) -> Any:
    """Return the classifier with these dimensions, or say that it has none of them."""
    method = find_method(row.method)
    offered = method.make().get_params()

    def asked(name: str, value: object) -> dict[str, object]:
        if name not in offered:
            raise InvalidParameter(f"{name} is not offered by {row.method}.")
        return {name: value}

    settings: dict[str, object] = {"epsilon": epsilon, "classes": list(range(row.classes))}
    settings |= {"alpha": _STRONG} | ({} if not row.delta else asked("delta", _DELTA))
    settings |= {"intercept_scale": _CONSTANT}
    if row.relation == "add-remove":
        settings |= asked("neighbours", AddRemove(_RECORDS))
    if row.method in _CENTRED:
        # Around one who is sure of the last class everywhere rows of the first move most.
        level = [0.0] * (row.classes - 1) + [0.0 if row.bordered else _SURE]
        settings |= {"prior_intercept": level if row.classes > 2 else level[-1]}
    if row.bordered:
        # Of one mean with or without them, or the intercept would follow.
        slope, prior = 2 * _SURE / (_BORDER - _BELOW), np.zeros((row.classes, 8))
        prior[-1, [0, 5, 6]] = slope * np.array([1, -_BORDER, _BORDER])
        prior[1:-1, [5, 6]] = slope * np.array([-1, 1])
        settings |= {"prior": prior if row.classes > 2 else prior[-1]}
    grouped = "groups" in offered
    if grouped == (row.geometry in ("ball", "body")):
        raise InvalidParameter(f"{row.geometry} is not offered by {row.method}, or nothing new.")
    if grouped:
        settings |= {"clipping": "joint" if row.geometry == "joint" else "separate"}
        settings |= {"groups": _GROUPS[row.declared]}
        settings |= {} if row.declared else {"alpha": _MODERATE}
    if row.declared:
        settings |= asked("geometry", "schema") | {"schema": _SCHEMA}
    if "split_seed" in offered:
        settings |= {"split_seed": None}
    settings |= _option(row, asked, offered)
    if method.shape == "transfer":
        source = _source(row, method.source or "pst-f")
        settings |= {"source": source, "prior_check": row.option == "check"}
    return designed(method.make(), **settings)


def _option(
    row: AuditCase, asked: Callable[..., dict[str, object]], offered: Mapping[str, object]
) -> dict[str, object]:
    if row.option == "check":
        if "source" in offered:
            return {}
        prior = np.zeros((row.classes, 8 if row.declared else 4))
        prior[:, 0] = np.linspace(0, 1, row.classes)
        return asked("prior", prior if row.classes > 2 else prior[-1])
    if row.option == "reserve":
        shared = {} if row.method == "sums" else asked("trust", "sum")
        return shared | asked("max_retries", _RESERVE)
    if row.option == "rounds":
        return asked("rounds", _ROUNDS)
    if row.option == "contrast":  # of rows by label, which has no ridge
        _only(row, ("body", 2, "contrast") if row.method == "sums" else ("", 0, ""))
        told = replace(_SCHEMA, outcome=Label("label", positive=(1,), negative=(0,), base_rate=0.5))
        return {"alpha": "auto", "prior_intercept": None, "schema": told, "classes": None}
    if row.option == "sum":
        return asked("trust", "sum")
    return asked(row.option, True) if row.option else {}


def _source(row: AuditCase, kind: str) -> Any:
    """Return a release of the same shape, of somebody who was sure."""
    alone, stacked = kind == "plr", "bodies" if row.declared else "joint"
    asked = replace(row, method=kind, relation="replace-one", option="")
    asked = replace(asked, geometry=row.geometry if alone else stacked)
    made = designed(_estimator(asked, 20.0), alpha=1.0, budget=Ledger(), random_state=0)
    if row.declared and not alone:
        designed(made, combiner="vote")
    return made.fit(**_neighbours(asked)[0]).to_release()


def _neighbours(row: AuditCase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two data sets that differ in the first record, or in the first party."""
    shape = find_method(row.method).shape
    if shape == "votes":
        return _crowds(row)
    n = _RECORDS
    y = np.arange(n) % row.classes
    y[0 if row.relation == "replace-one" else -1] = 0  # whoever changes: a misfit to who is sure
    X: Any
    if row.declared:
        line, curve = np.where(np.arange(n) % 2, -1.0, 1.0), np.linspace(0, 1, n)
        X = pa.table({"line": line, "curve": curve, "block": np.resize(["a", "b", "c"], n)})
        changed = (_BELOW, 0.0, "a") if row.bordered else (-1.0, 1.0, "b")
        record = dict(zip(X.column_names, changed, strict=True))
        other = pa.Table.from_pylist([record, *X.to_pylist()[1:]])
    else:
        X = np.resize(np.vstack([np.eye(4), -np.eye(4)]), (n, 4))
        other = X.copy()
        # Opposite rows have the same squares: coefficients of both move most between these.
        other[0] = (-0.6, 0.8, 0, 0) if row.method == "ofaa" else -X[0]
    first: dict[str, Any] = {"X": X, "y": y}
    second = {"X": other, "y": np.append(row.classes - 1, y[1:]) if row.bordered else y}
    if row.option == "contrast":  # moves most where the label alone changes
        second = {"X": X, "y": np.append(1 - y[0], y[1:])}
    if row.relation == "add-remove":
        second = {"X": X[:-1], "y": y[:-1]}  # whoever stays keeps its place, and what it draws
    if shape == "together":
        first |= {"party": np.arange(n) % 3}
        second |= {"party": np.arange(len(second["y"])) % 3}
    return first, second


def _crowds(row: AuditCase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parties of one record, of which the first decides between the classes of others."""
    last = row.classes - 1
    public = {"party": np.arange(3), "auxiliary": np.array([[1.0, 0.0], [0.6, 0.8]])}
    X = np.tile([1.0, 0.0], (3, 1))
    first, second = ({"X": X, "y": np.array([one, 0, last])} | public for one in (last, 0))
    return first, second


def _terms(plan: Any, records: Any) -> list[Term]:
    """Return the terms of a plan, at public points; rounds of one sum are counted by its tries."""
    protocol = getattr(plan, "protocol", None)
    if isinstance(protocol, Averaging) and protocol.rounds > 1:
        parties, each = PartyRows.of(records), protocol.allowed(plan.sizes)
        return [
            replace(term, name=f"{term.name}, round {k}")
            for k in range(protocol.rounds)
            for term in replace(protocol, rounds=1, epsilon=each.epsilon, delta=each.delta).terms(
                parties, plan.sizes
            )
        ]
    return list(plan.terms(records))


def _only(row: AuditCase, *offered: tuple[str, int, str]) -> None:
    known = row.method in ("table1", "sums") or row.relation == "replace-one"
    if row.delta or not known or (row.geometry, row.classes, row.option) not in offered:
        raise InvalidParameter(f"{row.geometry} with these options is not offered by {row.method}.")


class _Listener(SeededSource):
    """Hears what is drawn, of what; the answers, which are public, are those of the first run."""

    def __init__(self, first: Sequence[Term] = ()) -> None:
        super().__init__(0)
        self._first, self.terms = first, list[Term]()

    def stream(self, label: str, step: int) -> _Listener:  # noqa: ARG002
        return self

    def answer(self, made: Any, rows: object, stream: RandomSource) -> Any:
        del stream
        self.terms.append(Term(str(len(self.terms)), made, rows))
        told = (self._first or self.terms)[len(self.terms) - 1]
        return [np.atleast_2d(one) for one in made.points(told.data)]


def _heard(run: Callable[..., Guarantee], first: object, second: object) -> Sides:
    """Return what a function draws that is no plan: the one that people call."""
    one = _Listener()
    promise, other = run(first, one), _Listener(one.terms)
    run(second, other)
    return Sides(promise, one.terms, other.terms)


def _table1(row: AuditCase, epsilon: float) -> Sides:
    """Return the counts of two tables of which one record differs in every column."""
    _only(row, ("ball", 2, ""), ("ball", 2, "sum"))
    relation, counted = check_relation(row.relation), CohortCounts(_PEOPLE)
    others = [{"age": 50.0, "job": "a", "ill": "no"}] * 3
    changed = [[{"age": 100.0, "job": "b", "ill": "yes"}], [{"age": 0.0, "job": "c", "ill": "no"}]]
    if relation is Neighbours.ADD_REMOVE:
        changed[0] = []
    tables = [pa.Table.from_pylist([*one, *others]) for one in changed]
    if not row.option:
        asked: Any = partial(CohortSummary, epsilon, _PEOPLE, neighbours=relation)
        return _heard(lambda x, one: asked(random_state=one).fit(x).receipt_.guarantee, *tables)
    counting = CountedSum(
        epsilon, n_parties=3, collusion_threshold=1, max_retries=_RESERVE, quorum=1.0, largest=100
    )
    summed = counting.steps(relation, counted.size, counted.moved(relation))
    sums = [counted.sums(table).astype(np.float64) for table in tables]
    both = (np.stack([one, np.zeros_like(one), np.zeros_like(one)]) for one in sums)
    return Sides(summed, *([Term("counts", summed, one)] for one in both))


def _evaluate(row: AuditCase, epsilon: float) -> Sides:
    """Return all counts of two tables of which one label differs: right before, and then wrong."""
    _only(row, *(("ball", k, "") for k in (2, 3, 4)), ("body", 2, ""), ("body", 2, "by"))
    learned = replace(row, method="plr", option="")
    records, model = _neighbours(learned)[0], _estimator(learned, 20.0)
    model.set_params(budget=Ledger(), random_state=0).fit(**records)
    right = model.predict(records["X"])
    wrong = np.append((right[0] + 1) % row.classes, right[1:])
    told: Any = {"metrics": ("accuracy", "confusion", *["auc"] * (row.classes == 2))}
    told |= {"by": "block" if row.option else None}
    asked: Any = partial(evaluate, model, records["X"], epsilon=epsilon, **told)
    return _heard(lambda y, one: asked(y, random_state=one).guarantee, right, wrong)


def _infer(row: AuditCase, epsilon: float) -> Sides:
    """Return what intervals ask of two tables, of which one record goes from end to end."""
    _only(row, ("body", 2, ""), ("body", 2, "products"))
    ends = np.resize([1.0, -1.0], _RECORDS)
    other = np.append(-1.0, ends[1:])
    tables = (
        pa.table({"a": ends, "b": ends}),
        pa.table({"a": other, "b": ends if row.option else other}),
    )
    schema = PublicSchema(tuple(Number(name, bounds=(-1, 1)) for name in "ab"))
    model = PrivateLogisticRegression(purpose="inference", schema=schema, random_state=0)
    asked: Any = partial(infer, model.fit(tables[0], np.arange(_RECORDS) // 2 % 2), epsilon=epsilon)
    return _heard(lambda table, one: asked(table, random_state=one).guarantee, *tables)


#: Of numbers the class and its outcome, and by option settings.
_QUANTITY = Quantity("y", bounds=(-1, 3), sd=0.5)
_COUNT = Count("y", most=4, exposure="time", exposures=(0.5, 2), mean=1e-6)
_TIME = TimeToEvent("y", event="time", happened=(0,), pieces=(1, 2, 4, 8), base_rate=1 - 1e-6)
_NUMBERS: dict[str, tuple[Callable[..., object], Outcome, dict[str, dict[str, object]]]]
_NUMBERS = {
    "linear": (PrivateLinearRegression, _QUANTITY, {"": {}, "huber": {"loss": "huber"}}),
    "poisson": (PrivatePoissonRegression, _COUNT, {"": {}, "cap": {"cap": 6.0}}),
    "survival": (PrivateSurvivalRegression, _TIME, {"": {}, "cap": {"cap": 2.0}}),
}


def _numbers(row: AuditCase, epsilon: float) -> Sides:
    """Return fits to two tables whose numbers are beyond all bounds; one record differs."""
    face, outcome, options = _NUMBERS[row.method]
    together, summed = row.option in _TOGETHER, row.option == "sums"
    known = row.geometry == "ball" or (row.geometry == "body" and (together or not row.delta))
    if row.classes or not known or row.option not in (*options, *_TOGETHER):
        raise InvalidParameter(f"{row} is not offered.")
    settings: dict[str, Any] = {"geometry": "schema" if row.declared else "l2"}
    settings |= {"schema": replace(_SCHEMA, outcome=outcome), "delta": _DELTA * row.delta}
    settings |= {"method": row.option} if together else options[row.option]
    settings |= {"alpha": _STRONG, "intercept_scale": _CONSTANT} if summed else {}
    if row.relation == "add-remove":
        settings |= {"neighbours": AddRemove(_RECORDS)}
    model: Any = (CollaborativeRegression if together else face)(epsilon)
    designed(model, **settings)
    both = _neighbours(replace(row, method="plr", classes=2, geometry="body"))
    # Around one point nobody's score turns, so that a sum moves most where the number does.
    turned = summed and row.method != "poisson" and row.relation == "replace-one"
    found: list[Any] = []
    for k, data in enumerate(both[:1] * 2 if turned else both):
        far = np.resize([1e9, 0.0], len(data["y"]))
        far[0], far[-1] = 1e9 * (1 - k * turned), 1e9
        table = data["X"].append_column("y", pa.array(far)).append_column("time", pa.array(far))
        party = {"party": np.arange(len(far)) % 3} if together else {}
        found.append(prepared(model, {"X": table, "y": None, **party}))
    return Sides(found[0][0], *(_terms(*each) for each in found))


def _curve(row: AuditCase, epsilon: float) -> Sides:
    """Return the counts of two tables of which one record differs in time, event and group."""
    by = {"": None, "by": Category("by", values=("a", "b"))}
    if row.delta or row.classes or row.geometry != "ball" or row.option not in by:
        raise InvalidParameter(f"{row} is not offered.")
    gone = row.relation == "add-remove"
    people = {"y": [0.5, 7.0, 9.0, 9.0], "time": [0, 1, 0, 1], "by": ["a", "b", "a", "b"]}
    tables = pa.table(people).slice(0, 3), pa.table(people).slice(1, 2 if gone else 3)
    asked: Any = partial(SurvivalCurve, epsilon, _TIME, by=by[row.option], neighbours=row.relation)
    return _heard(lambda x, one: asked(random_state=one).fit(x).receipt_.guarantee, *tables)


#: What releases and is no method of the catalogue; ``total`` composes releases.
OTHERS: dict[str, Callable[[AuditCase, float], Sides]]
OTHERS = {"table1": _table1, "evaluate": _evaluate, "infer": _infer, "curve": _curve}
OTHERS |= dict.fromkeys(_NUMBERS, _numbers)


# --- what is compared -----------------------------------------------------------------------------

Shares = Iterator[tuple[float, str]]


def audit_row(
    row: AuditCase,
    epsilon: float = 1.0,  # The claim
    random_state: int = 0,  # Of noise that is drawn, and of random neighbours
) -> RowAudit:
    """Compare all there is to compare in one row."""
    start = time.process_time()
    shares: dict[str, float] = {}
    worst = (-1.0, "")
    tools: dict[str, Callable[[], Shares]]
    if row.method == "total":
        tools = {"ratio": lambda: _totals(row, epsilon)}
    else:
        try:
            sides = sides_of(row, epsilon)
        except (CalibrationError, CompositionError, InvalidData) as error:
            # Made-up rows and prices are good: what refuses them was given others.
            return RowAudit(row, {"ratio": math.inf}, f"refused to run: {error}", 0.0)
        tools = {
            "ratio": lambda: _ratios(sides, random_state),
            "noise": lambda: iter([noise_audit(sides.first, random_state)]),
            "theorem": lambda: chain(*map(theorem_audit, sides.mechanisms)),
            "price": lambda: _prices(row, sides, epsilon),
        }
    for name, tool in tools.items():
        try:
            found = list(tool())
        except (CompositionError, InvalidData) as error:
            found = [(math.inf, f"refused to run: {error}")]
        except NotInstalled as error:
            return RowAudit(row, {}, f"not compared: {error}", time.process_time() - start)
        if found:
            shares[name], where = max(found)
            worst = max(worst, (shares[name], f"{name}: {where}"))
    return RowAudit(row, shares, worst[1], time.process_time() - start)


def _ratios(sides: Sides, seed: int) -> Shares:
    """Yield exact losses over claims: of each mechanism, and of all on two data sets."""
    for mechanism in sides.mechanisms:
        if isinstance(mechanism, Objective | PriorCheck):
            found = exact_audit(mechanism, draws=8, random_state=seed)
            yield found.epsilon / mechanism.epsilon, f"{type(mechanism).__name__}, {found.where}"
    claimed = sides.plan.guarantee()
    for each in zip(sides.first, sides.second, strict=True) if len(sides.first) > 1 else ():
        if isinstance(point := each[0].mechanism, Point):
            lost = loss_between(*(densities_of([one]) for one in each), delta=point.promise.delta)
            yield lost / point.promise.epsilon, f"{each[0].name}, two data sets"
    built = all(isinstance(each, Objective | PriorCheck) for each in sides.mechanisms)
    if claimed.neighbours is Neighbours.ADD_REMOVE and built:
        return  # given the cells that rows draw, two data sets are what was just built
    made = [term.mechanism for term in sides.first]
    # As often as whoever runs a study can ask for it.
    times = [tries_let_through(one) if isinstance(one, SecureSum) else 1 for one in made]
    both = ([*chain(*map(repeat, terms, times))] for terms in (sides.first, sides.second))
    lost = loss_between(*map(densities_of, both), delta=claimed.delta, seed=seed, climb=False)
    yield lost / claimed.epsilon, "two data sets"


def _prices(row: AuditCase, sides: Sides, epsilon: float) -> Shares:
    """Yield what is spent over what is promised, however a run goes."""
    plan, claimed = sides.plan, sides.plan.guarantee()
    yield claimed.epsilon / epsilon, "what was asked for"
    laws = {_name_of(density.law) for density in densities_of(sides.first)}
    if row.law not in laws:
        yield math.inf, f"noise of {' and '.join(sorted(laws))}"
    if row.relation != str(claimed.neighbours):
        yield math.inf, "neighbours"
    moved = [
        one.mechanism.guarantee()
        for one, other in zip(sides.first, sides.second, strict=True)
        if not _same(one.data, other.data)
    ]
    yield _over(moved, claimed), "parts that see one record"
    for later in sides.later:
        yield _over([later.guarantee()], claimed), "what learns from what was released"
    for parts in _ways(plan):
        yield _over(parts, claimed), "a fit that a check may lead to"
    for summed, possible in _sums(row, sides):
        tries = tries_let_through(summed)
        yield max(tries / possible, possible / max(tries, 1e-9)), "sums that can be asked for"


def _name_of(law: Law) -> str:
    if isinstance(law, Pure):
        return law.norm.leaf + " per class" * (law.copies > 1)
    return "Gaussian"


def _over(parts: Sequence[Guarantee], claimed: Guarantee) -> float:
    """Return what releases from the same records spend, over a promise."""
    epsilon = math.fsum(part.epsilon for part in parts) / claimed.epsilon
    delta = math.fsum(part.delta for part in parts)
    if delta > 0 and claimed.delta == 0:
        return math.inf
    return max(epsilon, delta / claimed.delta if delta else 0.0)


def _ways(plan: Any) -> Iterator[list[Guarantee]]:
    """Yield what is spent at every outcome of a check."""
    if isinstance(plan, CheckedPlan):
        for belief in plan.check.beliefs():
            yield [plan.check.guarantee(), plan.fit(belief).guarantee()]
    protocol = getattr(plan, "protocol", None)
    if isinstance(protocol, Averaging) and protocol.checked:
        check = protocol.check(plan.sizes)
        for belief in check.beliefs():
            yield [check.guarantee(), protocol.after(check, belief).guarantee(plan.sizes)]


def _sums(row: AuditCase, sides: Sides) -> Iterator[tuple[SecureSum, int]]:
    """Yield every sum, and how often it may be asked for: rounds, and what is held in reserve."""
    several = isinstance(getattr(sides.plan, "protocol", None), GradientRounds)
    rounds = sides.plan.rounds if several else 1
    tries = _RESERVE if row.option == "reserve" or row.method == "table1" else 0
    for mechanism in sides.mechanisms:
        if isinstance(mechanism, SecureSum):
            yield mechanism, rounds + tries


def _same(one: Any, other: Any) -> bool:
    """Whether two mechanisms see the same."""
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "votes"):
        return _same(vars(one).get("votes"), vars(other).get("votes"))
    return np.array_equal(np.asarray(one), np.asarray(other))


def _totals(row: AuditCase, epsilon: float) -> Shares:
    """Yield exact losses of releases that come together over what a total says of them."""
    delta = 1e-6
    if not row.delta:
        for count in (1, 3, 8):
            said = total([Guarantee(epsilon / 10)] * count, delta=delta).epsilon
            yield _responses(epsilon / 10, count, delta) / said, f"{count} randomised responses"
        return
    for count in (1, 3, 8):
        ledger = Ledger()
        data = _neighbours(replace(row, method="plr"))[0]
        model = _estimator(replace(row, method="plr"), epsilon).set_params(budget=ledger)
        for seed in range(count):
            model.set_params(random_state=seed).fit(**data)
        said = total(ledger.entries(), delta=delta).epsilon
        act = prepared(model, data)[0].terms(prepared(model, data)[1])[0].mechanism
        mu = 2 * act.loss.slope * act.rate * math.sqrt(count)
        yield gaussian_epsilon(mu, delta) / said, f"{count} fits with Gaussian noise"


def _responses(epsilon: float, count: int, delta: float) -> float:
    """Return what answers that are true with odds ``e^epsilon`` spend, so many, at a delta."""
    right = 1 / (1 + math.exp(-epsilon))
    told = np.arange(count + 1)
    first, second = (stats.binom.pmf(told, count, p) for p in (right, 1 - right))

    def surplus(at: float) -> float:
        return float(np.maximum(first - math.exp(at) * second, 0).sum()) - delta

    return float(optimize.brentq(surplus, 0.0, count * epsilon + 1))
