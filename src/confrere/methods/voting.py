"""A model from what many parties vote, or from their weights: the coordinator's part.

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, check_epsilon, check_positive
from confrere.kernel.streams import RandomSource
from confrere.maths.public_cells import Cells
from confrere.maths.voting import Tally, auxiliary_radius
from confrere.mechanisms import party_cells, party_votes
from confrere.mechanisms.party_average import PartyAverage
from confrere.mechanisms.party_cells import PartyCells
from confrere.mechanisms.party_statistic import PartyStatistic, Radius
from confrere.mechanisms.party_total import party_guarantee
from confrere.mechanisms.party_votes import PartyVotes
from confrere.mechanisms.secure_sum import (
    Colluding,
    SecureSum,
    SharedNoise,
    check_tries,
    colluders_of,
    fewest_of,
)
from confrere.methods.cells import CellRows, cells_for
from confrere.methods.design import Alpha
from confrere.methods.linear import coefficients
from confrere.methods.statistic_model import model_of_statistic
from confrere.rows.frame import Frame

Trust = Literal["coordinator", "sum"]
Method = Literal["statistic", "cells", "soft", "vote", "weights"]
Mean = PartyAverage | PartyCells

#: Weights of about this length are expected where a ridge is chosen before anything is seen.
_EXPECTED_NORM = 5.0

#: Ridge of the parties' own problems: their length is bounded, and directions hardly suffer.
_AVERAGE_ALPHA = 1e-2


@dataclass(frozen=True, eq=False)
class Released:
    """What the coordinator may publish.

    Parameters
    ----------
    weights : (d,) or (K, d) array
        In the frame's coordinates.
    alpha : float
        The ridge behind them.
    statistic : array, optional
        The noised statistic they are made from; other models of it cost nothing more.
    """

    weights: Floats
    alpha: float
    statistic: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Voting:
    """How a model is made of what parties send, and what it costs them.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon : float
        The price, for each whole party.
    method : {"statistic", "cells", "soft", "vote", "weights"}, default="statistic"
        Noise on the votes' statistic; on the shares of classes in public cells; on the model of
        the votes' fractions, or of their majority; on the mean of the parties' weights.
    auxiliary : (N, n_features) array, optional
        Unlabelled rows, as encoded, to vote on or (``"cells"``) to learn with; not used by
        ``"weights"``.
    n_classes : int, default=2
        Number of classes.
    alpha : float or "auto", default="auto"
        Ridge of the released model; of the parties' own ones for ``"weights"``.
    local_alpha : float, default=1e-4
        Ridge of the classifiers that vote.
    radius : {"ellipsoid", "spectral", "unit"}, default="ellipsoid"
        What noise owes to the public rows: see :class:`PartyStatistic`. ``"soft"`` and ``"vote"``
        take the spectral radius for an ellipsoid.
    auxiliary_private : bool, default=False
        Whether one auxiliary row may change together with a party.
    normalise : bool, default=False
        Average directions.
    trust : {"coordinator", "sum"}, default="coordinator"
        Who sees what parties send, and adds the noise: a coordinator whom they trust, or nobody.
        ``"soft"`` and ``"vote"`` noise a model, which no sum can do: they need the coordinator.
    colluding : int or "auto", default="auto"
        For ``trust="sum"``: how many parties may pool what they know; by default a minority.
    reserve : int, default=0
        For ``trust="sum"``: how often a sum that came to nothing may be tried again at the price.
    quorum : float, default=1.0
        For ``trust="sum"``: share of the parties that a sum needs.
    partition : Cells, optional
        For ``"cells"``, as a party is told them; by default they are found in the auxiliary rows.
    delta : float, default=0.0
        With one the noise is Gaussian; not for ``"cells"``, whose noise is Laplace's.
    """

    frame: Frame
    epsilon: float
    method: Method = "statistic"
    auxiliary: Floats | None = None
    n_classes: int = 2
    alpha: Alpha = "auto"
    local_alpha: float = 1e-4
    radius: Radius = "ellipsoid"
    auxiliary_private: bool = False
    normalise: bool = False
    trust: Trust = "coordinator"
    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    partition: Cells | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta and self.method == "cells":
            raise InvalidParameter(party_cells.NO_DELTA)
        check_tries(self.reserve, self.quorum)
        check_positive(self.local_alpha, "local_alpha")
        if self.alpha != "auto":
            check_positive(self.alpha, "alpha")
        known = {
            "method": get_args(Method),
            "radius": ("ellipsoid", "spectral", "unit"),
            "trust": ("coordinator", "sum"),
        }
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                raise InvalidParameter(f"{name} must be one of {', '.join(map(repr, choices))}.")
        if self.frame.norm != "l2":
            raise InvalidParameter("votes are bounded in L2: use a frame with norm='l2'.")
        if self.trust == "sum" and self.method in ("soft", "vote"):
            raise InvalidParameter(
                f"trust='sum': method={self.method!r} noises a model of all votes, which somebody "
                "has to see: use trust='coordinator', or method='statistic'."
            )
        if self.trust == "sum" and self.colluding != "auto" and self.colluding < 1:
            raise InvalidParameter(
                "colluding must be at least 1: every party knows its own share of the noise."
            )
        if self.normalise and self.method != "weights":
            raise InvalidParameter("normalise=True is for method='weights'.")
        ours = self.method in ("statistic", "cells")
        if self.auxiliary_private and (ours or self.method == "weights"):
            raise InvalidParameter(
                f"auxiliary_private=True: method={self.method!r} "
                + (
                    "publishes what it learns of public rows; use 'soft' or 'vote'."
                    if ours
                    else "uses no auxiliary rows."
                )
            )

    @property
    def votes(self) -> bool:
        """Whether parties send votes, and not weights or shares."""
        return self.method not in ("weights", "cells")

    @property
    def uses_auxiliary(self) -> bool:
        """Whether auxiliary rows are needed, by parties or by the coordinator."""
        return self.method != "weights"

    @cached_property
    def rows(self) -> Floats:
        """The auxiliary rows in the frame's coordinates."""
        if self.auxiliary is None or len(self.auxiliary) == 0:
            raise InvalidParameter(
                f"auxiliary must hold unlabelled rows: method={self.method!r} learns from them."
            )
        return self.frame.rows(self.auxiliary).written()

    def guarantee(self, n_parties: int | None = None) -> Guarantee:
        """Return what one run promises every party, whatever their number."""
        theorem = {
            "statistic": PartyStatistic.theorem,
            "cells": PartyCells.theorem,
            "weights": PartyAverage.theorem,
        }.get(self.method, party_votes.THEOREM)
        known = "number of auxiliary rows" if self.auxiliary_private else "auxiliary rows"
        return party_guarantee(
            self.epsilon,
            theorem,
            auxiliary=known if self.uses_auxiliary else None,
            jointly=self.auxiliary_private,
            colluding=self._sharing(n_parties),
            n_parties=n_parties,
            delta=self.delta,
        )

    def _sharing(self, n_parties: int | None) -> int:
        if self.trust != "sum":
            return 0
        # Of a number that nobody has said, one may collude at the least.
        return colluders_of(self.colluding, n_parties or 2, self.quorum if n_parties else 1.0)

    def _summing(self, n_parties: int) -> dict[str, Any]:
        """Return who makes the noise, of so many parties."""
        if self.trust != "sum":
            return {"n_parties": n_parties}
        return {
            "n_parties": n_parties,
            "colluding": self._sharing(n_parties),
            "fewest": fewest_of(n_parties, self.quorum),
            "releases": 1 + self.reserve,
        }

    def check(self, n_parties: int) -> None:
        """Refuse, before anything is paid, what the mechanism would refuse."""
        if self.method == "statistic":
            self.statistic(n_parties)
        elif self.votes:
            self.output(n_parties)
        else:
            self.mean(n_parties)
        if self.trust == "sum":
            self.shared(n_parties)
        if self.uses_auxiliary:
            _ = self.rows  # says so if there are none

    def shared(self, n_parties: int) -> SecureSum:
        """Return the sum of what so many parties send, where their shares make the noise."""
        noise = self.summand(n_parties).noise
        if not isinstance(noise, SharedNoise):
            raise InvalidParameter("trust: a coordinator adds the noise; nobody has a share.")
        return noise.summed

    def summand(self, n_parties: int) -> PartyStatistic | Mean:
        """Return the mechanism that says what each of so many parties adds, and what it makes."""
        return self.statistic(n_parties) if self.votes else self.mean(n_parties)

    def mean(self, n_parties: int) -> Mean:
        """Return the mechanism that clips, and averages, what so many parties upload."""
        return self.shares(n_parties) if self.method == "cells" else self.average(n_parties)

    @cached_property
    def _public(self) -> CellRows:
        return CellRows(self.rows, self.frame.constant)

    @cached_property
    def _partitions(self) -> dict[int, Cells]:
        return {}

    def cells(self, n_parties: int) -> Cells:
        """Return the public partition for so many parties, in the frame's coordinates."""
        if self.partition is not None:
            return self.partition
        count = cells_for(self.epsilon, n_parties, len(self.rows), self.n_classes)
        if count not in self._partitions:
            self._partitions[count] = self._public.partition(count)
        return self._partitions[count]

    def shares(self, n_parties: int) -> PartyCells:
        """Return the mechanism that noises how so many parties' rows are shared over cells."""
        return PartyCells(
            epsilon=self.epsilon,
            n_cells=len(self.cells(n_parties)),
            n_classes=self.n_classes,
            **self._summing(n_parties),
        )

    def average(self, n_parties: int) -> PartyAverage:
        """Return the mechanism that averages so many parties' weights."""
        return PartyAverage(
            epsilon=self.epsilon,
            delta=self.delta,
            n_features=self.frame.size,
            alpha=_AVERAGE_ALPHA if self.alpha == "auto" else float(self.alpha),
            n_classes=self.n_classes,
            normalise=self.normalise,
            **self._summing(n_parties),
        )

    def statistic(self, n_parties: int) -> PartyStatistic:
        """Return the mechanism that noises the statistic of so many parties' votes."""
        return PartyStatistic(
            epsilon=self.epsilon,
            delta=self.delta,
            rows=self.rows,
            n_classes=self.n_classes,
            radius=self.radius,
            **self._summing(n_parties),
        )

    def output(self, n_parties: int) -> PartyVotes:
        """Return the mechanism that noises the model of so many parties' votes."""
        own = self.auxiliary_private or self.radius == "unit"
        soft = self.method == "soft"
        return PartyVotes(
            epsilon=self.epsilon,
            delta=self.delta,
            n_parties=n_parties,
            n_auxiliary=len(self.rows),
            n_features=self.frame.size,
            alpha=self.output_alpha(n_parties),
            labels="soft" if soft else "vote",
            n_classes=self.n_classes,
            radius=1.0 if own else auxiliary_radius(self.rows),
            auxiliary_private=self.auxiliary_private,
        )

    def release_mean(self, total: Floats, n_parties: int, *, source: RandomSource) -> Released:
        """Return the model from the sum of the clipped weights or shares; draws noise."""
        mechanism = self.mean(n_parties)
        return self._of_mean(mechanism, mechanism.run(total, source=source))

    def release_sum(self, noised: Floats, n_parties: int) -> Released:
        """Return the model from the noised sum of what parties added: post-processing."""
        mechanism = self.summand(n_parties)
        made = mechanism.of_parts(noised)
        if isinstance(mechanism, PartyStatistic):
            return self._of_votes(mechanism, made)
        return self._of_mean(mechanism, made)

    def _of_mean(self, mechanism: Mean, mean: Floats) -> Released:
        if isinstance(mechanism, PartyAverage):
            return Released(mean, mechanism.alpha)
        weights, ridge = self._public.model(
            self.cells(mechanism.n_parties),
            mean,
            deviation=mechanism.deviation,
            n_parties=mechanism.n_parties,
            alpha=None if self.alpha == "auto" else float(self.alpha),
        )
        return Released(weights, ridge, mean)

    def release_votes(self, tally: Tally, *, source: RandomSource) -> Released:
        """Return the model from the sum of the votes; draws noise."""
        if self.method == "statistic":
            mechanism = self.statistic(tally.n_parties)
            return self._of_votes(mechanism, mechanism.run(tally, source=source))
        output = self.output(tally.n_parties)
        return Released(output.run(tally, self.rows, source=source), output.alpha)

    def _of_votes(self, mechanism: PartyStatistic, statistic: Floats) -> Released:
        weights, alpha = model_of_statistic(
            self.rows, statistic, *mechanism.shape, mechanism.deviation, alpha=self.alpha
        )
        return Released(weights, alpha, statistic)

    def output_alpha(self, n_parties: int) -> float:
        """Return the ridge: noise of variance ~ 1/(M ridge eps)^2 against weights that shrink."""
        if self.alpha != "auto":
            return float(self.alpha)
        if self.method != "soft":
            n_parties = 1  # a majority is not quieter for being one of many
        # The least of (1/8d)E||noise||^2 + (ridge/2)||w||^2, with the identity's sensitivity.
        reach = n_parties * self.epsilon * _EXPECTED_NORM
        return float((self.frame.size / (2 * reach**2)) ** (1 / 3))

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return ``(K, n_features)`` coefficients and ``(K,)`` intercepts for rows as encoded."""
        return coefficients(self.frame, weights)
