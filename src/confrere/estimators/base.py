"""What every private classifier does in the same order: check, plan, charge, act, keep; predict.

What it is told before any data are coefficients as given, or a schema's experts. Predictions are
under the data's own names, from raw rows where a model has an encoder.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, partial
from inspect import currentframe
from traceback import walk_stack
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from confrere.data.cells import (
    Coded,
    Container,
    declared_classes,
    encode_labels,
    is_table,
    n_rows_of,
    plain_labels,
)
from confrere.data.encoding import SchemaEncoder
from confrere.data.schema import PublicSchema
from confrere.data.tables import Batch, RowTable, check_engine, coded, opened_engine
from confrere.errors import InvalidData, InvalidParameter, PrivacyWarning
from confrere.kernel.accountants import Labels as LabelArray
from confrere.kernel.guarantee import Guarantee, added, check_bound, check_epsilon
from confrere.kernel.release import paying
from confrere.ledger import Budget, Ledger, Receipt, default_ledger, payer
from confrere.methods.design import AddRemove, Settings, design
from confrere.methods.geometry import GAIN, OF_EXPERTS, ExpectedArea
from confrere.methods.plan import LabelledTable, Plan, PublicFacts
from confrere.methods.priors import encoded_by
from confrere.model import Encoder, Model
from confrere.model.summary import Scorecard, scorecard, summarised
from confrere.release import Release, Simulated
from confrere.release.spending import promised_with, schema_of, seeded_facts, with_facts
from confrere.simulation import Seed, SeededSource

# --- parameters ---

Check = Callable[[object, str], object]


_Kind = TypeVar("_Kind", bound=type)
_Model = TypeVar("_Model", bound="PrivateEstimator")


def must_be(words: str, fits: Callable[[object], object]) -> Check:
    """Return a check of a parameter: what it must be, and whether it is."""

    def check(value: object, name: str) -> None:
        if not fits(value):
            raise InvalidParameter(f"{name} must be {words}.")

    return check


def numbers(
    words: str,  # What they must be
    least: float,
    most: float = math.inf,
    *,
    whole: bool = False,
    auto: bool = False,  # Whether a public rule may stand for one
    several: bool = False,  # Whether a list of them will do as well
) -> Check:
    """Return a check of a number, or of several."""
    kinds = int | np.integer if whole else int | float | np.number

    def fine(one: Any) -> bool:
        if auto and isinstance(one, str) and one == "auto":
            return True
        return isinstance(one, kinds) and not isinstance(one, bool) and bool(least <= one <= most)

    def each(value: Any) -> bool:
        listed = several and isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1
        return all(map(fine, value)) and len(value) > 0 if listed else fine(value)

    return must_be(words, each)


def one_of(choices: tuple[str, ...]) -> Check:
    """Return a check that a value is one of these."""
    words = f"one of {', '.join(map(repr, choices))}"
    return must_be(words, lambda value: isinstance(value, str) and value in choices)


Auto = float | Literal["auto"]
#: The doubles above zero, and below one.
_ABOVE, _BELOW = (math.ulp(0.0), sys.float_info.max), math.nextafter(1, 0)
_BOUND, _COUNT = "a finite number above 0", "a whole number of at least 1"
_EACH = "a number between 0 and 1, or one per group"
_RIDGES = f"'auto', {_BOUND}, or a list of them"
#: A price; a probability that it does not hold.
Epsilon = Annotated[float, check_epsilon]
Delta = Annotated[float, numbers("in [0, 1); 0 is pure privacy", 0, _BELOW)]
#: A number above zero; one or several.
Bound = Annotated[float, check_bound]
Bounds = Annotated[float | Sequence[float], numbers(f"{_BOUND}, or several", *_ABOVE, several=True)]
#: A ridge on the mean loss, or the public rule; for all columns or groups, or for each.
Ridge = Annotated[Auto, numbers(f"'auto' or {_BOUND}", *_ABOVE, auto=True)]
Ridges = Annotated[Auto | ArrayLike, numbers(_RIDGES, *_ABOVE, auto=True, several=True)]
#: From 0 to 1; for all groups, or for each.
Weight = Annotated[float | None, numbers("None or between 0 and 1", 0, 1)]
Weights = Annotated[float | Sequence[float], numbers(_EACH, 0, 1, several=True)]
#: Coefficients that are known before any data: as given, or as the schema's experts see them.
_EXPERTS = ("auto", "experts", "none")
Experts = Annotated[
    ArrayLike | Literal["auto", "experts", "none"] | None,
    must_be(
        '"auto", "experts", None or one number per column',
        lambda value: not isinstance(value, str) or value in _EXPERTS,
    ),
]
#: A whole number from 1; one that may be zero.
Count = Annotated[int, numbers(_COUNT, 1, whole=True)]
AutoCount = Annotated[
    int | Literal["auto"], numbers(f"'auto' or {_COUNT}", 1, whole=True, auto=True)
]
Spare = Annotated[int, numbers("a whole number of at least 0", 0, whole=True)]
#: Which change of the data is hidden.
Relation = Annotated[
    Literal["replace-one"] | AddRemove,
    must_be(
        '"replace-one" or AddRemove(n_samples), with a public stand-in for the number of rows',
        lambda value: isinstance(value, AddRemove) or value == "replace-one",
    ),
]
#: A declared label set.
Labels = ArrayLike | None
#: Who reads the rows of one organisation.
RowEngine = Annotated[Any, check_engine]
#: Where a price is charged; None is the process's own.
Payer = Annotated[
    Budget | Ledger | None,
    must_be(
        'an account of a ledger, as ledger["patients"], or None',
        lambda value: isinstance(value, Budget | Ledger | None),
    ),
]
#: What raw columns mean.
Meaning = Annotated[
    PublicSchema | SchemaEncoder | None,
    must_be(
        "a PublicSchema, one of its encoders, or None",
        lambda value: isinstance(value, PublicSchema | SchemaEncoder | None),
    ),
]


_SCHEMA = "the schema's: {}; without one, {}"
_DESIGN = "a setting of the design, for research: confrere.estimators.designed(model, {}=...)"
#: Parameters of earlier versions, and what has come in their place.
RENAMED = {
    "ledger": 'budget=ledger["account"]',
    "account": 'budget=ledger["account"]',
    "labels": "classes",
    "C": "alpha, which is larger where more is regularised",
    "declared_samples": "neighbours=AddRemove(n_samples)",
    "noise": 'geometry="auto", "schema" or "l2"',
    "loss": 'purpose="inference" for the logistic loss',
    "colluding": "collusion_threshold",
    "reserve": "max_retries",
    "radius": "gone: the ellipsoid is never worse",
    "stop_below": "gone: more rounds only divide epsilon, so give fewer",
    "feature_scale": _SCHEMA.format("importance of its columns", "multiply columns before fit"),
    "prior_intercept": _SCHEMA.format("base_rate of its label", "none"),
}
_SET = "fit_intercept intercept_scale ridge_floor prior_check clipping high_alpha high_fraction"
RENAMED |= {_name: _DESIGN.format(_name) for _name in _SET.split()}


#: Parameters that are shown behind all others, in this order.
_LAST = ("engine", "classes", "data_norm", "random_state")


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: _LAST.index(name) if name in _LAST else -1)


class KnownParameters:
    """What every estimator says about a parameter that it does not have: the nearest one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    model_: Any
    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool
    n_features_in_: int
    sources_: tuple[Release, ...] = ()
    _rows: Callable[[Any], Any]  #: Those that the model reads
    _learned: Callable[[Any, object], tuple[LabelArray, NDArray[np.generic]]]
    _design: Mapping[str, object] = MappingProxyType({})  #: What :func:`designed` has set

    def __new__(cls, *args: object, **parameters: object) -> Self:  # noqa: ARG004, D102
        cls._refuse_unknown(parameters)
        return super().__new__(cls)

    @classmethod
    def _refuse_unknown(cls, parameters: Mapping[str, object]) -> None:
        for name in parameters.keys() - cls.__dataclass_fields__.keys():
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; {cls.instead_of(name)}")

    @classmethod
    def instead_of(cls, name: str, known: Iterable[str] = ()) -> str:
        """Return what to say about a parameter that is not there: the nearest one, or all."""
        if name in RENAMED:
            return f"it is now {RENAMED[name]}."
        known = [*known] or _in_order(cls.__dataclass_fields__)
        near = get_close_matches(name, known, n=1)
        return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."

    def set_params(self, **parameters: object) -> Self:
        """Set parameters; one that is not known is refused with the nearest that is."""
        self._refuse_unknown({name: one for name, one in parameters.items() if "__" not in name})
        return super().set_params(**parameters)  # type: ignore[misc,no-any-return]


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(kind: _Kind) -> _Kind:
    """Make a class of parameters, with what its bases say of those that it says nothing about."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(kind)
    # ``__new__`` would hide the constructor's own.
    _, *given = (whole := inspect.signature(made.__init__)).parameters
    ordered = [whole.parameters[name] for name in _in_order(given)]
    made.__signature__ = whole.replace(parameters=ordered)
    made.own_doc = _sections(kind.__doc__ or "")
    own = dict(made.own_doc)
    bases = [getattr(base, "own_doc", {}) for base in made.__mro__]
    parameters = made.__dataclass_fields__
    for title in _INHERITED:
        said: dict[str, str] = {}
        for base in reversed(bases):
            said |= dict(re.findall(_ENTRY, base.get(title, ""), re.MULTILINE))
        names = _in_order(parameters) if title == "Parameters" else [*said]
        texts = [f"{name}{said[name].rstrip()}" for name in names if name in said]
        if title == "Parameters":
            texts = [_with_default(text, parameters[text.split()[0]].default) for text in texts]
        elif title == "Notes" and texts:
            texts = ["**Privacy**", "", *texts]
        own[title] = "\n".join(texts) + "\n"
    order = ("", *_INHERITED, *own)
    made.__doc__ = "\n".join(
        (f"{title}\n{'-' * len(title)}\n" if title else "") + own[title].strip("\n") + "\n"
        for title in dict.fromkeys(order)
        if own[title].strip()
    )
    return made  # type: ignore[no-any-return]


#: Sections of a docstring to which every base adds, and an entry: its name, and the rest.
_INHERITED = ("Parameters", "Attributes", "Notes")
_ENTRY = r"^(\w+|:\w+:)( .*\n(?:    .*\n?)*)"


def _sections(doc: str) -> dict[str, str]:
    """Return a docstring's sections by title (first: none); from Python 3.13 none is indented."""
    first, *others = re.split(r"\n(\w+)\n-+\n", inspect.cleandoc(doc) + "\n")
    return {"": first, **dict(zip(others[::2], others[1::2], strict=True))}


def _with_default(entry: str, default: object) -> str:
    head, *text = entry.split("\n")
    shown = "optional" if default is None else f"default={default!r}".replace("'", '"')
    return "\n".join([f"{head}, {shown}", *text])


def check_parameters(estimator: object) -> None:
    """Refuse the first parameter that its annotation does not allow, naming it; touches no data.

    What was left as it is declared needs no look.
    """
    kind: Any = type(estimator)
    for name, check in _checks(kind).items():
        given = getattr(estimator, name)
        if given is not kind.__dataclass_fields__[name].default:
            check(given, name)


@cache
def _checks(kind: Any) -> dict[str, Check]:
    hints, found = get_type_hints(kind, include_extras=True), {}
    for name in kind.__dataclass_fields__:
        among, told = get_origin(hints[name]), get_args(hints[name])
        if among in (Annotated, Literal):
            found[name] = told[-1] if among is Annotated else one_of(told)
    return found


# --- what is allowed and probably not meant ---

#: For the owner of the data alone: nothing here crosses a wire.
OWNER = logging.getLogger("confrere.owner")
#: Rows that are looked at to say that most are too long.
_ROWS = 1000
#: What was logged already: once per process is enough.
_told: set[str] = set()
#: Cross-validations that were announced, each by the pool of workers that it made for itself.
_announced: WeakSet[object] = WeakSet()


def _callers(*names: str) -> Iterator[dict[str, Any]]:
    """Yield what is at hand in functions of these names around a fit: nobody else tells it."""
    for frame, _ in walk_stack(currentframe()):
        if frame.f_code.co_name in names:
            yield frame.f_locals


def _loaded(module: str, name: str) -> Any:
    """Return a class if anybody can have an instance of it; importing it for this takes long."""
    return getattr(sys.modules.get(module), name, ())


def about_steps(estimator: object) -> str:
    """Say if a pipeline fits something else on the same private rows first."""
    kind = _loaded("sklearn.pipeline", "Pipeline")
    for around in _callers("fit"):
        pipeline = around.get("self")
        if not isinstance(pipeline, kind) or pipeline.steps[-1][1] is not estimator:
            continue
        learning = [
            type(step).__name__
            for _, step in pipeline.steps[:-1]
            if step not in (None, "passthrough") and get_tags(step).requires_fit
        ]
        if learning:
            return (
                f"{', '.join(learning)} learns from the private rows in front of "
                f"{type(estimator).__name__}, and no guarantee covers that. Declare scales and "
                "bounds instead: schema=PublicSchema(...), or schema.encoder() as the step."
            )
    return ""


def about_norm(encoder: SchemaEncoder, data_norm: object) -> str:
    """Say, from declared facts alone, if a norm shortens most rows or is reached by none."""
    asked = encoder.schema.clip_norm if encoder.clip_norm is None else encoder.clip_norm
    usual = encoder.schema.rms_norm
    if not isinstance(asked, str) and asked < usual / 2:
        return (
            f"clip_norm={asked:g} shortens most rows: the schema implies a length of about "
            f'{usual:.2g}. Give clip_norm="rms", or declare other facts.'
        )
    if not isinstance(data_norm, int | float) or 0.5 <= data_norm <= 2:
        return ""
    effect = "shortens most of them" if data_norm < 1 else "pays for lengths that none has"
    told = f"with a schema rows have length 1 at most, and data_norm={data_norm:g} {effect}. "
    return f"{told}Leave it out."


def about_experts(encoder: SchemaEncoder, expected: ExpectedArea | None) -> str:
    """Say, before anything is spent, if records hardly add to the experts that are asked."""
    if expected is None or not encoder.schema.has_signs:
        return ""
    alone = OF_EXPERTS.at(expected.best)
    if not 0 <= expected.auc - alone.auc < GAIN:
        return ""
    told = f"expected AUC {alone.auc:.3f} beside {expected.auc:.3f}, if {alone.best:g} is best"
    return f"schema.expert_score(X) may rank as well as this fit, and costs nothing: {told}."


def about_cap(ledger: Ledger, account: str | None) -> str:
    """Say if nothing limits what is spent; of the session's own ledger, log it once."""
    if ledger.ephemeral:
        _log_once(logging.INFO, "charged to a ledger that goes with this process: no cap holds.")
    elif math.isinf(ledger.left(account)):
        name = "the account" if account is None else f"account {account!r}"
        told = f"{name} has no cap: nothing limits what is spent on these records."
        return f"{told} Open one with a cap: ledger.open_account(name, epsilon=...)."
    return ""


def announce_fits(estimator: PrivateEstimator) -> tuple[float, float] | None:
    """Say what a search or a cross-validation around a copy will spend, and return it: once.

    Both ask for copies of the estimator before they fit one. Whoever is asked compares this with
    what is left: scikit-learn takes a fit that is refused for a score of nan, and goes on.
    """
    if (planned := _planned(estimator)) is None:
        return None
    who, instead, prices = planned
    epsilon, delta = (added(each) for each in zip(*prices, strict=True))
    if estimator.random_state is None:
        warnings.warn(
            f"{who} will fit {type(estimator).__name__} {len(prices)} times, each at its own "
            f"price: epsilon {epsilon:g} in all, and its scores are read off private rows for "
            f"nothing. {instead}",
            PrivacyWarning,
            stacklevel=2,
        )
    return epsilon, delta


def _planned(estimator: object) -> tuple[str, str, list[tuple[float, float]]] | None:
    """Return the prices of all fits of who asks for a first copy: a search, or folds."""
    kind = _loaded("sklearn.model_selection", "GridSearchCV")
    for around in _callers("fit", "cross_validate", "cross_val_predict"):
        search, workers = around.get("self"), around.get("parallel")
        cv: Any = around.get("cv")
        if isinstance(search, kind):
            if "base_estimator" in around or not _ends_in(search.estimator, estimator):
                return None  # copies of the copy, or of a search around another one
            grid = sys.modules["sklearn.model_selection"].ParameterGrid(search.param_grid)
            prices = [_price(candidate, estimator) for candidate in grid]
            fits = prices * (around.get("n_splits") or search.n_splits_)
            dearest = tuple(map(max, zip(*prices, strict=True)))
            told = "GridSearchCV", "Defaults follow public rules and cost nothing."
            return *told, fits + [dearest] * bool(search.refit)
        if search is None and workers is not None and hasattr(cv, "get_n_splits"):
            if workers in _announced or not _ends_in(around.get("estimator"), estimator):
                return None
            _announced.add(workers)
            folds = cv.get_n_splits(around.get("X"), around.get("y"), around.get("groups"))
            instead = "confrere.evaluation.evaluate measures for one epsilon."
            return "Cross-validation", instead, [_price({}, estimator)] * folds
    return None


def _ends_in(model: object, estimator: object) -> bool:
    """Whether a model is an estimator, or a pipeline that ends in it."""
    while isinstance(model, _loaded("sklearn.pipeline", "Pipeline")):
        model = model.steps[-1][1]
    return model is estimator


def _price(candidate: Mapping[str, object], estimator: object) -> tuple[float, float]:
    """Return epsilon and delta of one fit; nothing, if it will be refused for what they are."""
    told = vars(estimator) | {name.split("__")[-1]: one for name, one in candidate.items()}
    with suppress(ValueError, TypeError):
        price = Guarantee(told["epsilon"], told.get("delta", 0))
        return price.epsilon, price.delta
    return 0.0, 0.0


def _log_once(level: int, text: str) -> None:
    if text not in _told:
        _told.add(text)
        OWNER.log(level, text)


def tell_owner_about_length(data: object, bound: object) -> None:
    """Log, after a fit, that most of the rows were shortened to the declared norm."""
    X: Any = getattr(data, "X", None)
    if not isinstance(bound, int | float) or not math.isfinite(bound) or not hasattr(X, "dtype"):
        return
    rows = X[:_ROWS]
    with np.errstate(all="ignore"):  # the longest rows are infinitely long: that will do
        squares = rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows
        lengths = np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64)).ravel()
    if len(lengths) and np.mean(lengths > bound * (1 + 1e-9)) > 0.5:
        _log_once(
            logging.WARNING,
            f"most rows are longer than data_norm={bound:g} and were shortened to it, so that much "
            "of what tells them apart is gone. Declare what is public: schema=PublicSchema(...), "
            "or a data_norm that follows from the bounds of the columns. (For the owner alone: "
            "this was read off the rows.)",
        )


# --- the way of the data ---


class Predicting(KnownParameters):
    """What every classifier with a model does.

    scikit-learn wants labels sorted; a model knows which side is positive. Where the two orders
    differ, scores change their sign and columns their place.
    """

    def decision_function(self, X: object) -> NDArray[np.float64]:
        """Return the score of every row, ``(n,)`` for two classes and ``(n, K)`` for more."""
        rows = self._rows(X)
        scores = self.model_.decision_function(rows)
        order = _order(self.model_)
        if scores.ndim == 2:
            return np.asarray(scores[:, order])
        return np.asarray(scores if order[0] == 0 else -scores)

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """Return the model's class probabilities; of votes, the share of the votes."""
        rows = self._rows(X)
        return np.asarray(self.model_.predict_proba(rows)[:, _order(self.model_)])

    def risk(self, X: object) -> NDArray[np.float64]:
        """Return the probability of the declared positive side, for two classes.

        Without a schema that is the second of the sorted labels.
        """
        rows = self._rows(X)
        if len(self.model_.labels) > 2:
            raise InvalidParameter("risk is for two classes; of more use predict_proba.")
        return np.asarray(self.model_.predict_proba(rows)[:, 1])

    def predict(self, X: object) -> NDArray[np.generic]:
        """Return the most probable class of every row."""
        rows = self._rows(X)
        codes = self.model_.codes(self.model_.decision_function(rows))
        return np.asarray(np.asarray(self.model_.labels)[codes])

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the share of rows whose class is predicted right; looks at the labels, unpaid.

        Labels may be left out where a schema says in which column of the table they are.
        """
        predicted = self.predict(X)
        return float(accuracy_score(self.true_labels(X, y), predicted, sample_weight=sample_weight))

    def true_labels(self, X: object, y: object = None) -> object:
        """Return labels by the names that are predicted; without ``y``, those in the table."""
        encoder = self.model_.encoder
        outcome = None if encoder is None else encoder.schema.outcome
        if outcome is None or encoder is None or encoder.labels is None:
            if y is None:
                raise InvalidData("y must be given: no schema says where the labels are.")
            return y
        found = outcome.encode(outcome.column_of(X if y is None else y))
        return np.asarray(encoder.labels)[np.searchsorted(np.asarray(self.model_.classes), found)]


def _order(model: Model) -> NDArray[np.intp]:
    return np.argsort(np.asarray(model.labels), kind="stable")


def sorted_labels(model: Model) -> NDArray[np.generic]:
    """Return the names of the classes in scikit-learn's order."""
    return np.sort(np.asarray(model.labels), kind="stable")


def carried(encoder: SchemaEncoder, model: Model) -> Encoder:
    """Return an encoder as a model carries it, with the data's names for the schema's classes."""
    outcome = encoder.schema.outcome
    named = outcome is not None and tuple(model.classes) == outcome.labels
    return Encoder.of(encoder, labelled=named)


def who_paid(receipt: Receipt, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    several = len(sources) > 1
    names = (f"source {k}" if several else "source" for k in range(1, len(sources) + 1))
    pairs = zip(names, sources, strict=True)
    return {"target": receipt} | {name: one.receipt or one.guarantee for name, one in pairs}


@estimator
class PrivateEstimator(KnownParameters, BaseEstimator):  # type: ignore[misc]
    """The way of the data, once: nothing is drawn before the ledger has the price on disk.

    A subclass declares its parameters, whose annotations are what they are checked against, and the
    kind of its releases: what follows from them is designed in :mod:`confrere.methods.design`.

    Parameters
    ----------
    epsilon : float
        Price of one ``fit``.
    schema : PublicSchema or SchemaEncoder
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused. Its importances weigh columns, its signs are the experts', and from epsilon .5 on
        the intercept starts at its base rate.
    budget : Budget
        The account of a ledger that pays: ``ledger["patients"]``, or a ledger with one account. By
        default the process's own, which has no cap.
    delta : float
        0 is pure privacy. Above 0, and below ``1/n_samples``, the noise is Gaussian: less of it the
        more features there are, for a guarantee that may fail with that probability.
    prior : array of shape (n_features,) or (n_classes, n_features), "auto", "experts" or None
        Public coefficients to shrink towards, in the units of ``coef_``: log odds as experts see
        them, of more than two classes with a row for each. ``"experts"``, for two classes, are the
        signs, importances and the base rate that the schema declares. ``"auto"`` asks them for
        a linear model of one organisation, or an average, wherever signs are declared; None, or
        ``"none"``, asks nobody. A twentieth to nine tenths of ``epsilon`` pays for a noised answer
        to how far the prior holds on these records, and it is used so far.
    alpha : float or "auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features.
    neighbours : "replace-one" or AddRemove
        Which change of the data is hidden. ``AddRemove(n_samples)`` does not take the number of
        rows to be public, and has a public stand-in for it.
    geometry : {"auto", "schema", "l2"}
        The sensitivity set that noise is made for. ``"schema"`` is the one that the schema declares
        (a K-norm mechanism), in which a number lies in an interval or on a spline and one of a
        category's columns is one; with a delta rows are the same, and noise is Gaussian where that
        pays. ``"l2"`` is the L2 ball of ``data_norm``. ``"auto"`` takes the schema's wherever a
        schema without importances, or with signs, is given, unless numbers of ``prior`` or
        ``alpha`` speak of columns one by one.
    purpose : {"prediction", "inference"}
        ``"inference"`` is for coefficients that are read as log odds: the logistic loss and, where
        a schema is given, its geometry with lines in all of their bounds, around its base rate; the
        automatic ridge is the least at which it costs no noise, ``2 / epsilon`` of the summed loss.
        For predictions the loss goes on linearly where its slope reaches one half: about half the
        noise. More than two classes have the softmax loss.
    classes : list
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    data_norm : float
        Declared bound on the Euclidean norm of a row; longer rows are clipped to it.
    random_state : int or generator
        Simulation only: the result is marked simulated and cannot be released.
    source : Release, path, or a sequence of them
        What other organisations released; required by ``fit``.
    source_keys : mapping of party to public key
        Signatures that a source read from disk must carry.
    collusion_threshold : int or "auto"
        For sums: how many parties may pool what they know. The noise is made by the shares of the
        others. By default fewer than half of them.
    max_retries : int
        For sums: how many lost ones the price covers besides. Between machines somebody may vanish
        in the middle of one; the noise is made for all of them.

    Attributes
    ----------
    guarantee_ : Guarantee
        What was promised.
    receipt_ : Receipt
        The ledger entry that paid for it.
    simulated_ : bool
        Whether the noise came from a seed.

    Notes
    -----
    :Unit: record
    :Neighbours: replace one row of ``(X, y)``; with :class:`AddRemove` one comes or goes
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP with a ``delta``
    :Spends: ``epsilon`` and ``delta`` of ``budget``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, every parameter
    """

    epsilon: Epsilon = field(default=1.0, kw_only=False)
    schema: Meaning = field(default=None, kw_only=False)
    budget: Payer = field(default=None, kw_only=False)
    delta: Delta = 0.0
    random_state: Seed | None = None

    #: The kind of its releases, and what it takes: not annotated, so that they are no parameters.
    _kind = ""
    _sparse = True
    _dtype: ClassVar[object] = np.float64

    def plan(self, facts: PublicFacts) -> Plan[object]:
        """Return everything that is decided before the data are touched."""
        return design(self._asked(), facts)

    def _asked(self, *, opened: bool = True) -> Settings:
        """Return what is asked; without ``opened`` no release is read."""
        given = self._values(Settings)
        return Settings(kind=self._kind, sources=self._sources() if opened else (), **given)

    def _values(self, kind: Any) -> dict[str, Any]:
        """Return parameters, and what :func:`designed` has set, by the fields of a class."""
        return {
            name: value
            for name, value in {**self.get_params(deep=False), **self._design}.items()
            if name in kind.__dataclass_fields__
        }

    def _sources(self) -> tuple[Release, ...]:
        """Return the releases that are started from."""
        return ()

    def privacy_cost(
        self, n_samples: object, n_features: int | None = None, n_classes: int | None = None
    ) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data.

        Parameters
        ----------
        n_samples : int, or table
            How many rows; of a table only their number is used.
        n_features, n_classes : int, optional
            Follow from the schema if there is one; otherwise columns must be said, and classes are
            two unless said.
        """
        check_parameters(self)
        price = self.plan(self._sizes(n_samples, n_features, n_classes)).guarantee()
        return promised_with(schema_of(self._encoder()), price)

    def _sizes(self, n_samples: Any, n_features: int | None, n_classes: int | None) -> PublicFacts:
        """Return the public sizes that a price depends on."""
        if not isinstance(n_samples, int | np.integer):
            if self.schema is None:
                n_features = n_features or int(np.shape(n_samples)[1])
            n_samples = n_rows_of(n_samples)
        encoder = self._encoder(int(n_samples))
        if encoder is not None:
            outcome = encoder.schema.outcome
            n_features = n_features or len(encoder.names)
            n_classes = n_classes or (2 if outcome is None else len(outcome.labels))
        if n_features is None:
            raise InvalidParameter("n_features must be given: there is no schema that says it.")
        n_classes = 2 if n_classes is None else n_classes
        return PublicFacts(n_samples=int(n_samples), n_features=n_features, n_classes=n_classes)

    def prepare(self, X: object, y: object) -> tuple[Plan[object], LabelledTable]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        table = self._table(X, y)
        return self.plan(table.facts), table

    def fit(self, X: object, y: object = None) -> Self:
        """Charge the price, then release a model of ``(X, y)``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or raw table
            A raw table, of pandas, polars or pyarrow, where there is a ``schema``. Or a
            :class:`~confrere.data.tables.RowTable`: a file or a database, read once, with
            ``y`` the name of its label column.
        y : array of shape (n_samples,)
            Labels. With a schema, as its label declares them; they may be left out then, if the
            table holds them.
        """
        return self._fit(X, y)

    def _fit(self, X: object, y: object, **public: object) -> Self:
        plan, data = self.prepare(X, y, **public)
        if self.random_state is None:
            self._warn(about_steps(self))
            if self.schema is not None and (encoder := self._encoder()) is not None:
                self._warn(about_norm(encoder, getattr(self, "data_norm", None)))
                self._warn(about_experts(encoder, getattr(plan, "expected", None)))
        if getattr(self, "engine", None) is None:
            return self._pay_and_learn(plan, data)
        with opened_engine(self.engine) as engine:
            return self._pay_and_learn(plan, replace(data, engine=engine))

    def _warn(self, told: str) -> None:
        if told:
            warnings.warn(told, PrivacyWarning, stacklevel=4)

    def _pay_and_learn(self, plan: Plan[Any], data: LabelledTable) -> Self:
        ledger, account = self._paying
        if self.random_state is None:
            self._warn(about_cap(ledger, account))
        priced = plan.priced
        guarantee, event = priced.guarantee(), priced.event()
        if self.schema is not None:
            guarantee = promised_with(schema_of(self._encoder()), guarantee)
        if self.budget is None:
            ledger, account = payer(None, guarantee)
        simulation = None if self.random_state is None else SeededSource(self.random_state)
        paid, named = partial(paying, event=event, purpose=f"fit {type(self).__name__}"), account
        with paid(ledger, named, guarantee, simulation=simulation) as ticket:
            learned = plan.run(data, ticket)
            model = learned if isinstance(learned, Model) else learned[0]
            model = model if self.schema is None else self._encoding_model(model)
            ticket.made = model.digest()
        self.guarantee_, self.receipt_ = guarantee, ticket.receipt
        self.simulated_ = ticket.simulated
        tell_owner_about_length(data, getattr(self, "data_norm", None))
        self._keep(plan, learned, model)
        return self

    def _encoding_model(self, model: Model) -> Model:
        """Return the model with what turns raw rows into its own."""
        encoder = self._encoder(model.facts.n_samples)
        return model if encoder is None else encoded_by(model, carried(encoder, model))

    def _keep(self, plan: Any, learned: Any, model: Model) -> None:  # noqa: ARG002
        """Set fitted attributes, from what was released and from public facts alone."""
        self.model_ = model
        if model.classes:
            self.classes_ = sorted_labels(self.model_)
        self.expected_auc_ = getattr(plan, "expected", None)
        if sources := getattr(plan, "sources", ()):
            self.sources_ = sources

    def to_release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them.

        The card of a model that started from sources says what a person in several domains pays.

        Parameters
        ----------
        encoder : SchemaEncoder, optional
            What encoded the rows that ``fit`` was given, where it was a step of its own: of a
            pipeline, ``pipeline[-1].to_release(pipeline[0])``. The ledger notes the model with it.
        """
        check_is_fitted(self)
        model = self.model_ if encoder is None else self._carrying(encoder)
        paid = who_paid(self.receipt_, self.sources_)
        seeded = self.simulated_ or seeded_facts(schema_of(model.encoder))
        return (Simulated if seeded else Release)(
            kind=self._kind,
            model=model,
            guarantee=self.guarantee_,
            receipt=self.receipt_,
            parties=with_facts(paid, self.receipt_, schema_of(model.encoder)),
        )

    def _carrying(self, encoder: SchemaEncoder) -> Model:
        """Return the model with an encoder that stood before the estimator."""
        if self.model_.encoder is not None:
            raise InvalidParameter("encoder: the model has one already, from its schema.")
        if not isinstance(encoder, SchemaEncoder):
            raise InvalidParameter("encoder must be a SchemaEncoder: a release carries no other.")
        names, read = encoder.names, len(self.model_.features)
        if len(names) != read:
            raise InvalidParameter(f"encoder makes {len(names)} columns, the model reads {read}.")
        named = replace(self.model_, features=names)
        model = replace(named, encoder=carried(encoder, named))
        self._paying[0].note_model(self.receipt_, digest=model.digest())
        return model  # type: ignore[no-any-return]

    def __sklearn_clone__(self) -> Self:
        ledger, account = self._paying
        total = announce_fits(self)
        if total and (self.budget is not None or not ledger.ephemeral):
            ledger.require(account, *total)
        copy: Self = super().__sklearn_clone__()
        return designed(copy, **self._design)

    @property
    def _paying(self) -> tuple[Ledger, str | None]:
        given = default_ledger() if self.budget is None else self.budget
        return given if isinstance(given, Budget) else (given, None)

    def _checked(self, *arrays: object, **rules: object) -> Any:
        try:
            # Whether all are finite is asked of their sum first, which may overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                sparse = "csr" if self._sparse else False
                return validate_data(self, *arrays, **{"accept_sparse": sparse, **rules})
        except ValueError as error:
            raise _without_values(error) from None

    def _encoder(self, n_samples: int | None = None) -> SchemaEncoder | None:
        if self.schema is None or isinstance(self.schema, SchemaEncoder):
            return self.schema
        asked = self._asked(opened=n_samples is not None)
        return asked.encoder(n_samples, getattr(self, "_party_sizes", ()))

    def encoder_for(self, sizes: Mapping[str, int]) -> SchemaEncoder | None:
        """Return what encodes raw tables of parties of these public numbers of rows."""
        return self._asked().encoder(sum(sizes.values()), sizes.values())

    @property
    def _least_rows(self) -> int:
        return 0 if isinstance(getattr(self, "neighbours", None), AddRemove) else 1

    def _table(self, X: object, y: object) -> LabelledTable:
        encoder = self._encoder()
        if encoder is not None:
            rows, labels, encoder = self._coded(encoder, X, y)
            y, features = labels, list(encoder.names)
        elif isinstance(X, RowTable):
            raise InvalidParameter(
                "schema must say what the columns of a file or a database hold; of numbers, "
                "Number(column, bounds=(low, high))."
            )
        else:
            least = {"ensure_min_samples": self._least_rows}
            rows, labels = self._checked(X, y, dtype=self._dtype, **least)
            features = self._features()
        return LabelledTable(rows, *self._learned(labels, y), features)

    def _coded(
        self, encoder: SchemaEncoder, X: object, y: object
    ) -> tuple[Coded, NDArray[np.generic], SchemaEncoder]:
        """Return rows and labels of a raw table in any container, and what encodes so many."""
        if isinstance(X, RowTable):
            codes, labels = self._read(encoder, X, y)
        else:
            codes, labels = encoder.codes(X), _labels(encoder, X, y)
        n_rows = len(codes[0])
        outcome = encoder.schema.outcome
        if outcome and getattr(outcome, "positive", None) and not (labels > 0).any():
            # Not refused: whether one row has it must not decide whether a fit fails.
            told = f"column {outcome.column!r}: no row has a positive label; see what is declared"
            _log_once(logging.WARNING, f"{told} positive. (For the owner alone.)")
        if n_rows < self._least_rows:
            raise InvalidData("X has no rows; a minimum of 1 is required.")
        self.n_features_in_ = len(encoder.schema.columns)
        self.feature_names_in_ = np.array(encoder.schema.columns, dtype=object)
        chosen = self._encoder(n_rows) or encoder
        return chosen.coded(codes), labels, chosen

    def _read(self, encoder: SchemaEncoder, table: RowTable, y: Container) -> tuple[Any, Any]:
        outcome = encoder.schema.outcome
        if outcome is None and not isinstance(y, str):
            raise InvalidParameter("y must be the name of the table's label column.")
        names = (y,) if outcome is None else getattr(outcome, "columns", (outcome.column,))
        work = partial(_coding, encoder, y if outcome is None else None)
        with opened_engine(getattr(self, "engine", None)) as engine:
            return coded(table, [*encoder.schema.columns, *names], work, engine, self._least_rows)

    def _features(self) -> list[str]:
        """Return the columns' names as releases write them, where nothing encodes them."""
        unnamed = [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in getattr(self, "feature_names_in_", unnamed)]

    def _rows(self, X: object) -> Any:
        """Check rows to predict, and encode them."""
        check_is_fitted(self)
        if self.model_.encoder is not None:
            return self.model_.encoded(X)
        return self._checked(X, dtype=np.float64, reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags


@estimator
class PrivateClassifier(Predicting, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A private estimator of classes.

    Attributes
    ----------
    classes_ : array
        The declared label set, sorted.
    """

    classes: Labels = None

    def _learned(self, labels: Container, y: object) -> tuple[LabelArray, NDArray[np.generic]]:
        if self._encoder() is not None:
            return encode_labels(labels, classes := self._classes(labels)), classes
        labels = plain_labels("y", labels)
        if labels.dtype.kind not in "biu":  # whole numbers are classes
            check_classification_targets(labels)
        classes = declared_classes(self.classes, y, simulated=self.random_state is not None)
        return encode_labels(labels, classes), classes

    def _classes(self, y: object) -> NDArray[np.generic]:
        encoder = self._encoder()
        outcome = None if encoder is None else encoder.schema.outcome
        if outcome is None:
            return declared_classes(self.classes, y, simulated=self.random_state is not None)
        if not outcome.labels:
            raise InvalidParameter("schema: its outcome is a number; see confrere.outcomes.")
        declared = np.array(outcome.labels)
        if self.classes is not None and np.unique(self.classes).tolist() != declared.tolist():
            raise InvalidParameter("classes: the schema declares the label; leave classes out.")
        return declared


@estimator
class LinearClassifier(PrivateClassifier):
    """A private classifier that learns a linear model.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.

    Notes
    -----
    :Releases: ``coef_``, ``intercept_``
    """

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Released weights, for rows as given to ``fit``."""
        return np.asarray(self.model_.coef)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Released intercepts."""
        return np.asarray(self.model_.intercept)

    def summary(self) -> object:
        """Return coefficients per public unit: a data frame, or without pandas its columns."""
        check_is_fitted(self)
        return summarised(self.model_).frame()

    def scorecard(self, *, doubling: float = 20.0, level: float = 600.0) -> Scorecard:
        """Return points per bin: ``doubling`` for twice the odds, ``level`` at even ones."""
        check_is_fitted(self)
        return scorecard(self.model_, doubling, level)


def _coding(encoder: SchemaEncoder, label: str | None, batch: Batch) -> list[NDArray[np.generic]]:
    """Return codes and labels of some rows; a label that no schema declares has its column said."""
    return [*encoder.codes(batch), _labels(encoder, batch, label and batch[label])]


def _labels(encoder: SchemaEncoder, X: object, y: object) -> NDArray[np.generic]:
    outcome = encoder.schema.outcome
    if y is None and (outcome is None or not is_table(X)):
        raise InvalidData(NO_LABELS)
    labels = X if y is None else y
    if outcome is not None:
        found = outcome.encode(outcome.column_of(labels))
    else:
        found = plain_labels("y", labels)
        check_classification_targets(found)
    if len(found) != n_rows_of(X):
        raise InvalidData("y must hold one label per row of X.")
    return found


def designed(model: _Model, /, **settings: object) -> _Model:
    """Set parameters of an estimator, and settings of its design that have none: for research.

    Nothing here is needed for privacy; see :class:`confrere.methods.design.Settings`.
    """
    known = model.get_params(deep=False)
    model.set_params(**{name: settings.pop(name) for name in settings.keys() & known.keys()})
    if settings:
        model._design = {**model._design, **settings}
    return model


NO_LABELS = (
    "the estimator requires y to be passed, but the target y is None. Give fit(X, y), or a table "
    "and schema=PublicSchema(..., outcome=Label(...))."
)
#: What is said in place of scikit-learn's words, which quote data or advise what learns from them.
_INSTEAD = {
    "could not convert": "X must be numeric; give schema=PublicSchema(...) to fit raw tables.",
    "array=": "X must be a matrix. Reshape your data: one row per record.",
    "inconsistent numbers of samples": "y must hold one label per row of X.",
    "target y is None": NO_LABELS,
    "Input y contains": "y has NaN or infinity: drop rows without a label by a public rule.",
    "Input X contains": "X has NaN or infinity; give schema=PublicSchema(...), whose columns say "
    "what missing is: an imputer learns from records, which no guarantee covers.",
}


def _without_values(error: ValueError) -> ValueError:
    """Return an error of the same meaning that quotes nothing from the data, nor their number."""
    for word, told in _INSTEAD.items():
        if word in str(error):
            return InvalidData(told)
    return ValueError(re.sub(r"shape=\(\d+", "shape=(", str(error)))
