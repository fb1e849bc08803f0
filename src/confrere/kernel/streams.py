"""Where randomness comes from and every law that is drawn from it.

The system's stream is made by :mod:`confrere.kernel.release`, for who has paid; any other is a
simulation. A uniform has 53 significant bits and is at least 2^-105, a draw is a few units in the
last place from a real one's, and tails end at a probability of about 2^-104. No real share
(docs/proofs/secure_sums.md) is accepted or rejected by comparing floats, which move it a little,
and integer noise, which is exact, pays for that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import repeat
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
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


def box_muller(count: int, size: int, *, source: RandomSource) -> Floats:
    """Return ``(count, size)`` standard normals as a continuous map of exponentials and angles."""
    half = -(-size // 2)
    radius = np.sqrt(2 * exponentials(count, half, source=source))
    angle = 2 * np.pi * source.uniforms(count, half)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return np.asarray(pairs.reshape(count, 2 * half)[:, :size])


def l2_shares(rho: float, size: int, parts: int, count: int, *, source: RandomSource) -> Floats:
    """Return ``(count, size)`` shares; any ``parts`` of them add up to ``exp(-rho ||b||_2)``."""
    check_positive(rho, "rho")
    mixing = gammas(Fraction(size + 1, 2 * parts), count, source=source)
    normal = box_muller(count, size, source=source)
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
        if not tried.size:
            break
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
