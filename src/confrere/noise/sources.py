"""Streams of random words: of a seed here, and of the operating system behind a ticket.

Streams give uniforms only; every law in :mod:`confrere.noise.samplers` is built on them, so the
code that draws private noise is the code that the simulations test. The system's stream is made by
:mod:`confrere.kernel.release`, for who has paid.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Split

Seed = int | np.random.SeedSequence | np.random.Generator | np.random.RandomState


#: Nothing between it and 1 is a double.
_LARGEST = 1 - 2.0**-53


class RandomSource(ABC):
    """A stream of uniforms in the open interval (0, 1), and of signs."""

    simulated: bool

    @abstractmethod
    def _words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Return uniform 64-bit words, for laws that are drawn in integers."""
        return self._words(int(np.prod(shape, dtype=np.int64))).reshape(shape)

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """Return uniforms with 53 significant bits however small they are; never 0, never 1.

        52 bits choose a cell of a grid, and 52 more a place in it: a grid alone would leave few
        bits to a small uniform, and so to a large ``-log(u)``. The least of them is 2^-105.
        """
        words = self._words(2 * int(np.prod(shape, dtype=np.int64)))
        cell, place = (words >> np.uint64(12)).astype(np.float64).reshape(2, *shape)
        cell += (place + 0.5) * 2.0**-52
        return np.asarray(np.minimum(cell * 2.0**-52, _LARGEST), dtype=np.float64)

    def signs(self, *shape: int) -> NDArray[np.float64]:
        """Return independent numbers -1 and +1, equally likely."""
        count = int(np.prod(shape, dtype=np.int64))
        bits = np.unpackbits(self._words(-(-count // 64)).view(np.uint8), count=count)
        return np.asarray(1.0 - 2.0 * bits.reshape(shape), dtype=np.float64)

    def book(
        self, guarantee: Guarantee, count: int = 1, several: tuple[Any, int] | None = None
    ) -> RandomSource:
        """Return the stream that a mechanism draws from, once what it costs is booked.

        Only what was paid for has a price here; a bare simulation books nothing.

        Parameters
        ----------
        guarantee : Guarantee
            What the mechanism says of itself.
        count : int, default=1
            How many independent releases of the same data; more than one for simulations only.
        several : pair of mechanism and int, optional
            A mechanism whose guarantee is that of so many draws together: the first pays for all.
        """
        del guarantee, several
        if count < 1:
            raise InvalidParameter("count must be at least 1.")
        return self

    def apart(self, split: Split) -> Iterator[RandomSource]:
        """Return one source after the other for disjoint parts of the data: the dearest counts."""
        del split
        return repeat(self)

    def repeated(self, guarantee: Guarantee, each: Guarantee) -> tuple[RandomSource, RandomSource]:
        """Book a mechanism that draws another one a random number of times, at ``each`` a time.

        Returns that one's source, and the stream for what the mechanism draws itself.
        """
        del guarantee, each
        return self, self

    def stream(self, label: str, step: int) -> RandomSource:
        """Return a source for one act among several, told apart by a label and a number."""
        del label, step
        return self


class SeededSource(RandomSource):
    """A reproducible stream: whoever knows the seed removes the noise, so nothing is protected."""

    simulated = True

    def __init__(self, seed: Seed) -> None:
        self._entropy: int | None = None
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(np.iinfo(np.int32).max))
        if isinstance(seed, bool) or (isinstance(seed, int | np.integer) and seed < 0):
            raise InvalidParameter("random_state must be a non-negative integer or a generator.")
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise InvalidParameter(
                "random_state must be None, a non-negative integer, or a numpy generator."
            ) from None

    def _words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def stream(self, label: str, step: int) -> SeededSource:
        """Return a stream of its own for a label and a number, whatever else was drawn between."""
        if self._entropy is None:
            words = self.uniforms(2)
            self._entropy = int(words[0] * 2**52) << 52 | int(words[1] * 2**52)
        key = [self._entropy, zlib.crc32(label.encode()), step]
        return SeededSource(np.random.SeedSequence(key))


def simulation_of(random_state: Seed | None) -> SeededSource | None:
    """Return the simulation that a seed asks for; None where noise is to be real."""
    return None if random_state is None else SeededSource(random_state)
