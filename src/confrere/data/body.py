"""From rows as encoded to the body that a schema declares, and the maps to groups of columns.

Proof: docs/proofs/geometry.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from confrere.arrays import Floats
from confrere.data.codes import FEW, Coded
from confrere.data.frame import BoundedRows, Rows, check_factors, into_ball
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_bound, check_positive
from confrere.kernel.norms import L1, Ball, Body, into_factors

#: Of bodies that others ask for: the most columns of one factor, and how far rows may have to stay
#: away from the bound for rounding's sake.
LARGEST_FACTOR, LARGEST_MARGIN = 4096, 1e-6

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

    @property
    def bound(self) -> Body | L1:
        """The norm in which no row is longer than one."""
        return self.body if self.norm == "body" else L1(self.size)

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.body.size

    @property
    def n_features(self) -> int:
        """Columns of the rows as encoded."""
        if self.turns:
            return sum(turn.shape[1] for turn in self.turns)
        return self.body.size - self.constant

    def rows(self, X: Any, engine: Any = None) -> BoundedRows:
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
                return BoundedRows.inside(mapped, self._ball, self._constant, engine)
        given = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
        out = np.empty((len(given), self.body.size - self.constant))
        for block in self._blocks:
            out[:, block.into] = self._image(given[:, block.part], block)
        return BoundedRows.inside(out, self._ball, self._constant, engine)

    lazy = rows

    @property
    def _ball(self) -> Ball:
        """In which ball rows lie, besides the body."""
        return "l1" if self.norm == "l1" else "l2"

    @property
    def _constant(self) -> float:
        """The constant's coordinate."""
        return float((1 - self.body.margin) * self.body.roots[-1][0, 0]) if self.constant else 0.0

    def _image(self, given: Floats, block: _Block | None) -> Floats:
        """Return what becomes of the columns of one block; of no columns, nothing."""
        if block is None:
            return given
        with np.errstate(over="ignore", invalid="ignore"):
            turned = given * self.scale
            if block.turn is not None:
                turned = turned @ block.turn.T
        inside = into_factors(turned, block.body.sizes, 1 - self.body.margin)
        return block.body.coordinates(inside)

    @cached_property
    def _blocks(self) -> list[_Block]:
        """What maps some columns as encoded to some of the body, one after the other."""
        roots = self.body.roots[: len(self.body.roots) - self.constant]
        shapes = [one.shape for one in self.turns or roots]
        found = []
        into = part = first = 0
        for j, (rows, columns) in enumerate(shapes):
            last, size = first, 0
            while size < rows:
                size += len(roots[last])
                last += 1
            found.append(
                _Block(
                    self.turns[j] if self.turns else None,
                    Body(roots[first:last], (0,) * (last - first)),
                    slice(into, into + rows),
                    slice(part, part + columns),
                )
            )
            into, part, first = into + rows, part + columns, last
        return found

    def facts(self) -> dict[str, Any]:
        """Return the plain values, the roots apart, for a message."""
        return {
            "norm": self.norm,
            "ridge": float(self.ridge),
            "scale": float(self.scale),
            "constant": bool(self.constant),
            "sizes": [int(size) for size in self.body.sizes],
            "groups": [int(group) for group in self.body.groups],
            "shares": [float(share) for share in self.body.shares],
            "turns": [[int(length) for length in turn.shape] for turn in self.turns],
        }

    def arrays(self) -> dict[str, Floats | None]:
        """Return the roots of a message, row after row, and then the turns."""
        return {"roots": np.concatenate([one.ravel() for one in (*self.body.roots, *self.turns)])}

    @classmethod
    def read(cls, facts: Mapping[str, Any], roots: Floats | None) -> BodyFrame:
        """Return the frame of a message; whatever somebody else sends is a body, or refused.

        A theorem speaks of the rows' map into *this* body, so any body will do that keeps its rows
        in the unit ball, and whose roots are so far from singular that the map can be certified.
        """
        try:
            sent = _SENT.validate_python(facts)
        except ValidationError:
            sent = None
        if sent is None or roots is None or roots.dtype != np.float64 or roots.ndim != 1:
            raise InvalidParameter("a body has sizes, groups and shares of factors, and roots.")
        shapes = [*((size, size) for size in sent["sizes"]), *map(tuple, sent["turns"])]
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        if len(roots) != ends[-1] or not np.isfinite(roots).all():
            raise InvalidParameter("a body has a finite square root of every factor.")
        parts = np.split(roots, ends[:-1])
        read = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        count = len(sent["sizes"])
        body = Body(tuple(read[:count]), tuple(sent["groups"]), tuple(sent["shares"]))
        with np.errstate(all="ignore"):
            if not body.margin <= LARGEST_MARGIN:
                raise InvalidParameter("the roots of a body must be far from singular.")
        how = (sent["ridge"], sent["scale"], sent["constant"])
        return cls(body, *how, tuple(read[count:]), sent["norm"])

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
        """Return what a released model says about the rows that it was learned from."""
        return {"body": self.body.sizes[: len(self.body.sizes) - self.constant]}

    def weights(self, coef: Any, intercept: float = 0.0) -> Floats:
        """Return coefficients and intercept as weights in the body's coordinates.

        Hats add up to one, so the level of a curve's coefficients is the intercept's.
        """
        given = np.zeros(self.n_features) if coef is None else np.asarray(coef, dtype=np.float64)
        if given.shape != (self.n_features,) or not np.all(np.isfinite(given)):
            raise InvalidParameter("prior must hold one finite number per column.")
        given = given / self.scale
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
        """Return weights as coefficients and intercept for rows as encoded."""
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


_Length = Annotated[int, Field(ge=1, le=LARGEST_FACTOR)]


class _Sent(TypedDict):
    """What :meth:`BodyFrame.facts` says, as somebody else has sent it."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    norm: Literal["body", "l1"]
    ridge: float
    scale: float
    constant: bool
    sizes: Annotated[list[_Length], Field(min_length=1)]
    groups: Annotated[list[int], Field(min_length=1)]
    shares: Annotated[list[float], Field(min_length=1)]
    turns: list[Annotated[list[_Length], Field(min_length=2, max_length=2)]]


_SENT = TypeAdapter(_Sent)


def l1_reach(roots: Sequence[Floats]) -> float:
    """Return the largest sum of magnitudes of a row's coordinates: as lengths, at corners."""
    return float(sum(np.abs(root).sum(axis=0).max() for root in roots))


RowRule = Literal["clip", "unit"]
#: Every group's rows are bounded by themselves, or the whole row.
Clipping = Literal["separate", "joint"]
Groups = tuple[NDArray[np.intp], ...]


@dataclass(frozen=True)
class GroupRows:
    """The public map from a row to the bounded rows of its groups of columns."""

    groups: Groups
    norms: tuple[float, ...]  #: Declared bounds of every group, or of the whole row, repeated
    rule: RowRule  #: Shorten rows that are too long, or give every row length one
    clipping: Clipping
    constant: float  #: Public, appended to every group inside the bound

    #: Noise is that of a ball.
    bodies: ClassVar[tuple[Body, ...]] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of every group."""
        return tuple(len(group) + 1 for group in self.groups)

    def __call__(self, X: Any) -> list[Rows]:
        """Return ``(n, d_k + 1)`` rows of every group, whatever the rows hold."""
        how: dict[str, Any] = {"constant": self.constant, "unit": self.rule == "unit"}
        if self.clipping == "separate":
            pairs = zip(self.groups, self.norms, strict=True)
            return [BoundedRows(X[:, group], norm, **how) for group, norm in pairs]
        whole = BoundedRows(X, self.norms[0], **how)
        each = whole.constant / math.sqrt(len(self.groups))
        return [whole.columns(group, each) for group in self.groups]

    def parts(self, X: Any) -> Sequence[Any]:
        """Return the columns of every group, of length one if the rule says so."""
        if self.rule == "clip":
            return [X[:, group] for group in self.groups]
        if self.clipping == "joint":
            whole = _unit(X)
            return [whole[:, group] for group in self.groups]
        return [_unit(X[:, group]) for group in self.groups]

    def coefficients(
        self, weights: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return group ``k``'s weights and intercept on its :meth:`parts`."""
        norm = self.norms[k] if self.rule == "clip" else 1.0
        shrink = math.sqrt(1 - self.constant**2)
        return weights[:-1] * shrink / norm, float(weights[-1] * self._constant)

    def weights(self, coef: NDArray[np.float64], intercept: float, k: int) -> NDArray[np.float64]:
        """Invert :meth:`coefficients`."""
        norm = self.norms[k] if self.rule == "clip" else 1.0
        shrink = math.sqrt(1 - self.constant**2)
        return np.append(coef * norm / shrink, intercept / self._constant)

    def baseline(self, intercept: float, k: int) -> NDArray[np.float64]:
        """Return the weights of group ``k`` that score every row ``intercept``."""
        return self.weights(np.zeros(len(self.groups[k])), intercept, k)

    @property
    def _constant(self) -> float:
        """The constant of one group; under joint clipping the groups share its square."""
        joint = self.clipping == "joint"
        return self.constant / math.sqrt(len(self.groups)) if joint else self.constant


def _unit(X: Any) -> Any:
    """Return rows of length one; those of zeros stay so."""
    if not isinstance(X, Coded):
        return into_ball(X, unit=True)
    lengths = X.norms(None, "l2")
    return X.scaled(1 / np.where(lengths > 0, lengths, 1.0))


@dataclass(frozen=True, eq=False)
class GroupBodies:
    """The same map where noise is shaped like the rows: every group has a body of its own."""

    groups: Groups
    frames: tuple[BodyFrame, ...]
    rule: RowRule = "clip"

    #: A row's part lies in its group's body, whatever its other parts are.
    clipping: ClassVar[Clipping] = "separate"
    #: For those who start from such groups in a ball.
    constant: ClassVar[float] = 0.4

    @property
    def norms(self) -> tuple[float, ...]:
        """Encoded rows are no longer than one."""
        return (1.0,) * len(self.groups)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What noise is shaped like."""
        return tuple(frame.body for frame in self.frames)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of every group."""
        return tuple(frame.size for frame in self.frames)

    def __call__(self, X: Any) -> list[Rows]:
        """Return every group's rows in its body's coordinates, whatever the rows hold."""
        pairs = zip(self.parts(X), self.frames, strict=True)
        return [frame.rows(part) for part, frame in pairs]

    def parts(self, X: Any) -> Sequence[Any]:
        """Return the columns of every group, of length one if the rule says so."""
        parts = [X[:, group] for group in self.groups]
        return [_unit(part) for part in parts] if self.rule == "unit" else parts

    def coefficients(
        self, weights: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return group ``k``'s weights and intercept on its :meth:`parts`."""
        return self.frames[k].coefficients(weights)

    def weights(self, coef: NDArray[np.float64], intercept: float, k: int) -> NDArray[np.float64]:
        """Invert :meth:`coefficients`."""
        return self.frames[k].weights(coef, intercept)

    def baseline(self, intercept: float, k: int) -> NDArray[np.float64]:
        """Return the weights of group ``k`` that score every row ``intercept``."""
        return self.frames[k].weights(None, intercept)
