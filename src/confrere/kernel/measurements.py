"""What can be released: measurements, each with its price and its draw, and what certifies points.

Norm, loss, law, ridge, centre, relation and the number of blocks are values;
:data:`~confrere.kernel.accountants.THEOREMS` says which of them go together. ``guarantee`` touches
no data; ``sample`` is the only draw. Solvers are not trusted: :func:`certified` bounds how far a
computed gradient can be from the true one. Every sum over rows is accumulated in blocks of
:func:`block_rows` rows, the blocks of a partition in order, the partitions in order;
docs/proofs/output_step.md counts the roundings.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, stats
from typing_extensions import override

from confrere.arrays import ClassRows, Floats
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.accountants import (
    Exposure,
    Labels,
    Loss,
    check_delta,
    gaussian_delta,
    gaussian_mu,
    gaussian_sigmas,
    keeps,
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
    check_bound,
    check_epsilon,
    check_positive,
    check_relation,
    public_facts,
)
from confrere.kernel.noise import (
    FARTHEST,
    L2,
    PROBABILITIES,
    Gaussian,
    HiddenSize,
    LatticeStep,
    Law,
    Measurement,
    Norm,
    Pure,
    RandomSource,
    Rows,
    check_scale,
    discrete_laplace,
    integer_shares,
    l2_shares,
    normals,
    row_norms,
)

UNIT = 2.0**-53  #: Unit roundoff of double precision

#: What a tolerance must leave above the rounding error, so that certifying it always succeeds.
HEADROOM = 1.5
#: Of many parties at once scores are sums of two products, with twice the error of one: their
#: tolerance is so many times the smallest.
PARTY_ROOM = 2.0

#: Numbers in a partition, about: work for tens of milliseconds.
_PARTITION_ENTRIES = 2**24


@lru_cache
def block_rows(d: int, *, sparse: bool = False) -> int:
    """Return how many rows of ``d`` numbers make a block: few enough to stay in cache."""
    if sparse:
        return min(65_536, max(2048, d))
    return min(2048, max(256, 2**20 // d))


@lru_cache
def partition_rows(d: int, *, sparse: bool = False) -> int:
    """Return how many rows make a partition: whole blocks, and work that is worth handing out."""
    block = block_rows(d, sparse=sparse)
    return block * max(1, _PARTITION_ENTRIES // (block * d))


@lru_cache
def _additions(n: int, d: int) -> int:
    """Return how many roundings a row's share of a sum sees at most, sparse or dense."""
    most = 0
    for kind in (False, True):
        block, partition = block_rows(d, sparse=kind), partition_rows(d, sparse=kind)
        blocks = math.ceil(min(n, partition) / block)
        most = max(most, min(n, block) + blocks + math.ceil(n / partition))
    return most


def rounding_bound(
    n: int,  # Rows
    d: int,  # Columns
    *,
    row_norm: float,  # Public bound on the norm of every row
    weight_norm: float,  # Of the weights, or of their matrix, at which the gradient is computed
    loss: Loss,
) -> float:
    """Bound the length of the error of the computed gradient of the summed loss."""
    more = loss.n_scores if loss.n_scores > 1 else 0  # of normalising several
    each = loss.pull * (_additions(n, d) + 16 + more)
    each += (d + 4 + math.sqrt(more)) * row_norm * weight_norm * loss.stiffness
    return UNIT * n * row_norm * each


def penalty_rounding(ridge: float, offset_norm: float, linear_norm: float) -> float:
    """Bound the floating-point error of ``ridge * (w - centre) + linear``."""
    return 4 * UNIT * (ridge * offset_norm + linear_norm)


def smallest_tolerance(
    n: int,  # Rows
    d: int,  # Columns
    *,
    ridge: float,  # ``L``
    row_norm: float = 1.0,  # Bounds on norms: of a row, of ``linear``, of ``centre``
    linear_norm: float = 0.0,
    centre_norm: float = 0.0,
    loss: Loss,
) -> float:
    """Return the smallest tolerance that every data set of this shape can be certified at."""
    at_centre = n * (loss.start + max(2.0, loss.slope) * row_norm * centre_norm)
    pull = n * row_norm * loss.pull
    reach = min(linear_norm + math.sqrt(linear_norm**2 + 2 * ridge * at_centre), linear_norm + pull)
    weight_norm = centre_norm + reach / ridge
    rounding = rounding_bound(n, d, row_norm=row_norm, weight_norm=weight_norm, loss=loss)
    rounding += penalty_rounding(ridge, reach / ridge, linear_norm)
    # Weights are themselves rounded, which the penalty's gradient magnifies by L.
    return HEADROOM * (rounding + UNIT * ridge * weight_norm)


class RowSums(Protocol):
    """Rows that are read in blocks and added up in the order above."""

    n: int
    d: int
    row_norm: float  #: The root mean square of their norms is at most this

    def pulled(
        self, labels: object, W: Floats, errors: Callable[[Floats, Labels], Floats]
    ) -> Floats:
        """Return all rows added up with weights: what errors are, given their products with W."""

    def keep(self, labels: Labels) -> object:
        """Return labels where whoever sums finds them."""


@dataclass(frozen=True, eq=False)
class Problem:
    """``sum_i l(W x_i) + (L/2)||W - U||^2 + <B, W>``: m of them, which share their rows."""

    rows: RowSums
    labels: object  #: As :meth:`RowSums.keep` has left them
    loss: Loss
    ridge: float
    linear: Floats  #: ``B``, one row ``(n_scores d,)`` per problem
    centre: Floats  #: ``U``, one row per problem

    def gradient(self, W: Floats) -> Floats:
        """Return the gradient of every problem at its row of ``W``, in one pass over the data."""
        seen = vars(self).get("_seen")
        if seen is None or not np.array_equal(seen[0], W):
            total = self.pull(W) + (self.ridge * (W - self.centre) + self.linear)
            # The last one is kept: a solver ends where it has just been.
            seen = vars(self)["_seen"] = (W.copy(), total)
        return np.array(seen[1])

    def pull(self, W: Floats) -> Floats:
        loss, shape = self.loss, (len(W), self.loss.n_scores)  # what workers get: not these rows

        def errors(scores: Floats, labels: Labels) -> Floats:
            return loss.residuals(scores.reshape(*shape, -1), labels).reshape(scores.shape)

        return loss.gathered(self.rows.pulled(self.labels, loss.spread(W), errors))

    def rounding(self, W: Floats) -> Floats:
        """Bound the floating-point error of :meth:`gradient` at every row of ``W``."""
        norms = np.sqrt([np.vecdot(A, A) for A in (W, W - self.centre, self.linear)])
        rows = self.rows
        summed = partial(rounding_bound, rows.n, rows.d, row_norm=rows.row_norm, loss=self.loss)
        rounded = [
            summed(weight_norm=size) + penalty_rounding(self.ridge, offset, linear)
            for size, offset, linear in norms.T.tolist()
        ]
        return np.array(rounded)

    def proved(self, W: Floats, tolerance: float) -> NDArray[np.bool_]:
        """Tell at which rows of ``W`` the true gradient is at most ``tolerance``."""
        return np.asarray(gradient_bounds(self.gradient(W), self.rounding(W)) <= tolerance)


def gradient_bounds(G: Floats, roundings: Floats) -> Floats:
    """Bound the lengths of the true gradients, given the computed ones."""
    return np.asarray(np.sqrt(np.vecdot(G, G)) * (1 + G.shape[1] * UNIT) + roundings)


class Solver(Protocol):
    """Whoever looks for minimisers. It is not trusted: what it finds is certified here."""

    def rows(self, X: Rows, row_norm: float = 1.0) -> RowSums:
        """Return rows no longer than this as they are added up."""

    def solve(self, problem: Problem, tolerance: float) -> Floats:
        """Return points where gradients are at most ``tolerance``, one per problem."""


def certified(solver: Solver, problem: Problem, tolerance: float) -> Floats:
    """Return certified minimisers; where there is none, what there would be without rows."""
    found = np.array(problem.centre - problem.linear / problem.ridge)
    # Of two classes all at once.
    width = len(found) if problem.loss.n_scores == 1 else 1
    for first in range(0, len(found), width):
        part = slice(first, first + width)
        one = replace(problem, linear=problem.linear[part], centre=problem.centre[part])
        try:
            W = solver.solve(one, tolerance)
            proved = one.proved(W, tolerance)
        except InvalidData:  # rows that are not there any more, whatever they say
            raise
        except (ValueError, ArithmeticError):  # of no rows in the ball, for all but far noise
            continue
        found[part][proved] = W[proved]
    return found


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

# --- how many rows there are ----------------------------------------------------------------------

#: How many rows there are, or what stands for that number where it is not public.
RowCount = int | HiddenSize


def largest_count(n_samples: RowCount) -> int:
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
    facts = public_facts(relation, *public)
    return Guarantee(epsilon, delta, Unit.RECORD, relation, theorem, facts, ASSUMPTIONS)


def check_centre(centre: Floats | None, shape: tuple[int, ...]) -> None:
    if centre is not None and not (np.shape(centre) == shape and np.isfinite(centre).all()):
        raise InvalidData("the centre must have one finite number per weight.")


def row_patterns(n_samples: RowCount, n_rows: int, source: RandomSource, count: int) -> Patterns:
    """Return which rows are used in which of ``count`` releases: all in all if that is public."""
    if not isinstance(n_samples, HiddenSize):
        return [(slice(None), slice(None))]
    patterns, which = np.unique(n_samples.used(n_rows, source, count), axis=0, return_inverse=True)
    return [(np.flatnonzero(rows), which.ravel() == k) for k, rows in enumerate(patterns)]


def some_rows(X: Rows, y: Labels, which: NDArray[np.intp] | slice) -> tuple[Any, Labels]:
    """Return some rows; where none are left, one of zeros, which no objective notices."""
    if isinstance(which, slice):
        return X, y
    if len(which):
        return X[which], y[which]  # type: ignore[index]
    nothing, label = np.zeros((1, X.shape[1])), np.ones((1, *y.shape[1:]))
    return (sparse.csr_array(nothing) if sparse.issparse(X) else nothing), label


# --- perturbed objectives -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """One objective of those that see the same records: its columns and part of the noise."""

    norm: Norm  #: Of its rows, in the coordinates in which the ridge is one number
    ridge: float  #: ``L`` of the summed objective
    weight: float = 1.0  #: Pure noise has the rate ``rho`` times this
    centre: Floats | None = None  #: Public point to shrink towards, of the shape that is released


def exposed(
    n_samples: RowCount, blocks: Sequence[Columns], loss: Loss, joint: bool = False
) -> Exposure:
    ridges, weights = (tuple(float(getattr(one, k)) for one in blocks) for k in ("ridge", "weight"))
    relation = relation_of(n_samples)
    return Exposure(loss=loss, ridges=ridges, weights=weights, joint=joint, neighbours=relation)


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective(Measurement[tuple[Sequence[Rows], Labels], list[Floats]]):
    """Minimise ``sum_i l(W x_i) + (L/2)||W - U||^2 + <B, W>`` for random ``B``, then step."""

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
    rate: float  #: One over the scale of the noise, whoever found it: the accountant checks it
    promise: Guarantee = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not all(block.norm.size > 0 for block in self.blocks):
            raise InvalidData("X needs at least one column.")
        for block in self.blocks:
            check_centre(block.centre, self.loss.weight_shape(block.norm.size))
        shared = "joint" if self.joint else "apart" if len(self.blocks) > 1 else "one"
        told = self.delta, self.loss.known_as()
        page, *_ = [theorem(shared, block.norm.leaf, *told) for block in self.blocks]
        several = ("feature groups", "importances") if len(self.blocks) > 1 else ()
        promise = row_promise(self.epsilon, self.n_samples, page, *several, delta=self.delta)
        epsilon, rate = promise.epsilon, check_bound(self.rate, "rate")
        vars(self).update(epsilon=epsilon, delta=promise.delta, rate=rate)
        if not keeps(rate, epsilon * (1 - SOLVER_SHARE), promise.delta, self.exposure):
            raise CalibrationError("noise of this rate does not keep the promise.")
        vars(self).update(promise=promise)

    @cached_property
    def exposure(self) -> Exposure:
        return exposed(self.n_samples, self.blocks, self.loss, self.joint)

    @property
    def acts(self) -> tuple[Act, ...]:
        """What every block does; they share what the output steps spend."""
        sigmas = gaussian_sigmas(self.rate, self.exposure) if self.delta else ()
        norms = [np.linalg.norm(b.centre) for b in self.blocks if b.centre is not None]
        most, far = largest_count(self.n_samples), float(max(norms, default=0.0))
        price = self.epsilon * SOLVER_SHARE / len(self.blocks)
        same: Any = {"loss": self.loss, "most": most, "far": far, "epsilon": price}
        acts = []
        for k, block in enumerate(self.blocks):
            law: Law
            size = math.prod(self.loss.weight_shape(block.norm.size))
            if self.delta:
                law = Gaussian(sigmas[k], size)
            else:
                norm = self.loss.noised(block.norm)
                law = Pure(norm, self.rate * float(block.weight), size // norm.size)
            acts.append(Act(**vars(block), **same, law=law))
        return tuple(acts)

    @property
    def act(self) -> Act:
        (one,) = self.acts
        return one

    @override
    def event(self) -> PrivacyEvent:
        if not self.delta or not self.loss.n_classes:  # of numbers the price composes
            return super().event()
        sigmas, ridges = gaussian_sigmas(self.rate, self.exposure), self.exposure.ridges
        cap, n_classes = self.loss.slope if self.loss.n_classes == 2 else 1.0, self.loss.n_classes
        step = self.epsilon * SOLVER_SHARE
        return GaussianMinimisers(sigmas, ridges, cap, n_classes, self.joint, step)

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
            linear = act.law.draw(own, count).reshape(count, *act.shape)
            found = np.empty_like(linear)
            for which, mine in patterns:
                some, labels = some_rows(X, y, which)
                read = self.solver.rows(some)
                problems = act.problems(read, read.keep(labels), linear[mine])
                tolerance = SOLVER_PART * act.tolerance
                found[mine] = certified(self.solver, problems, tolerance).reshape(-1, *act.shape)
            released.append(act.output_step.release(found, stream))
        return released

    def _certify(self, rows: Sequence[Rows], y: Labels) -> None:
        """Refuse what the theorem does not speak of, before any draw."""
        hidden = isinstance(self.n_samples, HiddenSize)
        count = rows[0].shape[0] if hidden else self.n_samples
        if [X.shape for X in rows] != [(count, block.norm.size) for block in self.blocks]:
            raise InvalidData("X does not have the declared number of rows and columns.")
        if np.shape(y) != (count, *self.loss.shape):
            raise InvalidData("y must be one label per row of X.")
        self.loss.check_labels(y)
        for X, block in zip(rows, self.blocks, strict=True):
            block.norm.certify(X)
            self.loss.check_rows(X)
        squares = np.sum([row_norms(X) ** 2 for X in rows], axis=0) if self.joint else np.zeros(1)
        if not squares.max(initial=0.0) <= 1:  # there may be no rows, and nobody is to know
            raise InvalidData("a row is longer than its groups' bound; clip the rows first.")


def _projected(X: Rows) -> Floats:
    """Return what tells rows from others, on a grid that the last bits do not matter to."""
    direction = np.cos(np.arange(1.0, X.shape[1] + 1))[:, None]
    return np.asarray(np.rint((X @ direction) * 2.0**20))


@dataclass(frozen=True, kw_only=True, eq=False)
class Act(Columns):
    """What one block of an objective does: its noise, its tolerance and its output step."""

    loss: Loss
    law: Law  #: Of ``B``; what is added to all classes alike is seen by no loss
    most: int  #: The most rows that are used
    far: float  #: Length of the longest point that any block is shrunk towards
    epsilon: float  #: What the output step spends

    @property
    def shape(self) -> tuple[int, ...]:
        return self.loss.weight_shape(self.norm.size)

    def problems(self, rows: RowSums, labels: object, linear: Floats) -> Problem:
        """Return what is minimised, once for every linear term; labels are where rows keep them."""
        flat = linear.reshape(len(linear), -1)
        centre = np.broadcast_to(0.0 if self.centre is None else self.centre.ravel(), flat.shape)
        return Problem(rows, labels, self.loss, self.ridge, flat, centre)

    @property
    def longest(self) -> float:
        """A public bound: ``L (w - u)`` is the noise and n gradients, none above the slope."""
        slopes = self.most * self.loss.slope / self.ridge
        return 1.01 * (slopes + self.law.longest / self.ridge + self.far) + 1.0

    @cached_property
    def tolerance(self) -> float:
        """A public bound above the rounding of the gradient for all but the longest noise."""
        longest = self.law.longest
        noise = {"ridge": self.ridge, "linear_norm": longest, "centre_norm": self.far}
        smallest = smallest_tolerance(self.most, self.norm.size, loss=self.loss, **noise)
        rounding = 64 * longest * float(np.finfo(np.float64).eps)
        return max(TOLERANCE, PARTY_ROOM * smallest / SOLVER_PART, rounding)

    @property
    def output_step(self) -> LatticeStep:
        return LatticeStep(self.epsilon, self.tolerance / self.ridge, int(np.prod(self.shape)))


# --- noise on a computed vector -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One of the vectors that a point consists of, with noise of its own."""

    size: int  #: Number of coordinates
    reach: float  #: No computed one is longer, in L2
    share: float = 1.0  #: What it weighs in the norm, and of the budget
    move: float = 1.0  #: Its own largest move, which its part of the norm is measured in
    #: From its released coordinates to what is told of them.
    told: ClassRows = field(default_factory=ClassRows)


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
        vars(self).update(sensitivity=check_bound(self.sensitivity, "sensitivity"))
        check_relation(self.promise.neighbours)
        theorem("point", "L2" if self.parts else "L1", self.promise.delta)

    @cached_property
    def _gaussian(self) -> tuple[float, float]:
        """Return sensitivity over sigma of Gaussian noise, and what all output steps spend."""
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
        """What every part spends, its output step included; Gaussian noise on all parts is one."""
        epsilon, steps = self.promise.epsilon, len(self.parts) - 1
        if self.promise.delta:
            return (epsilon / (1 + steps * ROUNDING_SHARE),) * len(self.parts)
        return tuple(epsilon * part.share for part in self.parts)

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        moves = [self.sensitivity * part.move for part in self.parts]
        each = zip(self.parts, self.prices, moves, strict=True)
        if not self.promise.delta:
            left = 1 - ROUNDING_SHARE
            return tuple(Pure(L2(one.size), price * left / move) for one, price, move in each)
        mu, _ = self._gaussian
        return tuple(Gaussian(m / math.sqrt(p.share) / mu, p.size) for p, _, m in each)

    @cached_property
    def steps(self) -> tuple[LatticeStep, ...]:
        """The steps that pay for the floats of the noise and of the sum."""
        return tuple(
            LatticeStep(price * ROUNDING_SHARE, _FINENESS * (part.reach + law.longest), part.size)
            for part, price, law in zip(self.parts, self.prices, self.laws, strict=True)
        )

    @property
    def deviations(self) -> tuple[float, ...]:
        if not self.parts:
            rate = 1 / self.scale
            return (math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate),)
        delta = self.promise.delta
        return tuple((1.0 if delta else math.sqrt(law.size + 1)) / law.rate for law in self.laws)

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
            return self.noised([np.tile(p, (count, 1)) for p in self.points(rows)], stream)
        self.certify(rows)
        X, y = rows
        points = [np.empty((count, part.size)) for part in self.parts]
        for which, mine in row_patterns(self.n_samples or 0, X.shape[0], stream, count):
            for every, one in zip(points, self.points(some_rows(X, y, which)), strict=True):
                every[mine] = one
        return self.noised(points, stream)

    def points(self, rows: Any) -> list[Numbers]:
        """Return what is noised, part by part, in the coordinates of the noise."""
        if self.value is not None:
            values = self.value(*rows)
        else:
            values = rows if len(self.parts) > 1 else (rows,)
        if not self.parts:
            return [np.ravel(values[0])]
        points: list[Numbers] = [np.asarray(value, dtype=np.float64) for value in values]
        if [len(point) for point in points] != [part.size for part in self.parts]:
            raise InvalidData("what is noised does not have the declared number of coordinates.")
        return points

    def certify(self, rows: Any) -> None:
        if self.rows is None:
            return
        X = rows[0]
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
            released.append(part.told(noised))
        return released


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
    """Release ``sum v_i`` with noise of which any ``fewest - colluding`` shares make the law."""

    epsilon: float  #: The whole price, roundings included; of all releases if there are several
    size: int  #: Of the vectors
    #: How far one record (or one party's whole data) moves the sum: in L2 for the law ``"l2"`` and
    #: with a delta, in L1 for the others.
    sensitivity: float
    n_parties: int  #: Public number M of parties, all of whom may be on the roster
    #: Public bound on the absolute entries of one party's vector; what exceeds it is clipped.
    largest: float
    fewest: int  #: The shortest roster that is allowed: the fewer, the louder everyone
    colluding: int  #: How many may pool what they know, at least one: each knows its own share
    law: ShareLaw = "l2"
    delta: float = 0.0  #: With one the noise is Gaussian
    releases: int = 1  #: How many sums, one after the other, the price is for
    #: Public bound on the error of one party's computed vector, per entry: floats and solver.
    error: float = 0.0
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        numbers = {"sensitivity": self.sensitivity, "largest": self.largest}
        doubles = {name: check_positive(one, name) for name, one in numbers.items()}
        doubles |= {"epsilon": check_epsilon(self.epsilon), "error": float(self.error)}
        vars(self).update(doubles, delta=float(self.delta))
        check_relation(self.neighbours)
        theorem("point", "L2" if self.law == "l2" else "L1", self.delta)
        most = 2.0 ** (40 if self.law == "integer" else 900)
        counts = (self.size, self.releases, self.fewest, self.n_parties, self.colluding)
        for fits, why in (
            (self.law in get_args(ShareLaw), "law must be 'l2' or 'integer'."),
            (0 <= self.delta < 1, "delta must be a number in [0, 1)."),
            ({type(one) for one in counts} == {int}, "size, releases and parties are ints."),
            (self.size > 0 and self.releases > 0, "size and releases must be at least 1."),
            (self.colluding > 0, "collusion_threshold must be at least 1: all know their share."),
            (self.parts > 0, "fewest and n_parties must exceed collusion_threshold."),
            (self.fewest <= self.n_parties, "fewest must be at most n_parties."),
            (0 <= self.error < math.inf, "error must be a finite number of at least 0."),
            (self.largest * self.n_parties < most, "largest is too large for a sum."),
        ):
            if not fits:
                raise InvalidParameter(why)
        check_scale(self.scale)  # and not when everybody has paid

    @cached_property
    def digest(self) -> str:
        """The name of the mechanism: of all numbers that its promise depends on."""
        return hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()

    @property
    def parts(self) -> int:
        """How many shares make the law of the noise."""
        return self.fewest - self.colluding

    @cached_property
    def integer_share(self) -> float:
        """Share of epsilon that integer noise spends on roundings; whole numbers have none."""
        if self.law == "integer":
            return 0.0
        return min(_SHARES, key=self._variance_with)

    def _variance_with(self, share: float) -> float:
        """Return the variance of an entry, in squares of one over the rate without a share."""
        rate = self._rate_at(self.epsilon * (1 - share))
        moved = self._moved(_FINER / rate)
        steps = moved * self.releases / (self.epsilon * share)
        return (self._variance + 2 * (steps * _FINER) ** 2) / rate**2

    @property
    def _variance(self) -> float:
        return 1.0 if self.delta else self.size + 1.0 if self.law == "l2" else 2.0

    @property
    def floor(self) -> float:
        """How many times less noise a party adds by itself: a twentieth of the whole deviation."""
        return math.sqrt(10 * self.n_parties)

    @cached_property
    def alone(self) -> float:
        """Epsilon of a party's records if all others collude, at the same delta, at most."""
        if not self.delta:
            return self.floor * self.epsilon
        mu = math.sqrt(self.releases * self.parts) * self.sensitivity * self.rate
        most = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / self.delta))  # its delta is below
        found = optimize.brentq(lambda at: float(gaussian_delta(at, mu)) - self.delta, 0.0, most)
        return float(found) * (1 + 1e-9) + self.floor * self.epsilon * self.integer_share

    @cached_property
    def rate(self) -> float:
        """``rho``, or ``1/sigma`` of Gaussian noise, T releases of which are one of ``sqrt(T)``."""
        return self._rate_at(self.epsilon * (1 - self.integer_share))

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
        """Of the integer noise, in lattice steps; for whole numbers it is all the noise."""
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
    def guarantee(self) -> Guarantee:
        # Whoever hides whole parties, or who comes and goes, hides how many records they have.
        hidden = self.unit is Unit.PARTY or self.neighbours is Neighbours.ADD_REMOVE
        sizes = () if hidden else ("size of every party",)
        facts = ("who takes part", *sizes, "bounds", "every parameter")
        assumed = sum_assumptions(self.colluding, self.n_parties, self.alone)
        kind = self.unit, self.neighbours
        return Guarantee(self.epsilon, self.delta, *kind, _SUMS, facts, assumed)

    @override
    def event(self) -> SharedSums:
        return SharedSums(self.epsilon, self.delta, self.digest, self.releases, self.alone)

    @property
    @override
    def several(self) -> tuple[str, int]:
        return self.digest, self.releases

    @property
    def share(self) -> Share:
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
        released = np.tile(total, (count, 1))
        # Every party draws its share; masks would cancel.
        most, every = max(1, _NUMBERS // self.size), count * self.n_parties
        for first in range(0, every, most):
            whose = np.arange(first, min(first + most, every)) // self.n_parties
            np.add.at(released, whose, self._shares(len(whose), own))
        return [self.decode(released.view(np.uint64))]

    def _named(
        self, rows: Iterable[tuple[str, Vectors]], stream: RandomSource, count: int
    ) -> Words:
        if count != 1:
            raise InvalidParameter("count must be 1: a sum is released once.")
        parties = list(rows)  # who is there is public, and known before anything is drawn
        if not self.fewest <= len(dict(parties)) <= self.n_parties:
            raise InvalidData("a sum needs every party on the roster: their shares make the noise.")
        total = np.zeros((1, self.size), dtype=np.uint64)
        for name, vector in parties:
            total += self.share.sample(vector, stream.stream(name, 0))
        return total

    def _shares(self, count: int, source: RandomSource, own: bool = True) -> NDArray[np.int64]:
        """Return what parties add to their vectors, in lattice steps: a share, and their own."""
        law = self.rate, self.scale, self.parts
        whole = source.bound("integer share", *law)
        steps = integer_shares(self.scale, self.size, self.parts, count, source=whole)
        if own:  # As for an output step: probabilities may be off by less than 1e-5, in floats.
            alone = self.scale / self.floor * PROBABILITIES
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
            return 1 / rate / math.sqrt(parts) * normals(self.size, count, source)
        return l2_shares(rate, self.size, parts, count, source=source)


@dataclass(frozen=True)
class Share(Measurement[Vectors, Words]):
    """One party's rounded vector with its share of the noise, modulo 2^64, before masks."""

    summed: SecureSum

    @override
    def guarantee(self) -> Guarantee:
        return self.summed.guarantee()

    @property
    @override
    def several(self) -> tuple[str, int]:
        return self.summed.several

    @override
    def sample(self, rows: Vectors, stream: RandomSource, count: int = 1) -> Words:
        def picked(n_samples: RowCount, n_rows: int) -> NDArray[np.intp] | slice:
            return row_patterns(n_samples, n_rows, stream, 1)[0][0]

        vector = np.asarray(rows(picked) if callable(rows) else rows, np.float64)
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
