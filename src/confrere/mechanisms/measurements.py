"""What can be released: measurements, each with its price, its draw and its density.

An :class:`Objective` is minimised with a random linear term; a :class:`Point` is a computed vector
with noise on it. Norm, loss, law, ridge, centre, relation and the number of blocks are values;
:data:`~confrere.kernel.accountants.THEOREMS` says which of them go together. ``guarantee`` touches
no data; ``sample`` is the only draw, and books the price before it; ``terms`` are the densities
that an exact audit asks for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, stats
from scipy.linalg import helmert
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import (
    CLASSWISE_FROM,
    Exposure,
    GaussianLoss,
    Labels,
    Loss,
    check_delta,
    gaussian_delta,
    gaussian_mu,
    gaussian_sigmas,
    noise_rate,
    theorem,
)
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    RANDOM,
    GaussianMinimisers,
    GaussianPoint,
    Guarantee,
    Neighbours,
    PrivacyEvent,
    SharedSums,
    Unit,
    chained,
    check_epsilon,
    check_positive,
    check_relation,
    public_facts,
)
from confrere.kernel.norms import (
    FARTHEST,
    L1,
    L2,
    PROBABILITIES,
    Gaussian,
    HiddenSize,
    LatticeStep,
    Law,
    Norm,
    Pure,
    Rows,
    row_norms,
)
from confrere.kernel.streams import (
    Measurement,
    RandomSource,
    check_scale,
    discrete_laplace,
    gaussian_shares,
    integer_shares,
    l2_shares,
)
from confrere.solver.certificate import (
    PARTY_ROOM,
    Problem,
    RowSums,
    Solver,
    certified,
    smallest_tolerance,
)

Words = NDArray[np.uint64]
Numbers = NDArray[np.number]
#: Draws which of so many rows are used, of a number that may not be public.
Picked = Callable[["RowCount", int], NDArray[np.intp] | slice]
#: Which rows are used in which releases.
Patterns = Sequence[tuple[NDArray[np.intp] | slice, NDArray[np.bool_] | slice]]

#: One row per party, or one; where parties draw which of their rows they use, a function of that.
Vectors = Floats | Callable[[Picked], Floats]
#: Without a delta; whole numbers need no rounding.
ShareLaw = Literal["l2", "integer"]

#: Share of epsilon that pays for the solver's tolerance and the floats.
SOLVER_SHARE = 0.01
#: Tolerance on the gradient of the summed objective, where rounding allows it.
TOLERANCE = 1e-6
#: Part of the tolerance that the solver may use; the rest is for the rounding of the noise itself.
SOLVER_PART = 0.9
#: Share of epsilon that pays for floats where noise is added to a computed point.
ROUNDING_SHARE = 1e-3
#: Radius of the output step behind added noise, over the longest sum: far above the rounding of
#: doubles, far below the noise, and lattice steps stay whole numbers that doubles hold.
_FINENESS = 2.0**-40
#: Rows that are added up before others: sums in two stages are rounded less often.
_BLOCK = 4096
# --- how many rows there are ----------------------------------------------------------------------


#: How many rows there are, or what stands for that number where it is not public.
RowCount = int | HiddenSize


def largest_count(n_samples: RowCount) -> int:
    """Return the most rows that are used."""
    return n_samples.most if isinstance(n_samples, HiddenSize) else n_samples


def declared_count(n_samples: RowCount) -> int:
    """Return the number of rows as far as it is public."""
    return n_samples.declared if isinstance(n_samples, HiddenSize) else n_samples


def relation_of(n_samples: RowCount) -> Neighbours:
    """Return which change is hidden: whether the number of rows is public decides."""
    hidden = isinstance(n_samples, HiddenSize)
    return Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE


def row_promise(
    epsilon: float,
    n_samples: RowCount,
    theorem: str,
    *public: str,  # What else is taken to be known
    delta: float = 0.0,
) -> Guarantee:
    """Return the price of a release of one organisation's rows."""
    if declared_count(n_samples) < 1:
        raise InvalidData("X needs at least one row.")
    if delta:
        check_delta(delta, declared_count(n_samples))
    relation = relation_of(n_samples)
    return Guarantee(
        epsilon=check_epsilon(epsilon),
        delta=delta,
        neighbours=relation,
        theorem=theorem,
        public=public_facts(relation, *public),
        assumptions=ASSUMPTIONS,
    )


def check_centre(centre: Floats | None, shape: tuple[int, ...]) -> None:
    """Refuse a point to shrink towards that is none."""
    if centre is not None and not (np.shape(centre) == shape and np.isfinite(centre).all()):
        raise InvalidData("the centre must have one finite number per weight.")


def row_patterns(n_samples: RowCount, n_rows: int, source: RandomSource, count: int) -> Patterns:
    """Return which rows are used in which of ``count`` releases: all in all if that is public."""
    if not isinstance(n_samples, HiddenSize):
        return [(slice(None), slice(None))]
    patterns, which = np.unique(n_samples.used(n_rows, source, count), axis=0, return_inverse=True)
    return [(np.flatnonzero(rows), which.ravel() == k) for k, rows in enumerate(patterns)]


def picking(stream: RandomSource) -> Picked:
    """Return what draws which rows are used, and can draw nothing else."""
    return lambda n_samples, n_rows: row_patterns(n_samples, n_rows, stream, 1)[0][0]


def some_rows(X: Rows, y: Labels, which: NDArray[np.intp] | slice) -> tuple[Any, Labels]:
    """Return some rows; where none are left, one of zeros, which no objective notices."""
    if isinstance(which, slice):
        return X, y
    if len(which):
        return X[which], y[which]  # type: ignore[index]
    nothing = np.zeros((1, X.shape[1]))
    return (sparse.csr_array(nothing) if sparse.issparse(X) else nothing), np.ones(1)


# --- perturbed objectives -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """One objective of those that see the same records: its columns and part of the noise."""

    norm: Norm  #: Of its rows, in the coordinates in which the ridge is one number
    ridge: float  #: ``L`` of the summed objective
    weight: float = 1.0  #: Pure noise has the rate ``rho`` times this
    centre: Floats | None = None  #: Public point to shrink towards, of the shape that is released


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective(Measurement[tuple[Sequence[Rows], Labels], list[Floats]]):
    """Minimise ``sum_i l(W x_i) + (L/2)||W - U||^2 + <B, W>`` for random ``B``, then step; priced.

    Of one data set or of blocks of its columns, which have minimisers of their own.
    """

    epsilon: float  #: The whole price, solver's share included
    #: With one the noise is Gaussian, in the coordinates in which rows are no longer than one.
    delta: float = 0.0
    n_samples: RowCount  #: Number of rows, or what stands for it where it is not public
    #: Their weights sum to one, of blocks that share a row's length the squares do.
    blocks: tuple[Columns, ...]
    loss: Loss  #: Of all of them
    #: Whether the parts of a row share one unit of length; else each may be one long.
    joint: bool = False
    solver: Solver  #: Who looks for minimisers, which are certified here
    rate: float = field(init=False)
    promise: Guarantee = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not all(block.norm.size > 0 for block in self.blocks):
            raise InvalidData("X needs at least one column.")
        own = (self.loss.n_scores,) * (self.loss.n_scores > 1)
        for block in self.blocks:
            check_centre(block.centre, (*own, block.norm.size))
        shared = "joint" if self.joint else "apart" if len(self.blocks) > 1 else "one"
        loss = type(self.loss).__name__
        page, *_ = [theorem(shared, block.norm.leaf, self.delta, loss) for block in self.blocks]
        several = ("feature groups", "importances") if len(self.blocks) > 1 else ()
        promise = row_promise(self.epsilon, self.n_samples, page, *several, delta=self.delta)
        rate = noise_rate(self.epsilon * (1 - SOLVER_SHARE), self.delta, self.exposure)
        vars(self).update(rate=rate, promise=promise)

    @property
    def neighbours(self) -> Neighbours:
        """Which change is hidden."""
        return relation_of(self.n_samples)

    @cached_property
    def exposure(self) -> Exposure:
        """What the accountant speaks of."""
        return Exposure(
            loss=self.loss,
            ridges=tuple(float(block.ridge) for block in self.blocks),
            weights=tuple(float(block.weight) for block in self.blocks),
            joint=self.joint,
            one_norm=self._one_norm,
            neighbours=self.neighbours,
        )

    @property
    def _one_norm(self) -> bool:
        """Whether noise of several classes has one norm of the whole matrix."""
        one = len(self.blocks) == 1 and isinstance(self.blocks[0].norm, L2)
        return one and 2 < self.loss.n_classes < CLASSWISE_FROM

    @property
    def acts(self) -> tuple[Act, ...]:
        """What every block does; they share what the output steps spend."""
        sigmas = gaussian_sigmas(self.rate, self.exposure) if self.delta else ()
        free, scores = max(1, self.loss.n_scores - 1), self.loss.n_scores
        norms = [np.linalg.norm(b.centre) for b in self.blocks if b.centre is not None]
        acts = []
        for k, block in enumerate(self.blocks):
            law: Law
            if self.delta:
                law = Gaussian(sigmas[k], free * block.norm.size)
            elif self._one_norm:
                law = Pure(L2(free * block.norm.size), self.rate)
            else:
                law = Pure(block.norm, self.rate * block.weight, scores)
            act = Act(
                **vars(block),
                loss=self.loss,
                law=law,
                most=largest_count(self.n_samples),
                far=float(max(norms, default=0.0)),
                epsilon=self.epsilon * SOLVER_SHARE / len(self.blocks),
            )
            acts.append(act)
        return tuple(acts)

    @property
    def act(self) -> Act:
        """What the only block does."""
        (one,) = self.acts
        return one

    @property
    def shares(self) -> tuple[float, ...]:
        """Epsilon of every block's own release, for rows in the unit ball."""
        if self.delta:
            power = 2 if self.joint else 1
            return tuple(self.epsilon * block.weight**power for block in self.blocks)
        slope = self.loss.slope if self.loss.n_classes == 2 else 2.0
        return tuple(2 * slope * self.rate * block.weight for block in self.blocks)

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        profile = None if units == 1 else chained(self._profile, units)
        return self.promise.guarantee(units, profile)

    def _profile(self, epsilon: float) -> float:
        """Return delta at an epsilon, of Gaussian noise and the output steps together."""
        noise = GaussianLoss(self.exposure, gaussian_sigmas(self.rate, self.exposure))
        return float(noise.delta(epsilon - self.epsilon * SOLVER_SHARE))

    @override
    def event(self) -> PrivacyEvent:
        if not self.delta:
            return super().event()
        return GaussianMinimisers(
            sigmas=tuple(map(float, gaussian_sigmas(self.rate, self.exposure))),
            ridges=tuple(float(block.ridge) for block in self.blocks),
            cap=float(self.loss.slope) if self.loss.n_classes == 2 else 1.0,
            n_classes=self.loss.n_classes,
            joint=self.joint,
            output_epsilon=self.epsilon * SOLVER_SHARE,
        )

    def sample(
        self,
        # One array or CSR per block, inside its norm; labels -1 and +1, or class codes 0 to K-1.
        rows: tuple[Sequence[Rows], Labels],
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        """Return ``count`` releases of every block: ``(count, d)``, or ``(count, K, d)``."""
        self._certify(*rows)
        blocks, y = rows
        patterns = row_patterns(self.n_samples, blocks[0].shape[0], stream, count)
        released = []
        for number, (act, X) in enumerate(zip(self.acts, blocks, strict=True)):
            centre = 0.0 if act.centre is None else act.centre
            law = act.law.rate, act.ridge, centre
            own = stream.bound("objective", number, *law, y, partial(_projected, X))
            linear = act.weights_of(act.law.draw(own, count))
            found = np.empty_like(linear)
            for which, mine in patterns:
                some, labels = some_rows(X, y, which)
                problems = act.problems(self.solver.rows(some), labels, linear[mine])
                tolerance = SOLVER_PART * act.tolerance
                found[mine] = certified(self.solver, problems, tolerance).reshape(-1, *act.shape)
            released.append(act.output_step.release(found, stream))
        return released

    @override
    def densities(self, rows: tuple[Sequence[Rows], Labels]) -> list[PerturbedTerm]:
        blocks, y = rows
        return [PerturbedTerm(np.asarray(X), y, a) for a, X in zip(self.acts, blocks, strict=True)]

    def _certify(self, rows: Sequence[Rows], y: Labels) -> None:
        """Refuse what the theorem does not speak of, before any draw."""
        hidden = isinstance(self.n_samples, HiddenSize)
        count = rows[0].shape[0] if hidden else self.n_samples
        if [X.shape for X in rows] != [(count, block.norm.size) for block in self.blocks]:
            raise InvalidData("X does not have the declared number of rows and columns.")
        if np.shape(y) != (count,):
            raise InvalidData("y must be one label per row of X.")
        self.loss.check_labels(y)
        for X, block in zip(rows, self.blocks, strict=True):
            block.norm.certify(X)
        squares = np.sum([row_norms(X) ** 2 for X in rows], axis=0) if self.joint else np.zeros(1)
        if not squares.max(initial=0.0) <= 1:  # there may be no rows, and nobody is to know
            raise InvalidData("a row is longer than its groups' bound; clip the rows first.")


def _projected(X: Rows) -> Floats:
    """Return what tells rows from others, on a grid that the last bits of floats do not matter to.

    Whoever says of other rows that they are the same does not get the same noise for them.
    """
    direction = np.cos(np.arange(1.0, X.shape[1] + 1))[:, None]
    return np.asarray(np.rint((X @ direction) * 2.0**20))


@dataclass(frozen=True, kw_only=True, eq=False)
class Act(Columns):
    """What one block of an objective does: its noise, its tolerance and its output step."""

    loss: Loss
    law: Law  #: Of ``B``: where columns of several classes sum to zero, or of every class
    most: int  #: The most rows that are used
    far: float  #: Length of the longest point that any block is shrunk towards
    epsilon: float  #: What the output step spends

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is released."""
        size, scores = self.norm.size, self.loss.n_scores
        return (size,) if scores == 1 else (scores, size)

    @cached_property
    def class_basis(self) -> Floats:
        """Orthonormal columns, one per class that the noise is free to choose.

        What is added to all classes alike is seen by no loss: a law of one norm leaves it out. A
        law that is a sum over classes keeps it, as then its density is simple.
        """
        scores = self.loss.n_scores
        every = self.law.size == scores * self.norm.size
        return np.eye(scores) if every else sum_zero_basis(scores)

    def weights_of(self, drawn: Floats) -> Floats:
        """Return coordinates of the noise, or of its draws, in the shape of what is released."""
        basis = self.class_basis
        found = [basis @ each.reshape(basis.shape[1], -1) for each in drawn]
        return np.reshape(found, (len(drawn), *self.shape))

    def problems(self, rows: RowSums, labels: Labels, linear: Floats) -> Problem:
        """Return what is minimised, once for every linear term."""
        flat = linear.reshape(len(linear), -1)
        centre = np.broadcast_to(0.0 if self.centre is None else self.centre.ravel(), flat.shape)
        return Problem(rows, rows.keep(labels), self.loss, self.ridge, flat, centre)

    @property
    def longest(self) -> float:
        """A bound on the norm of what is released, from public facts alone.

        At the minimiser ``L (w - u)`` is the sum of n gradients, none longer than the slope, and
        the noise: ``||w|| <= (n c + ||b||)/L + ||u||``. The output step and the solver's tolerance
        are far below the last hundredth.
        """
        slopes = self.most * self.loss.slope / self.ridge
        return 1.01 * (slopes + self.law.longest / self.ridge + self.far) + 1.0

    @cached_property
    def tolerance(self) -> float:
        """A bound on the gradient that the solver can certify on every run.

        A function of public quantities alone: it stands above the rounding error of the gradient
        and of the noise for every noise vector but the longest.
        """
        longest = self.law.longest
        smallest = smallest_tolerance(
            self.most,
            self.norm.size,
            ridge=self.ridge,
            linear_norm=longest,
            centre_norm=self.far,
            n_classes=self.loss.n_classes,
        )
        rounding = 64 * longest * float(np.finfo(np.float64).eps)
        return max(TOLERANCE, PARTY_ROOM * smallest / SOLVER_PART, rounding)

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return LatticeStep(self.epsilon, self.tolerance / self.ridge, int(np.prod(self.shape)))


@dataclass(frozen=True, eq=False)
class PerturbedTerm:
    """The density of one block's release, given its rows, up to a constant."""

    X: Floats
    y: Labels
    made: Act

    @property
    def law(self) -> Law:
        """Of the noise."""
        return self.made.law

    @property
    def step(self) -> LatticeStep:
        """The output step that follows."""
        return self.made.output_step

    @property
    def released(self) -> int:
        """Number of coordinates of a release."""
        return self.step.size

    def noise(self, released: Floats) -> Floats:
        """Return the noise that makes these weights the minimiser, in its coordinates."""
        act, W = self.made, np.reshape(released, (self.made.loss.n_scores, -1))
        towards = 0.0 if act.centre is None else np.reshape(act.centre, W.shape)
        pull = act.loss.errors(self.X @ W.T, self.y).T @ self.X + act.ridge * (W - towards)
        return np.asarray(-(act.class_basis.T @ pull).ravel())

    def log_density(self, released: Floats) -> float:
        """Return that of the noise, and of the Hessian's determinant, where the noise is free."""
        act, W = self.made, np.reshape(released, (self.made.loss.n_scores, -1))
        bends = act.loss.bends(self.X @ W.T, self.y)
        basis, size = act.class_basis, act.law.size
        reduced = np.einsum("ka,nkl,lb->nab", basis, bends, basis, optimize=True)
        hessian = np.einsum("nab,ni,nj->aibj", reduced, self.X, self.X, optimize=True)
        _, found = np.linalg.slogdet(hessian.reshape(size, size) + act.ridge * np.eye(size))
        return float(found) + act.law.log_density(self.noise(W))


# --- noise on a computed vector -------------------------------------------------------------------


def sum_zero_basis(n_classes: int) -> NDArray[np.float64]:
    """Return ``(K, K-1)`` orthonormal columns, each summing to zero."""
    return np.asarray(helmert(n_classes).T)


def coordinates(point: Numbers) -> Floats:
    """Return a vector as it is, and a matrix by its coordinates where columns sum to zero."""
    flat = point if point.ndim == 1 else (sum_zero_basis(len(point)).T @ point).ravel()
    return np.asarray(flat, dtype=np.float64)


def from_coordinates(released: Floats, n_classes: int) -> Floats:
    """Return vectors, or matrices whose columns sum to zero, from one row of coordinates each."""
    if n_classes == 2:
        return released
    basis = sum_zero_basis(n_classes)
    return np.stack([basis @ each.reshape(n_classes - 1, -1) for each in released])


def coordinate_rounding(reach: float, n_classes: int) -> float:
    """Bound the error of :func:`coordinates` in floats, for matrices of at most that norm."""
    return 0.0 if n_classes == 2 else 4 * n_classes * 2.0**-52 * reach


def row_products(left: Any, right: Any) -> Floats:
    """Return ``left' right``: within blocks of rows, written down, and then over blocks."""
    blocks = [slice(at, at + _BLOCK) for at in range(0, max(1, left.shape[0]), _BLOCK)]
    parts = [np.asarray(left[one]).T @ np.asarray(right[one]) for one in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def roundings(n_rows: int) -> int:
    """Return how often a term of :func:`row_products` of so many rows is rounded at the most."""
    return n_rows if n_rows <= _BLOCK else _BLOCK + math.ceil(n_rows / _BLOCK)


def of_units(one: Guarantee, units: int, mu: float, pure: float) -> Guarantee:
    """Return the price of several units of Gaussian noise of ``mu`` beside a step that is pure.

    They move what is noised so many times as far: ``mu`` and the step's price are as much larger.
    """
    return one.guarantee(units, lambda at: float(gaussian_delta(at - units * pure, units * mu)))


@dataclass(frozen=True, slots=True)
class Part:
    """One of the vectors that a point consists of, with noise of its own."""

    size: int  #: Number of coordinates
    reach: float  #: No computed one is longer, in L2
    share: float = 1.0  #: What it weighs in the norm, and of the budget
    move: float = 1.0  #: Its own largest move, which its part of the norm is measured in
    #: Of more than two it is a matrix with a row per class, whose columns sum to zero.
    n_classes: int = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Point(Measurement[Any, list[Floats]]):
    """A computed vector with noise of known sensitivity on it, then the output step.

    The norm is ``sum_k s_k ||z_k|| / m_k`` over parts of shares ``s_k`` and moves ``m_k``; with a
    delta the root of ``sum_k s_k (||z_k|| / m_k)^2``. Without parts the numbers are whole, their
    norm is the sum of magnitudes, and integer noise, which is exact, is all there is.
    """

    promise: Guarantee  #: The whole price
    sensitivity: float  #: Largest move, between neighbours, of what is computed
    parts: tuple[Part, ...] = ()
    #: From data to what is noised, one array per part; without it data are that.
    value: Callable[..., Sequence[Numbers]] | None = field(default=None, repr=False)
    #: Where it is computed from rows and labels: how many there are, and what bounds the rows.
    n_samples: RowCount | None = None
    rows: Norm | None = None

    def __post_init__(self) -> None:
        check_positive(self.sensitivity, "sensitivity")
        check_relation(self.promise.neighbours)
        theorem("point", "L2" if self.parts else "L1", self.promise.delta)

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        return of_units(self.promise, units, *self._gaussian)

    @cached_property
    def _gaussian(self) -> tuple[float, float]:
        """Return sensitivity over sigma of Gaussian noise, and what all output steps spend."""
        if not self.promise.delta:
            return 0.0, self.promise.epsilon
        one = self.prices[0]
        mu = gaussian_mu(one * (1 - ROUNDING_SHARE), self.promise.delta)
        return mu, len(self.parts) * one * ROUNDING_SHARE

    @override
    def event(self) -> PrivacyEvent:
        return GaussianPoint(*self._gaussian) if self.promise.delta else super().event()

    @property
    def scale(self) -> float:
        """Of integer noise alone: ``k`` has probability proportional to ``exp(-|k|/scale)``."""
        return self.sensitivity / self.promise.epsilon * PROBABILITIES

    @cached_property
    def prices(self) -> tuple[float, ...]:
        """What the noise of every part spends, its output step included.

        Gaussian noise on all parts is one, and every part has an output step.
        """
        epsilon, steps = self.promise.epsilon, len(self.parts) - 1
        if self.promise.delta:
            return (epsilon / (1 + steps * ROUNDING_SHARE),) * len(self.parts)
        return tuple(epsilon * part.share for part in self.parts)

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The law of every part's noise."""
        if not self.parts:
            return ()
        laws: list[Law] = []
        for part, price in zip(self.parts, self.prices, strict=True):
            budget, delta = price * (1 - ROUNDING_SHARE), self.promise.delta
            move = self.sensitivity * part.move
            if delta:
                sigma = move / math.sqrt(part.share) / self._gaussian[0]
                laws.append(Gaussian(sigma, part.size))
            else:
                laws.append(Pure(L2(part.size), budget / move))
        return tuple(laws)

    @cached_property
    def steps(self) -> tuple[LatticeStep, ...]:
        """The steps that pay for the floats of the noise and of the sum."""
        return tuple(
            LatticeStep(price * ROUNDING_SHARE, _FINENESS * (part.reach + law.longest), part.size)
            for part, price, law in zip(self.parts, self.prices, self.laws, strict=True)
        )

    @property
    def deviations(self) -> tuple[float, ...]:
        """Standard deviation of one coordinate of every part's noise."""
        if not self.parts:
            rate = 1 / self.scale
            return (math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate),)
        one = 1.0 if self.promise.delta else None
        return tuple((one or math.sqrt(law.size + 1)) / law.rate for law in self.laws)

    @property
    def longest(self) -> tuple[float, ...]:
        """Bounds on the norms of what is released of the parts, from public facts alone."""
        pairs = zip(self.parts, self.laws, strict=True)
        return tuple(1.01 * (part.reach + law.longest) + 1.0 for part, law in pairs)

    @override
    def sample(
        self,
        rows: Any,  # What the value is computed from, or the value
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        if self.rows is None:
            return self.noised([np.tile(p, (count, 1)) for p in self._points(rows)], stream)
        X, y = rows
        self._certify(X)
        points = [np.empty((count, part.size)) for part in self.parts]
        for which, mine in row_patterns(self.n_samples or 0, X.shape[0], stream, count):
            for every, one in zip(points, self._points(some_rows(X, y, which)), strict=True):
                every[mine] = one
        return self.noised(points, stream)

    @override
    def densities(self, rows: Any) -> list[NoisedPoint]:
        if self.rows is not None:
            self._certify(rows[0])
        points = self._points(rows)
        if not self.parts:
            (point,) = points
            return [NoisedPoint(point.astype(np.float64), Pure(L1(point.size), 1 / self.scale))]
        return [
            NoisedPoint(point.astype(np.float64), law, step, part.n_classes)
            for point, law, step, part in zip(
                points, self.laws, self.steps, self.parts, strict=True
            )
        ]

    def _points(self, rows: Any) -> list[Numbers]:
        """Return what is noised, part by part, in the coordinates of the noise."""
        if self.value is not None:
            values = self.value(*rows)
        else:
            values = rows if len(self.parts) > 1 else (rows,)
        if not self.parts:
            return [np.ravel(values[0])]
        points: list[Numbers] = [coordinates(np.asarray(value)) for value in values]
        if [len(point) for point in points] != [part.size for part in self.parts]:
            raise InvalidData("what is noised does not have the declared number of coordinates.")
        return points

    def _certify(self, X: Rows) -> None:
        """Refuse rows that are not as declared, before any draw."""
        assert self.rows is not None
        count = X.shape[0] if isinstance(self.n_samples, HiddenSize) else self.n_samples
        if X.shape != (count, self.rows.size):
            raise InvalidData("X does not have the declared number of rows and columns.")
        self.rows.certify(X)

    def noised(self, points: Sequence[Numbers], stream: RandomSource) -> list[Floats]:
        """Return the rows of every part with noise of their own."""
        if not self.parts:
            (whole,) = points
            if not np.issubdtype(whole.dtype, np.integer):
                raise InvalidData("counts must be integers.")
            own = stream.bound("integers", whole, self.scale)
            return [np.asarray(whole + discrete_laplace(self.scale, whole.shape, own))]
        released = []
        for mine, law, step, part in zip(points, self.laws, self.steps, self.parts, strict=True):
            # No computed vector is longer; were one, it would not move further than it may.
            lengths = np.linalg.norm(np.nan_to_num(mine), axis=1, keepdims=True)
            inside = mine * np.minimum(1.0, part.reach / np.maximum(lengths, part.reach))
            total = np.nan_to_num(inside)
            # On the lattice: within one of its steps the output step hides what moves.
            own = stream.bound("point", np.rint(total / step.spacing), step.spacing, law.rate)
            noised = step.release(total + law.draw(own, len(mine)), stream)
            released.append(from_coordinates(noised, part.n_classes))
        return released


@dataclass(frozen=True, eq=False)
class NoisedPoint:
    """A point with noise on it: the loss between two is their distance times the rate, exactly."""

    point: Floats  #: Before noise, in the coordinates of the noise
    law: Law
    step: LatticeStep | None = None  #: The output step that follows
    n_classes: int = 2  #: Of more than two a release is a matrix whose columns sum to zero

    @property
    def released(self) -> int:
        """Number of coordinates of a release."""
        k = self.n_classes
        return len(self.point) if k == 2 else len(self.point) * k // (k - 1)

    def noise(self, released: Floats) -> Floats:
        """Return the noise that led to a release."""
        shaped = released if self.n_classes == 2 else released.reshape(self.n_classes, -1)
        return np.asarray(coordinates(shaped) - self.point)

    def log_density(self, released: Floats) -> float:
        """Return the logarithm of the density, up to a constant."""
        return self.law.log_density(self.noise(released))

    def loss(self, other: NoisedPoint) -> float:
        """Return the largest log density ratio; ``other`` is on other data."""
        return -self.law.log_density(self.point - other.point)


def counts(
    epsilon: float,  # The price of all counts together
    # Largest sum of absolute changes of the counts when one record is changed: 1 for the number of
    # records with some property, 2 for a histogram with any number of cells.
    sensitivity: int,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # What is taken to be known, besides what the relation itself makes public.
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores"),
) -> Point:
    """Return integer noise on counts of records: docs/proofs/private_evaluation.md."""
    sizes = ("number of records",) if neighbours is Neighbours.REPLACE_ONE else ()
    promise = Guarantee(
        epsilon=epsilon,
        neighbours=check_relation(neighbours),
        theorem="docs/proofs/private_evaluation.md",
        public=(*sizes, *public),
        assumptions=ASSUMPTIONS,
    )
    return Point(promise=promise, sensitivity=sensitivity)


# --- sums that nobody sees into -------------------------------------------------------------------

_SUMS = "docs/proofs/secure_sums.md"
#: Shares of epsilon that may pay for every rounding, for floats and for the solver: the one that
#: leaves the least noise in all is taken.
_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
#: Bound on how far floats move a share of the noise, in lattice steps. Measured: below 0.05.
_DISPLACEMENT = 1.0
#: The lattice is this much finer than the noise, unless the sum would not fit into 63 bits.
_FINER = 2.0**-36
#: How many numbers simulated releases draw at once.
_NUMBERS = 1 << 21
#: Whole numbers are steps of a lattice this much finer, so that any epsilon has a scale.
_WHOLE = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class SecureSum(Measurement[Floats | Iterable[tuple[str, Vectors]], list[Floats]]):
    """Release ``sum v_i`` with noise of a known law, made of shares.

    Any ``fewest - colluding`` shares make the law, so that it still covers the records of the
    others when up to ``colluding`` parties subtract what they know or leave their shares out.
    One party's share alone covers little, or nothing: so every party adds noise of its own besides,
    :attr:`floor` times less of it, and has a second price if all others collude, :attr:`alone`.
    """

    epsilon: float  #: The whole price, roundings included; of all releases if there are several
    size: int  #: Of the vectors
    #: How far one record (or one party's whole data) moves the sum: in L2 for the law ``"l2"`` and
    #: with a delta, in L1 for the others.
    sensitivity: float
    n_parties: int  #: Public number M of parties, all of whom may be on the roster
    #: Public bound on the absolute entries of one party's vector; what exceeds it is clipped.
    largest: float
    #: The shortest roster that is allowed; all parties by default. The fewer, the louder everyone.
    fewest: int | None = None
    #: How many may pool what they know, at least one: every party knows its own share. By default
    #: :func:`honest_majority`'s.
    colluding: int | None = None
    law: ShareLaw = "l2"
    delta: float = 0.0  #: With one the noise is Gaussian
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
        theorem("point", "L2" if self.law == "l2" else "L1", self.delta)
        whole = self.law == "integer"
        for wrong, why in (
            (self.law not in get_args(ShareLaw), "law must be 'l2' or 'integer'."),
            (not 0 <= self.delta < 1, "delta must be a number in [0, 1)."),
            (self.size < 1 or self.releases < 1, "size and releases must be at least 1."),
            (self.colluders < 1, "colluding must be at least 1: who has a share knows it."),
            (self.parts < 1, "fewest and n_parties must exceed colluding: others make the noise."),
            (self.roster > self.n_parties, "fewest must be at most n_parties."),
            (not 0 <= self.error < math.inf, "error must be a finite number of at least 0."),
            (
                not self.largest * self.n_parties < 2.0 ** (40 if whole else 900),
                "largest is too large for a sum.",
            ),
        ):
            if wrong:
                raise InvalidParameter(why)
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
        return honest_majority(self.roster) if self.colluding is None else self.colluding

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
        moved = self._moved(_FINER / rate)
        steps = moved * self.releases / (self.epsilon * share)
        return (self._variance + 2 * (steps * _FINER) ** 2) / rate**2

    @property
    def _variance(self) -> float:
        """Of an entry of the law, at the rate of one."""
        return 1.0 if self.delta else self.size + 1.0 if self.law == "l2" else 2.0

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
        if not self.delta:
            return epsilon / (self.releases * self.sensitivity)
        mu = gaussian_mu(epsilon, self.delta)
        return mu / (math.sqrt(self.releases) * self.sensitivity)

    @cached_property
    def spacing(self) -> float:
        """The lattice constant h, a power of two that leaves room for the sum in 63 bits."""
        if self.law == "integer":
            return _WHOLE
        fine = _FINER / self.rate
        coarse = (self.n_parties * self.largest + self.longest_noise) / 2.0**62
        return 2.0 ** math.ceil(math.log2(max(fine, coarse)))

    @property
    def longest_noise(self) -> float:
        """An entry of the summed noise exceeds it with probability below 1e-18, per side."""
        tail = FARTHEST / self.size
        gamma = stats.gamma(self.size if self.law == "l2" else 1)
        one = float((stats.norm if self.delta else gamma).isf(tail))
        one += self.law == "integer"  # the scale is rounded up
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
        own = 0.0 if self.delta else 1 / self.floor**2
        parties = math.sqrt(self.n_parties * (1 / self.parts + own))
        return math.sqrt(self._variance) / self.rate * parties

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
            theorem=_SUMS,
            public=("who takes part", *sizes, "bounds", "every parameter"),
            assumptions=sum_assumptions(self.colluders, self.n_parties, self.alone),
        )
        mu = math.sqrt(self.releases) * self.sensitivity * self.rate
        return of_units(one, units, mu, self.epsilon * self.integer_share)

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

    def uploads(self, vectors: Floats, *, source: RandomSource, own: bool = True) -> Words:
        """Return the same for many parties, booked by the caller; for audits without their own."""
        if vectors.ndim != 2 or vectors.shape[1] != self.size:
            raise InvalidData(f"vectors must have {self.size} entries each.")
        steps = self._steps(vectors, self.largest)
        steps += self._shares(len(vectors), source.bound("sum", steps, self.spacing), own)
        return steps.view(np.uint64)

    def _steps(self, vectors: Floats, bound: float) -> NDArray[np.int64]:
        """Round to the lattice. Total: NaN is nothing, and no entry passes the encoding's bound."""
        bounded = np.clip(np.nan_to_num(vectors, nan=0.0), -bound, bound)
        whole = np.rint(bounded) if self.law == "integer" else bounded
        return np.asarray(np.rint(whole / self.spacing), dtype=np.int64)

    def decode(self, total: Words) -> Floats:
        """Return the noised sum from the sum of uploads modulo 2^64."""
        steps = np.asarray(total, dtype=np.uint64).view(np.int64)
        return np.asarray(steps * self.spacing, dtype=np.float64)

    @override
    def sample(
        self,
        # What every party on the roster adds, or their sum, which is rounded once in place of every
        # vector: the proof allows for it. Or named parties, who have streams of their own.
        rows: Floats | Iterable[tuple[str, Vectors]],
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        if not isinstance(rows, np.ndarray):
            return [self.decode(self._named(rows, stream, count))]
        if rows.shape not in ((self.size,), (self.n_parties, self.size)):
            raise InvalidData("vectors must have one row for every party on the roster, or be one.")
        bound = self.largest * (self.n_parties if rows.ndim == 1 else 1)
        total = self._steps(np.atleast_2d(rows), bound).sum(axis=0)
        own = stream.bound("sum", total, self.spacing)
        released = np.empty((count, self.size), dtype=np.int64)
        # Every party draws its share; masks would cancel.
        runs = max(1, _NUMBERS // (self.n_parties * self.size))
        most = max(1, _NUMBERS // self.size)
        for start in range(0, count, runs):
            block = min(runs, count - start)
            released[start : start + block] = total
            for first in range(0, self.n_parties, most):
                parties = min(most, self.n_parties - first)
                shares = self._shares(block * parties, own).reshape(block, parties, -1)
                released[start : start + block] += shares.sum(axis=1, dtype=np.int64)
        return [self.decode(released.view(np.uint64))]

    def _named(
        self, rows: Iterable[tuple[str, Vectors]], stream: RandomSource, count: int
    ) -> Words:
        if count != 1:
            raise InvalidParameter("count must be 1: a sum is released once.")
        parties = list(rows)  # who is there is public, and known before anything is drawn
        if not self.roster <= len(dict(parties)) <= self.n_parties:
            raise InvalidData("a sum needs every party on the roster: their shares make the noise.")
        total = np.zeros((1, self.size), dtype=np.uint64)
        for name, vector in parties:
            total += self.share.sample(vector, stream.stream(name, 0))
        return total

    @property
    def noise_law(self) -> Law:
        """The law that is counted on, whoever colludes; integers have Laplace's on their grid."""
        if self.delta:
            return Gaussian(1 / self.rate, self.size)
        return Pure((L2 if self.law == "l2" else L1)(self.size), self.rate)

    @override
    def densities(self, rows: Any) -> list[NoisedPoint]:
        return [NoisedPoint(np.atleast_2d(rows).sum(axis=0), self.noise_law)]

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
        if own and not self.delta:
            mine = source.bound("real floor", *law, self.floor)
            noise += self._noise(self.rate * self.floor, 1, count, mine)
        # What is too long for the lattice has far less probability than anything that is claimed,
        # and clipping is the same for all data.
        bounded = np.clip(noise / self.spacing, -(2.0**62), 2.0**62)
        return np.asarray(steps + np.rint(bounded).astype(np.int64))

    def _noise(self, rate: float, parts: int, count: int, source: RandomSource) -> Floats:
        if self.delta:
            return gaussian_shares(1 / rate, self.size, parts, count, source=source)
        return l2_shares(rate, self.size, parts, count, source=source)


@dataclass(frozen=True)
class Share(Measurement[Vectors, Words]):
    """One party's rounded vector with its share of the noise, modulo 2^64, before masks."""

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

    @override
    def sample(self, rows: Vectors, stream: RandomSource, count: int = 1) -> Words:
        vector = np.asarray(rows(picking(stream)) if callable(rows) else rows, np.float64)
        if vector.shape != (self.summed.size,):  # more of them would be shares for nothing
            raise InvalidData(f"a party adds one vector of {self.summed.size} entries.")
        return self.summed.uploads(np.tile(vector, (count, 1)), source=stream)


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


def honest_majority(fewest: int) -> int:
    """Return how many may collude where nobody says it: a minority, and at least one.

    More than half of the shortest roster are taken to be honest, and their shares make the noise,
    which is at most ``sqrt(2)`` times as loud as with one colluder when everybody of that roster is
    there. Of two parties each adds all of it.
    """
    return fewest - min(fewest // 2 + 1, fewest - 1)
