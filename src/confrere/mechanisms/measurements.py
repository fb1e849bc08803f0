"""What can be released: measurements, each with its price, its draw and its density.

An :class:`Objective` is minimised with a random linear term; a :class:`Point` is a computed vector
with noise on it. Norm, loss, law, ridge, centre, relation and the number of blocks are values;
:data:`~confrere.kernel.accountants.THEOREMS` says which of them go together. ``guarantee`` touches
no data; ``sample`` is the only draw, and books the price before it; ``terms`` are the densities
that an exact audit asks for.

**The output step.** A certified solver returns a point within ``radius`` of the true minimiser, but
*which* one depends on the data in ways that no density describes; noise that is added in floats
leaves traces of the point in its low bits. So what would be released is rounded to a public lattice
and integer noise is added, calibrated to twice the radius plus one lattice step per coordinate.
What leaves are exact multiples of a power of two (docs/proofs/output_step.md).

**Hidden sizes.** Under add-remove neighbours nobody may know how many rows there are, measurements
included; but a certificate needs a bound on their number that holds for every data set. So the
owner declares about how many there are, and every row draws one of :attr:`HiddenSize.most` cells
and is used if it is alone in it: a record that comes or goes adds one row or takes one away, never
both (docs/proofs/add_remove.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import (
    CLASSWISE_FROM,
    Exposure,
    GaussianLoss,
    Theorem,
    check_delta,
    gaussian_delta,
    gaussian_mu,
    gaussian_sigmas,
    theorem,
    theorem_of_point,
)
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    RANDOM,
    Apart,
    GaussianMinimisers,
    GaussianPoint,
    Guarantee,
    Neighbours,
    PrivacyEvent,
    Split,
    chained,
    check_epsilon,
    check_positive,
    check_relation,
    public_facts,
)
from confrere.kernel.losses import Labels, Loss
from confrere.kernel.norms import L1, L2, Gaussian, Law, Norm, Pure, Rows, row_norms
from confrere.kernel.streams import Measurement, RandomSource, discrete_laplace, sum_zero_basis
from confrere.solver.certificate import (
    PARTY_ROOM,
    Problem,
    Solver,
    certified,
    certified_parties,
    smallest_tolerance,
)

Offsets = NDArray[np.int64]
Numbers = NDArray[np.number]
#: Draws which of so many rows are used, of a number that may not be public.
Picked = Callable[["RowCount", int], NDArray[np.intp] | slice]
#: Which rows are used in which releases.
Patterns = Sequence[tuple[NDArray[np.intp] | slice, NDArray[np.bool_] | slice]]

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
#: More than what probabilities of the integer noise can be off by, in floats.
_PROBABILITIES = 1 + 1e-5
#: Cells per declared row: of as many rows as were declared one in a hundred shares its cell.
CELLS = 100

# --- how many rows there are ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HiddenSize:
    """A number of rows that is not public, and what stands for it."""

    declared: int  #: About how many rows there are, from public knowledge or a noised count

    def __post_init__(self) -> None:
        if isinstance(self.declared, bool) or int(self.declared) < 1:
            raise InvalidParameter("declared_samples must be a whole number of at least 1.")

    @property
    def most(self) -> int:
        """The most rows that are used, and the number of cells."""
        return CELLS * int(self.declared)

    def used(
        self, n_rows: int, source: RandomSource, count: int = 1, groups: NDArray[np.int64] | int = 0
    ) -> NDArray[np.bool_]:
        """Return which rows are alone in the cells they draw, ``(count, n_rows)``.

        ``groups`` keeps the rows of several owners apart.
        """
        cells = np.floor(source.uniforms(count, n_rows) * self.most).astype(np.int64)
        cells += self.most * np.asarray(groups)
        alone = np.empty(cells.shape, dtype=np.bool_)
        for row, drawn in zip(alone, cells, strict=True):
            _, which, many = np.unique(drawn, return_inverse=True, return_counts=True)
            row[:] = many[which] == 1
        return alone


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


def check_row_count(n_samples: object, neighbours: Neighbours) -> None:
    """Refuse a number of rows where it is not public, and a stand-in where it is."""
    if (neighbours is Neighbours.ADD_REMOVE) != isinstance(n_samples, HiddenSize):
        raise InvalidParameter(
            "n_samples must be a HiddenSize under add-remove neighbours, where the number of rows "
            "is not public, and that number itself under others."
        )


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


def used_rows(
    n_samples: RowCount, X: Floats, y: Floats, offsets: Offsets, source: RandomSource
) -> tuple[Floats, Floats, Offsets]:
    """Return the rows that parties use, where their numbers are not public."""
    if not isinstance(n_samples, HiddenSize):
        return X, y, offsets
    sizes = np.diff(offsets)
    party = np.repeat(np.arange(len(sizes)), sizes)
    used = n_samples.used(len(X), source, groups=party)[0]
    left = np.bincount(party[used], minlength=len(sizes))
    # A party without rows gets one of zeros, at the end of the others'.
    empty = np.flatnonzero(left == 0)
    order = np.argsort(np.concatenate([party[used], empty]), kind="stable")
    rows = np.concatenate([X[used], np.zeros((len(empty), X.shape[1]))])[order]
    labels = np.concatenate([y[used], np.ones(len(empty))])[order]
    return rows, labels, np.concatenate([[0], np.cumsum(np.maximum(left, 1))])


# --- the output step ------------------------------------------------------------------------------


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
        return move / self.epsilon * _PROBABILITIES

    def release(self, point: Floats, source: RandomSource) -> Floats:
        """Return the rounded and noised point, or points, one per row."""
        steps = np.rint(point / self.spacing)
        own = source.bound("output step", steps, self.spacing, self.scale)
        noise = discrete_laplace(self.scale, point.shape, own)
        return np.asarray((steps + noise) * self.spacing)


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
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    solver: Solver  #: Who looks for minimisers, which are certified here
    rate: float = field(init=False)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_row_count(self.n_samples, self.neighbours)
        if declared_count(self.n_samples) < 1 or not all(b.norm.size > 0 for b in self.blocks):
            raise InvalidData("X needs at least one row and one column.")
        if self.delta:
            check_delta(self.delta, declared_count(self.n_samples))
        for block, shape in self._shapes():
            check_centre(block.centre, shape)
        budget, exposure = self.epsilon * (1 - SOLVER_SHARE), self.exposure
        object.__setattr__(self, "rate", self._theorem.rate(budget, self.delta, exposure))

    def _shapes(self) -> list[tuple[Columns, tuple[int, ...]]]:
        """Return every block with the shape of what is released of it."""
        scores = self.loss.n_scores
        own = (scores,) if scores > 1 else ()
        return [(block, (*own, block.norm.size)) for block in self.blocks]

    @cached_property
    def centre_norm(self) -> float:
        """The norm of the longest point that is shrunk towards."""
        norms = [np.linalg.norm(b.centre) for b in self.blocks if b.centre is not None]
        return float(max(norms, default=0.0))

    @cached_property
    def _theorem(self) -> Theorem:
        shared = "joint" if self.joint else "apart" if len(self.blocks) > 1 else "one"
        law = "Gaussian" if self.delta else "pure"
        found = [theorem(shared, block.norm.leaf, self.loss, law) for block in self.blocks]
        return found[0]

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
        one_norm = self._one_norm
        acts = []
        for k, block in enumerate(self.blocks):
            law: Law
            if self.delta:
                law = Gaussian(sigmas[k], free * block.norm.size)
            elif one_norm:
                law = Pure(L2(free * block.norm.size), self.rate)
            else:
                law = Pure(block.norm, self.rate * block.weight, scores)
            acts.append(Act(self, block, law))
        return tuple(acts)

    @property
    def act(self) -> Act:
        """What the only block does."""
        (one,) = self.acts
        return one

    @property
    def longest(self) -> tuple[float, ...]:
        """Bounds on the norms of what is released of the blocks, from public facts alone."""
        return tuple(act.longest for act in self.acts)

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
        return self._guarantee.guarantee(units, chained(self._profile, units))

    def _profile(self, epsilon: float) -> float:
        """Return delta at an epsilon, of Gaussian noise and the output steps together."""
        noise = GaussianLoss(self.exposure, gaussian_sigmas(self.rate, self.exposure))
        return float(noise.delta(epsilon - self.epsilon * SOLVER_SHARE))

    @cached_property
    def _guarantee(self) -> Guarantee:
        several = ("feature groups", "importances") if len(self.blocks) > 1 else ()
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            theorem=self._theorem.page,
            public=public_facts(self.neighbours, *several),
            assumptions=GAUSSIAN_ASSUMPTIONS if self.delta and not several else ASSUMPTIONS,
        )

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
            own = stream.bound("objective", number, act.law.rate, act.ridge, centre)
            linear = act.weights_of(act.law.draw(own, count))
            found = np.empty_like(linear)
            for which, mine in patterns:
                found[mine] = certified(
                    self.solver,
                    *some_rows(X, y, which),
                    loss=self.loss,
                    ridge=act.ridge,
                    linear=linear[mine],
                    centre=act.centre,
                    tolerance=SOLVER_PART * act.tolerance,
                )
            released.append(act.output_step.release(found, stream))
        return released

    def densities(self, rows: tuple[Sequence[Rows], Labels]) -> list[PerturbedTerm]:
        """Return the densities of the blocks' releases, for an exact audit."""
        blocks, y = rows
        pairs = zip(self.acts, blocks, strict=True)
        return [PerturbedTerm(np.asarray(X), y, act, act.centre) for act, X in pairs]

    def check_parties(self, X: Floats, y: Labels) -> None:
        """Refuse rows of many parties that the theorem does not speak of, before any draw."""
        if self.loss.n_scores > 1:
            raise InvalidParameter("many parties at once have two classes.")
        self.act.norm.certify(X)
        self.loss.check_labels(y)

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
        if self.joint and not np.sum([row_norms(X) ** 2 for X in rows], axis=0).max() <= 1:
            raise InvalidData("a row is longer than its groups' bound; clip the rows first.")


#: What Gaussian noise assumes.
GAUSSIAN_ASSUMPTIONS = (
    "each person is in at most one record",
    "tails of 104-bit uniforms (total variation below 1e-17)",
    RANDOM,
)


@dataclass(frozen=True, eq=False)
class Act:
    """What one block of an objective does: its noise, its tolerance and its output step."""

    objective: Objective
    block: Columns
    law: Law  #: Of ``B``: where columns of several classes sum to zero, or of every class

    @property
    def loss(self) -> Loss:
        """The objective's."""
        return self.objective.loss

    @property
    def norm(self) -> Norm:
        """Of the rows."""
        return self.block.norm

    @property
    def ridge(self) -> float:
        """``L``."""
        return self.block.ridge

    @property
    def centre(self) -> Floats | None:
        """The public point that is shrunk towards."""
        return self.block.centre

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.norm.size

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

    @property
    def longest(self) -> float:
        """A bound on the norm of what is released, from public facts alone.

        At the minimiser ``L (w - u)`` is the sum of n gradients, none longer than the slope, and
        the noise: ``||w|| <= (n c + ||b||)/L + ||u||``. The output step and the solver's tolerance
        are far below the last hundredth.
        """
        made = self.objective
        slopes = largest_count(made.n_samples) * self.loss.slope / self.ridge
        return 1.01 * (slopes + self.law.longest / self.ridge + made.centre_norm) + 1.0

    @cached_property
    def tolerance(self) -> float:
        """A bound on the gradient that the solver can certify on every run.

        A function of public quantities alone: it stands above the rounding error of the gradient
        and of the noise for every noise vector but the longest.
        """
        longest = self.law.longest
        smallest = smallest_tolerance(
            largest_count(self.objective.n_samples),
            self.norm.size,
            ridge=self.ridge,
            linear_norm=longest,
            centre_norm=self.objective.centre_norm,
            n_classes=self.loss.n_classes if self.loss.n_classes > 2 else None,
        )
        rounding = 64 * longest * float(np.finfo(np.float64).eps)
        return max(TOLERANCE, PARTY_ROOM * smallest / SOLVER_PART, rounding)

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return LatticeStep(
            epsilon=self.objective.epsilon * SOLVER_SHARE / len(self.objective.blocks),
            radius=self.tolerance / self.ridge,
            size=int(np.prod(self.shape)),
        )


@dataclass(frozen=True, eq=False)
class PerturbedTerm:
    """One perturbed objective on one data set, in the coordinates of its noise."""

    X: Floats
    y: Labels
    made: Act
    centre: Floats | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of a release."""
        return self.made.law.size

    @property
    def step(self) -> LatticeStep:
        """The output step that follows."""
        return self.made.output_step

    def noise(self, released: Floats) -> Floats:
        """Return the noise that makes these weights the minimiser, in its coordinates."""
        W = np.reshape(released, (self.made.loss.n_scores, -1))
        towards = 0.0 if self.centre is None else np.reshape(self.centre, W.shape)
        pull = self.made.loss.errors(self.X @ W.T, self.y).T @ self.X
        pull = pull + self.made.ridge * (W - towards)
        return np.asarray(-(self.made.class_basis.T @ pull).ravel())

    def log_density(self, w: Floats) -> float:
        """Return the log density at a point of the coordinates of the noise, up to a constant."""
        W = np.reshape(self.made.weights_of(w[None]), (self.made.loss.n_scores, -1))
        return self.log_determinant(W) + self.made.law.log_density(self.noise(W))

    def minimiser(self) -> Floats:
        """Return the minimiser without noise, in the coordinates of the noise."""
        act, solver = self.made, self.made.objective.solver
        # Rows that break their bound are what an audit may be looking for.
        longest = max(1.0, float(row_norms(self.X).max(initial=0.0)))
        towards = np.zeros(act.shape) if self.centre is None else self.centre
        problem = Problem(
            rows=solver.rows(self.X, longest),
            labels=self.y,
            loss=act.loss,
            ridge=act.ridge,
            linear=np.zeros((1, towards.size)),
            centre=towards.reshape(1, -1),
        )
        W = solver.solve(problem, max(TOLERANCE, 2 * problem.smallest_tolerance))
        return np.asarray((act.class_basis.T @ W.reshape(act.loss.n_scores, -1)).ravel())

    def log_determinant(self, W: Floats) -> float:
        """Return that of the Hessian at these weights, in the coordinates of the noise."""
        basis = self.made.class_basis
        bends = self.made.loss.bends(self.X @ W.T, self.y)
        reduced = np.einsum("ka,nkl,lb->nab", basis, bends, basis, optimize=True)
        hessian = np.einsum("nab,ni,nj->aibj", reduced, self.X, self.X, optimize=True)
        _, found = np.linalg.slogdet(
            hessian.reshape(self.size, self.size) + self.made.ridge * np.eye(self.size)
        )
        return float(found)


# --- noise on a computed vector -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One of the vectors that a point consists of, with noise of its own."""

    size: int  #: Number of coordinates
    reach: float  #: No computed one is longer, in L2
    share: float = 1.0  #: What it weighs in the norm, and of the budget
    move: float = 1.0  #: Its own largest move, which its part of the norm is measured in
    #: Of more than two it is a matrix with a row per class, whose columns sum to zero.
    n_classes: int = 2

    @property
    def basis(self) -> Floats | None:
        """Of matrices whose columns sum to zero: orthonormal coordinates of a column."""
        return None if self.n_classes == 2 else sum_zero_basis(self.n_classes)

    def coordinates(self, value: Numbers) -> Floats:
        """Return what was computed in the coordinates of its noise."""
        turned = np.ravel(value if self.basis is None else self.basis.T @ value)
        if turned.size != self.size:  # noise of one number would be on all of them
            raise InvalidData("what is noised does not have the declared number of coordinates.")
        return turned.astype(np.float64)

    def turned(self, released: Floats) -> Floats:
        """Return releases, one row of coordinates each, in the shape of what was computed."""
        if self.basis is None:
            return released
        matrices = released.reshape(len(released), self.n_classes - 1, -1)
        return np.stack([self.basis @ each for each in matrices])


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
        theorem_of_point("L2" if self.parts else "L1", "Gaussian" if self.promise.delta else "pure")

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        if units == 1 or not self.promise.delta:
            return self.promise.guarantee(units)
        mu, steps = self._gaussian
        return self.promise.guarantee(
            units, lambda at: float(gaussian_delta(at - units * steps, units * mu))
        )

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
        return self.sensitivity / self.promise.epsilon * _PROBABILITIES

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
            LatticeStep(
                epsilon=price * ROUNDING_SHARE,
                radius=_FINENESS * (part.reach + law.longest),
                size=part.size,
            )
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

    def sample(
        self,
        rows: Any,  # What the value is computed from, or the value
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        """Return ``count`` releases of every part; of whole numbers there is one."""
        if self.rows is None:
            return self._noised(np.tile(self._point(rows), (count, 1)), stream)
        X, y = rows
        self._certify(X)
        points = np.empty((count, sum(part.size for part in self.parts)))
        for which, mine in row_patterns(self.n_samples or 0, X.shape[0], stream, count):
            points[mine] = self._point(some_rows(X, y, which))
        return self._noised(points, stream)

    def densities(self, rows: Any) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        if self.rows is not None:
            self._certify(rows[0])
        point = self._point(rows)
        if not self.parts:
            return [NoisedPoint(point.astype(np.float64), Pure(L1(point.size), 1 / self.scale))]
        each = self._each(point[None].astype(np.float64))
        return [NoisedPoint(mine[0], law, step, part) for law, step, part, mine in each]

    def _point(self, rows: Any) -> Numbers:
        """Return what is noised, in the coordinates of the noise."""
        values = (rows,) if self.value is None else self.value(*rows)
        if not self.parts:
            return np.ravel(values[0])
        if self.value is None and len(self.parts) > 1:
            values = rows
        pairs = zip(self.parts, values, strict=True)
        return np.concatenate([part.coordinates(value) for part, value in pairs])

    def _certify(self, X: Rows) -> None:
        """Refuse rows that are not as declared, before any draw."""
        assert self.rows is not None
        count = X.shape[0] if isinstance(self.n_samples, HiddenSize) else self.n_samples
        if X.shape != (count, self.rows.size):
            raise InvalidData("X does not have the declared number of rows and columns.")
        self.rows.certify(X)

    def _noised(self, points: Numbers, stream: RandomSource) -> list[Floats]:
        """Return every row with noise of its own, part by part."""
        if not self.parts:
            if not np.issubdtype(points.dtype, np.integer):
                raise InvalidData("counts must be integers.")
            own = stream.bound("integers", points, self.scale)
            return [np.asarray(points + discrete_laplace(self.scale, points.shape, own))]
        released = []
        for law, step, part, mine in self._each(np.asarray(points, dtype=np.float64)):
            # No computed vector is longer; were one, it would not move further than it may.
            lengths = np.linalg.norm(np.nan_to_num(mine), axis=1, keepdims=True)
            inside = mine * np.minimum(1.0, part.reach / np.maximum(lengths, part.reach))
            total = np.nan_to_num(inside)
            # On the lattice: within one of its steps the output step hides what moves.
            own = stream.bound("point", np.rint(total / step.spacing), step.spacing, law.rate)
            noise = law.draw(own, len(points))
            released.append(part.turned(step.release(total + noise, stream)))
        return released

    def _each(self, points: Floats) -> Iterator[tuple[Law, LatticeStep, Part, Floats]]:
        ends = np.cumsum([part.size for part in self.parts])
        mine = np.split(points, ends[:-1], axis=1)
        return zip(self.laws, self.steps, self.parts, mine, strict=True)


@dataclass(frozen=True, eq=False)
class NoisedPoint:
    """A point with noise on it: the loss between two is their distance times the rate, exactly."""

    point: Floats  #: Before noise, in the coordinates of the noise
    law: Law
    step: LatticeStep | None = None  #: The output step that follows
    part: Part | None = None
    #: From releases to the coordinates of the noise, where they are not the same.
    unturned: Callable[[Floats], Floats] | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of the noise."""
        return len(self.point)

    @property
    def released(self) -> int:
        """Number of coordinates of a release."""
        k = 2 if self.part is None else self.part.n_classes
        return self.size * k // (k - 1) if k > 2 else self.size

    def noise(self, released: Floats) -> Floats:
        """Return the noise that led to a release."""
        if self.part is not None and self.part.n_classes > 2:
            released = self.part.coordinates(released.reshape(self.part.n_classes, -1))
        return np.asarray(released - self.point)

    def loss(self, other: NoisedPoint) -> float:
        """Return the largest log density ratio; ``other`` is on other data."""
        return -self.law.log_density(self.point - other.point)


# --- many parties at once -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EachParty(Measurement[Iterable[tuple[Floats, Floats, Offsets]], list[Floats]]):
    """One release of every party's own rows, of two classes, many parties at once."""

    #: Of a party of so many rows; all of one kind, law, loss and norm.
    made: Mapping[int, Objective | Point]
    #: Of points: from the rows that are used to what is noised, one party per row.
    value: Callable[[Floats, Floats, Offsets, Offsets], Floats] | None = None

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        # No record is of two parties.
        return Apart(tuple(self.made.values()), Split.BY_ORGANISATION).guarantee(units)

    def sample(
        self,
        # Rows inside the norm and labels -1 and +1, party by party, and where each party's begin.
        rows: Iterable[tuple[Floats, Floats, Offsets]],
        stream: RandomSource,
        count: int = 1,
    ) -> list[Floats]:
        """Return the releases, one party per row."""
        if count != 1:
            raise InvalidParameter("count must be 1: there are many parties already.")
        found = []
        for X, y, offsets in rows:
            any_one = next(iter(self.made.values()))
            sizes = np.diff(offsets)
            if isinstance(any_one, Objective):
                any_one.check_parties(X, y)
            used = used_rows(any_one.n_samples or 0, X, y, offsets, stream)
            if self.value is None:
                points = self._perturbed(used, sizes, stream)
            else:
                points = self.value(*used, sizes)
            for size in np.unique(sizes).tolist():
                own, members = self.made[size], sizes == size
                if isinstance(own, Objective):
                    points[members] = own.act.output_step.release(points[members], stream)
                else:
                    (points[members],) = own._noised(points[members], stream)
            found.append(points)
        return [np.concatenate(found)]

    def _perturbed(
        self, rows: tuple[Floats, Floats, Offsets], sizes: Offsets, stream: RandomSource
    ) -> Floats:
        """Return every party's certified minimiser, perturbed by noise of its own."""
        own = {size: made.act for size, made in self.made.items() if isinstance(made, Objective)}
        any_one = next(iter(own.values()))
        linear = np.empty((len(sizes), any_one.n_features))
        for size in np.unique(sizes).tolist():
            members = sizes == size
            mine = stream.bound("objective", size, own[size].law.rate)
            linear[members] = own[size].law.draw(mine, int(members.sum()))
        acts = [own[size] for size in sizes.tolist()]
        return certified_parties(
            any_one.objective.solver,
            rows,
            loss=any_one.loss,
            ridge=np.array([act.ridge for act in acts]),
            linear=linear,
            centre=any_one.centre,
            tolerance=SOLVER_PART * np.array([act.tolerance for act in acts]),
        )
