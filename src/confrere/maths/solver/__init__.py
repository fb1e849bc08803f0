r"""Minimise a regularised logistic objective, and certify how well.

The objective is a sum, with a linear term that a mechanism may draw at random:

.. math:: J(w) = \sum_i \ell(y_i\, w \cdot x_i) + \tfrac{L}{2}\|w - u\|^2 + b \cdot w .

Every function here returns only points whose gradient is *proved* to be at most ``tolerance``:
the computed norm plus a bound on its rounding error. They never give up after a number of
iterations, since a failure that depends on the data would itself be a release. What cannot be
certified is refused before a record is read, on public grounds: see :func:`smallest_tolerance`.
How many passes a run took depends on the data; it is not returned.
"""

from confrere.maths.solver.certificate import UNSOLVED, rounding_bound, smallest_tolerance
from confrere.maths.solver.descent import minimise, minimise_many, minimise_softmax

__all__ = [
    "UNSOLVED",
    "minimise",
    "minimise_many",
    "minimise_softmax",
    "rounding_bound",
    "smallest_tolerance",
]
