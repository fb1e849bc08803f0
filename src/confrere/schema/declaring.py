"""Write a schema down by hand, without looking at data; and what is still worth declaring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confrere.errors import SchemaError
from confrere.schema.cells import Value
from confrere.schema.discrete import Category, Flag, Ordered
from confrere.schema.feature import Feature, Number

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema

#: What :func:`declared_column` reads, one example per kind.
FORMS = {
    "number": "age=number:18..100",
    "flag": "sex=flag:male|female",
    "category": "smoker=category:never|former|current",
    "ordered": "stage=ordered:none|mild|severe",
}


def declared_column(text: str) -> Feature:
    """Return the feature that one line declares.

    Parameters
    ----------
    text : str
        ``NAME=KIND:FACTS``; facts are ``LOW..HIGH`` for a number, values with ``|`` between them
        for the others: what stands for yes and for no, all categories, levels from low to high.

    Examples
    --------
    >>> from confrere.schema.declaring import declared_column
    >>> declared_column("age=number:18..100").bounds
    (18.0, 100.0)
    >>> declared_column("stage=ordered:1|2|3").levels
    (1, 2, 3)
    """
    column, _, rest = text.partition("=")
    kind, _, facts = rest.partition(":")
    column, kind = column.strip(), kind.strip()
    if kind not in FORMS:
        raise SchemaError(f"column {column!r}: write it like {' or '.join(FORMS.values())}.")
    return feature_of(column, kind, facts)


def feature_of(column: str, kind: str, facts: str) -> Feature:
    """Return the feature of a kind from its facts in words; see :func:`declared_column`."""
    if kind == "number":
        low, dots, high = facts.partition("..")
        bounds = [plain_value(low), plain_value(high)]
        if not dots or any(isinstance(bound, str) for bound in bounds):
            raise SchemaError(f"column {column!r}: bounds are written LOW..HIGH, like 18..100.")
        return Number(column, bounds=(bounds[0], bounds[1]))  # type: ignore[arg-type]
    values = tuple(plain_value(value) for value in facts.split("|") if value.strip())
    if kind == "flag":
        if len(values) != 2:
            raise SchemaError(f"column {column!r}: a flag needs two values, yes first: YES|NO.")
        return Flag(column, true=values[:1], false=values[1:])
    if len(values) < 2:
        raise SchemaError(f"column {column!r}: name at least two values, with | between them.")
    if kind == "ordered":
        return Ordered(column, levels=values)
    return Category(column, values=values)


def plain_value(word: str) -> Value:
    """Read a number where there is one."""
    text = word.strip()
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class MissingFact:
    """Something public that a schema could say, and does not.

    Attributes
    ----------
    fact : str
        Its key in a study file.
    columns : tuple of str
        Where it is missing.
    worth : str
        What is lost without it.
    """

    fact: str
    columns: tuple[str, ...]
    worth: str

    def __str__(self) -> str:
        shown = ", ".join(self.columns[:4])
        more = f" and {len(self.columns) - 4} more" if len(self.columns) > 4 else ""
        return f"{self.fact} of {shown}{more}: {self.worth}"


def missing_facts(schema: PublicSchema) -> tuple[MissingFact, ...]:
    """Return what a schema could still say, what is worth most first; touches no data."""
    features = schema.features
    encoded = len(schema.feature_names)
    numbers = [one for one in features if isinstance(one, Number | Ordered)]
    scaled = [one for one in numbers if one.sd is None and getattr(one, "shares", None) is None]
    lists = [one for one in features if isinstance(one, Category) and one.shares is None]
    flags = [one for one in features if isinstance(one, Flag) and one.share is None]
    outcome = schema.outcome
    label = () if outcome is None else (outcome.column,)
    rate = () if outcome is None or outcome.classes or outcome.base_rate is not None else label
    found = (
        MissingFact(
            "importance",
            () if schema.has_importances else _names(features),
            f"noise falls on all {encoded} encoded columns alike; with importances the useless "
            "ones take little of it, and methods that weigh or stack by them can do so",
        ),
        MissingFact(
            "mean and sd",
            _names(scaled),
            "without them the width of the bounds is the scale, often five standard deviations: "
            "the column is heard about two and a half times more softly than it could be",
        ),
        MissingFact(
            "sign",
            () if any(schema.signs()) else _names(features),
            "with expected directions there is a model that costs nothing (the expert score), "
            "to compare with and to start from",
        ),
        MissingFact(
            "base_rate",
            rate,
            "with it probabilities start at the known share instead of one half",
        ),
        MissingFact(
            "shares",
            _names([*lists, *flags]),
            "values count as equally frequent: a rare one is then scaled too small to be heard",
        ),
        MissingFact(
            "missing",
            _names([one for one in features if one.missing is None]),
            "a table with a gap there is refused; say what it means if there may be one",
        ),
        MissingFact(
            "unknown",
            _names([one for one in features if isinstance(one, Category) and one.unknown is None]),
            "a table with another value there is refused; name a bucket that collects them",
        ),
    )
    return tuple(one for one in found if one.columns)


def _names(features: Iterable[Feature]) -> tuple[str, ...]:
    return tuple(one.column for one in features)
