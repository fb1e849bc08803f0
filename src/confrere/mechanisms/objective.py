"""Objective perturbation: objectives with random linear terms, solved, certified, then stepped.

The one act behind every private regression: of one data set or of blocks of its columns, drawn once
or many times, and of thousands of parties. Norm, loss, law, ridge, centre, relation and the number
of blocks are values; :data:`~confrere.maths.accountants.THEOREMS` says which of them go together.
Proof of the output step: docs/proofs/output_step.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    GaussianMinimisers,
    Guarantee,
    Neighbours,
    PrivacyEvent,
    Promised,
    check_epsilon,
    public_facts,
)
from confrere.kernel.losses import Labels, Loss
from confrere.kernel.norms import L2, Gaussian, Law, Norm, Pure, row_norms
from confrere.kernel.streams import RandomSource, sum_zero_basis
from confrere.maths.accountants import (
    CLASSWISE_FROM,
    Exposure,
    Theorem,
    check_delta,
    gaussian_sigmas,
    theorem,
)
from confrere.maths.parties import ROOM, minimise_parties
from confrere.maths.solver import (
    UNSOLVED,
    minimise,
    minimise_many,
    minimise_softmax,
    smallest_tolerance,
)
from confrere.mechanisms.hidden_size import (
    HiddenSize,
    RowCount,
    check_row_count,
    declared_count,
    largest_count,
    row_patterns,
)
from confrere.mechanisms.output_step import LatticeStep
from confrere.rows.frame import Rows

Offsets = NDArray[np.int64]
#: Which rows are used in which releases.
Patterns = Sequence[tuple[NDArray[np.intp] | slice, NDArray[np.bool_] | slice]]

#: Share of epsilon that pays for the solver's tolerance and the floats.
SOLVER_SHARE = 0.01

#: Tolerance on the gradient of the summed objective, where rounding allows it.
TOLERANCE = 1e-6

#: Part of the tolerance that the solver may use; the rest is for the rounding of the noise itself.
SOLVER_PART = 0.9

#: What Gaussian noise assumes.
GAUSSIAN_ASSUMPTIONS = (
    "each person is in at most one record",
    "tails of 104-bit uniforms (total variation below 1e-17)",
)


@dataclass(frozen=True, eq=False)
class Columns:
    """One objective of those that see the same records: its columns, ridge and part of the noise.

    Parameters
    ----------
    norm : Norm
        Of its rows, in the coordinates in which the ridge is one number.
    ridge : float
        ``L`` of the summed objective.
    weight : float, default=1.0
        Pure noise has the rate ``rho`` times this.
    """

    norm: Norm
    ridge: float
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """Minimise ``sum_i l(W x_i) + (L/2)||W - U||^2 + <B, W>`` for random ``B``, then step; priced.

    Parameters
    ----------
    epsilon : float
        The whole price, solver's share included.
    delta : float, default=0.0
        With one the noise is Gaussian, in the coordinates in which rows are no longer than one.
    n_samples : int or HiddenSize
        Number of rows, or what stands for it where it is not public.
    blocks : sequence of Columns
        One, or several with minimisers of their own. Their weights sum to one, of blocks that share
        a row's length the squares do.
    loss : Loss
        Of all of them.
    joint : bool, default=False
        Whether the parts of a row share one unit of length; else each may be one long.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    prior_norm : float, default=0.0
        Public bound on the norm of any point shrunk towards.
    """

    epsilon: float
    delta: float = 0.0
    n_samples: RowCount
    blocks: tuple[Columns, ...]
    loss: Loss
    joint: bool = False
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    prior_norm: float = 0.0
    rate: float = field(init=False)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_row_count(self.n_samples, self.neighbours)
        if declared_count(self.n_samples) < 1 or not all(b.norm.size > 0 for b in self.blocks):
            raise InvalidData("X needs at least one row and one column.")
        if self.delta:
            check_delta(self.delta, declared_count(self.n_samples))
        budget, exposure = self.epsilon * (1 - SOLVER_SHARE), self.exposure
        object.__setattr__(self, "rate", self._theorem.rate(budget, self.delta, exposure))

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
        laws: list[Law] = []
        for k, block in enumerate(self.blocks):
            free = max(1, self.loss.n_scores - 1)
            if self.delta:
                laws.append(Gaussian(sigmas[k], free * block.norm.size))
            elif self._one_norm:
                laws.append(Pure(L2(free * block.norm.size), self.rate))
            else:
                laws.append(Pure(block.norm, self.rate * block.weight, self.loss.n_scores))
        return tuple(
            Act(
                law=law,
                norm=block.norm,
                n_samples=self.n_samples,
                ridge=block.ridge,
                output_epsilon=self.epsilon * SOLVER_SHARE / len(self.blocks),
                loss=self.loss,
                prior_norm=self.prior_norm,
            )
            for block, law in zip(self.blocks, laws, strict=True)
        )

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

    def guarantee(self) -> Guarantee:
        """Return the price of all blocks together, without touching data."""
        return self._guarantee

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

    def event(self) -> PrivacyEvent:
        """Return what composes: of Gaussian noise its scales, of pure noise the price."""
        if not self.delta:
            return Promised(self.epsilon)
        return GaussianMinimisers(
            sigmas=tuple(map(float, gaussian_sigmas(self.rate, self.exposure))),
            ridges=tuple(float(block.ridge) for block in self.blocks),
            cap=float(self.loss.slope) if self.loss.n_classes == 2 else 1.0,
            n_classes=self.loss.n_classes,
            joint=self.joint,
            output_epsilon=self.epsilon * SOLVER_SHARE,
        )

    def run(
        self,
        rows: Sequence[Rows],
        y: Labels,
        *,
        source: RandomSource,
        centres: Sequence[Floats | None] | None = None,
    ) -> list[Floats]:
        """Return every block's released weights: ``(d,)`` for two classes, ``(K, d)`` for more.

        Parameters
        ----------
        rows : one (n, d_k) array or CSR per block
            Rows inside their norms.
        y : (n,) array
            Labels -1 and +1, or class codes ``0 .. K-1``.
        source : RandomSource
            Where the noise comes from.
        centres : one array per block, optional
            Public points to shrink towards, of the shapes that are released.
        """
        released = self.run_many(rows, y, source=source, count=1, centres=centres)
        return [each[0] for each in released]

    def run_many(
        self,
        rows: Sequence[Rows],
        y: Labels,
        *,
        source: RandomSource,
        count: int,
        centres: Sequence[Floats | None] | None = None,
    ) -> list[Floats]:
        """Return ``count`` independent releases of every block; more than one needs a seed."""
        stream = source.book(self.guarantee(), count)
        self._certify(rows)
        points = centres if centres is not None else [None] * len(rows)
        patterns = row_patterns(self.n_samples, rows[0].shape[0], stream, count)
        return [
            act.run_many(X, y, patterns, source=stream, count=count, centre=centre)
            for act, X, centre in zip(self.acts, rows, points, strict=True)
        ]

    def terms(
        self,
        rows: Sequence[Rows],
        y: Labels,
        centres: Sequence[Floats | None] | None = None,
    ) -> list[PerturbedTerm]:
        """Return the densities of the blocks' releases, for an exact audit."""
        points = centres if centres is not None else [None] * len(rows)
        return [
            PerturbedTerm(np.asarray(X), y, act, centre)
            for act, X, centre in zip(self.acts, rows, points, strict=True)
        ]

    def _certify(self, rows: Sequence[Rows]) -> None:
        hidden = isinstance(self.n_samples, HiddenSize)
        count = rows[0].shape[0] if hidden else self.n_samples
        if [X.shape for X in rows] != [(count, block.norm.size) for block in self.blocks]:
            raise InvalidData("X does not have the declared number of rows and columns.")
        for X, block in zip(rows, self.blocks, strict=True):
            block.norm.certify(X)
        if self.joint and not np.sum([row_norms(X) ** 2 for X in rows], axis=0).max() <= 1:
            raise InvalidData("a row is longer than its groups' bound; clip the rows first.")


def objective(
    *,
    epsilon: float,
    n_samples: RowCount,
    norm: Norm,
    ridge: float,
    loss: Loss,
    delta: float = 0.0,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    prior_norm: float = 0.0,
) -> Objective:
    """Return the perturbed objective of one block."""
    return Objective(
        epsilon=epsilon,
        delta=delta,
        n_samples=n_samples,
        blocks=(Columns(norm, ridge),),
        loss=loss,
        neighbours=neighbours,
        prior_norm=prior_norm,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Act:
    """One perturbed objective: drawn, solved, certified and stepped. Its price is the objective's.

    Parameters
    ----------
    law : Law
        Of ``B``: where columns of several classes sum to zero, or of every class.
    norm : Norm
        Of the rows.
    n_samples : int or HiddenSize
        Number of rows, or what stands for it.
    ridge : float
        ``L``.
    output_epsilon : float
        What the output step spends.
    loss : Loss
        Of the objective.
    prior_norm : float, default=0.0
        Public bound on the norm of ``U``.
    """

    law: Law
    norm: Norm
    n_samples: RowCount
    ridge: float
    output_epsilon: float
    loss: Loss
    prior_norm: float = 0.0

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
        slopes = largest_count(self.n_samples) * self.loss.slope / self.ridge
        return 1.01 * (slopes + self.law.longest / self.ridge + self.prior_norm) + 1.0

    @cached_property
    def tolerance(self) -> float:
        """A bound on the gradient that the solver can certify on every run.

        A function of public quantities alone: it stands above the rounding error of the gradient
        and of the noise for every noise vector but the longest.
        """
        smallest = smallest_tolerance(
            largest_count(self.n_samples),
            self.norm.size,
            ridge=self.ridge,
            linear_norm=self.law.longest,
            centre_norm=self.prior_norm,
            n_classes=self.loss.n_classes if self.loss.n_classes > 2 else None,
        )
        rounding = 64 * self.law.longest * float(np.finfo(np.float64).eps)
        return max(TOLERANCE, ROOM * smallest / SOLVER_PART, rounding)

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return LatticeStep(
            epsilon=self.output_epsilon,
            radius=self.tolerance / self.ridge,
            size=int(np.prod(self.shape)),
        )

    def run_many(
        self,
        X: Rows,
        y: Labels,
        patterns: Patterns,
        *,
        source: RandomSource,
        count: int,
        centre: Floats | None = None,
    ) -> Floats:
        """Return ``count`` releases of the rows that each of them uses."""

        def solve_each(noise: list[Floats]) -> list[Floats]:
            points = np.empty((count, *self.shape))
            for which, mine in patterns:
                points[mine] = self._solve(*some_rows(X, y, which), noise[0][mine], centre)
            return [points]

        return _act([(self, count)], solve_each, source)[0]

    def _solve(self, X: Rows, y: Labels, noise: Floats, centre: Floats | None) -> Floats:
        """Return certified minimisers, one per noise vector.

        What cannot be solved has the solution that it would have without rows: noise alone.
        """
        linear = self.weights_of(noise)
        common: dict[str, Any] = {"ridge": self.ridge, "centre": centre}
        common["tolerance"] = SOLVER_PART * self.tolerance
        try:
            if self.loss.n_scores == 1:
                return minimise_many(X, y, linear=linear, cap=self.loss.slope, **common).W
            codes, k = np.asarray(y, dtype=np.intp), self.loss.n_classes
            return np.stack(
                [minimise_softmax(X, codes, k, linear=one, **common).w for one in linear]
            )
        except UNSOLVED:
            return np.asarray((0.0 if centre is None else centre) - linear / self.ridge)


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

    def minimiser(self) -> Floats:
        """Return the minimiser without noise, in the coordinates of the noise."""
        # Rows that break their bound are what an audit may be looking for.
        longest = max(1.0, float(np.linalg.norm(self.X, axis=1).max(initial=0.0)))
        made, loss = self.made, self.made.loss
        smallest = smallest_tolerance(
            *self.X.shape,
            ridge=made.ridge,
            row_norm=longest,
            centre_norm=0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
            n_classes=loss.n_classes if loss.n_classes > 2 else None,
        )
        common: dict[str, Any] = {"ridge": made.ridge, "centre": self.centre, "row_norm": longest}
        common["tolerance"] = max(1e-6, 2 * smallest)
        if loss.n_scores == 1:
            return minimise(self.X, self.y, cap=loss.slope, **common).w
        codes = np.asarray(self.y, dtype=np.intp)
        solved = minimise_softmax(self.X, codes, loss.n_classes, **common)
        return np.asarray((made.class_basis.T @ solved.w).ravel())


def run_parties(
    acts: Mapping[int, Act],
    X: Floats,
    y: Floats,
    offsets: Offsets,
    *,
    source: RandomSource,
    centre: Floats | None = None,
) -> Floats:
    """Return one release of every party's own rows, one party per row, two classes.

    Parameters
    ----------
    acts : mapping of int to Act
        That of a party of so many rows; all with one kind of law, one loss and one centre.
    X, y : arrays
        Rows inside the norm and labels -1 and +1, party by party.
    offsets : (n_parties + 1,) array
        Where each party's rows begin.
    source : RandomSource
        Where all noise comes from; every party has draws of its own.
    centre : (d,) array, optional
        Public point to shrink towards.
    """
    any_one = next(iter(acts.values()))
    if any_one.loss.n_scores > 1:
        raise InvalidParameter("many parties at once have two classes.")
    any_one.norm.certify(X)
    kinds = parties_by_size(offsets)
    groups = [(acts[size], len(members)) for size, members in kinds]
    order = np.argsort(np.concatenate([members for _, members in kinds]))
    rows, labels, starts = used_rows(any_one.n_samples, X, y, offsets, source)

    def every(facts: Sequence[float]) -> Floats:
        counts = [count for _, count in groups]
        return np.repeat(np.array(facts), counts)[order]

    def solve(noise: list[Floats]) -> list[Floats]:
        points = minimise_parties(
            rows,
            labels,
            starts,
            ridge=every([one.ridge for one, _ in groups]),
            linear=np.concatenate(noise)[order],
            centre=centre,
            cap=any_one.loss.slope,
            tolerance=SOLVER_PART * every([one.tolerance for one, _ in groups]),
        )
        return [points[members] for _, members in kinds]

    return np.concatenate(_act(groups, solve, source))[order]


def parties_by_size(offsets: Offsets) -> list[tuple[int, NDArray[np.intp]]]:
    """Return every number of rows that parties have, and which parties have so many."""
    sizes = np.diff(offsets)
    return [(int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes)]


def some_rows(X: Rows, y: Labels, which: NDArray[np.intp] | slice) -> tuple[Rows, Labels]:
    """Return some rows; where none are left, one of zeros, which no objective notices."""
    if isinstance(which, slice):
        return X, y
    if len(which):
        return X[which], y[which]
    nothing = np.zeros((1, X.shape[1]))
    return (sparse.csr_array(nothing) if sparse.issparse(X) else nothing), np.ones(1)


def used_rows(
    n_samples: RowCount, X: Floats, y: Floats, offsets: Offsets, source: RandomSource
) -> tuple[Floats, Floats, Offsets]:
    """Return the rows that parties use, where their numbers are not public; see HiddenSize."""
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


def _act(
    groups: Sequence[tuple[Act, int]],
    solve: Callable[[list[Floats]], list[Floats]],
    source: RandomSource,
) -> list[Floats]:
    """Draw, solve, step: the only place where objectives are perturbed."""
    noise = [one.law.draw(source, count) for one, count in groups]
    points = solve(noise)
    return [
        one.output_step.release(each, source) for (one, _), each in zip(groups, points, strict=True)
    ]
