"""Draft a schema from a public table, for a person to read, correct and sign."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from confrere.errors import InvalidData, InvalidParameter, SchemaError
from confrere.schema.discrete import ZEROS, Category, Flag, Ordered
from confrere.schema.feature import Feature, Number
from confrere.schema.label import Label
from confrere.schema.public_schema import PublicSchema

_YES_NO = ({"yes", "no"}, {"y", "n"}, {"true", "false"})
_OTHER = "other"
_TAILS = (0.005, 0.995)


class PublicDataOnlyWarning(UserWarning):
    """Facts were read off a table: right for a public one, a leak without a price for any other."""


def draft_schema(
    public_table: pd.DataFrame,
    *,
    label: Label | None = None,
    exclude: Collection[str] = (),
    categories: Collection[str] = (),
    max_categories: int = 20,
    source: str = "",
    i_confirm_this_table_is_public: bool = False,
) -> PublicSchema:
    """Draft a schema from a table that everyone may see; never from private data.

    Bounds, means, shares and lists of values are read off the table without any noise. On private
    data that is a leak that no later mechanism repairs.

    Parameters
    ----------
    public_table : data frame
        For example an open survey of a similar population, not the data to be learned from.
    label : Label, optional
        The label; its base rate is drafted too if it has two sides and none is declared.
    exclude : collection of str
        Columns to leave out: identifiers, the organisation, dates.
    categories : collection of str
        Columns of numbers that are codes: categories without an order.
    max_categories : int, default=20
        Of a column with more distinct values the most frequent ones stay, and the others become
        ``"other"``. A column whose values hardly ever repeat is taken for a name and left out.
    source : str, optional
        Where the table comes from; stands in the note.
    i_confirm_this_table_is_public : bool, default=False
        Must be True.

    Returns
    -------
    PublicSchema
        Numbers get bounds (the 0.5% and 99.5% quantiles, rounded outwards), mean and standard
        deviation; texts become flags or categories with shares. The note says where it comes from
        and which columns were left out.
    """
    if i_confirm_this_table_is_public is not True:
        raise InvalidParameter(
            "i_confirm_this_table_is_public must be True: a schema is drafted from public data "
            "only. For private data, write down what is known without looking."
        )
    if not isinstance(public_table, pd.DataFrame) or public_table.empty:
        raise InvalidData("public_table must be a data frame with rows and columns.")
    strange = {*exclude, *categories} - {*map(str, public_table.columns)}
    if strange:
        raise InvalidParameter(f"exclude, categories: there is no column {sorted(strange)[0]!r}.")
    if isinstance(max_categories, bool) or max_categories < 3:
        raise InvalidParameter("max_categories must be a whole number of at least 3.")
    warnings.warn(
        "a schema was drafted by looking at a table: use it only if that table is public, and "
        "have it read before it is signed.",
        PublicDataOnlyWarning,
        stacklevel=2,
    )
    skipped = {*exclude} | (set() if label is None else {label.column})
    features: list[Feature] = []
    left_out: list[str] = []
    for column in public_table.columns:
        if column in skipped:
            continue
        code = column in categories
        feature = _drafted(str(column), public_table[column], max_categories, code=code)
        if feature is None:
            left_out.append(str(column))
        else:
            features.append(feature)
    if not features:
        raise SchemaError("no column of the table can be drafted.")
    if label is not None and label.positive is not None and label.base_rate is None:
        positive = label.encode(label.column_of(public_table).dropna()) == 1
        label = replace(label, base_rate=_share(float(positive.mean())))
    note = f"Drafted from a public table of {len(public_table)} rows"
    note += f" ({source})" if source else ""
    note += "; to be read and corrected by a person."
    note += f" Left out: {', '.join(left_out)}." if left_out else ""
    return PublicSchema(tuple(features), label, note=note)


def _drafted(
    column: str, values: pd.Series[Any], max_categories: int, *, code: bool
) -> Feature | None:
    """Return a feature, or None for a column that is constant or not understood."""
    missing: dict[str, Any] = {}
    if values.isna().any():
        missing = {"missing": "indicator", "missing_share": _share(float(values.isna().mean()))}
    present = values.dropna()
    kind = pd.api.types.infer_dtype(present, skipna=True)
    distinct = sorted(present.unique(), key=str)
    if len(distinct) < 2:
        return None
    if code:
        return _drafted_category(column, present, max_categories, missing)
    if isinstance(present.dtype, pd.CategoricalDtype) and present.dtype.ordered:
        levels = list(present.dtype.categories)
        shares = [_share(float((present == level).mean())) for level in levels]
        return Ordered(column, levels=levels, shares=shares, **missing)  # type: ignore[arg-type]
    if kind == "boolean" or (kind in ("integer", "floating") and {*distinct} == {0, 1}):
        return Flag(column, share=_share(float(present.astype(float).mean())), **missing)
    if kind in ("integer", "floating", "mixed-integer-float"):
        return _drafted_number(column, present.to_numpy(dtype=np.float64), missing)
    if kind not in ("string", "categorical"):
        return None
    if {str(value).lower() for value in distinct} in _YES_NO:
        no, yes = sorted(distinct, key=lambda value: str(value).lower() in ("yes", "y", "true"))
        share = _share(float((present == yes).mean()))
        return Flag(column, true=yes, false=no, share=share, **missing)
    return _drafted_category(column, present, max_categories, missing)


def _drafted_category(
    column: str, present: pd.Series[Any], most: int, missing: dict[str, Any]
) -> Category | None:
    """Keep the most frequent values; None if values hardly repeat, as names do."""
    counts: dict[Any, int] = Counter(present.tolist())
    few = len(counts) <= most
    if not few and len(counts) > len(present) / 2:
        return None
    # Equally frequent values in an order of their own, not of the table's.
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    kept = sorted((value for value, _ in ranked[: most if few else most - 1]), key=str)
    shares = [counts[value] / len(present) for value in kept]
    unknown: Any = ZEROS
    if not few:
        named = next((value for value in kept if str(value).lower() == _OTHER), None)
        unknown = _OTHER if named is None else named
        rest = 1 - sum(shares)
        if named is None:
            shares.append(rest)
        else:
            shares[kept.index(named)] += rest
    rounded = tuple(_share(share) for share in shares)
    return Category(column, values=tuple(kept), shares=rounded, unknown=unknown, **missing)


def _drafted_number(column: str, x: np.ndarray[Any, Any], missing: dict[str, Any]) -> Number:
    if not np.isfinite(x).all():
        raise InvalidData(f"column {column!r}: the public table has infinite values.")
    lo, hi = np.quantile(x, _TAILS)
    if lo == hi:  # nearly constant: the tails are all there is
        lo, hi = x.min(), x.max()
    digits = 1 - math.floor(math.log10(hi - lo))
    step = 10.0**-digits
    low, high = math.floor(lo / step) * step, math.ceil(hi / step) * step
    bounds = (round(low, digits), round(high, digits))
    clipped = np.clip(x, *bounds)
    mean = min(max(_rounded(float(clipped.mean())), bounds[0]), bounds[1])
    return Number(column, bounds=bounds, mean=mean, sd=_rounded(float(clipped.std())), **missing)


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def _share(share: float) -> float:
    """Round to three digits and keep away from 0 and 1, where there is no scale."""
    return min(max(round(share, 3), 0.001), 0.999)
