r"""What a solver proves about a point: how far its computed gradient can be from the true one.

Every sum over rows is accumulated as the objectives do it: blocks of :func:`block_rows` rows, one
product :math:`r^\top X` per block, the blocks of a partition (:func:`partition_rows`) added in
order, the partitions added in order. With :math:`u = 2^{-53}`, ``row_norm`` :math:`q`,
``weight_norm`` :math:`\|w\|`, at most :math:`B` rows per block, :math:`P` blocks per partition and
:math:`M` partitions, the standard error analysis of sums and inner products (any order, with or
without fused multiply-add) gives, to first order in :math:`u`:

1. The margin :math:`t_i = w \cdot x_i` is off by at most :math:`(d + 3)\,u\,q\,\|w\|`: a row may be
   :math:`x_i = (s_i\,f \circ z_i,\, c)` with stored :math:`z_i`, and then :math:`f \circ w`, the
   product with :math:`s_i` and the constant's part cost a rounding each (of rows that are few and
   written down, the two products were rounded before). The residual is
   1/4-Lipschitz, so this moves the gradient by at most :math:`n q \cdot (d + 3)\,u\,q\|w\| / 4`.
2. The residual itself is computed with a few roundings and one exponential: a relative error of
   at most :math:`8u`, hence :math:`8 u\,n q`. Multiplying it by :math:`s_i`, and the block's sum by
   :math:`f`, are two more.
3. A product :math:`r^\top X` over a block adds :math:`B u \sum_i |r_i| |x_i|` componentwise, and
   adding up adds another :math:`(P + M) u` times the same sum, whose Euclidean norm is at most
   :math:`n q` since :math:`|r_i| \le 1`.

By Cauchy-Schwarz it is enough that the root mean square of the row norms is at most :math:`q`.

The constants below are rounded up generously (16 for 10; :math:`d + 4` for :math:`d + 3`), which
also covers the terms of second order and adding the penalty's gradient to the sum. Whether rows are
sparse is not known where a tolerance is chosen, so the larger of both kinds of sums counts; coded
rows see fewer additions than either (docs/proofs/rows.md).

In the softmax of :math:`K` classes a record's residual has norm at most :math:`\sqrt 2`, it is
1/2-Lipschitz in the margins, subtracting the largest of them adds :math:`(1 + \sqrt K)\,u\,q\|W\|`
to their error, and normalising costs :math:`K` more roundings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import Labels, Loss
from confrere.kernel.norms import Rows

#: Unit roundoff of double precision.
UNIT = 2.0**-53

#: What a tolerance must leave above the rounding error, so that certifying it always succeeds.
HEADROOM = 1.5
#: Of many parties at once scores are sums of two products, with twice the error of one: their
#: tolerance is so many times the smallest.
PARTY_ROOM = 2.0

#: How a solver can fail: by a tolerance that rounding hides, by arithmetic, or by what libraries
#: refuse. No rows in the ball make it, and no noise but one draw in 10^18; whoever has paid answers
#: all the same, as if there were no rows, since a failure would be seen by everybody.
UNSOLVED = (ValueError, ArithmeticError)

#: Numbers in a partition, about: work for tens of milliseconds.
_PARTITION_ENTRIES = 2**24


def block_rows(d: int, *, sparse: bool = False) -> int:
    """Return how many rows of ``d`` numbers make a block: few enough to stay in cache.

    A sum over sparse rows costs ``d`` additions besides their entries, so there are about as many
    of them in a block.
    """
    if sparse:
        return min(65_536, max(2048, d))
    return min(2048, max(256, 2**20 // d))


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
    n_classes: int = 2,
) -> float:
    """Bound the length of the error of the computed gradient of the summed loss; see above."""
    additions = _additions(n, d) + 16
    margin = row_norm * weight_norm
    if n_classes == 2:
        each = additions + (d + 4) * margin / 4
    else:
        K = n_classes
        each = math.sqrt(2) * (additions + K) + (d + 4 + math.sqrt(K)) * margin / 2
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
    n_classes: int = 2,
) -> float:
    r"""Return the smallest tolerance that every data set of this shape can be certified at.

    Nothing here depends on the records. The minimiser lies near its centre :math:`u`: comparing
    the objective there and at :math:`u` gives
    :math:`L \|w - u\| \le \|b\| + \sqrt{\|b\|^2 + 2 L n (\log K + 2 q \|u\|)}`,
    and a zero gradient gives :math:`L \|w - u\| \le s n q + \|b\|` with :math:`s` the largest
    residual.
    """
    at_centre = n * (math.log(n_classes) + 2 * row_norm * centre_norm)
    pull = n * row_norm * (1.0 if n_classes == 2 else math.sqrt(2))
    reach = min(linear_norm + math.sqrt(linear_norm**2 + 2 * ridge * at_centre), linear_norm + pull)
    weight_norm = centre_norm + reach / ridge
    rounding = rounding_bound(n, d, row_norm=row_norm, weight_norm=weight_norm, n_classes=n_classes)
    rounding += penalty_rounding(ridge, reach / ridge, linear_norm)
    # Weights are themselves rounded, which the penalty's gradient magnifies by L.
    return HEADROOM * (rounding + UNIT * ridge * weight_norm)


class RowBlock(Protocol):
    """Some rows, as a map on weights."""

    def times(self, W: Floats) -> Floats:
        """Return every row's product with every row of ``W``."""

    def pull(self, R: Floats) -> Floats:
        """Return the rows added up with weights ``R``."""


#: From a block and its labels to what is summed.
Work = Callable[[RowBlock, Labels], tuple[Floats, ...]]


class RowSums(Protocol):
    """Rows that are read in blocks and added up in the order above."""

    n: int
    d: int
    row_norm: float  #: The root mean square of their norms is at most this

    def sum(self, labels: object, work: Work) -> tuple[Floats, ...]:
        """Return what ``work`` makes of every block and its labels, added up."""

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
        """Return the gradient of the sum over rows."""
        loss, m = self.loss, len(W)
        stacked = W.reshape(m * loss.n_scores, -1)

        def work(block: RowBlock, labels: Labels) -> tuple[Floats, ...]:
            scores = block.times(stacked).reshape(m, loss.n_scores, -1)
            errors = loss.residuals(scores, labels).reshape(len(stacked), -1)
            return (block.pull(errors).reshape(m, -1),)

        (total,) = self.rows.sum(self.labels, work)
        return np.asarray(total)

    def rounding(self, W: Floats) -> Floats:
        """Bound the floating-point error of :meth:`gradient` at every row of ``W``."""
        norms = np.sqrt([np.vecdot(A, A) for A in (W, W - self.centre, self.linear)])
        rows, k = self.rows, self.loss.n_classes
        return np.array(
            [
                rounding_bound(
                    rows.n, rows.d, row_norm=rows.row_norm, weight_norm=weight, n_classes=k
                )
                + penalty_rounding(self.ridge, offset, linear)
                for weight, offset, linear in norms.T.tolist()
            ]
        )

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
    """Return certified minimisers, one per linear term.

    What is not certified is the solution that there would be without rows, noise alone: a failure
    would be seen by everybody.
    """
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
        except UNSOLVED:
            continue
        found[part][proved] = W[proved]
    return found
