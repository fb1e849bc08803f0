"""Many small parties and public rows: what noise does to votes and cells, and which to take.

For votes the excess risk is bounded by Theorem 4 of Hamm, Cao and Belkin (2016), with the
sensitivity of the mechanism that runs and the exact quantile of its noise. For cells noise is
compared with the shares that it is added to. Which method to take follows from public rows alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from confrere.data.frame import Frame
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_epsilon, check_positive
from confrere.mechanisms.measurements import Point
from confrere.methods.public_cells import HalfWhite
from confrere.methods.votes import (
    PartyBudget,
    PartyTotal,
    Voting,
    cells_for,
    noised_cells,
    noised_votes,
)
from confrere.planning.forecast import fewest

#: Two classes take cells where so many times as much of the public rows' spread is between cells as
#: in a cloud without clusters.
CLUSTERED = 1.25

#: More parties than there are people.
_MOST_PARTIES = 10**11


@dataclass(frozen=True, kw_only=True)
class VotesForecast:
    """What to expect of many parties. Nothing in it comes from data."""

    #: ``parties``, ``auxiliary``, ``d``, ``n_classes``: public sizes.
    parties: int
    auxiliary: int
    d: int
    n_classes: int
    epsilon: float  #: What every party spends
    method: Literal["soft", "vote"]  #: Where votes go
    alpha: float  #: Ridge of the model
    #: Length of the weights that the model is compared with, for rows in the unit ball.
    reference_norm: float

    @property
    def _budget(self) -> PartyBudget:
        return PartyBudget(epsilon=self.epsilon, n_parties=self.parties, n_classes=self.n_classes)

    @property
    def _mechanism(self) -> PartyTotal:
        return noised_votes(
            self._budget,
            n_auxiliary=self.auxiliary,
            n_features=self.d + 1,
            alpha=self.alpha,
            labels=self.method,
        )

    @property
    def sensitivity(self) -> float:
        """How far one party moves the weights."""
        return self._mechanism.sensitivity

    def noise(self, probability: float) -> float:
        """Return the length that the noise on the weights stays below with this probability."""
        noise = self._mechanism.noise
        assert isinstance(noise, Point)
        (law,) = noise.laws
        return float(stats.gamma.ppf(probability, law.size, scale=1 / law.rate))

    def privacy_term(self, delta: float = 0.01) -> float:
        """Return what noise adds to the risk at most, but for probability ``delta``.

        ``(c + alpha) Q^2``: c bounds the curvature of the loss, Q is the quantile of the noise.
        """
        curvature = 0.25 if self.n_classes == 2 else 0.5
        return (curvature + self.alpha) * self.noise(1 - delta) ** 2

    def sampling_term(self, delta: float = 0.01) -> float:
        """Return what a sample of rows adds at most: ``16 (32 + log 1/delta)/(alpha N)``."""
        return 16 * (32 + math.log(1 / delta)) / (self.alpha * self.auxiliary)

    @property
    def shrinking_term(self) -> float:
        """What the ridge adds at most: ``alpha/2`` times the squared reference norm."""
        return self.alpha / 2 * self.reference_norm**2

    def excess(self, delta: float = 0.02) -> float:
        """Return the bound of Theorem 4 on the risk above that of the reference weights."""
        return self.privacy_term(delta / 2) + self.sampling_term(delta / 2) + self.shrinking_term

    def parties_for(self, excess: float, delta: float = 0.01) -> int:
        """Return the fewest parties at which noise adds at most so much to the risk.

        Votes of a majority do not become quieter with their number: then there may be none.
        """
        check_positive(excess, "excess")
        return fewest(
            lambda count: replace(self, parties=count).privacy_term(delta) <= excess,
            self.parties,
            _MOST_PARTIES,
            "parties brings the noise",
        )

    @property
    def cells(self) -> int:
        """How many cells the method ``"cells"`` would make."""
        return cells_for(self.epsilon, self.parties, self.auxiliary, self.n_classes)

    @property
    def cell_noise(self) -> float:
        """Standard deviation of the noise on a share of a cell and class, over its mean size."""
        deviation = noised_cells(self._budget, n_cells=self.cells).deviation
        return deviation * self.cells * self.n_classes

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.parties} parties, {self.auxiliary} public rows, {self.d} features, "
                f"{self.n_classes} classes, epsilon {self.epsilon:g} for each whole party",
                f"{self.method}: a party moves the weights by {self.sensitivity:.3g} at most; "
                f"noise below {self.noise(0.99):.3g} in 99% of runs (ridge {self.alpha:.3g})",
                f"noise adds {self.privacy_term():.3g} at most to the risk, a sample of public "
                f"rows {self.sampling_term():.3g}, the ridge {self.shrinking_term:.3g}: bounds for "
                "any data, far above what is usual",
                f"cells: {self.cells} of them; noise on a share is {self.cell_noise:.2g} of its "
                "mean size",
            ]
        )


def plan_votes(
    *,
    # ``parties``, ``auxiliary``, ``d``: parties, public rows without labels, and features.
    parties: int,
    auxiliary: int,
    d: int,
    epsilon: float = 1.0,  # What every party spends, for all its data
    n_classes: int = 2,  # Number of classes
    method: Literal["soft", "vote"] = "soft",  # Fractions of the votes, or their majority
    # Ridge of the model, as for :class:`confrere.MultipartyClassifier`.
    alpha: float | Literal["auto"] = "auto",
    reference_norm: float = 5.0,  # Length of the weights that the model is compared with
) -> VotesForecast:
    """Plan learning from many small parties and public rows; touches no data."""
    check_epsilon(epsilon)
    check_positive(reference_norm, "reference_norm")
    if min(parties, auxiliary, d) < 1:
        raise InvalidParameter("parties, auxiliary and d must be at least 1.")
    if n_classes < 2:
        raise InvalidParameter("n_classes must be at least 2.")
    if method not in ("soft", "vote"):
        raise InvalidParameter("method must be 'soft' or 'vote'.")
    voting = Voting(
        frame=Frame(d), epsilon=epsilon, method=method, n_classes=n_classes, alpha=alpha
    )
    return VotesForecast(
        parties=parties,
        auxiliary=auxiliary,
        d=d,
        n_classes=n_classes,
        epsilon=float(epsilon),
        method=method,
        alpha=voting.output_alpha(parties),
        reference_norm=float(reference_norm),
    )


@dataclass(frozen=True, kw_only=True)
class VotesChoice:
    """Which method many parties take, by public rows and sizes."""

    method: Literal["cells", "statistic"]
    n_cells: int  #: How many cells there would be
    explained: float  #: Share of the public rows' spread that lies between them
    #: How many times as much that is as in a cloud of normal rows of the same sizes.
    clustered: float

    def __str__(self) -> str:
        return (
            f"choose method = {self.method!r}: {self.n_cells} cells have {self.explained:.0%} of "
            f"the public rows' spread between them, {self.clustered:.2f} times as much as in one "
            "cloud"
        )


def choose_votes(
    auxiliary: ArrayLike, *, n_parties: int, n_classes: int = 2, epsilon: float = 1.0
) -> VotesChoice:
    """Choose between cells and votes for many parties, from public rows alone.

    Cells for three classes and more, whose noise they do not feel; and for two where rows are
    clustered: 1.25 times as much of their spread is between the cells that there would be as in a
    cloud of normal rows. In one cloud a class that follows a slope is hidden within cells, and
    votes see it.
    """
    check_epsilon(epsilon)
    rows = np.asarray(auxiliary, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise InvalidData("auxiliary must hold rows of finite numbers, at least one.")
    if n_parties < 1 or n_classes < 2:
        raise InvalidParameter("n_parties must be at least 1 and n_classes at least 2.")
    frame = Frame(rows.shape[1], data_norm=max(1e-12, float(np.linalg.norm(rows, axis=1).max())))
    inside = np.ascontiguousarray(np.asarray(frame.rows(rows))[:, :-1])
    public = HalfWhite(inside, frame.constant)
    cells = public.cells(cells_for(epsilon, n_parties, len(rows), n_classes))
    explained = public.explained(cells)
    normal = np.random.default_rng(0).normal(size=(len(rows), public.turn.shape[1]))
    cloud = HalfWhite(normal, frame.constant)
    clustered = explained / cloud.explained(cloud.cells(len(cells)))
    better = n_classes > 2 or clustered >= CLUSTERED
    return VotesChoice(
        method="cells" if better else "statistic",
        n_cells=len(cells),
        explained=explained,
        clustered=clustered,
    )
