"""A noisy minimiser: an objective with a random linear term, solved, certified, then stepped.

This is the one act behind every objective perturbation: of one data set, drawn once or many times,
of groups of features, and of thousands of parties. The law of the noise is a field; the price is
with the theorems that use it. Proof of the output step: docs/proofs/output_step.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.streams import RandomSource, sum_zero_basis
from confrere.maths.parties import ROOM, minimise_parties
from confrere.maths.solver import UNSOLVED, minimise_many, minimise_softmax, smallest_tolerance
from confrere.mechanisms.hidden_size import HiddenSize, RowCount, largest_count, row_patterns
from confrere.mechanisms.laws import NoiseLaw
from confrere.mechanisms.output_step import LatticeStep
from confrere.rows.frame import Rows

Labels = NDArray[np.float64] | NDArray[np.intp]
Offsets = NDArray[np.int64]

#: Share of epsilon that pays for the solver's tolerance and the floats.
SOLVER_SHARE = 0.01

#: Tolerance on the gradient of the summed objective, where rounding allows it.
TOLERANCE = 1e-6

#: Part of the tolerance that the solver may use; the rest is for the rounding of the noise itself.
SOLVER_PART = 0.9


@dataclass(frozen=True, kw_only=True)
class NoisyMinimiser:
    """Minimise ``sum_i l(y_i w.x_i) + (L/2)||w - u||^2 + b.w`` for random ``b``, then step.

    Parameters
    ----------
    law : NoiseLaw
        Of ``b``.
    n_samples : int or HiddenSize
        Number of rows, or what stands for it where it is not public.
    n_features : int
        Number of columns.
    ridge : float
        ``L``.
    output_epsilon : float
        What the output step spends.
    n_classes : int, default=2
        More than two have the softmax loss, with noise where columns sum to zero, or for every
        class if the law is so.
    cap : float, default=1.0
        Largest slope of the binary loss.
    prior_norm : float, default=0.0
        Public bound on the norm of ``u``.
    """

    law: NoiseLaw
    n_samples: RowCount
    n_features: int
    ridge: float
    output_epsilon: float
    n_classes: int = 2
    cap: float = 1.0
    prior_norm: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is released."""
        return (self.n_features,) if self.n_classes == 2 else (self.n_classes, self.n_features)

    @property
    def noise_dimension(self) -> int:
        """Dimension of the space that the noise lives in."""
        if self.n_classes == 2:
            return self.n_features
        return self.n_features * int(self.class_basis.shape[1])

    @property
    def class_basis(self) -> Floats:
        """Orthonormal columns, one per class that the noise is free to choose.

        What is added to all classes alike is seen by no loss: a law of one norm leaves it out. A
        law that is a sum over classes keeps it, as then its density is simple.
        """
        every = self.law.every_class
        return np.eye(self.n_classes) if every else sum_zero_basis(self.n_classes)

    def class_noise(self, drawn: Floats) -> Floats:
        """Return a draw as the ``(K, d)`` matrix of the objective."""
        basis = self.class_basis
        return np.asarray(basis @ drawn.reshape(basis.shape[1], -1))

    @property
    def longest(self) -> float:
        """A bound on the norm of what is released, from public facts alone.

        At the minimiser ``L (w - u)`` is the sum of n gradients, each no longer than the cap for
        two classes and sqrt(2) for more, and the noise: ``||w|| <= (n c + ||b||)/L + ||u||``. The
        output step and the solver's tolerance are far below the last hundredth.
        """
        slope = self.cap if self.n_classes == 2 else math.sqrt(2)
        slopes = largest_count(self.n_samples) * slope / self.ridge
        noise = self.law.longest(self.noise_dimension) / self.ridge
        return 1.01 * (slopes + noise + self.prior_norm) + 1.0

    @property
    def tolerance(self) -> float:
        """A bound on the gradient that the solver can certify on every run.

        A function of public quantities alone: it stands above the rounding error of the gradient
        and of the noise for every noise vector but the longest.
        """
        longest = self.law.longest(self.noise_dimension)
        smallest = smallest_tolerance(
            largest_count(self.n_samples),
            self.n_features,
            ridge=self.ridge,
            linear_norm=longest,
            centre_norm=self.prior_norm,
            n_classes=self.n_classes if self.n_classes > 2 else None,
        )
        rounding = 64 * longest * float(np.finfo(np.float64).eps)
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
        *,
        source: RandomSource,
        count: int,
        centre: Floats | None = None,
    ) -> Floats:
        """Return ``count`` independent releases of the same rows, one per row.

        The mechanism that it belongs to has booked what it costs.
        """
        self._certify(X)
        solve = self._solver(X, y, centre)
        patterns = row_patterns(self.n_samples, X.shape[0], source, count)

        def solve_each(noise: list[Floats]) -> list[Floats]:
            points = np.empty((count, *self.shape))
            for rows, mine in patterns:
                points[mine] = solve(rows, noise[0][mine])
            return [points]

        return _act([(self, count)], solve_each, source)[0]

    def _certify(self, X: Rows) -> None:
        rows = X.shape[0] if isinstance(self.n_samples, HiddenSize) else self.n_samples
        if X.shape != (rows, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        self.law.certify(X)

    def _solver(
        self, X: Rows, y: Labels, centre: Floats | None
    ) -> Callable[[NDArray[np.intp] | slice, Floats], Floats]:
        """Return the certified solver for some of the rows and one problem per noise vector.

        What it cannot solve has the solution that it would have without rows: noise alone.
        """
        tolerance = SOLVER_PART * self.tolerance

        def total(which: NDArray[np.intp] | slice, noise: Floats) -> Floats:
            try:
                return solve(which, noise)
            except UNSOLVED:
                towards = np.zeros(self.shape) if centre is None else centre
                drawn = noise if self.n_classes == 2 else np.array([*map(self.class_noise, noise)])
                return np.asarray(towards - drawn / self.ridge)

        def solve(which: NDArray[np.intp] | slice, noise: Floats) -> Floats:
            rows, labels = some_rows(X, y, which)
            if self.n_classes == 2:
                return minimise_many(
                    rows,
                    labels,
                    ridge=self.ridge,
                    linear=noise,
                    centre=centre,
                    cap=self.cap,
                    tolerance=tolerance,
                ).W
            return np.stack(
                [
                    minimise_softmax(
                        rows,
                        np.asarray(labels, dtype=np.intp),
                        self.n_classes,
                        ridge=self.ridge,
                        linear=self.class_noise(one),
                        centre=centre,
                        tolerance=tolerance,
                    ).w
                    for one in noise
                ]
            )

        return total


def run_parties(
    minimisers: Mapping[int, NoisyMinimiser],
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
    minimisers : mapping of int to NoisyMinimiser
        That of a party of so many rows; all with one kind of law, one loss and one centre.
    X, y : arrays
        Rows in the law's body and labels -1 and +1, party by party.
    offsets : (n_parties + 1,) array
        Where each party's rows begin.
    source : RandomSource
        Where all noise comes from; every party has draws of its own.
    centre : (d,) array, optional
        Public point to shrink towards.
    """
    any_one = next(iter(minimisers.values()))
    any_one.law.certify(X)
    kinds = parties_by_size(offsets)
    groups = [(minimisers[size], len(members)) for size, members in kinds]
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
            cap=any_one.cap,
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
    groups: Sequence[tuple[NoisyMinimiser, int]],
    solve: Callable[[list[Floats]], list[Floats]],
    source: RandomSource,
) -> list[Floats]:
    """Draw, solve, step: the only place where objectives are perturbed."""
    noise = [one.law.draw(source, count, one.noise_dimension) for one, count in groups]
    points = solve(noise)
    return [
        one.output_step.release(each, source) for (one, _), each in zip(groups, points, strict=True)
    ]
