"""The sum of the parties' votes: all that is ever known of them outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.maths.voting import majority_labels


@dataclass(frozen=True, eq=False)
class Tally:
    """How many parties voted for what on every auxiliary row.

    The number of parties is public and fixed. One that was left out counts as split evenly over
    the classes, so leaving it out moves a row by less than changing its vote would.

    Parameters
    ----------
    votes : int64 array of shape (n_rows,) or (n_rows, n_classes)
        Votes for the second of two classes, or for each.
    counted : int
        Parties that voted: one vote on every row each. Not public.
    n_parties : int
        All parties.
    """

    votes: NDArray[np.int64]
    counted: int
    n_parties: int

    def __post_init__(self) -> None:
        votes = self.votes
        if not 0 <= self.counted <= self.n_parties or self.n_parties < 1:
            raise InvalidData("a tally counts some of its parties, of which there is at least one.")
        if votes.ndim not in (1, 2) or not np.issubdtype(votes.dtype, np.integer):
            raise InvalidData("votes must be whole numbers, per row or per row and class.")
        if votes.size and (votes.min() < 0 or votes.max() > self.counted):
            raise InvalidData("a party votes once on every row.")
        if votes.ndim == 2 and not np.all(votes.sum(axis=1) == self.counted):
            raise InvalidData("a party votes once on every row.")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 2 if self.votes.ndim == 1 else int(self.votes.shape[1])

    @property
    def fractions(self) -> NDArray[np.float64]:
        """Share of all parties behind the second class, or behind each."""
        absent = (self.n_parties - self.counted) / self.n_classes
        return np.asarray((self.votes + absent) / self.n_parties)

    @property
    def majority(self) -> NDArray[np.float64]:
        """1 for the winner of a row and 0 for the others, in the shape of :attr:`fractions`.

        Of two classes the second wins a tie, of more the first of the tied.
        """
        winners = majority_labels(self.votes, self.counted)
        if self.votes.ndim == 1:
            return np.asarray((winners > 0).astype(np.float64))
        return np.eye(self.n_classes)[winners]
