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
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import optimize, stats

from confrere.accounting import total
from confrere.assurance.cohort import CohortCounts
from confrere.assurance.noise_law import noise_audit
from confrere.assurance.theorems import theorem_audit, tries_let_through
from confrere.audit.densities import densities, densities_of
from confrere.audit.estimator import prepared
from confrere.audit.exact import exact_audit, gaussian_epsilon, loss_between
from confrere.catalogue import find_method
from confrere.data.features import Category, Label, Number
from confrere.data.schema import PublicSchema
from confrere.errors import (
    CalibrationError,
    CompositionError,
    InvalidData,
    InvalidParameter,
    NotInstalled,
)
from confrere.estimators import FeatureStackingClassifier, PrivateLogisticRegression, designed
from confrere.kernel.guarantee import Guarantee, Neighbours, check_relation
from confrere.kernel.measurements import Objective, SecureSum
from confrere.kernel.norms import Law, Pure
from confrere.ledger import Ledger
from confrere.methods.asking import PartyRows
from confrere.methods.average import Averaging
from confrere.methods.design import AddRemove
from confrere.methods.plan import Plan, Term
from confrere.methods.priors import CheckedPlan, PriorCheck
from confrere.methods.sums import CountedSum, GradientRounds, OneMessage

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
_SURE, _CENTRED = 30.0, ("ofpa", "laplace", "sums")

#: What the constant takes of a row's length.
_CONSTANT = 0.05


@dataclass(frozen=True, kw_only=True)
class AuditCase:
    """One promise."""

    #: Of the catalogue; ``table1`` describes a cohort, ``total`` composes releases.
    method: str
    relation: str = "replace-one"  #: Which change is hidden
    law: str  #: Of the noise, by its name; checked against what runs
    classes: int = 2  #: How many labels there are
    #: Of the rows: a ``ball``, a ``body`` of three groups of columns; of a stack over features
    #: groups that share a row's length (``joint``), that do not (``apart``), or a body each.
    geometry: str = "ball"
    delta: bool = False  #: Whether a delta is offered
    #: What else is asked for: a ``check`` of a prior, a ``reserve`` of tries, ``rounds``, noise of
    #: the parties' own (``sum``), whole parties hidden (``party``).
    option: str = ""

    @property
    def dimensions(self) -> tuple[str, str, int, str, bool, str]:
        """What is asked for; the law is what comes of it."""
        return self.method, self.relation, self.classes, self.geometry, self.delta, self.option

    def __str__(self) -> str:
        told = f"{self.method}, {self.relation}, {self.classes} classes, {self.geometry}"
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
        every = [term.check or term.mechanism for term in self.first] + self.later
        return list({repr(one): one for one in every}.values())

    @property
    def later(self) -> list[Any]:
        """What learns from what was released."""
        return list(self.plan.later_mechanisms()) if isinstance(self.plan, Plan) else []


# --- the table ------------------------------------------------------------------------------------

_RELATIONS = ("replace-one", "add-remove")
_ONE = ("replace-one",)
_L2 = dict.fromkeys((2, 3, 4), "L2")
#: By the number of classes.
_CLASSES = {2: "L2", 3: "L2 per class", 4: "L2 per class"}
_LAPLACE = dict.fromkeys((2, 3, 4), "L1")
_OFPA = {2: "L1", 3: "L1 per class", 4: "L1 per class"}
_GAUSSIAN = dict.fromkeys((2, 3, 4), "Gaussian")
_TWO_L2, _TWO_GAUSSIAN, _TWO_LAPLACE = ({2: law[2]} for law in (_L2, _GAUSSIAN, _LAPLACE))
_BODY = {2: "Max", 3: "Max per class", 4: "Max per class"}
_SHARED = ("", "reserve", "sum")

#: Method, relations, the law by the number of classes, geometries, whether with a delta, options.
_LINES: tuple[tuple[str, Sequence[str], Mapping[int, str], str, bool, Sequence[str]], ...] = (
    ("plr", _RELATIONS, _CLASSES, "ball", False, ("",)),
    ("plr", _RELATIONS, _GAUSSIAN, "ball", True, ("",)),
    ("plr", _RELATIONS, _CLASSES, "ball", False, ("check",)),
    ("plr", _RELATIONS, _GAUSSIAN, "ball", True, ("check",)),
    ("plr", _RELATIONS, _BODY, "body", False, ("", "check")),
    ("pst-s", _RELATIONS, _CLASSES, "ball", False, ("", "check")),
    ("pst-s", _RELATIONS, _GAUSSIAN, "ball", True, ("", "check")),
    ("pst-s", _RELATIONS, _BODY, "body", False, ("", "check")),
    *(
        line
        for geometry in ("joint", "apart")
        for line in (
            ("pst-f", _RELATIONS, _CLASSES, geometry, False, ("", "check")),
            ("pst-f", _RELATIONS, _GAUSSIAN, geometry, True, ("", "check")),
        )
    ),
    ("pst-f", _RELATIONS, _BODY, "bodies", False, ("", "check")),
    ("pst-f", _RELATIONS, _GAUSSIAN, "bodies", True, ("", "check")),
    ("transfer", _RELATIONS, _CLASSES, "ball", False, ("",)),
    ("transfer", _RELATIONS, _GAUSSIAN, "ball", True, ("",)),
    ("transfer", _RELATIONS, _BODY, "body", False, ("",)),
    ("simcomb", _RELATIONS, _CLASSES, "ball", False, ("", "check")),
    ("simcomb", _RELATIONS, _GAUSSIAN, "ball", True, ("", "check")),
    ("simcomb", _RELATIONS, _BODY, "body", False, ("", "check")),
    ("pst-h", _RELATIONS, _CLASSES, "ball", False, ("", "check")),
    ("pst-h", _RELATIONS, _GAUSSIAN, "ball", True, ("", "check")),
    ("pst-h", _RELATIONS, _BODY, "body", False, ("", "check")),
    ("pst-h", _RELATIONS, _GAUSSIAN, "body", True, ("", "check")),
    ("average", _RELATIONS, _CLASSES, "ball", False, ("", "rounds", "check")),
    ("average", _RELATIONS, _GAUSSIAN, "ball", True, ("", "rounds", "check")),
    ("average", _RELATIONS, _BODY, "body", False, ("", "rounds", "check")),
    ("average", _RELATIONS, _GAUSSIAN, "body", True, ("", "rounds", "check")),
    *(
        line
        for geometry in ("ball", "body")
        for line in (
            ("ofpa", _RELATIONS, _OFPA, geometry, False, ("", "rounds")),
            ("ofaa", _RELATIONS, _L2, geometry, False, ("",)),
            ("ofaa", _RELATIONS, _GAUSSIAN, geometry, True, ("",)),
            ("laplace", _RELATIONS, _L2, geometry, False, ("", "rounds")),
            ("laplace", _RELATIONS, _GAUSSIAN, geometry, True, ("", "rounds")),
            ("sums", _RELATIONS, _L2, geometry, False, ("", "reserve")),
            ("sums", _RELATIONS, _GAUSSIAN, geometry, True, ("", "reserve", "rounds")),
        )
    ),
    ("sums", _RELATIONS, _TWO_LAPLACE, "body", False, ("contrast",)),
    ("vote", _ONE, _L2, "ball", False, ("",)),
    ("vote", _ONE, _GAUSSIAN, "ball", True, ("",)),
    ("soft", _ONE, _L2, "ball", False, ("",)),
    ("soft", _ONE, _GAUSSIAN, "ball", True, ("",)),
    ("weights", _ONE, _L2, "ball", False, _SHARED),
    ("weights", _ONE, _GAUSSIAN, "ball", True, _SHARED),
    ("statistic", _ONE, _L2, "ball", False, _SHARED),
    ("statistic", _ONE, _GAUSSIAN, "ball", True, _SHARED),
    ("cells", _ONE, _LAPLACE, "ball", False, _SHARED),
    ("table1", _RELATIONS, _TWO_LAPLACE, "ball", False, ("", "sum")),
    ("total", _ONE, _TWO_L2, "ball", False, ("",)),
    ("total", _ONE, _TWO_GAUSSIAN, "ball", True, ("",)),
)

#: Every promise that is offered: the audit goes through it, and so does its page.
ROWS = tuple(
    AuditCase(
        method=method,
        relation=relation,
        law=law,
        classes=classes,
        geometry=geometry,
        delta=delta,
        option=option,
    )
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
_SCHEMAS = {"body": _SCHEMA, "bodies": _SCHEMA}
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
    if row.method == "table1":
        return _table1(row, epsilon)
    estimator = _estimator(row, epsilon)
    first, second = _neighbours(row)
    (plan, one), (_, other) = (prepared(estimator, data) for data in (first, second))
    sides = Sides(plan, _terms(plan, one), _terms(plan, other))
    checked = any(term.check is not None for term in sides.first)
    if checked != (row.option == "check"):
        raise InvalidParameter(f"a check is not offered by {row.method}.")
    if row.delta != any(term.mechanism.guarantee().delta > 0 for term in sides.first):
        raise InvalidParameter("a delta is not used with these rows.")
    return sides


def _estimator(row: AuditCase, epsilon: float) -> Any:
    """Return the classifier with these dimensions, or say that it has none of them."""
    method = find_method(row.method)
    offered = method.make().get_params()

    def asked(name: str, value: Any) -> dict[str, Any]:
        if name not in offered:
            raise InvalidParameter(f"{name} is not offered by {row.method}.")
        return {name: value}

    settings: dict[str, Any] = {"epsilon": epsilon, "classes": list(range(row.classes))}
    settings |= {"alpha": _STRONG} | ({} if not row.delta else asked("delta", _DELTA))
    settings |= {"intercept_scale": _CONSTANT}
    if row.relation == "add-remove":
        settings |= asked("neighbours", AddRemove(_RECORDS))
    if row.method in _CENTRED:
        # Around one who is sure of the last class everywhere rows of the first move most.
        level = [0.0] * (row.classes - 1) + [_SURE]
        settings |= {"prior_intercept": level if row.classes > 2 else _SURE}
    grouped = "groups" in offered
    if grouped == (row.geometry in ("ball", "body")):
        raise InvalidParameter(f"{row.geometry} is not offered by {row.method}, or nothing new.")
    if row.geometry in ("joint", "apart"):
        clipping = "joint" if row.geometry == "joint" else "separate"
        settings |= (
            {"clipping": clipping} | asked("groups", [[0, 1], [2, 3]]) | {"alpha": _MODERATE}
        )
    elif row.geometry == "bodies":
        settings |= {"clipping": "separate"} | asked("groups", [["line", "curve"], ["block"]])
    if row.geometry in _SCHEMAS:
        settings |= asked("geometry", "schema") | {"schema": _SCHEMAS[row.geometry]}
    if "split_seed" in offered:
        settings |= {"split_seed": None}
    settings |= _option(row, asked, offered)
    if method.shape == "transfer":
        settings |= {"source": _source(row, method.source), "prior_check": row.option == "check"}
    return designed(method.make(), **settings)


def _option(
    row: AuditCase, asked: Callable[..., dict[str, Any]], offered: Mapping[str, Any]
) -> Any:
    if row.option == "check":
        if "source" in offered:
            return {}
        columns = {"body": 8, "bodies": 8}.get(row.geometry, 4)
        prior = np.zeros((row.classes, columns) if row.classes > 2 else columns)
        prior[..., 0] = np.linspace(0, 1, row.classes) if row.classes > 2 else 1.0
        return asked("prior", prior)
    if row.option == "reserve":
        if row.method != "sums":
            return asked("max_retries", _RESERVE) | asked("trust", "sum")
        return asked("max_retries", _RESERVE)
    if row.option == "rounds":
        return asked("rounds", _ROUNDS)
    if row.option == "contrast":  # of rows by label, which has no ridge
        if row.method != "sums" or row.geometry != "body" or row.delta or row.classes > 2:
            raise InvalidParameter(f"a contrast is not offered by {row.method}.")
        told = replace(_SCHEMA, outcome=Label("label", positive=(1,), negative=(0,), base_rate=0.5))
        return {"alpha": "auto", "prior_intercept": None, "schema": told, "classes": None}
    if row.option == "sum":
        return asked("trust", "sum")
    return asked(row.option, True) if row.option else {}


def _source(row: AuditCase, kind: str | None) -> Any:
    """Return a release of the same shape, of somebody who was sure."""
    common: dict[str, Any] = {"classes": list(range(row.classes)), "budget": Ledger()}
    common |= {"epsilon": 20.0, "random_state": 0, "alpha": 1.0, "intercept_scale": _CONSTANT}
    if row.geometry in _SCHEMAS:
        common |= {"schema": _SCHEMAS[row.geometry], "geometry": "schema"}
    if row.delta:
        common |= {"delta": _DELTA}
    if kind == "plr":
        made: Any = designed(PrivateLogisticRegression(), **common)
    else:
        groups: Any = [["line", "curve"], ["block"]] if "schema" in common else [[0, 1], [2, 3]]
        made = FeatureStackingClassifier(groups=groups, split_seed=None)
        made = designed(made, **common)
        if "schema" in common:
            designed(made, clipping="separate", combiner="vote")
    return made.fit(**_neighbours(replace(row, relation="replace-one"))[0]).to_release()


def _neighbours(row: AuditCase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two data sets that differ in the first record, or in the first party."""
    shape = find_method(row.method).shape
    if shape == "votes":
        return _crowds(row)
    n = _RECORDS
    y = np.arange(n) % row.classes
    y[0 if row.relation == "replace-one" else -1] = 0  # whoever changes: a misfit to who is sure
    X: Any
    if row.geometry in ("body", "bodies"):
        X = pa.table(
            {
                "line": np.where(np.arange(n) % 2, -1.0, 1.0),
                "curve": np.linspace(0, 1, n),
                "block": np.resize(["a", "b", "c"], n),
            }
        )
        other = _first_changed(X, {"line": -1.0, "curve": 1.0, "block": "b"})
    else:
        X = np.resize(np.vstack([np.eye(4), -np.eye(4)]), (n, 4))
        other = X.copy()
        # Opposite rows have the same squares: coefficients of both move most between these.
        other[0] = (-0.6, 0.8, 0, 0) if row.method == "ofaa" else -X[0]
    first: dict[str, Any] = {"X": X, "y": y}
    second = {"X": other, "y": y}
    if row.option == "contrast":  # moves most where the label alone changes
        second = {"X": X, "y": np.append(1 - y[0], y[1:])}
    if row.relation == "add-remove":
        second = {"X": X[:-1], "y": y[:-1]}  # whoever stays keeps its place, and what it draws
    if shape == "together":
        first |= {"party": np.arange(n) % 3}
        second |= {"party": np.arange(len(second["y"])) % 3}
    return first, second


def _first_changed(table: pa.Table, row: dict[str, object]) -> pa.Table:
    others = table[1:].to_pydict()
    return pa.table({name: [row[name], *others[name]] for name in table.column_names})


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
    if isinstance(protocol, GradientRounds):
        # Weights are public whatever they are: here all are sure of the last class.
        sure = np.zeros_like(protocol.at(plan.sizes).centre)
        sure[(-1, -1) if protocol.n_classes > 2 else -1] = 1e6
        return protocol.terms_at(PartyRows.of(records), plan.sizes, sure)
    return list(plan.terms(records))


def _table1(row: AuditCase, epsilon: float) -> Sides:
    """Return the counts of two tables of which one record differs in every column."""
    if (row.classes, row.geometry, row.delta) != (2, "ball", False) or row.option not in (
        "",
        "sum",
    ):
        raise InvalidParameter("Table 1 has neither classes nor a body nor a delta.")
    relation, counted = check_relation(row.relation), CohortCounts(_PEOPLE)
    others = [{"age": 50.0, "job": "a", "ill": "no"}] * 3
    changed = [[{"age": 100.0, "job": "b", "ill": "yes"}], [{"age": 0.0, "job": "c", "ill": "no"}]]
    if relation is Neighbours.ADD_REMOVE:
        changed[0] = []
    sums = [counted.sums(pa.Table.from_pylist([*one, *others])) for one in changed]
    if not row.option:
        point = counted.point(epsilon, relation)
        return Sides(point, *([Term("counts", point, one)] for one in sums))
    counting = CountedSum(
        epsilon, n_parties=3, collusion_threshold=1, max_retries=_RESERVE, quorum=1.0, largest=100
    )
    summed = counting.steps(relation, counted.size, counted.moved(relation))
    nobody = np.zeros_like(sums[0], dtype=np.float64)
    both = (np.stack([one.astype(np.float64), nobody, nobody]) for one in sums)
    return Sides(summed, *([Term("counts", summed, one)] for one in both))


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
            "noise": lambda: iter([noise_audit(sides.first, random_state=random_state)]),
            "theorem": lambda: _theorems(sides),
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
            share, where = max(found)
            shares[name] = share
            worst = max(worst, (share, f"{name}: {where}"))
    return RowAudit(row, shares, worst[1], time.process_time() - start)


def _ratios(sides: Sides, seed: int) -> Shares:
    """Yield exact losses over claims: of each mechanism, and of all on two data sets."""
    for mechanism in sides.mechanisms:
        if isinstance(mechanism, Objective | PriorCheck):
            found = exact_audit(mechanism, draws=8, random_state=seed)
            yield found.epsilon / mechanism.epsilon, f"{type(mechanism).__name__}, {found.where}"
    claimed = sides.plan.guarantee()
    built = all(isinstance(each, Objective | PriorCheck) for each in sides.mechanisms)
    if claimed.neighbours is Neighbours.ADD_REMOVE and built:
        return  # given the cells that rows draw, two data sets are what was just built
    first, second = (
        [
            density
            for term in terms
            for _ in range(_times(term.mechanism))
            for density in densities(term.mechanism, term.data)
        ]
        for terms in (sides.first, sides.second)
    )
    lost = loss_between(first, second, delta=claimed.delta, seed=seed, climb=False)
    yield lost / claimed.epsilon, "two data sets"


def _times(mechanism: Any) -> int:
    """Return how often whoever runs a study can ask for a release."""
    return tries_let_through(mechanism) if isinstance(mechanism, SecureSum) else 1


def _theorems(sides: Sides) -> Shares:
    for mechanism in sides.mechanisms:
        yield from theorem_audit(mechanism)


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
    protocol = getattr(sides.plan, "protocol", None)
    rounds = protocol.rounds if isinstance(protocol, OneMessage | GradientRounds) else 1
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
