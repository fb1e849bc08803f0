"""The sum of many parties' vectors, with noise that no party draws alone.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import gaussian_delta, gaussian_mu
from confrere.kernel.guarantee import (
    RANDOM,
    Guarantee,
    Neighbours,
    SharedSums,
    Unit,
    check_epsilon,
    check_positive,
    check_relation,
)
from confrere.kernel.norms import L1, L2, Gaussian, Law, Pure
from confrere.kernel.streams import (
    Measurement,
    R,
    RandomSource,
    T,
    check_scale,
    discrete_laplace,
    gaussian_shares,
    integer_shares,
    l2_shares,
    laplace_shares,
)
from confrere.mechanisms.measurements import NoisedPoint, Picked, picking

THEOREM = "docs/proofs/secure_sums.md"

Words = NDArray[np.uint64]
#: One row per party, or one; where parties draw which of their rows they use, a function of that.
Vectors = Floats | Callable[[Picked], Floats]
ShareLaw = Literal["l2", "laplace", "gaussian", "integer"]
#: How many parties may pool what they know; "auto" is :func:`honest_majority`'s.
Colluding = int | Literal["auto"]

#: Shares of epsilon that may pay for every rounding, for floats and for the solver: the one that
#: leaves the least noise in all is taken.
_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)

#: Bound on how far floats move a share of the noise, in lattice steps. Measured: below 0.05.
_DISPLACEMENT = 1.0

#: The lattice is this much finer than the noise, unless the sum would not fit into 63 bits.
_FINENESS = 2.0**-36

#: How many numbers simulated releases draw at once.
_BLOCK = 1 << 21

#: Whole numbers are steps of a lattice this much finer, so that any epsilon has a scale.
_WHOLE = 2.0**-20

#: Probability of a sum of noise that wraps around, which spoils a result and tells nobody more.
_FARTHEST = 1e-18


@dataclass(frozen=True, kw_only=True)
class SecureSum(Measurement[Vectors, list[Floats]]):
    """Release ``sum v_i`` with noise of a known law, made of shares.

    Any ``fewest - colluding`` shares make the law, so that it still covers the records of the
    others when up to ``colluding`` parties subtract what they know or leave their shares out.
    One party's share alone covers little, or nothing: so every party adds noise of its own besides,
    :attr:`floor` times less of it, and has a second price if all others collude, :attr:`alone`.
    """

    epsilon: float  #: The whole price, roundings included; of all releases if there are several
    size: int  #: Of the vectors
    #: How far one record (or one party's whole data) moves the sum: in L2 for the laws ``"l2"`` and
    #: ``"gaussian"``, in L1 for the others.
    sensitivity: float
    n_parties: int  #: Public number M of parties, all of whom may be on the roster
    #: Public bound on the absolute entries of one party's vector; what exceeds it is clipped.
    largest: float
    #: The shortest roster that is allowed; all parties by default. The fewer, the louder everyone.
    fewest: int | None = None
    #: How many may pool what they know, at least one: every party knows its own share.
    colluding: Colluding = "auto"
    #: ``"gaussian"`` needs a delta; ``"integer"`` is for whole numbers, without any rounding.
    law: ShareLaw = "l2"
    delta: float = 0.0
    releases: int = 1  #: How many sums, one after the other, the price is for
    #: Public bound on the error of one party's computed vector, per entry: floats and solver.
    error: float = 0.0
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)
        check_positive(self.sensitivity, "sensitivity")
        check_positive(self.largest, "largest")
        if self.size < 1 or self.releases < 1:
            raise InvalidParameter("size and releases must be at least 1.")
        if self.colluders < 1:
            raise InvalidParameter(
                "colluding must be at least 1: every party knows its own share of the noise."
            )
        if self.parts < 1:
            raise InvalidParameter(
                "n_parties and fewest must exceed colluding: somebody's shares have to make the "
                "noise."
            )
        if self.roster > self.n_parties:
            raise InvalidParameter("fewest must be at most n_parties.")
        if not 0 <= self.error < math.inf:
            raise InvalidParameter("error must be a finite number of at least 0.")
        if (self.law == "gaussian") != (self.delta > 0) or not 0 <= self.delta < 1:
            raise InvalidParameter("delta must lie between 0 and 1 for law='gaussian', else be 0.")
        most = 2.0**40 if self.law == "integer" else 2.0**900
        if not self.largest * self.n_parties < most:
            raise InvalidParameter("largest is too large for a sum.")
        check_scale(self.scale)  # and not when everybody has paid

    @property
    def roster(self) -> int:
        """The fewest parties of whom a sum may be."""
        return self.n_parties if self.fewest is None else self.fewest

    @cached_property
    def digest(self) -> str:
        """The name of the mechanism: of all numbers that its promise depends on."""
        return hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()

    @property
    def colluders(self) -> int:
        """How many may pool what they know, as a number."""
        return honest_majority(self.roster) if self.colluding == "auto" else self.colluding

    @property
    def parts(self) -> int:
        """How many shares make the law of the noise."""
        return self.roster - self.colluders

    @property
    def continuous_epsilon(self) -> float:
        """What the noise of the law spends; the rest pays for roundings, where there are any."""
        return self.epsilon * (1 - self.integer_share)

    @cached_property
    def integer_share(self) -> float:
        """Share of epsilon that integer noise spends on roundings; whole numbers have none."""
        if self.law == "integer":
            return 0.0
        return min(_SHARES, key=self._variance_with)

    def _variance_with(self, share: float) -> float:
        """Return the variance of an entry, in squares of one over the rate without a share.

        On a lattice of ``2^-36`` noise scales integer noise takes little of epsilon where vectors
        are short and parties few, and more elsewhere.
        """
        rate = self._rate_at(self.epsilon * (1 - share))
        moved = self._moved(_FINENESS / rate)
        steps = moved * self.releases / (self.epsilon * share)
        once = {"gaussian": 1.0, "laplace": 2.0}.get(self.law, self.size + 1.0)
        return (once + 2 * (steps * _FINENESS) ** 2) / rate**2

    @property
    def floor(self) -> float:
        """How many times less noise a party adds by itself: a twentieth of the whole deviation."""
        return math.sqrt(10 * self.n_parties)

    @cached_property
    def alone(self) -> float:
        """Epsilon of a party's records if all others collude, at the same delta: an upper bound.

        One of m Gaussian shares is a Gaussian mechanism of ``mu sqrt(m)`` by itself.
        """
        if not self.delta:
            return self.floor * self.epsilon
        mu = math.sqrt(self.releases * self.parts) * self.sensitivity * self.rate
        most = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / self.delta))  # its delta is below
        found = optimize.brentq(lambda at: float(gaussian_delta(at, mu)) - self.delta, 0.0, most)
        return float(found) * (1 + 1e-9) + self.floor * self.epsilon * self.integer_share

    @cached_property
    def rate(self) -> float:
        """One over the scale of the noise: ``rho``, or ``1/sigma`` for Gaussian noise.

        Pure laws: ``rho = epsilon'/(T sensitivity)``. Gaussian: T releases are together one with
        ``mu = sqrt(T) sensitivity/sigma``, chosen so that its delta at ``epsilon'`` is the declared
        one; the integer noise is pure and adds to epsilon alone.
        """
        return self._rate_at(self.continuous_epsilon)

    def _rate_at(self, epsilon: float) -> float:
        if self.law != "gaussian":
            return epsilon / (self.releases * self.sensitivity)
        mu = gaussian_mu(epsilon, self.delta)
        return mu / (math.sqrt(self.releases) * self.sensitivity)

    @cached_property
    def spacing(self) -> float:
        """The lattice constant h, a power of two that leaves room for the sum in 63 bits."""
        if self.law == "integer":
            return _WHOLE
        fine = _FINENESS / self.rate
        coarse = (self.n_parties * self.largest + self.longest_noise) / 2.0**62
        return 2.0 ** math.ceil(math.log2(max(fine, coarse)))

    @property
    def longest_noise(self) -> float:
        """An entry of the summed noise exceeds it with probability below 1e-18, per side."""
        tail = _FARTHEST / self.size
        one = (
            float(stats.norm.isf(tail))
            if self.law == "gaussian"
            else float(stats.gamma.isf(tail, self.size if self.law == "l2" else 1))
        )
        if self.law == "integer":
            one += 1  # the scale is rounded up
        # All M shares may be there where fewer make the law.
        return one / self.rate * self.n_parties * (1 / self.parts + 1 / self.floor)

    @property
    def scale(self) -> int:
        """Scale s of the integer noise, in lattice steps.

        ``s = d (1 + 2 gamma + M (1 + 2 eta)) / epsilon''``: the changed party's rounding and error,
        and everyone's rounding and displacement of the noise. For whole numbers, whose noise is
        this alone, one over the rate.
        """
        if self.law == "integer":
            return math.ceil(1 / (self.rate * self.spacing))
        moved = self._moved(self.spacing)
        return math.ceil(moved * self.releases / (self.epsilon * self.integer_share))

    def _moved(self, spacing: float) -> float:
        """Return how many steps of a lattice roundings and errors move the sum, in L1."""
        gamma = self.error / spacing
        return self.size * (1 + 2 * gamma + self.n_parties * (1 + 2 * _DISPLACEMENT))

    @property
    def deviation(self) -> float:
        """Standard deviation of an entry of the sum's noise when every party is there."""
        laplace = math.sqrt(2.0)
        norm = math.sqrt(self.size + 1.0)
        once = {"gaussian": 1.0, "l2": norm}.get(self.law, laplace)
        own = 0.0 if self.law == "gaussian" else 1 / self.floor**2
        return once / self.rate * math.sqrt(self.n_parties * (1 / self.parts + own))

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        # Whoever hides whole parties, or who comes and goes, hides how many records they have.
        hidden = self.unit is Unit.PARTY or self.neighbours is Neighbours.ADD_REMOVE
        sizes = () if hidden else ("size of every party",)
        one = Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=("who takes part", *sizes, "bounds", "every parameter"),
            assumptions=sum_assumptions(self.colluders, self.n_parties, self.alone),
        )
        return one.guarantee(units)

    @override
    def event(self) -> SharedSums:
        return SharedSums(self.epsilon, self.delta, self.digest, self.releases, self.alone)

    @property
    @override
    def several(self) -> tuple[str, int]:
        return self.digest, self.releases

    @property
    def share(self) -> Share:
        """What one party draws."""
        return Share(self)

    @property
    def of_named(self) -> NamedSum:
        """The same sum, of parties that have streams of their own."""
        return NamedSum(self)

    def uploads(self, vectors: Floats, *, source: RandomSource, own: bool = True) -> Words:
        """Return the same for many parties, booked by the caller; for audits without their own."""
        if vectors.ndim != 2 or vectors.shape[1] != self.size:
            raise InvalidData(f"vectors must have {self.size} entries each.")
        count = len(vectors)
        # Total: NaN counts as nothing, and no entry can pass the bound of the encoding.
        bounded = np.clip(np.nan_to_num(vectors, nan=0.0), -self.largest, self.largest)
        whole = np.rint(bounded) if self.law == "integer" else bounded
        steps = np.rint(whole / self.spacing).astype(np.int64)
        steps += self._shares(count, source.bound("sum", steps, self.spacing), own)
        return steps.view(np.uint64)

    def decode(self, total: Words) -> Floats:
        """Return the noised sum from the sum of uploads modulo 2^64."""
        steps = np.asarray(total, dtype=np.uint64).view(np.int64)
        return np.asarray(steps * self.spacing, dtype=np.float64)

    def sample(
        self,
        rows: Vectors,
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        """Return ``(count, size)`` releases of the sum of these vectors."""
        vectors = rows(picking(stream)) if callable(rows) else rows
        if len(vectors) != self.n_parties:
            raise InvalidData("vectors must have one row for every party on the roster.")
        block = max(1, _BLOCK // vectors.size)
        released = []
        for start in range(0, count, block):
            runs = min(block, count - start)
            uploads = self.uploads(np.tile(vectors, (runs, 1)), source=stream)
            totals = uploads.reshape(runs, *vectors.shape).sum(axis=1, dtype=np.uint64)
            released.append(self.decode(totals))
        return [np.vstack(released)]

    def run_total_many(self, total: Floats, *, source: RandomSource, count: int) -> Floats:
        """Return ``(count, size)`` releases of a sum that one process added up already.

        The sum is rounded once in place of every vector, which the proof allows for; every party
        still draws its share. Masks would cancel. What it costs is booked by the mechanism that the
        sum is a part of.
        """
        if total.shape != (self.size,):
            raise InvalidData(f"the sum must have {self.size} entries.")
        bound = self.n_parties * self.largest
        steps = np.rint(np.clip(np.nan_to_num(total), -bound, bound) / self.spacing)
        released = np.empty((count, self.size), dtype=np.int64)
        block = max(1, _BLOCK // self.size)
        for run in range(count):
            released[run] = steps
            for first in range(0, self.n_parties, block):
                shares = self._shares(min(block, self.n_parties - first), source)
                released[run] += shares.sum(axis=0, dtype=np.int64)
        return self.decode(released.view(np.uint64))

    def densities(self, vectors: Floats) -> list[NoisedPoint]:
        """Return what an exact audit asks: the sum, and the law of the noise that is counted on."""
        return [NoisedPoint(vectors.sum(axis=0), SharedNoise(self).law)]

    def _shares(self, count: int, source: RandomSource, own: bool = True) -> NDArray[np.int64]:
        """Return what parties add to their vectors, in lattice steps: a share, and their own."""
        law = self.rate, self.scale, self.parts
        whole = source.bound("integer share", *law)
        steps = integer_shares(self.scale, self.size, self.parts, count, source=whole)
        if own:  # As for an output step: probabilities may be off by less than 1e-5, in floats.
            alone = self.scale / self.floor * (1 + 1e-5)
            mine = source.bound("integer floor", *law, alone)
            steps += discrete_laplace(alone, (count, self.size), mine)
        if self.law == "integer":
            return steps
        noise = self._noise(self.rate, self.parts, count, source.bound("real share", *law))
        if own and self.law != "gaussian":
            mine = source.bound("real floor", *law, self.floor)
            noise += self._noise(self.rate * self.floor, 1, count, mine)
        # What is too long for the lattice has far less probability than anything that is claimed,
        # and clipping is the same for all data.
        bounded = np.clip(noise / self.spacing, -(2.0**62), 2.0**62)
        return np.asarray(steps + np.rint(bounded).astype(np.int64))

    def _noise(self, rate: float, parts: int, count: int, source: RandomSource) -> Floats:
        if self.law == "gaussian":
            return gaussian_shares(1 / rate, self.size, parts, count, source=source)
        shares = laplace_shares if self.law == "laplace" else l2_shares
        return shares(rate, self.size, parts, count, source=source)


@dataclass(frozen=True)
class _OfSum(Measurement[R, T]):
    """What has the price of a sum."""

    summed: SecureSum

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        return self.summed.guarantee(units)

    @override
    def event(self) -> SharedSums:
        return self.summed.event()

    @property
    @override
    def several(self) -> tuple[str, int]:
        return self.summed.several


class Share(_OfSum[Vectors, Words]):
    """One party's rounded vector with its share of the noise, modulo 2^64, before masks."""

    @override
    def sample(self, rows: Vectors, stream: RandomSource, count: int = 1) -> Words:
        vector = np.asarray(rows(picking(stream)) if callable(rows) else rows, np.float64)
        if vector.shape != (self.summed.size,):  # more of them would be shares for nothing
            raise InvalidData(f"a party adds one vector of {self.summed.size} entries.")
        return self.summed.uploads(np.tile(vector, (count, 1)), source=stream)


class NamedSum(_OfSum[Iterable[tuple[str, Vectors]], Floats]):
    """One release of the sum of what named parties add, with a stream for each of them."""

    @override
    def sample(
        self, rows: Iterable[tuple[str, Vectors]], stream: RandomSource, count: int = 1
    ) -> Floats:
        if count != 1:
            raise InvalidParameter("count must be 1: a sum is released once.")
        parties = list(rows)  # who is there is public, and known before anything is drawn
        if not self.summed.roster <= len(dict(parties)) <= self.summed.n_parties:
            raise InvalidData("a sum needs every party on the roster: their shares make the noise.")
        total = np.zeros(self.summed.size, dtype=np.uint64)
        for name, vector in parties:
            total += self.summed.share.sample(vector, stream.stream(name, 0))[0]
        return self.summed.decode(total)


def sum_assumptions(
    colluding: int, n_parties: int | None, alone: float | None = None
) -> tuple[str, ...]:
    """Return what a promise about a sum assumes that nobody sees into."""
    those = "parties" if n_parties is None else f"{n_parties} parties"
    more = "" if alone is None else f"; if all others do, epsilon is at most {alone:.4g}"
    return (
        f"at most {colluding} of {those} pool what they know, with the coordinator or without"
        + more,
        "towards the coordinator: X25519 and HKDF are not broken",
        RANDOM,
        "floats move a share of the noise by less than one lattice step (measured)",
        "nothing about truth: one party that lies moves the sum as far as all could together",
    )


def check_tries(reserve: int, quorum: float) -> None:
    """Refuse numbers that say nothing about how often, and with how many, a sum may be tried."""
    if reserve < 0:
        raise InvalidParameter("reserve must be at least 0.")
    if not 0 < quorum <= 1:
        raise InvalidParameter("quorum must be a number above 0 and at most 1.")


def fewest_of(n_parties: int, quorum: float) -> int:
    """Return how many of the parties make a sum."""
    return max(1, math.ceil(quorum * n_parties - 1e-9))


def quorum_of_sums(n_parties: int) -> float:
    """Return the share of the parties that a sum needs where nobody says it: all but one.

    Of two or three everybody is needed: fewer would leave no majority that hides anybody.
    """
    return 1.0 if n_parties <= 3 else (n_parties - 1) / n_parties


def honest_majority(fewest: int) -> int:
    """Return how many may collude where nobody says it: a minority, and at least one.

    More than half of the shortest roster are taken to be honest, and their shares make the noise,
    which is at most ``sqrt(2)`` times as loud as with one colluder when everybody of that roster is
    there. Of two parties each adds all of it.
    """
    return fewest - min(fewest // 2 + 1, fewest - 1)


def colluders_of(colluding: Colluding, n_parties: int, quorum: float) -> int:
    """Return how many of the parties may pool what they know."""
    return honest_majority(fewest_of(n_parties, quorum)) if colluding == "auto" else colluding


@dataclass(frozen=True)
class SharedNoise:
    """Noise on a point to which every party adds a part, made of their shares."""

    summed: SecureSum  #: Of the parts

    @property
    def law(self) -> Law:
        """The law that is counted on, whoever colludes; integers have Laplace's on their grid."""
        summed = self.summed
        if summed.law == "gaussian":
            return Gaussian(1 / summed.rate, summed.size)
        return Pure((L1 if summed.law == "integer" else L2)(summed.size), summed.rate)

    @property
    def output_step(self) -> None:
        """Nothing follows: the integer noise is made of shares, too."""

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate, all shares being there."""
        return self.summed.deviation

    def release_many(self, point: Floats, source: RandomSource, count: int) -> Floats:
        """Return ``count`` releases of one point, one per row."""
        return self.summed.run_total_many(point, source=source, count=count)
