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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known of the gradient of the objective at a returned point."""

    gradient_norm: float  #: Upper bound on the Euclidean norm: the computed norm plus ``rounding``
    rounding: float  #: Bound on the floating-point error of the computed gradient
    tolerance: float  #: What was asked; ``gradient_norm <= tolerance`` always holds


@dataclass(frozen=True, slots=True)
class Solution:
    """One certified minimiser."""

    w: Floats  #: ``(d,)``, or ``(K, d)`` for the softmax objective
    certificate: Certificate  #: How small the gradient at ``w`` is


@dataclass(frozen=True, slots=True)
class Solutions:
    """Certified minimisers of several objectives on the same rows."""

    W: Floats  #: One minimiser per row
    certificates: tuple[Certificate, ...]  #: One per row of ``W``


#: Unit roundoff of double precision.
UNIT = 2.0**-53

#: What a tolerance must leave above the rounding error, so that certifying it always succeeds.
HEADROOM = 1.5


#: How a solver can fail: by a tolerance that rounding hides, or by arithmetic. No rows in the ball
#: make it, and no noise but one draw in 10^18; whoever has paid answers all the same, as if there
#: were no rows, since a failure would be seen by everybody.
UNSOLVED = (InvalidParameter, ArithmeticError, np.linalg.LinAlgError)

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
    # ``n``, ``d``: rows and columns.
    n: int,
    d: int,
    *,
    row_norm: float,  # Public bound on the norm of every row
    # Norm of the weights (Frobenius for a matrix) at which the gradient is computed.
    weight_norm: float,
    # ``K`` of the softmax objective; by default the binary one.
    n_classes: int | None = None,
) -> float:
    """Bound the floating-point error of the computed gradient of the summed loss.

    Returns
    -------
    float
        Bound on the Euclidean norm of the error; see the module for its derivation.
    """
    additions = _additions(n, d) + 16
    margin = row_norm * weight_norm
    if n_classes is None:
        each = additions + (d + 4) * margin / 4
    else:
        K = n_classes
        each = math.sqrt(2) * (additions + K) + (d + 4 + math.sqrt(K)) * margin / 2
    return UNIT * n * row_norm * each


def penalty_rounding(ridge: float, offset_norm: float, linear_norm: float) -> float:
    """Bound the floating-point error of ``ridge * (w - centre) + linear``."""
    return 4 * UNIT * (ridge * offset_norm + linear_norm)


def smallest_tolerance(
    # ``n``, ``d``: rows and columns.
    n: int,
    d: int,
    *,
    # ``L``.
    ridge: float,
    # ``row_norm``, ``linear_norm``, ``centre_norm``: bounds on the norms of a row, of ``linear``
    # and of ``centre``.
    row_norm: float = 1.0,
    linear_norm: float = 0.0,
    centre_norm: float = 0.0,
    # ``K`` of the softmax objective; by default the binary one.
    n_classes: int | None = None,
) -> float:
    r"""Return the smallest tolerance that every data set of this shape can be certified at.

    Nothing here depends on the records. The minimiser lies near its centre :math:`u`: comparing
    the objective there and at :math:`u` gives
    :math:`L \|w - u\| \le \|b\| + \sqrt{\|b\|^2 + 2 L n (\log K + 2 q \|u\|)}`,
    and a zero gradient gives :math:`L \|w - u\| \le s n q + \|b\|` with :math:`s` the largest
    residual.
    """
    at_centre = n * (math.log(n_classes or 2) + 2 * row_norm * centre_norm)
    pull = n * row_norm * (1.0 if n_classes is None else math.sqrt(2))
    reach = min(linear_norm + math.sqrt(linear_norm**2 + 2 * ridge * at_centre), linear_norm + pull)
    weight_norm = centre_norm + reach / ridge
    rounding = rounding_bound(n, d, row_norm=row_norm, weight_norm=weight_norm, n_classes=n_classes)
    rounding += penalty_rounding(ridge, reach / ridge, linear_norm)
    # Weights are themselves rounded, which the penalty's gradient magnifies by L.
    return HEADROOM * (rounding + UNIT * ridge * weight_norm)


def check_tolerance(tolerance: float, smallest: float) -> float:
    """Refuse, before any record is read, a tolerance that rounding could hide."""
    if not tolerance >= smallest:
        digits = 10.0 ** (math.floor(math.log10(smallest)) - 1)
        raise InvalidParameter(
            "tolerance is below what double precision can certify for this number of rows, ridge "
            f"and linear term: use at least {math.ceil(smallest / digits) * digits:.1e}."
        )
    return float(tolerance)
