"""The public schema: everything that encoding needs, declared before anyone looks at data.

It is written as plain values and as the ``[data]`` tables of a study file; TOML that somebody else
wrote is looked at before it is parsed, so that it takes no hour to. A schema carries the receipts
of facts that were learned from records wherever it goes: what was paid for once is public from then
on, and counts in the total of everything that is learned with it. The experts' score, which needs
no data, is what a private classifier must beat.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import unified_diff
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import Array, Container, Value
from confrere.data.encoding import SchemaEncoder, check_clip_norm
from confrere.data.features import Category, Feature, Flag, Label, Number, Ordered, Outcome, Told
from confrere.errors import InvalidParameter, SchemaError, SchemaMismatch
from confrere.views import Pairs, Panel, Shown, Table

#: Parts of dotted keys in a line, and tables within tables.
_DEEPEST = 32
#: Tables of a file: a thousand parties, and columns.
_MOST_TABLES = 20_000

_SEPARATED = re.compile(r"[^\s,\[\]{}=#]+")
#: A number with a point, or one whole quoted word: no part of a dotted key. Were its first quote
#: the end of a key's part, a dot would follow; of a string, what follows would be no TOML.
_NO_KEY = re.compile(r"""[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|"[^".\\][^"\\]*"|'[^'.][^']*'""")


class TooDeep(ValueError):
    """A file that nobody needs; says which bound it breaks."""


def parse_bounded(text: str) -> Told:
    """Return what a TOML text holds, or raise TooDeep if it breaks a bound."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        words = _SEPARATED.findall(line) if line.count(".") > _DEEPEST else ()
        if sum(word.count(".") for word in words if not _NO_KEY.fullmatch(word)) > _DEEPEST:
            raise TooDeep(f"line {number} has a key of more than {_DEEPEST} parts")
    if sum(line.lstrip().startswith("[") for line in lines) > _MOST_TABLES:
        raise TooDeep(f"it has more than {_MOST_TABLES} tables")
    try:
        found = tomllib.loads(text)
        _check_depth(found, _DEEPEST)
    except RecursionError:
        raise TooDeep(f"it has more than {_DEEPEST} values within one another") from None
    return found


def _check_depth(value: object, left: int) -> None:
    if not left:
        raise RecursionError
    inside = value.values() if isinstance(value, dict) else value
    for one in inside if isinstance(value, dict | list) else ():  # type: ignore[attr-defined]
        _check_depth(one, left - 1)


#: What a receipt must say for a price to be known, and what was learned.
_NEEDED = {"ledger_id", "row", "account", "guarantee", "hash", "simulated"}
_LEARNED = TypeAdapter(dict[str, tuple[str, ...]])


@final
@dataclass(frozen=True)
class PaidFacts:
    """What was learned at one time, and the receipts for it."""

    learned: Mapping[str, tuple[str, ...]]  #: Per column, the keys whose values were learned
    #: Per organisation whose records were counted, its receipt as plain values.
    receipts: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        try:
            learned = _LEARNED.validate_python(dict(self.learned))
            prices = [one["guarantee"]["epsilon"] for one in self.receipts.values()]
            whole = prices and all(one.keys() >= _NEEDED for one in self.receipts.values())
        except (TypeError, LookupError, AttributeError, ValueError):
            whole = False
        if not whole or not all(type(price) in (int, float) for price in prices):
            raise SchemaError("paid: needs a list of facts per column, and who paid what for them.")
        _refuse(min(prices) <= 0, "paid.receipts: a price must be above 0.")
        vars(self).update(learned=dict(sorted(learned.items())), receipts=_plain(self.receipts))

    @property
    def epsilon(self) -> float:
        """What one record paid: the largest price, as organisations hold different people."""
        return max(float(one["guarantee"]["epsilon"]) for one in self.receipts.values())

    @property
    def simulated(self) -> bool:
        """Whether the noise was seeded, so that nothing with these facts may be released."""
        return any(bool(one["simulated"]) for one in self.receipts.values())

    def told(self) -> tuple[str, str, str]:
        facts = ", ".join(f"{column} ({', '.join(keys)})" for column, keys in self.learned.items())
        payers = [f"{one['account']}, row {one['row']}" for one in self.receipts.values()]
        more = [f"{len(payers) - 3} more"] * (len(payers) > 3)
        return f"{self.epsilon:g}", facts or "nothing", "; ".join(payers[:3] + more)

    def __str__(self) -> str:
        return "{1}: epsilon {0}, paid by {2}".format(*self.told())

    def to_dict(self) -> Told:
        learned = {column: list(keys) for column, keys in self.learned.items()}
        return {"learned": learned, "receipts": dict(self.receipts)}

    def digest(self, schema: PublicSchema) -> str:
        """Return the hash of the values that were learned: what the ledger's row names.

        Empty if the schema has not all of the columns any more.
        """
        declared = (*schema.features, *([] if schema.outcome is None else [schema.outcome]))
        facts = {one.column: one.to_dict() for one in declared}
        if not self.learned.keys() <= facts.keys():
            return ""
        found = {c: {key: facts[c].get(key) for key in keys} for c, keys in self.learned.items()}
        return _hashed(_plain(found))


def _hashed(values: object) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> Any:
    """Return values as files hold them: sorted, and 1.0 and 1 are one."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


#: What facts are read into, by their kind.
_FEATURES: dict[str, type[Feature]] = {one.kind: one for one in (Number, Ordered, Category, Flag)}
_Facts = TypeVar("_Facts", bound=Feature | Outcome | PaidFacts)


def _read_features(features: object, shared: Mapping[str, object]) -> Iterator[Feature]:
    if isinstance(features, Mapping):
        wrong = [column for column, own in features.items() if not isinstance(own, Mapping)]
        _refuse(wrong, f"column {[*wrong, ''][0]!r}: its facts must be a table.")
        features = [{"column": column, **own} for column, own in features.items()]
    whole = isinstance(features, list) and all(isinstance(own, Mapping) for own in features)
    _refuse(not whole, "features must be a table of columns.")
    for own in cast(list[Any], features):
        yield _read(_FEATURES, f"column {own.get('column')!r}", {"kind": None, **shared, **own})


def _read(kinds: Mapping[str, type[_Facts]], what: str, entry: object) -> _Facts:
    """Return the facts of a table, of the kind that it names if there are several."""
    if not isinstance(entry, Mapping):
        raise SchemaError(f"{what} must be a table.")
    facts = dict(entry)
    kind = kinds.get(str(facts.pop("kind", next(iter(kinds)))))
    if kind is None:
        raise SchemaError(f"{what}: kind must be one of {', '.join(kinds)}.")
    _refuse_unknown(what, facts, {fact.name for fact in fields(kind)})
    try:
        return kind(**facts)
    except TypeError as problem:  # what is missing
        raise SchemaError(f"{what}: needs {str(problem).partition(': ')[2]}.") from None


def _refuse(wrong: object, what: str) -> None:
    if wrong:
        raise SchemaError(what)


def _refuse_unknown(what: str, facts: Mapping[str, object], known: set[str]) -> None:
    for one in sorted(set(facts) - known):
        raise SchemaError(f"{what}: {one!r} is none of {', '.join(sorted(known))}.")


def _written(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_written(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    # Both write truth values and numbers alike, and share escapes, but for the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _written(key)


#: What :func:`declared_column` reads, one example per kind.
FORMS = {
    "number": "age=number:18..100",
    "flag": "sex=flag:male|female",
    "category": "smoker=category:never|former|current",
    "ordered": "stage=ordered:none|mild|severe",
}


def declared_column(text: str) -> Feature:
    """Return the feature that one line, ``NAME=KIND:FACTS``, declares.

    Facts are ``LOW..HIGH`` for a number, values with ``|`` between them for the others: what stands
    for yes and for no, all categories, levels from low to high.
    """
    found = re.fullmatch(rf"(.+?)=\s*({'|'.join(FORMS)})\s*:(.*)", text.strip())
    column, kind, facts = found.groups() if found else (text.partition("=")[0], "", "")
    ends = ".." if kind == "number" else "|"
    values: Any = tuple(plain_value(value) for value in facts.split(ends) if value.strip())
    if not found or (kind in ("number", "flag") and len(values) != 2):
        told = FORMS.get(kind) or " or ".join(FORMS.values())
        raise SchemaError(f"column {column!r}: write it like {told}.")
    first = {"number": "bounds", "ordered": "levels", "category": "values"}
    said = {"true": values[:1], "false": values[1:]} if kind == "flag" else {first[kind]: values}
    return _FEATURES[kind](column.strip(), **said)


def plain_value(word: str) -> Value:
    text = word.strip()
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text


class MissingFact(NamedTuple):
    """Something public that a schema could say, and does not."""

    fact: str  #: Its key in a study file
    columns: tuple[str, ...]  #: Where it is missing
    worth: str  #: What is lost without it

    def __str__(self) -> str:
        more = f" and {len(self.columns) - 4} more" if len(self.columns) > 4 else ""
        return f"{self.fact} of {', '.join(self.columns[:4])}{more}: {self.worth}"


#: What is lost where a fact is not declared, the dearest first.
_WORTH = {
    "importance": "noise falls on all {} encoded columns alike; with importances the useless ones "
    "take little of it, and methods that weigh or stack by them can do so",
    "mean and sd": "without them the width of the bounds is the scale, often five standard "
    "deviations: the column is heard about two and a half times more softly than it could be",
    "sign": "with expected directions there is a model that costs nothing (the expert score), to "
    "compare with and to start from",
    "base_rate": "with it probabilities start at the known share instead of one half",
    "shares": "values count as equally frequent: a rare one is then scaled too small to be heard",
    "missing": "a table with a gap there is refused; say what it means if there may be one",
    "unknown": "a table with another value there is refused; name a bucket that collects them",
}


def missing_facts(schema: PublicSchema) -> tuple[MissingFact, ...]:
    """Return what a schema could still say, what is worth most first; touches no data."""
    lacking: dict[str, list[str]] = {fact: [] for fact in _WORTH}
    for one in schema.features:
        scaled, shares = isinstance(one, Number | Ordered), getattr(one, "often", None)
        lacks = {
            "importance": one.importance is None,
            "mean and sd": scaled and getattr(one, "sd", None) is None and shares is None,
            "sign": not any(schema.signs()),
            "shares": not scaled and shares is None,
            "missing": one.missing is None,
            "unknown": isinstance(one, Category) and one.unknown is None,
        }
        for fact, there in lacks.items():
            lacking[fact] += [one.column] * there
    outcome = schema.outcome
    if isinstance(outcome, Label) and (outcome.classes, outcome.base_rate) == (None, None):
        lacking["base_rate"].append(outcome.column)
    worth = {fact: words.format(len(schema.feature_names)) for fact, words in _WORTH.items()}
    return tuple(MissingFact(fact, tuple(at), worth[fact]) for fact, at in lacking.items() if at)


@final
@dataclass(frozen=True)
class PublicSchema(Shown):
    """Ordered features with their public facts, the label and the clipping norm.

    Parameters
    ----------
    features : sequence of Number, Ordered, Category or Flag
        In the order of the encoded columns.
    outcome : Label, optional
        What is to be predicted; ``label`` in a study file.
    clip_norm : float or "rms", default="rms"
        Norm beyond which encoded rows are shrunk; ``"rms"`` is :attr:`rms_norm`.
    note : str, optional
        Where the facts come from. No part of the meaning: neither compared nor in the fingerprint.
    paid : sequence of PaidFacts, optional
        Which facts were learned from records, and the receipts; see :class:`CohortSummary`.

    Examples
    --------
    >>> from confrere.schema import Flag, Label, Number, PublicSchema
    >>> schema = PublicSchema(
    ...     [
    ...         Number("age", bounds=(18, 100), mean=52, sd=16, importance=2, sign=1),
    ...         Flag("smoker", true="yes", false="no", share=0.2, importance=1, sign=1),
    ...     ],
    ...     outcome=Label("diabetes", positive="yes", base_rate=0.12),
    ... )
    >>> schema.feature_names
    ('age', 'smoker')
    """

    features: tuple[Feature, ...]
    outcome: Outcome | None = None
    clip_norm: float | Literal["rms"] = "rms"
    note: str = field(default="", compare=False)
    paid: tuple[PaidFacts, ...] = field(default=(), hash=False)  # receipts are mappings

    def __post_init__(self) -> None:
        given: Any = self.features
        whole = isinstance(given, Sequence) and all(isinstance(f, Feature) for f in given)
        _refuse(not whole, "features must be a list of Number, Ordered, Category and Flag.")
        _refuse(not given, "a schema needs at least one feature.")
        vars(self).update(features=tuple(given), paid=tuple(self.paid))
        for what, names in (("column", self.columns), ("encoded column", self.feature_names)):
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            _refuse(twice, f"{what} declared twice: {', '.join(map(repr, twice))}.")
        told = {feature.column: feature.importances for feature in given}
        if any(told.values()):
            silent = [column for column, own in told.items() if own is None]
            told_not = f"column {[*silent, ''][0]!r} declares no importance, but others do"
            _refuse(silent, f"{told_not}: declare all or none.")
            _refuse(not any(map(any, told.values())), "at least one importance must be above 0.")
        try:
            vars(self).update(clip_norm=check_clip_norm(self.clip_norm))
        except InvalidParameter as problem:
            raise SchemaError(str(problem)) from None
        _refuse(not isinstance(self.note, str), "note must be a text.")
        facts = all(isinstance(one, PaidFacts) for one in self.paid)
        _refuse(not facts, "paid must be a list of PaidFacts.")
        if self.outcome is not None:
            _refuse(not isinstance(self.outcome, Outcome), "outcome must be a Label, or its like.")
            column = self.outcome.column
            _refuse(column in self.columns, f"column {column!r} is both a feature and the label.")

    # What the features imply.

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the declared columns."""
        return tuple(feature.column for feature in self.features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for feature in self.features for name in feature.names)

    @property
    def has_importances(self) -> bool:
        """Whether importances are declared."""
        return self.features[0].importance is not None

    @property
    def rms_norm(self) -> float:
        """Root-mean-square norm of a scaled row, as the declared facts imply it.

        The square root of the summed variances of the encoded columns: 1 where a mean and a
        standard deviation or a share give the scale, 1/3 (the uniform law) for a number with
        nothing but bounds, the variance of equally likely levels for ordered ones.
        """
        return float(np.sqrt(self.variances().sum()))

    def variances(self) -> Floats:
        """Return the variance of each encoded column that the declared facts imply."""
        spreads = ((one, one.block("standardised").spread) for one in self.features)
        return np.array([variance for one, spread in spreads for variance in one.each(spread, 1.0)])

    def importances(self) -> Floats:
        """Return the importance of each encoded column; ones if none is declared."""
        each = (one.importances or (1.0,) * len(one.names) for one in self.features)
        return np.concatenate([*each])

    def signs(self) -> NDArray[np.int_]:
        """Return the expected sign of each encoded column; 0 where none is declared."""
        return np.array([sign for one in self.features for sign in one.each(one.sign, 0)])

    # What can be done with it.

    def encoder(self, **settings: Any) -> SchemaEncoder:
        """Return the transformer from raw tables to bounded rows; see :class:`SchemaEncoder`."""
        return SchemaEncoder(self, **settings)

    def label(self, table: Container) -> Array:
        """Return the labels of a table: -1 and 1, or the declared classes."""
        if self.outcome is None:
            raise SchemaError("the schema declares no label.")
        return self.outcome.encode(self.outcome.column_of(table))

    def expert_weights(self) -> Floats:
        """Return sign times importance of each encoded column, scaled to norm 1."""
        weights = self.signs() * self.importances()
        needed = "the expert score needs declared signs (with importances above 0)."
        _refuse(not weights.any(), needed)
        return np.asarray(weights / np.linalg.norm(weights))

    @property
    def has_signs(self) -> bool:
        """Whether experts say which way any column points, and that it matters."""
        return bool(np.any(self.signs() * self.importances()))

    def expert_score(self, X: Container) -> Floats:
        """Score rows by sign times importance, the likelier side higher: known without any data.

        Parameters
        ----------
        X : raw table
            Its rows are scaled, and not bounded.
        """
        weights = self.expert_weights()
        return np.asarray(self.encoder().standardised(X).times(weights[None])[0])

    # Whether two organisations mean the same.

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that has a meaning (so without the note)."""
        return _hashed({"format": "confrere-schema-1", **replace(self, note="").to_dict()})

    def difference(self, other: PublicSchema) -> list[str]:
        """Return the lines of :meth:`to_toml` that differ: ``-`` here, ``+`` there; no notes."""
        ours, theirs = (replace(one, note="").to_toml().splitlines() for one in (self, other))
        found = [line for line in unified_diff(ours, theirs, n=0, lineterm="") if line[0] != "@"]
        return found[2:]

    def require_same(self, other: PublicSchema) -> None:
        """Raise if another schema does not mean the same, with the differences."""
        if lines := self.difference(other):
            raise SchemaMismatch("\n  ".join(["the schemas differ:", *lines]))

    @override
    def view(self) -> Panel:
        columns = ("column", "kind", "encoded as", "importance", "sign", "facts")
        rows: list[tuple[object, ...]] = []
        for feature in self.features:
            told = feature.to_dict()
            rest = _facts(told, columns)
            importance, sign = (_written(told[key]) if key in told else "" for key in columns[3:5])
            rows.append((told["column"], told["kind"], len(feature.names), importance, sign, rest))
        parts: list[object] = [Table(columns, rows, ("encoded as",))]
        if self.outcome is not None:
            label = _facts(self.outcome.to_dict(), columns)
            parts.insert(0, Pairs({"predicts": f"{self.outcome.column} ({label})"}))
        missing = [f"{one.fact}: {', '.join(one.columns)}" for one in missing_facts(self)]
        parts += [Pairs({"worth declaring": missing})] if missing else []
        if self.paid:
            paid = [one.told() for one in self.paid]
            title = "Facts that were paid for"
            parts.append(Table(("epsilon", "facts", "receipt"), paid, title=title))
        size = f"{len(self.columns)} columns, {len(self.feature_names)} encoded"
        return Panel(f"Public schema: {size}", parts, f"fingerprint {self.fingerprint()}")

    # Written forms.

    def to_dict(self) -> Told:
        """Return plain values, for JSON; features are a list, so their order is kept."""
        return {
            **({} if self.outcome is None else {"label": self.outcome.to_dict()}),
            "clip_norm": self.clip_norm,
            **({"note": self.note} if self.note else {}),
            **({"paid": [one.to_dict() for one in self.paid]} if self.paid else {}),
            "features": [feature.to_dict() for feature in self.features],
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> PublicSchema:
        """Read what :meth:`to_dict` wrote, or a study's ``data``: na, missing may be of all."""
        shared = {key: facts[key] for key in ("na", "missing") if key in facts}
        known = {"label", "clip_norm", "note", "features", "paid", *shared}
        _refuse_unknown("the schema", facts, known)
        paid, label = facts.get("paid", []), facts.get("label")
        _refuse(not isinstance(paid, list), "paid must be a list of tables: learned and receipts.")
        if isinstance(label, Mapping) and "kind" in label:
            import_module("confrere.outcomes")  # knows those that are no labels
        kinds = {one.kind or "label": one for one in Outcome.__subclasses__()}
        return cls(
            tuple(_read_features(facts.get("features"), shared)),
            None if label is None else _read(kinds, "label", label),
            facts.get("clip_norm", "rms"),
            facts.get("note", ""),
            tuple(_read({"facts": PaidFacts}, "paid", one) for one in paid),
        )

    def to_toml(self) -> str:
        """Return the ``[data]`` and ``[data.features]`` tables of a study file."""
        facts = self.to_dict()
        features = facts.pop("features")
        lines = ["[data]", *(f"{key} = {_written(fact)}" for key, fact in facts.items())]
        lines += ["", "[data.features]"]
        lines += [f"{_key(entry.pop('column'))} = {_written(entry)}" for entry in features]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, source: str | Path) -> PublicSchema:
        """Read a TOML file (a path, or one line naming it) or a text of several lines."""
        try:
            named = isinstance(source, Path) or "\n" not in source
            text = Path(source).read_text(encoding="utf-8") if named else str(source)
            data = parse_bounded(text).get("data")
        except (tomllib.TOMLDecodeError, TooDeep) as problem:
            raise SchemaError(f"the schema is not valid TOML: {problem}.") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise SchemaError(f"the schema cannot be read: {problem}.") from None
        if not isinstance(data, dict):
            raise SchemaError("the schema needs a [data] table.")
        return cls.from_dict(data)


def _facts(told: Mapping[str, object], shown: Sequence[str]) -> str:
    return ", ".join(f"{key} {_written(fact)}" for key, fact in told.items() if key not in shown)
