"""Tables of any library as columns of Arrow, and what a cell of them means.

A cell is nothing, a number or a text. One function says it, of one cell, whatever type its column
has and whatever stands in other rows: readers choose a column's type by all of its cells, so a
meaning that hung on the type would let one record decide about all the others. Labels, tokens for
missing values and declared values go through the same function.

Rows as codes: which vertex of its column a cell is, is its code. A raw column has ``K`` vertices
with public numbers, a table of ``K`` rows: products with weights are look-ups, sums over rows are
counts of vertices times the table. Small columns share one code, whose vertices are all
combinations. Sub-sums of :func:`sub_rows` rows let a row's share see few roundings, and bits hang
on a row's number alone.
"""

from __future__ import annotations

import math
import numbers
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise, starmap
from typing import Any, TypeAlias, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from narwhals.dependencies import is_pandas_dataframe, is_pandas_series
from numpy.typing import ArrayLike, NDArray
from pyarrow import compute

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter

#: A table of any library, an array or a list of rows; and one column, of Arrow.
Container: TypeAlias = Any
Cells: TypeAlias = pa.Array
Array: TypeAlias = NDArray[Any]
Value: TypeAlias = str | int | float | bool
_Column = TypeVar("_Column")
_Made = TypeVar("_Made")


def _opened(X: Container) -> Container:
    """Return a table or column behind one face; of pandas itself, whose names may be twice."""
    if is_pandas_dataframe(X):
        return X
    opened = nw.from_native(X, pass_through=True, allow_series=True)
    return opened.collect() if isinstance(opened, nw.LazyFrame) else opened


def is_table(X: Container) -> bool:
    """Whether it is a table with named columns: of pandas, polars, pyarrow or the like."""
    return is_pandas_dataframe(X) or isinstance(_opened(X), nw.DataFrame)


def column_names(X: Container) -> list[str]:
    return list(_opened(X).columns)


def n_rows_of(X: Container) -> int:
    return len(_opened(X))


def declared_columns(X: Container, names: Sequence[str]) -> dict[str, Cells]:
    """Return the declared columns of a table, each there once, in order; an array has them so."""
    if isinstance(X, list) and X and isinstance(X[0], Mapping):
        columns: list[Container] = [[row.get(name) for row in X] for name in names]
    elif not is_table(X):
        if np.ndim(X) != 2 or np.shape(X)[1] != len(names):
            raise InvalidData(
                f"X must be a data frame, or an array with the {len(names)} declared "
                "columns in their order; a file is opened by confrere.rows.open_table(path)."
            )
        columns = list(np.asarray(X).T)
    else:
        found = column_names(X)
        lacking = [name for name in names if name not in found]
        if lacking:
            raise InvalidData(f"X lacks the declared columns {', '.join(map(repr, lacking))}.")
        if twice := [name for name in names if found.count(name) > 1]:
            raise InvalidData(f"X has the declared column {twice[0]!r} more than once; keep one.")
        table = X if hasattr(X, "column_names") else _opened(X)
        columns = [table[name] for name in names]
    return {name: as_cells(own, name) for name, own in zip(names, columns, strict=True)}


def each_column(columns: Iterable[_Column], work: Callable[[_Column], _Made]) -> list[_Made]:
    """Return what is made of every column, or say of all at once what is wrong with them."""
    found, problems = [], []
    for column in columns:
        try:
            found.append(work(column))
        except InvalidData as problem:
            problems.append(str(problem))
    if problems:
        raise InvalidData("\n".join(problems))
    return found


def party_column(X: Container, party: Container) -> Container:
    """Return whose rows they are; a name stands for that column of the table."""
    if not isinstance(party, str):
        return party
    if not is_table(X) or column_names(X).count(party) != 1:
        raise InvalidData(f"party: X has no one column {party!r}.")
    return declared_columns(X, [party])[party].to_numpy(zero_copy_only=False)


def _column(values: Container) -> Container:
    """Return one column as narwhals or Arrow read it; cells of a list have no type in common."""
    if isinstance(values, nw.Series | pa.Array | pa.ChunkedArray) or is_pandas_series(values):
        return values
    opened = _opened(values)
    if isinstance(opened, nw.Series):
        return opened
    plain = isinstance(values, list | tuple)  # its strangest cell would choose a type
    cells = np.fromiter(values, object, len(values)) if plain else np.asarray(values)
    if cells.size != len(cells):
        raise InvalidData("y must be one column.")
    return cells.reshape(-1)


def as_cells(values: Container, column: str = "y") -> Cells:
    """Return one column, of any library's, an array or a list.

    Where cells have no type in common, they are texts of what they mean.
    """
    opened = _column(values)
    try:
        found = opened.to_arrow() if isinstance(opened, nw.Series) else opened
        if not isinstance(found, pa.Array | pa.ChunkedArray):
            found = pa.array(found, from_pandas=True)
        if isinstance(found, pa.ChunkedArray):  # combining copies even one
            found = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return _objects(column, list(opened))
    if str(found.type) in ("null", "string_view"):
        return found.cast(pa.string())
    return found if _kind(found) else _objects(column, list(opened))


#: What cells may be, by the beginning of their type's name in Arrow.
_KINDS = re.compile(
    "(?P<text>string|large_string)|(?P<number>u?int|float|double|halffloat|bool)"
    "|(?P<exact>decimal)|(?P<date>date|timestamp)"
)


def _kind(cells: Cells) -> str | None:
    own = cells.type.value_type if hasattr(cells, "dictionary") else cells.type
    found = _KINDS.match(str(own))
    return None if found is None else found.lastgroup


def _objects(column: str, cells: list[object]) -> Cells:
    """Return cells of many types as texts. Those that are equal (1, 1.0 and True) mean the same."""
    places: dict[object, int] = {}
    try:
        found = [places.setdefault(cell, len(places)) for cell in cells]
    except TypeError:
        raise _not_plain(column) from None
    kinds = {*map(type, cells)}
    if not all(
        kind.__name__ in ("NAType", "NaTType") or issubclass(kind, _PLAIN) for kind in kinds
    ):
        raise _not_plain(column)
    meant = [meaning(cell) for cell in places]
    texts = [repr(one) if isinstance(one, float) else one for one in meant]
    return pa.DictionaryArray.from_arrays(pa.array(found, pa.int32()), pa.array(texts, pa.string()))


def _not_plain(column: str) -> InvalidData:
    return InvalidData(f"column {column!r}: holds things that are not plain values.")


#: Texts that stand for no value: those that pandas takes for it.
MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null"),
)
_NOTHING, _TRUTH = frozenset(MISSING_TEXTS), {"true": 1.0, "false": 0.0}
#: Some readers take it for a number.
_HEXADECIMAL = re.compile("0[xX][0-9a-fA-F]{1,16}")

#: What a spreadsheet would calculate, and what a forgotten quote leaves.
_SPOILT = re.compile(r"[=@]|.*[\r\n]")

#: Places of cells that have none in a table of declared texts.
MISSING, UNKNOWN = -1, -2

_PLAIN = (str, bool, np.bool_, numbers.Real, Decimal, type(None))


def refuse(column: str, bad: NDArray[np.bool_], what: str) -> None:
    """Raise if any row is bad: the column, never how many there are nor what is in them."""
    if bad.any():
        raise InvalidData(f"column {column!r}: some rows have {what}.")


def meaning(cell: object) -> str | float | None:
    """Return what one cell means: a text without spaces around it, the nearest double, or None.

    Truth values, and texts that say one in whatever capitals, are the numbers 1 and 0. Texts say a
    number in digits of ASCII without underscores. Whatever says NaN is missing.
    """
    if isinstance(cell, str):
        text = cell.strip()
        try:
            number = float(text)
        except ValueError:
            if text in _NOTHING:
                return None
            if _HEXADECIMAL.fullmatch(text):
                return float(int(text, 16))
            return _TRUTH.get(text.lower(), text)
        if "_" in text or not text.isascii():
            return text
    elif isinstance(cell, bool | np.bool_ | numbers.Real | Decimal):
        try:
            number = float(cell)
        except OverflowError:
            number = math.inf if abs(cell) == cell else -math.inf
    else:
        return None
    return number + 0.0 if number == number else None


def spelt(meant: str | float | None) -> str:
    """Return the one text of a meaning: whole numbers in digits, others with 15 of them."""
    if isinstance(meant, float):
        return str(int(meant)) if meant.is_integer() else f"{meant:.15g}"
    return meant or ""


def codes_of(places: Mapping[Value, int], na: Iterable[Value]) -> dict[str, int]:
    """Return the place of every text that stands for a declared value or for none.

    Sorted by text. Beside the one text of a meaning there are its usual spellings, for readers of a
    release that cannot compute a meaning.
    """
    codes: dict[str, int] = {}
    for value, place in {**places, **dict.fromkeys(na, MISSING)}.items():
        meant = meaning(value)
        texts = [str(value)]
        if meant is not None:
            texts.append(spelt(meant))
        if isinstance(meant, float):
            texts.append(repr(meant))
            if meant in (0, 1) and not isinstance(value, str):
                word = str(bool(meant))
                texts += [word, word.lower(), word.upper()]
        codes.update(dict.fromkeys(texts, place))
    return dict(sorted(codes.items()))


def read_places(column: str, cells: Cells, codes: Mapping[str, int]) -> NDArray[np.intp]:
    """Return each row's place among declared texts: -1 where it is missing, -2 if undeclared."""
    if str(cells.type) == "bool" and not codes.keys() >= {"0", "1"}:
        raise InvalidData(
            f"column {column!r}: has the type of truth values, and none are declared for it; read "
            "it as text, or declare true and false."
        )
    found, meant = meanings(column, cells)
    places = [MISSING if one is None else codes.get(spelt(one), UNKNOWN) for one in meant]
    strange = (str(one) for at, one in zip(places, meant, strict=True) if at == UNKNOWN)
    if any(map(_SPOILT.match, strange)):
        raise InvalidData(
            f"column {column!r}: some rows have a spreadsheet's formula, or a line's end where a "
            "quote may be missing; save its values."
        )
    # The code -1 of a missing value picks the last entry.
    return np.array([*places, MISSING], dtype=np.intp)[found]


#: Microseconds of what dates are counted in; a year has 365.25 days.
UNITS = {"hours": 3_600 * 10**6, "days": 86_400 * 10**6, "years": 31_557_600 * 10**6}


def read_numbers(
    column: str, cells: Cells, na: Sequence[Value] = (), clock: tuple[int, int] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers, NaN where one is missing or is none, and where there is another text.

    With a clock cells are dates, counted in its units after its beginning. A cell is a date or a
    moment by its type, or says one as ISO 8601 does; where it names no time zone it is of UTC.
    """
    tokens = {meaning(token) for token in na} | {None}
    x = _typed_numbers(cells, tokens) if clock is None else _typed_moments(cells)
    strange, number = np.zeros(len(cells), dtype=np.bool_), _number if clock is None else moment
    if x is None:
        found, meant = meanings(column, cells)
        read = [math.nan if one in tokens else number(one) for one in meant]
        x = np.array([*read, math.nan])[found]
        none = (one not in tokens and math.isnan(at) for one, at in zip(meant, read, strict=True))
        strange = np.array([*none, False])[found]
    for token in tokens:
        x[x == number(token)] = np.nan
    return x if clock is None else (x - clock[1]) / clock[0], strange


def _number(meant: str | float | None) -> float:
    return meant if isinstance(meant, float) else math.nan


def moment(meant: str | float | None) -> float:
    """Return the microseconds from 1970 to what a text says; NaN if it says no moment."""
    try:
        found = datetime.fromisoformat(meant) if isinstance(meant, str) else None
    except ValueError:
        found = None
    if found is None:
        return math.nan
    start = datetime(1970, 1, 1, tzinfo=UTC)
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return float((aware - start) // timedelta(microseconds=1))


def _typed_moments(cells: Cells) -> NDArray[np.float64] | None:
    if _kind(cells) != "date":
        return None
    plain = cells.dictionary_decode() if hasattr(cells, "dictionary") else cells
    exact = plain.cast(pa.timestamp("us", getattr(plain.type, "tz", None)), safe=False)
    x: NDArray[np.float64] = exact.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(float)
    return x


def _typed_numbers(cells: Cells, tokens: set[str | float | None]) -> NDArray[np.float64] | None:
    """Return the numbers of a column that Arrow can read as such, or None.

    What it reads from a text is what :func:`meaning` says, except that it knows more kinds of NaN.
    """
    kind = _kind(cells)
    if kind in ("text", "number") and hasattr(cells, "dictionary"):
        own = _typed_numbers(cells.dictionary, tokens)
        return None if own is None else np.append(own, np.nan)[distinct(cells)[0]]
    if kind == "text" and tokens - {None}:
        nothing = [*MISSING_TEXTS, *(token for token in tokens if isinstance(token, str))]
        there = compute.is_in(cells, value_set=pa.array(nothing, cells.type))
        cells = compute.if_else(there, None, cells)
    elif kind not in ("text", "number"):
        return None
    try:
        read = cells.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        return None
    x: NDArray[np.float64] = read.to_numpy(zero_copy_only=False) + 0.0
    return None if kind == "text" and np.isnan(x).sum() > cells.null_count else x


def meanings(column: str, cells: Cells) -> tuple[NDArray[np.intp], list[str | float | None]]:
    """Return where each row stands among the distinct cells, -1 if missing, and their meanings."""
    if _kind(cells) == "date":
        raise _not_plain(column)
    places, cells = distinct(cells)
    return places, [meaning(cell) for cell in cells]


def distinct(cells: Cells) -> tuple[NDArray[np.intp], list[object]]:
    """Return where each row stands among the distinct cells, -1 if null, and these."""
    coded = cells if hasattr(cells, "dictionary") else cells.dictionary_encode()
    places = coded.indices.cast("int64")
    places = places.fill_null(-1) if places.null_count else places
    return places.to_numpy(), coded.dictionary.to_pylist()


class UnitCounts:
    """How many rows of every unit were seen; without a column nothing can be bounded."""

    def __init__(self, column: str | None, most: int) -> None:
        self.column = column  #: Says whose row it is
        self.most = most  #: The first that many rows are kept: which, depends on the unit alone
        self._seen: Counter[str] = Counter()

    def bounded(self, table: pa.Table) -> pa.Table:
        """Return the rows of the next batch that are kept."""
        if self.column is None:
            return table
        if self.column not in table.column_names:
            raise InvalidData(f"data: there is no column {self.column!r} (privacy.unit_column).")
        kept, nobody = self.kept(table)
        if nobody:
            raise InvalidData(f"column {self.column!r}: some rows belong to nobody.")
        return table.filter(kept)

    def kept(self, table: pa.Table) -> tuple[NDArray[np.bool_], int]:
        """Return which rows of the next batch are kept, and how many of all belong to nobody."""
        places, cells = distinct(as_cells(table[self.column], self.column or ""))
        nobody = np.array([meaning(cell) is None for cell in (*cells, None)])[places]
        # A batch of a database may have numbers where another one has texts.
        texts = [str(cell).removesuffix(".0") for cell in (*cells, None)]
        units, at = np.unique(texts, return_inverse=True)
        unit, seen = at[places], np.array([self._seen[text] for text in units])
        rows, order = np.bincount(unit, minlength=len(units)), np.argsort(unit, kind="stable")
        self._seen.update(dict(zip(units.tolist(), rows.tolist(), strict=True)))
        before = np.empty_like(order)
        before[order] = np.arange(len(order)) - np.repeat(np.cumsum(rows) - rows - seen, rows)
        return before < self.most, int(np.count_nonzero(nobody))


def plain_labels(column: str, values: Container) -> Array:
    """Return labels that nobody declared: of a type, as they are; else what their cells mean."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biu" and values.ndim == 1:
        return values
    cells = as_cells(values, column)
    if _kind(cells) == "number" and not cells.null_count:
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    found, meant = meanings(column, cells)
    refuse(column, np.array([*(one is None for one in meant), True])[found], "no label; drop them")
    each = np.array(meant if all(isinstance(one, float) for one in meant) else [*map(spelt, meant)])
    if each.dtype.kind == "f" and np.all((each == np.rint(each)) & (np.abs(each) <= 2**53)):
        each = each.astype(np.int64)
    return each[found]


#: Labels beyond which codes take one byte.
_MANY = 2**20


def declared_classes(classes: ArrayLike | None, y: Container, *, simulated: bool) -> Array:
    """Return the sorted public label set.

    It is ``classes`` if given, else what the *type* of ``y`` declares (the categories of a pandas
    categorical, the two booleans), else 0 and 1. Only a simulation may read it off the data.
    """
    if classes is not None:
        declared = np.unique(np.asarray(classes))
        meant = {meaning(label) for label in declared.tolist()}
        if len(meant) != np.size(classes) or None in meant or len(meant) < 2:
            raise InvalidParameter(
                "classes must be a flat list of two labels or more that mean different things: "
                "texts of one number are one label, and texts such as NA are none."
            )
        return declared
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    if categories is not None and len(categories) > 1:
        return np.unique(np.asarray(categories))
    values = np.asarray(y)
    if values.dtype.kind in "biuf" and bool(((values == 0) | (values == 1)).all()):
        # A list has the type of the strangest thing in it, which no record may choose.
        return np.array([0, 1], dtype=values.dtype if hasattr(y, "dtype") else np.int64)
    if not simulated:
        raise InvalidParameter(
            "classes must be declared unless the labels are 0 and 1: a label set learned from y "
            "would reveal who is in it. Pass classes=[...]."
        )
    return np.unique(values)


def encode_labels(y: Array, classes: Array) -> NDArray[np.intp]:
    """Return the position of every label in ``classes``, or refuse what was not declared.

    Where one of them may hold texts, a label is what it means: one cannot change the others' type.
    """
    if len(y) > _MANY and len(classes) < 128:  # without copies of them all
        parts = (encode_labels(y[i : i + _MANY], classes) for i in range(0, len(y), _MANY))
        return np.concatenate([part.astype(np.int8) for part in parts])
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = classes[codes] == y
    else:
        places = {spelt(meaning(label)): k for k, label in enumerate(classes.tolist())}
        codes = read_places("y", as_cells(y), places)
        known = codes >= 0
    if not known.all():
        raise InvalidData("y has labels outside classes; declare them or drop the rows.")
    return np.asarray(codes, dtype=np.intp)


# --- rows as codes --------------------------------------------------------------------------------

Whole: TypeAlias = NDArray[np.integer]

#: Fewer rows are written down. Vertices of columns that share one code, at the most.
FEW, PACKED = 2048, 256

#: Rows that are written down at once, for the cache's sake, and vertices that are added up at once.
_WRITTEN, _VERTICES = 2048, 512


def packed(sizes: Sequence[int]) -> list[list[int]]:
    """Return which columns share a code: a public rule of their numbers of vertices."""
    found: list[list[int]] = []
    room: list[int] = []
    for j in sorted(range(len(sizes)), key=lambda j: -sizes[j]):
        at = next((g for g, left in enumerate(room) if sizes[j] <= left), len(found))
        if at == len(found):
            found.append([])
            room.append(PACKED)
        found[at].append(j)
        room[at] //= sizes[j]
    return [sorted(group) for group in found]


def sub_rows(size: int) -> int:
    """Return how many rows a sub-sum has: fewer where there is room for more sub-sums."""
    return 256 if size <= PACKED else 1024


@lru_cache(maxsize=64)
def _offsets(n: int, size: int) -> NDArray[np.intp]:
    """Return where the sub-sum of each row begins, for vertices of that number."""
    return np.arange(n) // sub_rows(size) * size


def narrow(codes: Whole, size: int) -> Whole:
    """Return codes below ``size`` in as few bytes as will do."""
    return codes.astype(np.min_scalar_type(size - 1), copy=False)


def stored(columns: Sequence[Whole], sizes: Sequence[int]) -> list[Whole]:
    """Return the codes of columns, small ones together: one number per row, a vertex of each."""
    found = []
    for group in packed(sizes):
        code = columns[group[-1]]
        for j in reversed(group[:-1]):  # below PACKED
            code = code.astype(np.int16) * np.int16(sizes[j]) + columns[j]
        found.append(narrow(code, math.prod(sizes[j] for j in group)))
    return found


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows ``shrink_i * (V_1[code_i1], V_2[code_i2], ...)``: never written down as a whole."""

    codes: tuple[Whole, ...]  #: As :func:`stored`, in memory or in a file
    tables: tuple[Floats, ...]  #: ``V_j`` of every raw column: one row per vertex
    shrink: Floats | None = None
    groups: Sequence[Sequence[int]] = ()  #: Which columns share each code
    shape: tuple[int, int] = field(init=False)  #: Rows and columns
    width: int = field(init=False)  #: Stored numbers per row
    parts: list[slice] = field(init=False)  #: Where the numbers of every raw column are

    def __post_init__(self) -> None:
        ends = np.cumsum([0, *(table.shape[1] for table in self.tables)]).tolist()
        groups = self.groups or packed([len(table) for table in self.tables])
        shape = len(self.codes[0]), ends[-1]
        parts = [*starmap(slice, pairwise(ends))]
        vars(self).update(shape=shape, width=len(groups), parts=parts, groups=groups)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> Any:
        """Return some of the rows, or ``[:, columns]``; consecutive rows are views."""
        if not isinstance(chosen, tuple):
            return self.kept(lambda codes: codes[chosen])
        if np.any(np.diff(chosen[1]) <= 0):  # in another order, they are written down
            return self.toarray()[chosen]
        keep = np.isin(np.arange(self.shape[1]), chosen[1])
        pairs = zip(self.tables, self.parts, strict=True)
        tables = tuple(table[:, keep[part]] for table, part in pairs)
        used = [k for k, group in enumerate(self.groups) if any(tables[j].size for j in group)]
        codes, groups = tuple(self.codes[k] for k in used), [self.groups[k] for k in used]
        return replace(self, codes=codes, tables=tables, groups=groups)

    def kept(self, keep: Callable[[Array], Any]) -> Coded:
        """Return the same rows with their codes kept by ``keep``: in a file, say."""
        codes = tuple(map(keep, self.codes))  # first, as whoever keeps them counts on it
        shrink = None if self.shrink is None else keep(self.shrink)
        return replace(self, codes=codes, shrink=shrink)

    def map(self, change: Callable[[int, Floats], Floats]) -> Coded:
        """Return rows whose every column's vertices have other numbers."""
        return replace(self, tables=tuple(change(j, table) for j, table in enumerate(self.tables)))

    def times(self, W: Floats) -> Floats:
        """Return every row's product with every row of ``W``: ``(m, rows)``."""
        total: Floats = np.zeros((len(W), len(self)))
        room = np.empty(len(self))
        for codes, group in zip(self.codes, self.groups, strict=True):
            products = [self.tables[j] @ W[:, self.parts[j]].T for j in group]
            table = np.ascontiguousarray(_combined(products).T)
            for row, each in zip(total, table, strict=True):
                # "raise" would copy through a buffer
                row += np.take(each, codes, out=room, mode="clip")
        if self.shrink is not None:
            total *= self.shrink
        return total

    def __matmul__(self, W: Floats) -> Floats:
        return self.times(W.T).T

    def pull(self, R: Floats) -> Floats:
        """Return the rows added up with weights ``R``, ``(m, rows)``: ``(m, columns)``."""
        if self.shrink is not None:
            R = R * self.shrink
        n, width = self.shape
        total = np.empty((len(R), width))
        for codes, group in zip(self.codes, self.groups, strict=True):
            sizes = [len(self.tables[j]) for j in group]
            size = math.prod(sizes)
            places = np.add(codes, _offsets(n, size), dtype=np.intp)
            pieces = -(-n // sub_rows(size))
            for row, weights in zip(total, R, strict=True):
                counts = np.bincount(places, weights, minlength=pieces * size)
                # One axis per column of the group, the first one changing fastest.
                cube = counts.reshape(pieces, size).sum(axis=0).reshape(sizes[::-1])
                for k, j in enumerate(group):
                    axes = tuple(a for a in range(cube.ndim) if a != cube.ndim - 1 - k)
                    row[self.parts[j]] = _weighted(cube.sum(axis=axes), self.tables[j])
        return total

    def norms(self, scale: Floats | None, norm: str) -> Floats:
        """Return the rows' norms after factors on the columns."""
        factors = np.ones(self.shape[1]) if scale is None else scale
        scaled = self.map(lambda j, table: np.abs(table * factors[self.parts[j]]))
        sums = (scaled ** (1 if norm == "l1" else 2)).times(np.ones((1, self.shape[1])))[0]
        return np.asarray(sums if norm == "l1" else np.sqrt(sums))

    def toarray(self) -> Floats:
        out = np.empty(self.shape)
        for start in range(0, len(self), _WRITTEN):
            part = slice(start, start + _WRITTEN)
            for codes, group in zip(self.codes, self.groups, strict=True):
                sizes = [len(self.tables[j]) for j in group]
                digits = np.unravel_index(codes[part], sizes, order="F")
                for j, digit in zip(group, digits, strict=True):
                    out[part, self.parts[j]] = self.tables[j].take(digit, axis=0)
        if self.shrink is not None:
            out *= np.asarray(self.shrink)[:, None]
        return out

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Floats:
        return self.toarray()

    def __pow__(self, power: int) -> Coded:
        shrink = None if self.shrink is None else np.asarray(self.shrink) ** power
        return replace(self, tables=tuple(table**power for table in self.tables), shrink=shrink)


def _weighted(counts: Floats, table: Floats) -> Floats:
    """Return the vertices added up with weights; of many, some after the other."""
    starts = range(0, len(counts), _VERTICES)
    return sum(counts[i : i + _VERTICES] @ table[i : i + _VERTICES] for i in starts)  # type: ignore[return-value]


def _combined(products: list[Floats]) -> Floats:
    """Return the sums of all combinations of vertices, the first column's changing fastest."""
    found = products[0]
    for more in products[1:]:
        found = (more[:, None] + found).reshape(-1, found.shape[1])
    return found
