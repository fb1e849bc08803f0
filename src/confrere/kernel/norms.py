"""Norms: which rows there may be, and the law of noise that hides one of them.

Everything that is promised of a row follows from two bounds in the same public coordinates: its
norm ``N(x)`` is at most one, and so is its Euclidean length. What would be released is rounded to a
public lattice, with integer noise for what solver and floats are off by. Proofs:
docs/proofs/objective_perturbation.md (L2), averaging.md (L1), geometry.md (bodies), output_step.md
and add_remove.md (hidden sizes).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, starmap
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from typing_extensions import TypeIs, override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_positive
from confrere.kernel.streams import (
    RandomSource,
    discrete_laplace,
    gamma_norm,
    normals,
    product_noise,
)

#: Probability of noise longer than certificates reckon with.
FARTHEST = 1e-18

#: The least share of a group; no rule gives less than 2^-4. Noise is as much longer as a share is
#: smaller, and a certificate must stand above the rounding of all of it.
LEAST_SHARE = 2.0**-10

#: More than what probabilities of the integer noise can be off by, in floats.
PROBABILITIES = 1 + 1e-5

#: Cells per declared row: of as many rows as were declared one in a hundred shares its cell.
CELLS = 100

#: Of rows in a ball: which.
Ball = Literal["l1", "l2"]


class Norm(ABC):
    """A norm of rows and of noise, in coordinates in which no row is longer than one in L2."""

    leaf: ClassVar[str]  #: What it is made of, by the word that theorems have for it
    size: int  #: Number of columns
    longest: float = 1.0  #: The largest Euclidean length of a vector whose norm is one

    def certify(self, rows: Rows) -> None:
        """Refuse rows whose norm, or whose length, is above one, before any draw."""
        certify_rows(rows, norm="l1" if self.leaf == "L1" else "l2")

    @abstractmethod
    def draw(self, rho: float, source: RandomSource, count: int) -> Floats:
        """Return ``(count, size)`` draws of density ``exp(-rho N(b))``."""


@dataclass(frozen=True)
class L2(Norm):
    """The Euclidean norm: rows in a ball."""

    leaf = "L2"
    size: int

    @override
    def draw(self, rho: float, source: RandomSource, count: int) -> Floats:
        lengths = gamma_norm(rho, self.size, count, source)
        normal = normals(self.size, count, source)  # its direction is uniform on the sphere
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        return lengths[:, None] * normal


@dataclass(frozen=True)
class L1(Norm):
    """The sum of magnitudes: noise is Laplace's on every coordinate. Its ball lies in L2's."""

    leaf = "L1"
    size: int

    @override
    def draw(self, rho: float, source: RandomSource, count: int) -> Floats:
        rises, falls = (gamma_norm(rho, 1, count * self.size, source) for _ in range(2))
        return (rises - falls).reshape(count, self.size)


@dataclass(frozen=True, eq=False)
class Body(Norm):
    """A product of cross-polytopes in public coordinates: the rows that a schema declares.

    A number, a flag and the constant lie in an interval, a category's columns in a cross-polytope:
    at most one of them is one. An interval is a cross-polytope of one column. Every factor ``x_k``
    of a row has ``||x_k||_1 <= 1`` and the coordinates ``T_k x_k``. The norm of a vector with
    factors ``T_k b_k`` is ``sum_g c_g max_{k in g} ||b_k||_1`` over groups of factors whose shares
    ``c_g`` add up to one, so that no row has a norm above one.
    """

    leaf = "Max"
    roots: tuple[Floats, ...]  #: ``T_k``: a factor has the size of its root
    groups: tuple[int, ...]  #: Which group every factor belongs to, from 0 on
    #: ``c_g``, scaled to add up to one, of which each must be :data:`LEAST_SHARE`.
    shares: tuple[float, ...] = (1.0,)
    sizes: tuple[int, ...] = field(init=False)
    parts: list[slice] = field(init=False)
    #: The largest squared length of coordinates of rows; and length of those whose norm is one,
    #: which is above one for groups.
    squared_reach: float = field(init=False)
    longest: float = field(init=False)

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.roots) or not self.roots:
            raise InvalidParameter("a body needs one group per factor, and one factor at least.")
        if sorted(set(self.groups)) != list(range(len(self.shares))):
            raise InvalidParameter("shares must have one entry per group, and no group be empty.")
        with np.errstate(all="ignore"):
            scaled = tuple((np.array(self.shares) / sum(self.shares)).tolist())
        if not np.min(scaled) >= LEAST_SHARE:  # nor is NaN
            raise InvalidParameter(f"shares must each be at least {LEAST_SHARE:g} of their sum.")
        for root in self.roots:
            if root.ndim != 2 or root.shape[0] != root.shape[1] or not np.isfinite(root).all():
                raise InvalidParameter("the roots of a body must be square and finite.")
        sizes = tuple(len(root) for root in self.roots)
        ends = np.cumsum([0, *sizes]).tolist()
        parts = list(starmap(slice, pairwise(ends)))
        # At corners coordinates are longest: as a root's longest columns, which add up.
        squares = [float(np.square(root).sum(axis=0).max()) for root in self.roots]
        lengths = np.sqrt(np.bincount(self.groups, weights=squares)) / np.array(scaled)
        vars(self).update(shares=scaled, sizes=sizes, size=ends[-1], parts=parts)
        vars(self).update(squared_reach=sum(squares), longest=float(np.max(lengths)))
        if not self.squared_reach <= 1:
            raise InvalidParameter("the roots of a body must keep its rows in the unit ball.")

    @cached_property
    def inverses(self) -> tuple[Floats, ...]:
        try:
            return tuple(np.asarray(np.linalg.inv(root), dtype=np.float64) for root in self.roots)
        except np.linalg.LinAlgError:
            raise InvalidParameter("the roots of a body must be invertible.") from None

    def coordinates(self, X: Floats) -> Floats:
        """Return ``T_k x_k`` of every factor of rows, or of noise, side by side."""
        out = np.empty(X.shape)
        for part, root in zip(self.parts, self.roots, strict=True):
            out[:, part] = X[:, part] @ root.T
        return out

    def factor_norms(self, rows: Floats) -> Floats:
        """Return ``||x_k||_1`` of every factor, from rows in coordinates."""
        out = np.empty((len(rows), len(self.roots)))
        with np.errstate(all="ignore"):
            for k, (part, inverse) in enumerate(zip(self.parts, self.inverses, strict=True)):
                out[:, k] = np.abs(rows[:, part] @ inverse.T).sum(axis=1)
        return out

    @override
    def certify(self, rows: Rows) -> None:
        # Written so that NaN is refused: no comparison with it is true.
        if rows.shape[0] and not self._worst(rows) <= 1:
            raise InvalidData("a row lies outside the declared body; map the rows into it first.")
        certify_rows(rows)

    def _worst(self, rows: Rows) -> float:
        """Return the largest norm of a factor; of rows that consist of corners, of these."""
        if not measured(rows) or rows.corners is None:
            return float(self.factor_norms(np.asarray(rows)).max())
        ends = np.cumsum([table.shape[1] for table in rows.corners])
        found = []
        for part, inverse in zip(self.parts, self.inverses, strict=True):
            j = int(np.searchsorted(ends, part.start, side="right"))
            if part.stop > ends[j]:
                return math.inf  # a factor of two tables
            before = ends[j] - rows.corners[j].shape[1]
            own = rows.corners[j][:, part.start - before : part.stop - before]
            found.append(float(np.abs(own @ inverse.T).sum(axis=1).max()))
        return float(np.max(found))

    @override
    def draw(self, rho: float, source: RandomSource, count: int) -> Floats:
        noise = np.empty((count, self.size))
        for g, share in enumerate(self.shares):
            mine = [part for part, group in zip(self.parts, self.groups, strict=True) if group == g]
            sizes = [part.stop - part.start for part in mine]
            drawn = product_noise(rho * share, sizes, source, count=count)
            noise[:, np.concatenate([np.arange(part.start, part.stop) for part in mine])] = drawn
        return self.coordinates(noise)


class Law(ABC):
    """A law of noise on vectors of one size."""

    size: int  #: Number of coordinates
    rate: float  #: One over the scale of the noise
    mean_length: float  #: The mean of the norm that is in the density, or all but it
    longest: float  #: A Euclidean length that a draw exceeds with probability :data:`FARTHEST`

    @abstractmethod
    def draw(self, source: RandomSource, count: int) -> Floats:
        """Return ``(count, size)`` independent draws."""


@dataclass(frozen=True, eq=False)
class Pure(Law):
    """Density proportional to ``exp(-rho N(b))``, or ``exp(-rho sum_c N(B_c))`` of copies."""

    norm: Norm
    rho: float
    copies: int = 1  #: Classes that have noise of their own each, one after the other

    def __post_init__(self) -> None:
        size = self.copies * self.norm.size
        # The length of a Gamma variable, whatever the norm.
        vars(self).update(size=size, rate=self.rho, mean_length=size / self.rho)
        quantile = float(special.gammainccinv(size, FARTHEST)) / self.rho
        vars(self).update(longest=quantile * self.norm.longest)

    @override
    def draw(self, source: RandomSource, count: int) -> Floats:
        drawn = self.norm.draw(self.rho, source, count * self.copies)
        return drawn.reshape(count, self.size)


@dataclass(frozen=True)
class Gaussian(Law):
    """``N(0, sigma^2 I)``."""

    sigma: float
    size: int

    def __post_init__(self) -> None:
        vars(self).update(rate=1 / self.sigma, mean_length=self.sigma * math.sqrt(self.size))
        quantile = math.sqrt(float(special.chdtri(self.size, FARTHEST)))
        vars(self).update(longest=self.sigma * quantile)

    @override
    def draw(self, source: RandomSource, count: int) -> Floats:
        return check_positive(self.sigma, "sigma") * normals(self.size, count, source)


@dataclass(frozen=True, slots=True)
class LatticeStep:
    """Discrete Laplace noise on a lattice that hides any move of length ``2 radius``."""

    epsilon: float  #: What the step spends
    radius: float  #: Certified distance of what was computed from what it stands for
    size: int  #: Number of coordinates

    @property
    def spacing(self) -> float:
        """The lattice constant, the power of two next below ``radius / sqrt(size)``."""
        return 2.0 ** math.floor(math.log2(self.radius / math.sqrt(self.size)))

    @property
    def scale(self) -> float:
        """Scale of the integer noise: the L1 move in lattice units over epsilon."""
        move = 2 * math.sqrt(self.size) * self.radius / self.spacing + self.size
        return move / self.epsilon * PROBABILITIES

    def release(self, point: Floats, source: RandomSource) -> Floats:
        """Return the rounded and noised point, or points, one per row."""
        steps = np.rint(point / self.spacing)
        own = source.bound("output step", steps, self.spacing, self.scale)
        noise = discrete_laplace(self.scale, point.shape, own)
        return np.asarray((steps + noise) * self.spacing)


@dataclass(frozen=True, slots=True)
class HiddenSize:
    """A number of rows that is not public: a row alone in the cell it draws is used."""

    declared: int  #: About how many rows there are, from public knowledge or a noised count

    def __post_init__(self) -> None:
        if isinstance(self.declared, bool) or int(self.declared) < 1:
            raise InvalidParameter("n_samples must be a whole number of at least 1.")

    @property
    def most(self) -> int:
        """The most rows that are used, and the number of cells."""
        return CELLS * int(self.declared)

    def used(self, n_rows: int, source: RandomSource, count: int = 1) -> NDArray[np.bool_]:
        """Return which rows are alone in the cells they draw, ``(count, n_rows)``."""
        cells = np.floor(source.uniforms(count, n_rows) * self.most).astype(np.int64)
        alone = np.empty(cells.shape, dtype=np.bool_)
        for row, drawn in zip(alone, cells, strict=True):
            _, which, many = np.unique(drawn, return_inverse=True, return_counts=True)
            row[:] = many[which] == 1
        return alone


class MeasuredRows:
    """Rows in blocks, whose longest one was measured on the way in: the one such class."""

    norm: Ball  #: What they were measured in
    longest: float  #: The norm of the longest
    shape: tuple[int, int]
    #: Tables of which every row has one row of each, side by side: where rows are codes.
    corners: Sequence[Floats] | None = None

    def __init_subclass__(cls) -> None:
        if MeasuredRows.__subclasses__() != [cls]:
            raise TypeError("no other class of rows can say that they are bounded.")


def measured(rows: object) -> TypeIs[MeasuredRows]:
    """Whether rows are of that class, whatever they call themselves."""
    return issubclass(type(rows), MeasuredRows)


#: Rows in blocks, written down, or sparse.
Rows: TypeAlias = "Floats | sparse.csr_array | MeasuredRows"


def certify_rows(X: Rows, bound: float = 1.0, norm: Ball = "l2") -> None:
    """Refuse rows outside the ball: the theorem's hypothesis, checked before any draw."""
    longest = 0.0
    if measured(X):
        # No row is longer in L2 than in L1.
        longest = X.longest if X.norm in (norm, "l1") else math.inf
        if X.corners is not None:
            power = 1 if norm == "l1" else 2
            reach = [float((np.abs(table) ** power).sum(axis=1).max()) for table in X.corners]
            longest = float(sum(reach) ** (1 / power))
    elif X.shape[0]:
        longest = float(row_norms(X, norm).max())
    # Written so that NaN is refused: no comparison with it is true.
    if not longest <= bound:
        raise InvalidData("a row is longer than the declared bound; clip the rows first.")


def row_norms(X: Rows, norm: Ball = "l2") -> Floats:
    """Return the norm of every row; infinite or NaN where doubles cannot hold its square."""
    l1 = norm == "l1"
    with np.errstate(all="ignore"):
        if sparse.issparse(X):
            # In CSR that holds every entry once: two entries of one place add up.
            rows = sparse.csr_array(X).astype(np.float64, copy=False)
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
            powers = np.abs(rows.data) if l1 else rows.data * rows.data
            taken = sparse.csr_array((powers, rows.indices, rows.indptr), shape=rows.shape)
            sums = np.asarray(taken @ np.ones(rows.shape[1]))
        else:
            # In doubles, as solvers read them: squares of small types wrap, or stop growing.
            dense = np.asarray(X)
            if l1:
                return np.asarray(np.abs(dense, dtype=np.float64).sum(axis=1))
            sums = np.einsum("ij,ij->i", dense, dense, dtype=np.float64)
        return np.asarray(sums if l1 else np.sqrt(sums))


@dataclass(frozen=True)
class Tie:
    """How weights make the weight vectors of a loss's scores: here every score has its own."""

    n_scores: int = 1
    share: float = 1.0  #: What the last column may have of a row's squared length
    shared: ClassVar[bool] = False  #: Whether several scores have a weight together

    def shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of the weights of rows of so many columns."""
        return (size,) if self.n_scores == 1 else (self.n_scores, size)

    def spread(self, weights: Floats) -> Floats:
        """Return the weight vectors of all scores, given weights ``(m, all)``: a linear map."""
        return weights.reshape(len(weights) * self.n_scores, -1)

    def gathered(self, pulls: Floats) -> Floats:
        """Return the adjoint of that map at as many vectors."""
        return pulls.reshape(len(pulls) // self.n_scores, -1)

    def noised(self, norm: Norm) -> Norm:
        """Return the norm of noise, for rows of a norm: of every weight vector's own."""
        return norm

    def certify(self, rows: Rows) -> None:
        """Refuse rows that it is not for, whatever their norm."""
