"""Noise that nobody draws alone: shares whose sum has a known law.

Proof: docs/proofs/secure_sums.md.

Real shares are continuous maps of exponentials that are right to a few units in the last place,
from the smallest to the largest: no draw is accepted or rejected by comparing floats, so what
floats do to a share is to move it a little, and integer noise pays for that. Integer shares are
drawn with integers alone, and their law is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.guarantee import check_positive
from confrere.noise.sources import RandomSource

Integers = NDArray[np.int64]

#: What a series of a Gamma variable may leave out, in bits below one.
_REST = 230

#: Integer noise of this scale or more has no exact sampler here.
_LARGEST_SCALE = 2**48

#: Integer noise of a larger multiple of its scale is left out; it has probability below e^-128.
_FARTHEST = 128


def exponentials(*shape: int, source: RandomSource) -> Floats:
    """Return standard exponentials with full relative precision at both ends.

    A uniform below one half is a power of two, found by counting leading zeros, times a mantissa
    of 53 bits; a coin says whether the uniform is it or one minus it. The logarithm of a uniform
    on a grid would have few bits near one, where small exponentials come from.
    """
    first, second, third = source.words(3, *shape)
    zeros = np.where(first > 0, 64 - _bit_length(first), 128 - _bit_length(second))
    mantissa = 1.0 + (third >> np.uint64(12)).astype(np.float64) * 2.0**-52
    half = np.ldexp(mantissa, -(zeros + 2))
    small = (third & np.uint64(1)).astype(bool)
    return np.asarray(np.where(small, -np.log1p(-half), -np.log(half)))


def gammas(shape: Fraction, count: int, *, source: RandomSource) -> Floats:
    """Return ``count`` draws of Gamma(``shape``, 1) as a continuous map of exponentials.

    Whole exponentials, and for the fraction ``f`` of the shape Bondesson's series
    ``sum_k exp(-Gamma_k/f) E_k``, where ``Gamma_k`` are the arrivals of a Poisson process. What
    the series leaves out has mean ``f (f/(1+f))^K``, below ``2^-230``.
    """
    if shape <= 0:
        raise InvalidParameter("shape must be above 0.")
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
    """Return ``(count, size)`` shares; any ``parts`` of them add up to ``exp(-rho ||b||_2)``.

    ``sqrt(2 G)/rho N`` with ``G ~ Gamma((size + 1)/(2 parts), 1)`` and ``N`` normal.
    """
    check_positive(rho, "rho")
    mixing = gammas(Fraction(size + 1, 2 * _checked_parts(parts)), count, source=source)
    normal = box_muller(count, size, source=source)
    return np.asarray(np.sqrt(2 * mixing)[:, None] / rho * normal)


def gaussian_shares(
    sigma: float, size: int, parts: int, count: int, *, source: RandomSource
) -> Floats:
    """Return ``(count, size)`` shares; any ``parts`` of them add up to ``N(0, sigma^2 I)``."""
    check_positive(sigma, "sigma")
    scale = sigma / math.sqrt(_checked_parts(parts))
    return np.asarray(scale * box_muller(count, size, source=source))


def laplace_shares(
    rho: float, size: int, parts: int, count: int, *, source: RandomSource
) -> Floats:
    """Return ``(count, size)`` shares; any ``parts`` of them add up to ``exp(-rho ||b||_1)``.

    Per coordinate the difference of two Gamma(``1/parts``) variables.
    """
    check_positive(rho, "rho")
    drawn = gammas(Fraction(1, _checked_parts(parts)), 2 * count * size, source=source)
    rises, falls = drawn.reshape(2, count, size) / rho
    return np.asarray(rises - falls)


def integer_shares(
    scale: int, size: int, parts: int, count: int, *, source: RandomSource
) -> Integers:
    """Return ``(count, size)`` integer shares; ``parts`` of them are discrete Laplace noise.

    The sum has probability proportional to ``exp(-|z|/scale)`` per coordinate. A share is the
    difference of two negative binomials of shape ``1/parts``, drawn as what they are: compound
    Poisson sums with jumps of length k at intensity ``exp(-k/scale)/(k parts)``. Jumps come from a
    dominating process that is constant on ``[2^J, 2^(J+1))``, and are thinned. The events of all
    shares are drawn together and dealt out: parts of a Poisson process are Poisson processes.
    """
    _checked_parts(parts)
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
    """Refuse a scale for which integer noise cannot be drawn."""
    if isinstance(scale, bool) or not isinstance(scale, int) or scale < 1:
        raise InvalidParameter("scale must be an int of at least 1.")
    if scale >= _LARGEST_SCALE:
        raise InvalidParameter("epsilon is too small: noise would not fit into whole numbers.")


def _checked_parts(parts: int) -> int:
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise InvalidParameter("parts must be an int of at least 1: how many shares make the law.")
    return parts


def _bit_length(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits each word has, leading zeros apart."""
    high = (words >> np.uint64(32)).astype(np.float64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)


def _below(bounds: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint64]:
    """Return uniform integers from 0 up to each bound, exactly: masked bits, drawn again if above.

    How often that happens depends on public bounds or on noise, never on data.
    """
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
    total = 0
    left = pieces
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
    """Return true with probability ``exp(-length/scale)``, exactly.

    Whole multiples of the scale are coins of ``exp(-1)`` that must all succeed; each coin of
    ``exp(-g)`` counts how long coins of ``g/1, g/2, ...`` succeed: an even count is a success.
    """
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
