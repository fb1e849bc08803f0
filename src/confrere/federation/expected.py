"""What an answer must be before anyone uses it, keeps it or shows it to others.

Bounds come from public facts alone: the request and the party's declared size. They are so wide
that an honest answer leaves them with probability 1e-18, and so narrow that a party which lies
moves the result by a stated amount at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt

#: Probability with which honest noise may be longer than a bound reckons with.
FARTHEST = 1e-18

#: More records than any organisation has.
MOST_RECORDS = 10**10

#: A large number of records, in rehearsals.
_MANY = 10**6

_RECEIPT = "receipt"


@dataclass(frozen=True)
class Numbers:
    """One array of an answer.

    Parameters
    ----------
    shape : tuple of int
    dtype : str, default="<f8"
    longest : float, default=inf
        The largest Euclidean norm.
    lowest, highest : float
        Of every entry.
    """

    shape: tuple[int, ...]
    dtype: str = "<f8"
    longest: float = math.inf
    lowest: float = -math.inf
    highest: float = math.inf

    def fault(self, array: NDArray[Any] | None) -> str | None:
        """Return the word for what is wrong with an array, if anything is."""
        if array is None or array.shape != self.shape or array.dtype.str != self.dtype:
            return "shape"
        if not np.all(np.isfinite(array)):
            return "finite"
        if not np.all((array >= self.lowest) & (array <= self.highest)):
            return "range"
        # Scaled first: squares of numbers beyond 1e154 would overflow.
        largest = float(np.abs(array).max(initial=0.0))
        if largest > 0 and largest * float(np.linalg.norm(array / largest)) > self.longest:
            return "norm"
        return None

    def made_up(self, rng: np.random.Generator, size: float) -> NDArray[Any]:
        """Return numbers that fit, for rehearsals: of a small size (0) to a large one (1)."""
        draws = rng.uniform(0.5, 1.0, size=self.shape)
        if self.dtype == "<f8":
            return np.asarray(draws * min(1.0, self.longest / (1 + math.prod(self.shape))))
        if self.dtype == "|b1":
            return np.asarray(draws > 0.75)
        low, high = max(self.lowest, 1), min(self.highest, _MANY)
        return np.asarray(np.rint(low + draws * size * (high - low)), dtype=self.dtype)


@dataclass(frozen=True)
class Expected:
    """An answer of one party, as far as it is known before it comes.

    Parameters
    ----------
    arrays : mapping of str to Numbers
        Exactly these.
    price : Guarantee or None
        What the party pays for it; None if only public facts leave.
    receipted : bool, default=False
        Whether what is paid for must come with a receipt; within a process nobody doubts it.
    """

    arrays: Mapping[str, Numbers]
    price: Guarantee | None = None
    receipted: bool = False

    def fault(self, answer: Payload) -> str | None:
        """Return the word for what is wrong with an answer, if anything is."""
        if answer.arrays.keys() != self.arrays.keys():
            return "shape"
        for name, numbers in self.arrays.items():
            fault = numbers.fault(answer.arrays[name])
            if fault is not None:
                return fault
        try:
            receipt = receipt_of(answer)
        except InvalidMessage:
            return _RECEIPT
        if receipt is None:
            return _RECEIPT if self.receipted and self.price is not None else None
        if self.price is None or terms(receipt.guarantee) != terms(self.price):
            return "price"
        return None

    def made_up(self, rng: np.random.Generator, size: float) -> Payload:
        """Return an answer that fits, for rehearsals; it is nobody's."""
        return Payload(arrays={name: n.made_up(rng, size) for name, n in self.arrays.items()})


#: From a party's name to what its answer must be.
Expect = Callable[[str], Expected]


def receipt_of(answer: Payload) -> Receipt | None:
    """Return the receipt that came with an answer."""
    values = answer.values.get(_RECEIPT)
    if values is None:
        return None
    try:
        if not isinstance(values, Mapping):
            raise InvalidMessage("a receipt is a table of facts.")
        return Receipt.from_dict(values)
    except InvalidMessage:
        raise
    except Exception:  # whatever a stranger put there: it is not a receipt
        raise InvalidMessage("an answer's receipt is not one.") from None


def terms(guarantee: Guarantee) -> tuple[float, float, str, str]:
    """Return what a price is compared by."""
    return (guarantee.epsilon, guarantee.delta, str(guarantee.unit), str(guarantee.neighbours))
