"""Reproducible noise, for tests and studies: the kernel has a charge say that it was used."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.errors import InvalidParameter
from confrere.kernel.noise import RandomSource

Seed = int | np.random.SeedSequence | np.random.Generator | np.random.RandomState


class SeededSource(RandomSource):
    """A reproducible stream: whoever knows the seed removes the noise, so nothing is protected."""

    simulated = True

    def __init__(self, seed: Seed) -> None:
        self._entropy: int | None = None
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(np.iinfo(np.int32).max))
        wrong = InvalidParameter("random_state must be a whole number from 0, or a generator.")
        if isinstance(seed, bool) or (isinstance(seed, int | np.integer) and seed < 0):
            raise wrong
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise wrong from None

    @override
    def _words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    @override
    def stream(self, label: str, step: int) -> SeededSource:
        if self._entropy is None:
            words = self.uniforms(2)
            self._entropy = int(words[0] * 2**52) << 52 | int(words[1] * 2**52)
        key = [self._entropy, zlib.crc32(label.encode()), step]
        return SeededSource(np.random.SeedSequence(key))
