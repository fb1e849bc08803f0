"""Noise: where randomness comes from, every law that is drawn from it, and which rows it hides.

The system's stream is made by :mod:`confrere.kernel.release`, for who has paid; any other is a
simulation. A uniform has 53 significant bits and is at least 2^-105, a draw is a few units in the
last place from a real one's, and tails end at a probability of about 2^-104. No real share
(docs/proofs/secure_sums.md) is accepted or rejected by comparing floats, which move it a little,
and integer noise, which is exact, pays for that.

Everything that is promised of a row follows from two bounds in the same public coordinates: its
norm ``N(x)`` is at most one, and so is its Euclidean length. Proofs: objective_perturbation.md
(L2), averaging.md (L1), geometry.md (bodies), output_step.md and add_remove.md (hidden sizes).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, repeat, starmap
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special
from typing_extensions import TypeIs, override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Guarantee, Priced, Split, check_positive

_LARGEST = 1 - 2.0**-53  #: Nothing between it and 1 is a double

R = TypeVar("R")
T = TypeVar("T")


class Measurement(Priced, ABC, Generic[R, T]):
    """What can be released: what it costs, and the one draw that it costs that for."""

    promise: Guarantee  #: What one draw costs, without touching data

    @override
    def guarantee(self) -> Guarantee:
        return self.promise

    @property
    def several(self) -> tuple[str, int] | None:
        """Its name, and how many draws its guarantee is for together, where that is not one."""
        return None

    @abstractmethod
    def sample(self, rows: R, stream: RandomSource, count: int = 1) -> T:
        """Return ``count`` independent releases; :meth:`RandomSource.draw` has booked the price."""


class RandomSource(ABC):
    """A stream of uniforms in the open interval (0, 1), and of signs."""

    simulated: bool

    def __init_subclass__(cls) -> None:
        # Only the kernel's own streams are real; what another one makes does not leave.
        own = cls.__module__.startswith("confrere.kernel.")
        if not own and not getattr(cls, "simulated", False):
            raise TypeError("a source of randomness outside of the kernel has simulated = True.")

    @abstractmethod
    def _words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Return uniform 64-bit words, for laws that are drawn in integers."""
        return self._words(int(np.prod(shape, dtype=np.int64))).reshape(shape)

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """Return uniforms with 53 significant bits however small they are; never 0, never 1."""
        words = self._words(2 * int(np.prod(shape, dtype=np.int64)))
        cell, place = (words >> np.uint64(12)).astype(np.float64).reshape(2, *shape)
        cell += (place + 0.5) * 2.0**-52
        return np.asarray(np.minimum(cell * 2.0**-52, _LARGEST), dtype=np.float64)

    def signs(self, *shape: int) -> NDArray[np.float64]:
        """Return independent numbers -1 and +1, equally likely."""
        count = int(np.prod(shape, dtype=np.int64))
        bits = np.unpackbits(self._words(-(-count // 64)).view(np.uint8), count=count)
        return np.asarray(1.0 - 2.0 * bits.reshape(shape), dtype=np.float64)

    def draw(self, made: Measurement[R, T], rows: R, count: int = 1) -> T:
        """Return what a measurement samples, once what it says that it costs is booked."""
        if count < 1:
            raise InvalidParameter("count must be at least 1.")
        return made.sample(rows, self, count)

    def answer(self, made: Measurement[R, T], rows: R, stream: RandomSource) -> T:
        """Return what a booked draw gives; a simulation may listen to what is drawn, of what."""
        return made.sample(rows, stream)

    def apart(self, split: Split) -> Iterator[RandomSource]:
        """Return one source after the other for disjoint parts of the data: the dearest counts."""
        del split
        return repeat(self)

    def deal(self, n_rows: int, fractions: Sequence[float]) -> list[NDArray[np.intp]]:
        """Return rows of disjoint parts, every row by a draw of its own, which nobody may see."""
        ends = np.cumsum(fractions) / math.fsum(fractions)
        place = np.searchsorted(ends[:-1], self._dealt(n_rows), side="right")
        return [np.flatnonzero(place == part) for part in range(len(fractions))]

    def _dealt(self, n_rows: int) -> NDArray[np.float64]:
        return self.uniforms(n_rows)

    def stream(self, label: str, step: int) -> RandomSource:
        """Return a source for one act among several, told apart by a label and a number."""
        del label, step
        return self

    def bound(self, purpose: str, *values: ArrayLike | Callable[[], ArrayLike]) -> RandomSource:
        """Return the source of one purpose; with a key, noise follows from these values, too."""
        del purpose, values
        return self


#: Geometrics of a larger scale have their low binary digits drawn, down to this many.
_LARGE, _DIGITS = 2.0**16, 12


def gamma_norm(rho: float, dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``count`` draws of Gamma(``dimension``, *scale* ``1/rho``): sums of exponentials."""
    check_positive(rho, "rho")
    return np.asarray((-np.log(source.uniforms(count, dimension))).sum(axis=1) / rho)


def cross_polytope_points(size: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``(count, size)`` uniform draws of the vectors whose magnitudes sum to at most one."""
    # Of size + 1 exponentials all but the first, over their sum, are uniform in the corner.
    exponentials = -np.log(source.uniforms(count, size + 1))
    corner = exponentials[:, 1:] / exponentials.sum(axis=1, keepdims=True)
    return np.asarray(corner * source.signs(count, size))


def product_noise(
    rho: float, sizes: Sequence[int], source: RandomSource, count: int = 1
) -> NDArray[np.float64]:
    """Return ``(count, d)`` draws with density proportional to ``exp(-rho max_k ||b_k||_1)``."""
    lengths = gamma_norm(rho, sum(sizes) + 1, count, source)
    points = [cross_polytope_points(size, count, source) for size in sizes]
    return np.asarray(lengths[:, None] * np.hstack(points))


def normals(dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` standard normals, sharp in both tails: a half and a sign."""
    halves = special.ndtri(source.uniforms(count, dimension) / 2)
    return np.asarray(halves * source.signs(count, dimension))


def discrete_laplace(
    scale: float | NDArray[np.float64], shape: tuple[int, ...], source: RandomSource
) -> NDArray[np.int64]:
    """Return integers with probability proportional to ``exp(-|k|/scale)``."""
    check_positive(float(np.min(scale)), "scale")
    scales, largest = np.asarray(scale, dtype=np.float64), float(np.max(scale))
    digits = math.ceil(math.log2(largest)) - _DIGITS if largest > _LARGE else 0
    whole = np.floor(-(scales / 2.0**digits) * np.log(source.uniforms(2, *shape)))
    drawn = whole.astype(np.int64)
    for place in reversed(range(digits)):
        ones = source.uniforms(2, *shape) < special.expit(-(2.0**place) / scales)
        drawn = 2 * drawn + ones
    return np.asarray(drawn[0] - drawn[1])


#: What a series of a Gamma variable may leave out, in bits below one.
_REST = 230
_LARGEST_SCALE = 2**48  #: Integer noise of this scale or more has no exact sampler here
#: Integer noise of a larger multiple of its scale is left out; it has probability below e^-128.
_FARTHEST = 128


def exponentials(*shape: int, source: RandomSource) -> Floats:
    """Return standard exponentials with full relative precision at both ends."""
    first, second, third = source.words(3, *shape)
    zeros = np.where(first > 0, 64 - _bit_length(first), 128 - _bit_length(second))
    mantissa = 1.0 + (third >> np.uint64(12)).astype(np.float64) * 2.0**-52
    half = np.ldexp(mantissa, -(zeros + 2))
    small = (third & np.uint64(1)).astype(bool)
    return np.asarray(np.where(small, -np.log1p(-half), -np.log(half)))


def gammas(shape: Fraction, count: int, *, source: RandomSource) -> Floats:
    """Return draws of Gamma(``shape``, 1): whole ones, and Bondesson's series for the rest."""
    check_positive(shape, "shape")
    whole = math.floor(shape)
    drawn = exponentials(count, whole, source=source).sum(axis=1) if whole else np.zeros(count)
    rest = float(shape - whole)
    if rest > 0:
        terms = max(1, math.ceil((_REST + math.log2(rest)) / math.log2(1 + 1 / rest)))
        arrivals = np.cumsum(exponentials(count, terms, source=source), axis=1)
        jumps = exponentials(count, terms, source=source)
        drawn = drawn + (np.exp(-arrivals / rest) * jumps).sum(axis=1)
    return np.asarray(drawn)


def l2_shares(rho: float, size: int, parts: int, count: int, *, source: RandomSource) -> Floats:
    """Return ``(count, size)`` shares; any ``parts`` of them add up to ``exp(-rho ||b||_2)``."""
    check_positive(rho, "rho")
    mixing = gammas(Fraction(size + 1, 2 * parts), count, source=source)
    normal = normals(size, count, source)
    return np.asarray(np.sqrt(2 * mixing)[:, None] / rho * normal)


def integer_shares(
    scale: int, size: int, parts: int, count: int, *, source: RandomSource
) -> NDArray[np.int64]:
    """Return integer shares; ``parts`` add up to ``exp(-|z|/scale)`` per entry, exactly."""
    check_scale(scale)
    blocks = (_FARTHEST * scale - 1).bit_length()
    events = _poisson(Fraction(2 * size * blocks * count, parts), source)
    block = _below(np.full(events, blocks, dtype=np.uint64), source)
    lowest = np.uint64(1) << block
    length = lowest + (source.words(events) & (lowest - np.uint64(1)))
    kept = _below(length, source) < lowest
    kept[kept] = _exponential_coin(length[kept], scale, source)
    length = length[kept].astype(np.int64)
    place = _below(np.full(len(length), count * size, dtype=np.uint64), source).astype(np.intp)
    drawn = np.zeros(count * size, dtype=np.int64)
    np.add.at(drawn, place, np.where(source.signs(len(length)) > 0, length, -length))
    return drawn.reshape(count, size)


def check_scale(scale: int) -> None:
    if isinstance(scale, bool) or not isinstance(scale, int) or scale < 1:
        raise InvalidParameter("scale must be an int of at least 1.")
    if scale >= _LARGEST_SCALE:
        raise InvalidParameter("epsilon is too small: noise would not fit into whole numbers.")


def _bit_length(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits each word has, leading zeros apart."""
    high = (words >> np.uint64(32)).astype(np.float64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)


def _below(bounds: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint64]:
    """Return uniform integers from 0 up to each bound, exactly; no time depends on data."""
    drawn = np.zeros(bounds.shape, dtype=np.uint64)
    shift = (64 - np.maximum(_bit_length(bounds - np.uint64(1)), 1)).astype(np.uint64)
    left = np.flatnonzero(bounds > 1)
    while left.size:
        drawn[left] = source.words(left.size) >> shift[left]
        left = left[drawn[left] >= bounds[left]]
    return drawn


def _coin(
    numerator: NDArray[np.uint64], denominator: NDArray[np.uint64], source: RandomSource
) -> NDArray[np.bool_]:
    """Return true with probability ``numerator/denominator``, exactly."""
    return np.asarray(_below(denominator, source) < numerator)


def _poisson(mean: Fraction, source: RandomSource) -> int:
    """Return one Poisson draw, exactly: pieces of mean x below 1/2, by geometrics and 1/n!."""
    pieces = max(1, math.ceil(2 * mean))
    numerator, denominator = (np.uint64(v) for v in (mean / pieces).as_integer_ratio())
    total, left = 0, pieces
    while left:
        drawn = np.zeros(left, dtype=np.int64)
        going = np.arange(left)
        while going.size:  # how many successes of probability x before the first failure
            tossed = _coin(np.full(going.size, numerator), np.full(going.size, denominator), source)
            going = going[tossed]
            drawn[going] += 1
        accepted = np.ones(left, dtype=bool)
        for j in range(2, int(drawn.max(initial=0)) + 1):
            tried = np.flatnonzero(accepted & (drawn >= j))
            ones = np.ones(tried.size, dtype=np.uint64)
            accepted[tried] = _coin(ones, np.full(tried.size, j, dtype=np.uint64), source)
        total += int(drawn[accepted].sum())
        left = int(left - accepted.sum())
    return total


def _exponential_coin(
    length: NDArray[np.uint64], scale: int, source: RandomSource
) -> NDArray[np.bool_]:
    """Return true with probability ``exp(-length/scale)``, exactly."""
    bound = np.uint64(scale)
    whole, rest = length // bound, length % bound
    success = _fraction_coin(rest, bound, source)
    for j in range(1, int(whole.max(initial=np.uint64(0))) + 1):
        tried = np.flatnonzero(success & (whole >= np.uint64(j)))
        success[tried] = _fraction_coin(np.full(tried.size, bound), bound, source)
    return success


def _fraction_coin(
    numerator: NDArray[np.uint64], denominator: np.uint64, source: RandomSource
) -> NDArray[np.bool_]:
    """Return true with probability ``exp(-numerator/denominator)``, for fractions up to one."""
    count = np.zeros(numerator.shape, dtype=np.int64)
    going = np.arange(numerator.size)
    turn = 0
    while going.size:
        turn += 1
        heads = _coin(numerator[going], np.full(going.size, denominator * np.uint64(turn)), source)
        going = going[heads]
        count[going] += 1
    return np.asarray(count % 2 == 0)


# --- norms, and the noise that hides a row of them ------------------------------------------------

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
        quantile = float(special.gammainccinv(size, FARTHEST)) / self.rho
        vars(self).update(size=size, rate=self.rho, longest=quantile * self.norm.longest)

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
        quantile = math.sqrt(float(special.chdtri(self.size, FARTHEST)))
        vars(self).update(rate=1 / self.sigma, longest=self.sigma * quantile)

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
