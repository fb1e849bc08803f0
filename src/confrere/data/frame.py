r"""The public coordinates that all parties compute in, and the one map from any row into them.

Proof: docs/proofs/rows.md; of the bodies that schemas declare, docs/proofs/geometry.md.

What is stored, an array, a memory map, CSR or codes, is read again at every pass over the data,
block by block, so nothing is copied whole. A row of the theorems is ``(sigma_i * f * z_i, c)``,
for a stored ``z_i``, public factors ``f``, and one factor per row. The map is total (a row that has
no usable norm reads as zeros), no row's image depends on another row, and a margin that is more
than all rounding keeps it inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.data.cells import FEW, Coded
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_bound, check_positive
from confrere.kernel.noise import L1, L2, Ball, Body, MeasuredRows, Norm, row_norms
from confrere.solver.row_blocks import BlockRows, Buffer, Engine, Sums, csr_view

#: Rows that are scored at a time.
_SCORED = 1 << 16

#: Rows that are added up at a time.
_ADDED = 4096

Given: TypeAlias = "Floats | sparse.csr_array | Coded"
Rows: TypeAlias = "NDArray[np.float64] | sparse.csr_array | BoundedRows"


def coded_steps(d: int) -> tuple[int, int]:
    """Return how many coded rows make a block and a partition; see the certificate."""
    return 2048 * max(1, min(8, 1024 // d)), 2**20


#: A row that is this many times longer than its bound, or has such numbers, reads as zeros.
_FAR, _LARGE = 1e30, 1e100


@final
class BoundedRows(BlockRows, MeasuredRows):
    """Rows in the unit ball with the constant: what a frame makes of those that are stored.

    The bound is on a row's norm after the public factors ``scale``. The engine reads the
    partitions.
    """

    def __init__(
        self,
        X: Given,
        bound: float,
        *,
        scale: Floats | None = None,
        constant: float = 0.0,
        norm: Ball = "l2",
        engine: Engine | None = None,
    ) -> None:
        super().__init__(X.toarray() if isinstance(X, Coded) and len(X) < FEW else X)
        if isinstance(self.X, np.ndarray) and self.X.dtype not in (np.float64, np.float32):
            self.X = np.asarray(self.X, dtype=np.float64)
        n, width = self.shape
        self.shape = (n, width + (constant > 0))
        self.engine = engine
        self.steps = coded_steps(width) if isinstance(self.X, Coded) else None
        self.bound, self.scale, self.norm = bound, scale, norm
        inside = 1 - rounding_margin(self.shape[1])
        room = math.sqrt(1 - constant**2) if norm == "l2" else 1 - constant
        self._base = inside * room / bound
        self.factors = self._base if scale is None else self._base * scale
        self.constant = inside * constant
        inner = self._base * self._measure()
        longest = math.hypot(inner, self.constant) if norm == "l2" else inner + self.constant
        self.certified, self.longest = longest <= 1, longest

    @classmethod
    def inside(
        cls, X: Coded | Floats, norm: Ball, constant: float = 0.0, engine: Engine | None = None
    ) -> BoundedRows:
        """Return rows of a body's coordinates as they are: of codes, their vertices are bounded."""
        rows = object.__new__(cls)
        # With factors of their own, rows may be longer than their vertices.
        BlockRows.__init__(rows, X if getattr(X, "shrink", None) is None else np.asarray(X))
        rows.shape = (len(X), X.shape[1] + (constant != 0))
        rows.engine, rows.norm, rows.constant = engine, norm, constant
        if isinstance(rows.X, Coded):
            rows.steps = coded_steps(X.shape[1])
            rows.corners = [*rows.X.tables, *([np.array([[constant]])] if constant else [])]
            lengths = [float(row_norms(table, norm).max()) for table in rows.corners]
        else:
            lengths = [float(row_norms(rows.X, norm).max(initial=0.0)), constant]
        longest = sum(lengths) if norm == "l1" else math.hypot(*lengths)
        rows.certified, rows.longest = longest <= 1, longest
        return rows

    def __setattr__(self, name: str, value: object) -> None:
        if "longest" in vars(self):
            raise AttributeError(f"{name}: rows stay as they were measured.")
        super().__setattr__(name, value)

    def columns(self, chosen: NDArray[np.intp], constant: float) -> BoundedRows:
        """Return some columns of rows that have no factors on them, before a smaller constant."""
        if self.scale is not None or not 0 <= constant <= self.constant:
            raise InvalidParameter("these rows were measured with other factors and constants.")
        some = vars(BlockRows(self.X[:, chosen])) | {"shape": (len(self), len(chosen) + 1)}
        steps = coded_steps(len(chosen)) if isinstance(some["X"], Coded) else None
        return self._with(**some, constant=constant, steps=steps)

    def __getitem__(self, chosen: NDArray[np.intp] | slice) -> BoundedRows:
        some = super().__getitem__(chosen)
        if not isinstance(some.X, Coded) or len(some) >= FEW:
            return some
        # The certificate counts on it: sums of so few codes have more roundings.
        few = some.X if some.chosen is None else some.X[some.chosen]
        X = few.toarray()
        written = {"X": X, "chosen": None, "steps": None, "width": X.shape[1]}
        return self._with(**vars(some) | written)

    def _measure(self) -> float:
        """Find the rows' factors; return how long a row is, the public ones left out."""
        (block, step), n = self.layout, self.shape[0]
        # What an engine keeps never changes.
        rows = self if self.engine is None else self.engine.keep(self._with(engine=None))
        work, parts = partial(rows._measured, block, step), range(math.ceil(n / step))
        most = 0.0
        found = map(work, parts) if self.engine is None else self.engine.map(work, parts)
        for number, (shrink, longest) in enumerate(found):
            if len(shrink):
                if self.shrink is None:
                    self.shrink = np.ones(n)
                self.shrink[number * step : number * step + len(shrink)] = shrink
            most = max(most, float(longest))
        return most

    def _measured(self, block: int, step: int, number: int) -> Sums:
        """Return a partition's factors, none if all are one, and the longest."""
        first, last = number * step, min((number + 1) * step, self.shape[0])
        shrink, longest = np.ones(last - first), 0.0
        buffer, room = Buffer(), Buffer()
        for start in range(first, last, block):
            part = slice(start, min(start + block, last))
            norms = self._norms(part, buffer, room)
            mine = shrink[part.start - first : part.stop - first]
            np.divide(self.bound, norms, out=mine, where=norms > self.bound)
            mine[np.isnan(norms)] = 0.0
            longest = np.fmax.reduce(norms * mine, initial=longest)  # NaN aside
        return shrink if (shrink != 1).any() else shrink[:0], np.array(longest)

    def _norms(self, part: slice, buffer: Buffer, room: Buffer) -> Floats:
        """Return the norms after the scale, NaN where there is none that can be used."""
        scale, stored = self.scale, self.stored(part, buffer)
        with np.errstate(all="ignore"):
            if isinstance(stored, Coded):
                return stored.norms(scale, self.norm)
            scaled = stored
            if scale is not None and isinstance(stored, np.ndarray):
                scaled = np.multiply(stored, scale, out=room.room(*stored.shape))
            elif scale is not None:
                data = stored.data * scale[stored.indices]
                scaled = csr_view(data, stored.indices, stored.indptr, stored.shape)
            norms = row_norms(scaled, self.norm)
            fine = norms <= _FAR * self.bound
            if scale is not None:
                fine &= row_norms(stored) <= _LARGE
            return np.where(fine, norms, np.nan)


def into_ball(X: Given, bound: float = 1.0, **how: Any) -> Floats:
    """Return every row's image in the unit ball, written down; see :class:`BoundedRows`."""
    return BoundedRows(X, bound, **how).written()


#: Public factors and bounds beyond this are mistakes or attacks.
LARGEST = 1e12


def check_factors(factors: ArrayLike, n_features: int) -> Floats:
    scale = np.asarray(factors, dtype=np.float64)
    if scale.shape != (n_features,) or not np.all((scale >= 0) & (scale <= LARGEST)):
        raise InvalidParameter(
            f"feature_scale must hold one number from 0 to {LARGEST:g} per column."
        )
    return scale


def _given(coef: ArrayLike | None, n_features: int) -> Floats:
    given = np.zeros(n_features) if coef is None else np.asarray(coef, dtype=np.float64)
    if given.shape != (n_features,) or not np.all(np.isfinite(given)):
        raise InvalidParameter("prior must hold one finite number per column.")
    return given


@dataclass(frozen=True, eq=False)
class Frame:
    """From rows as encoded to rows in the unit ball, and from weights there back to coefficients.

    ``data_norm`` is the declared bound on a row's norm after ``feature_scale``, public factors on
    the columns; longer rows are clipped to it. ``constant`` is the public constant inside the bound
    that carries the intercept; 0 for no intercept.
    """

    n_features: int
    data_norm: float = 1.0
    constant: float = 0.4
    feature_scale: Floats | None = None
    norm: Ball = "l2"
    size: int = field(init=False)  #: Number of weights
    bound: Norm = field(init=False)  #: The norm in which no row is longer than one

    def __post_init__(self) -> None:
        if type(self.n_features) is not int or not 1 <= self.n_features <= 1_000_000:
            raise InvalidParameter("n_features must be a whole number from 1 to a million.")
        if not 1 / LARGEST <= check_bound(self.data_norm, "data_norm") <= LARGEST:
            raise InvalidParameter(f"data_norm must be between {1 / LARGEST:g} and {LARGEST:g}.")
        if isinstance(self.constant, bool) or not 0 <= self.constant < 1:
            raise InvalidParameter("the constant must be at least 0 and below 1.")
        if self.norm not in ("l1", "l2"):
            raise InvalidParameter("norm must be 'l1' or 'l2'.")
        if self.feature_scale is not None:
            vars(self).update(feature_scale=check_factors(self.feature_scale, self.n_features))
        size = self.n_features + (self.constant > 0)
        vars(self).update(size=size, bound=(L2 if self.norm == "l2" else L1)(size))

    @property
    def _factors(self) -> Floats:
        room = math.sqrt(1 - self.constant**2) if self.norm == "l2" else 1 - self.constant
        factor = room / self.data_norm
        if self.feature_scale is None:
            return np.full(self.n_features, factor)
        return np.asarray(self.feature_scale * factor)

    def rows(self, X: Given, engine: Engine | None = None) -> BoundedRows:
        """Return the rows that the theorems speak of, whatever the given ones hold."""
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        return BoundedRows(
            X,
            self.data_norm,
            scale=self.feature_scale,
            constant=self.constant,
            norm=self.norm,
            engine=engine,
        )

    def weighted(self, factors: ArrayLike | None) -> tuple[Frame, float]:
        """Return the frame with columns multiplied by public factors; a ball's reach stays one."""
        if factors is None:
            return self, 1.0
        given, scale = np.asarray(factors, dtype=np.float64), self.feature_scale
        return replace(self, feature_scale=given if scale is None else given * scale), 1.0

    def learned_with(self) -> dict[str, Any]:
        """Return what a released model says about the rows that it was learned from."""
        scale = self.feature_scale
        return {
            "data_norm": float(self.data_norm),
            "intercept_scale": float(self.constant) or None,
            "feature_scale": None if scale is None else tuple(scale.tolist()),
        }

    def weights(self, coef: ArrayLike | None, intercept: float = 0.0) -> Floats:
        """Return coefficients and intercept as weights in the unit ball's coordinates."""
        given, factors = _given(coef, self.n_features), self._factors
        point = np.divide(given, factors, out=np.zeros(self.n_features), where=factors > 0)
        return np.append(point, intercept / self.constant) if self.constant else point

    def coefficients(self, weights: Floats) -> tuple[Floats, float]:
        """Return weights as coefficients and intercept for rows as encoded."""
        coef = weights[: self.n_features] * self._factors
        return coef, float(weights[-1] * self.constant) if self.constant else 0.0

    def mean_squares(self, columns: ArrayLike | None = None) -> Floats:
        """Return public mean squares of the coordinates from those of the columns as encoded.

        By default as if rows were at the bound, and columns alike before they are scaled.
        """
        if columns is None:
            share = np.square(self._factors)
            share = (1 - self.constant**2) * share / max(float(share.sum()), 1e-300)
        else:
            given = np.asarray(columns, dtype=np.float64)
            if given.shape != (self.n_features,) or not np.all((given >= 0) & (given <= LARGEST)):
                raise InvalidParameter(
                    f"second_moments must hold one number from 0 to {LARGEST:g} per column."
                )
            share = np.square(self._factors) * given
        return np.append(share, self.constant**2) if self.constant else share

    def facts(self) -> dict[str, Any]:
        """Return the plain values, ``feature_scale`` apart, for a message."""
        told = ("n_features", "data_norm", "constant", "norm")
        return {name: getattr(self, name) for name in told}

    def arrays(self) -> dict[str, Floats | None]:
        return {"feature_scale": self.feature_scale}


def rounding_margin(width: int) -> float:
    """Return the share that rows of so many numbers stay away from their bound."""
    return 4 * (width + 4) * float(np.finfo(np.float64).eps)


#: How far rows may have to stay away from the bound of a body for rounding's sake.
LARGEST_MARGIN = 1e-6

#: The smallest factor of a column beside the largest, and what keeps rounding inside the ball.
_SMALLEST, _HAIR = 2.0**-10, 1e-9


@dataclass(frozen=True, eq=False)
class _Block:
    """Some columns as encoded, the map that turns them, and the factors that they become."""

    turn: Floats | None
    body: Body
    into: slice
    part: slice


@dataclass(frozen=True, eq=False)
class BodyFrame:
    """From rows as encoded to a body's coordinates, and from weights there back to coefficients."""

    body: Body  #: Its last factor is the constant, if there is one: an interval
    ridge: float  #: On the sum of losses, in the body's coordinates: what its roots were made for
    scale: float = 1.0  #: What rows as encoded were divided by
    constant: bool = True  #: Whether a column of ones is appended: the intercept
    #: Public maps from blocks of encoded columns to the columns of the body: of the hats of a curve
    #: to its line and its bends. Without them the columns are the body's.
    turns: tuple[Floats, ...] = ()
    #: In which rows are at most one long: the body's own, or L1, where its roots see to that.
    norm: Literal["body", "l1"] = "body"

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge")
        check_bound(self.scale, "scale")
        if self.constant and self.body.sizes[-1] != 1:
            raise InvalidParameter("the constant is an interval of one column.")
        ends = np.cumsum(self.body.sizes)[: len(self.body.sizes) - self.constant].tolist()
        turned = np.cumsum([len(turn) for turn in self.turns]).tolist()
        if turned and (turned[-1] != ends[-1] or not {*turned} <= {*ends}):
            raise InvalidParameter("turns must lead to the factors of the body.")
        if not self.n_features:
            raise InvalidParameter("a body needs a column besides the constant.")
        if self.norm not in ("body", "l1") or (self.norm == "l1" and l1_reach(self.body.roots) > 1):
            raise InvalidParameter("norm must be 'body', or 'l1' of roots that keep rows in it.")
        with np.errstate(all="ignore"):
            if not self._margin <= LARGEST_MARGIN:
                raise InvalidParameter("the roots of a body must be far from singular.")

    @property
    def bound(self) -> Body | L1:
        return self.body if self.norm == "body" else L1(self.size)

    @property
    def size(self) -> int:
        return self.body.size

    @property
    def n_features(self) -> int:
        """Columns of the rows as encoded."""
        if self.turns:
            return sum(turn.shape[1] for turn in self.turns)
        return self.body.size - self.constant

    def rows(self, X: Given, engine: Engine | None = None) -> BoundedRows:
        """Return the rows that the theorem speaks of, whatever the given ones hold.

        Codes stay so, by the coordinates of their vertices; those of a few rows are written down.
        """
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        if isinstance(X, Coded) and len(X) >= FEW and X.shrink is None:
            blocks = {(block.part.start, block.part.stop): block for block in self._blocks}
            own = [blocks.get((part.start, part.stop)) for part in X.parts]
            if [block for block in own if block is not None] == self._blocks:
                mapped = X.map(lambda j, table: self._image(table, own[j]))
                return BoundedRows.inside(mapped, *self._inside, engine)
        given = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
        out = np.empty((len(given), self.body.size - self.constant))
        for block in self._blocks:
            out[:, block.into] = self._image(given[:, block.part], block)
        return BoundedRows.inside(out, *self._inside, engine)

    @cached_property
    def _margin(self) -> float:
        """The share that rows stay away from the bound: more than the roots' rounding."""
        pairs = zip(self.body.roots, self.body.inverses, strict=True)
        worst = max(
            float(np.abs(inverse).sum(axis=0).max() * np.abs(root).sum(axis=0).max())
            for root, inverse in pairs
        )
        return rounding_margin(self.size) * worst

    @property
    def _inside(self) -> tuple[Ball, float]:
        """The norm that rows are bounded in, and the constant's coordinate."""
        constant = float((1 - self._margin) * self.body.roots[-1][0, 0]) if self.constant else 0.0
        return "l1" if self.norm == "l1" else "l2", constant

    def _image(self, given: Floats, block: _Block | None) -> Floats:
        """Return what becomes of the columns of one block; of no columns, nothing."""
        if block is None:
            return given
        with np.errstate(over="ignore", invalid="ignore"):
            turned = given * self.scale
            if block.turn is not None:
                turned = turned @ block.turn.T
        inside = into_factors(turned, block.body.sizes, 1 - self._margin)
        return block.body.coordinates(inside)

    @cached_property
    def _blocks(self) -> list[_Block]:
        """What maps some columns as encoded to some of the body, one after the other."""
        roots = list(self.body.roots[: len(self.body.roots) - self.constant])
        turns: Sequence[Floats | None] = self.turns or [None] * len(roots)
        found, into, part = [], 0, 0
        for turn in turns:
            own = [roots.pop(0)]
            while turn is not None and sum(map(len, own)) < len(turn):
                own.append(roots.pop(0))
            body = Body(tuple(own), (0,) * len(own))
            width = body.size if turn is None else turn.shape[1]
            ends = slice(into, into + body.size), slice(part, part + width)
            found.append(_Block(turn, body, *ends))
            into, part = into + body.size, part + width
        return found

    def facts(self) -> dict[str, Any]:
        """Return the plain values, the roots apart, for a message."""
        said = {"norm": self.norm, "ridge": float(self.ridge), "scale": float(self.scale)}
        lists = {name: list(getattr(self.body, name)) for name in ("sizes", "groups", "shares")}
        turns = [list(turn.shape) for turn in self.turns]
        return {**said, "constant": bool(self.constant), **lists, "turns": turns}

    def arrays(self) -> dict[str, Floats | None]:
        """Return the roots of a message, row after row, and then the turns."""
        return {"roots": np.concatenate([one.ravel() for one in (*self.body.roots, *self.turns)])}

    def weighted(self, factors: ArrayLike | None) -> tuple[BodyFrame, float]:
        """Return the frame with columns multiplied by public factors, and the reach that it had.

        What is multiplied are the roots, and then all alike, so that rows fill the unit ball again:
        the shape of the noise stays, and a ridge is stronger where a factor is small. ``L`` here is
        ``L`` times the reach in coordinates that were only multiplied. A line's factor is the root
        mean square of its hats'. The constant has the largest.
        """
        if factors is None:
            return self, 1.0
        given = check_factors(factors, self.n_features)
        # Below this a column is as good as left out, and a root is far from singular.
        each = np.maximum(given / max(float(given.max()), 1e-300), _SMALLEST)
        own = np.ones(self.body.size)
        own[: self.n_features] = each if not self.turns else own[: self.n_features]
        for block, turn in zip(self._blocks, self.turns, strict=False):
            squares = np.square(turn)
            own[block.into] = np.sqrt(squares @ each[block.part] ** 2 / squares.sum(axis=1))
        pairs = zip(self.body.parts, self.body.roots, strict=True)
        roots = [root * own[part] for part, root in pairs]
        if self.norm == "l1":
            longest = l1_reach(roots)
        else:
            longest = math.sqrt(sum(float(np.square(root).sum(axis=0).max()) for root in roots))
        longer = (1 - _HAIR) / longest
        body = replace(self.body, roots=tuple(root * longer for root in roots))
        return replace(self, body=body), longest**2

    def learned_with(self) -> dict[str, Any]:
        return {"body": self.body.sizes[: len(self.body.sizes) - self.constant]}

    def weights(self, coef: ArrayLike | None, intercept: float = 0.0) -> Floats:
        """Return coefficients and intercept as weights in the body's coordinates.

        Hats add up to one, so the level of a curve's coefficients is the intercept's.
        """
        given = _given(coef, self.n_features) / self.scale
        point = np.append(given, intercept) if self.constant else given
        if self.turns:
            point = np.zeros(self.body.size)
            for block, turn in zip(self._blocks, self.turns, strict=True):
                level = len(turn) < turn.shape[1] and self.constant
                map_ = np.vstack([turn, np.ones((int(level), turn.shape[1]))])
                found = np.linalg.lstsq(map_.T, given[block.part], rcond=None)[0]
                point[block.into] = found[: len(turn)]
                intercept += float(found[len(turn) :].sum())
            if self.constant:
                point[-1] = intercept
        pairs = zip(self.body.parts, self.body.inverses, strict=True)
        return np.concatenate([point[part] @ inverse for part, inverse in pairs])

    def coefficients(self, weights: Floats) -> tuple[Floats, float]:
        pairs = zip(self.body.parts, self.body.roots, strict=True)
        point = np.concatenate([weights[part] @ root for part, root in pairs])
        coef = point[: self.body.size - self.constant]
        if self.turns:
            turned = zip(self._blocks, self.turns, strict=True)
            coef = np.concatenate([point[block.into] @ turn for block, turn in turned])
        return coef * self.scale, float(point[-1]) if self.constant else 0.0

    def mean_squares(self, columns: ArrayLike | None = None) -> Floats:
        """Return public mean squares of the coordinates from those of the columns as encoded.

        As if what shares a factor or a curve were uncorrelated; by default as if one column of
        every factor were one, each as often as the others.
        """
        point = np.concatenate([np.full(size, 1 / size) for size in self.body.sizes])
        if columns is not None:
            given = np.asarray(columns, dtype=np.float64) * self.scale**2
            if self.turns:
                turned = zip(self._blocks, self.turns, strict=True)
                given = np.concatenate([turn**2 @ given[block.part] for block, turn in turned])
            point[: self.body.size - self.constant] = given
        pairs = zip(self.body.parts, self.body.roots, strict=True)
        return np.concatenate([root**2 @ point[part] for part, root in pairs])


def l1_reach(roots: Sequence[Floats]) -> float:
    """Return the largest sum of magnitudes of a row's coordinates: as lengths, at corners."""
    return float(sum(np.abs(root).sum(axis=0).max() for root in roots))


#: Every group's rows are bounded by themselves, or the whole row.
Clipping = Literal["separate", "joint"]
Groups = tuple[NDArray[np.intp], ...]


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The public map from a row to the bounded rows of its groups of columns."""

    groups: Groups
    norms: tuple[float, ...]  #: Declared bounds of every group, or of the whole row, repeated
    clipping: Clipping = "separate"
    constant: float = 0.4  #: Public, appended to every group inside the bound
    #: Where noise is shaped like the rows every group has a body of its own: a row's part lies in
    #: it, whatever its other parts are.
    frames: tuple[BodyFrame, ...] = ()

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What noise is shaped like; nothing where it is that of a ball."""
        return tuple(frame.body for frame in self.frames)

    @property
    def sizes(self) -> tuple[int, ...]:
        balls = tuple(len(group) + 1 for group in self.groups)
        return tuple(frame.size for frame in self.frames) or balls

    def __call__(self, X: Given) -> list[Rows]:
        """Return ``(n, d_k + 1)`` rows of every group, whatever the rows hold."""
        if self.frames:
            pairs = zip(self.parts(X), self.frames, strict=True)
            return [frame.rows(part) for part, frame in pairs]
        if self.clipping == "separate":
            bounds = zip(self.parts(X), self.norms, strict=True)
            return [BoundedRows(part, norm, constant=self.constant) for part, norm in bounds]
        whole = BoundedRows(X, self.norms[0], constant=self.constant)
        each = whole.constant / math.sqrt(len(self.groups))
        return [whole.columns(group, each) for group in self.groups]

    def parts(self, X: Given) -> Sequence[Given]:
        """Return the columns of every group."""
        return [X[:, group] for group in self.groups]

    def coefficients(self, weights: Floats, k: int) -> tuple[Floats, float]:
        """Return group ``k``'s weights and intercept on its :meth:`parts`."""
        if self.frames:
            return self.frames[k].coefficients(weights)
        norm, shrink, constant = self._scales(k)
        return weights[:-1] * shrink / norm, float(weights[-1] * constant)

    def weights(self, coef: Floats, intercept: float, k: int) -> Floats:
        """Invert :meth:`coefficients`."""
        if self.frames:
            return self.frames[k].weights(coef, intercept)
        norm, shrink, constant = self._scales(k)
        return np.append(coef * norm / shrink, intercept / constant)

    def baseline(self, intercept: float, k: int) -> Floats:
        """Return the weights of group ``k`` that score every row ``intercept``."""
        return self.weights(np.zeros(len(self.groups[k])), intercept, k)

    def _scales(self, k: int) -> tuple[float, float, float]:
        """Return bound, room and constant of one group; clipped jointly they share its square."""
        count = len(self.groups) if self.clipping == "joint" else 1
        return self.norms[k], math.sqrt(1 - self.constant**2), self.constant / math.sqrt(count)


def into_factors(X: Floats, sizes: tuple[int, ...], inside: float = 1.0) -> Floats:
    """Return every row with each factor's sum of magnitudes at most ``inside``: a total map.

    NaN reads as 0, an infinity as the largest double, and the columns of every factor are divided
    by the larger of one and the sum of their magnitudes.
    """
    rows = np.nan_to_num(np.asarray(X, dtype=np.float64))
    start = 0
    for size in sizes:
        part = rows[:, start : start + size]
        # The largest entry first: sums of what is left neither overflow nor vanish.
        part /= np.maximum(np.abs(part).max(axis=1, keepdims=True), 1.0)
        part /= np.maximum(np.abs(part).sum(axis=1, keepdims=True), 1.0)
        start += size
    rows *= inside
    return np.asarray(rows)


def row_scores(frame: Frame, weights: Floats, X: Given) -> Floats:
    """Return ``(n, k)`` scores of bounded rows by ``(k, d)`` weights.

    Column after column: a row's score does not depend on other rows, to the last bit.
    """
    scores = np.zeros((X.shape[0], len(weights)))
    for begin in range(0, len(scores), _SCORED):
        part = slice(begin, min(begin + _SCORED, len(scores)))
        # Codes of many rows are measured by look-ups: how many others there are must not matter.
        rows = frame.rows(X[part].toarray() if isinstance(X, Coded) else X[part])
        if rows.sparse:
            scores[part] = rows @ weights.T
            continue
        for column, weight in zip(rows.written().T, weights.T, strict=True):
            scores[part] += column[:, None] * weight
    return scores


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Rows of magnitudes up to one, in whole steps, and their score: docs/proofs/secure_sums.md."""

    frame: Frame | BodyFrame  #: In which magnitudes of a row add up to one at most
    share: float = 0.0  #: Of a row's length, for the score's column, if there is one

    @cached_property
    def map(self) -> tuple[Floats, float]:
        """From columns as encoded to coordinates, one row each, and the constant's."""
        found = [self.frame.coefficients(one) for one in np.eye(self.frame.size)]
        return np.array([coef for coef, _ in found]), found[-1][1]

    def total(self, X: Given, counted: Floats, steps: int, weights: Floats | None) -> Floats:
        """Return the sum of rows times what each counts, from -1 to 1, in steps of a length.

        ``weights`` are those of the score, which is clipped to [-1, 1].
        """
        total = np.zeros(self.frame.size + (self.share > 0))
        for begin in range(0, len(counted), _ADDED):
            part = slice(begin, begin + _ADDED)
            some = X[part]
            given = some.toarray() if hasattr(some, "toarray") else np.asarray(some, np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                rows = self._written(np.nan_to_num(given), weights)
                whole = np.trunc(steps * counted[part, None] * np.nan_to_num(rows))
            # The certificate: what is longer, which no encoded row is, counts for nothing.
            whole[~(np.abs(whole).sum(axis=1) <= steps)] = 0.0
            total += whole.sum(axis=0)
        return total

    def _written(self, given: Floats, weights: Floats | None) -> Floats:
        """Return rows no longer than one in L1: by columns, each by itself to the last bit."""
        (to, constant), size = self.map, self.frame.size
        rows = np.zeros((len(given), size + (self.share > 0)))
        for i, j in np.argwhere(to):
            rows[:, i] += given[:, j] * to[i, j]
        rows[:, size - 1] += constant
        if weights is not None:
            score = np.zeros(len(given))
            for column, weight in zip(rows.T, weights, strict=False):
                score += column * weight
            rows *= 1 - self.share
            rows[:, -1] = self.share * np.clip(np.nan_to_num(score), -1.0, 1.0)
        return rows
