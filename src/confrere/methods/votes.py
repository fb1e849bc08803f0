"""A model of what many parties send: votes on auxiliary rows, clipped weights, shares of cells.

It is added up in blocks. Blocks are made of public numbers only (parties, auxiliary rows, classes),
and a faulty party keeps its place in them: no party's data decide in which company another's floats
are computed. A fault is found within a party's own data, so it never changes what another sends;
which parties are faulty is logged or raised here, inside, and not released.

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from confrere.arrays import Floats
from confrere.data.cells import encode_labels
from confrere.data.frame import Frame
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import theorem_of_point
from confrere.kernel.guarantee import Guarantee, check_epsilon, check_positive
from confrere.kernel.losses import loss_of
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.noised import party_guarantee
from confrere.mechanisms.secure_sum import (
    Colluding,
    SecureSum,
    SharedNoise,
    check_tries,
    colluders_of,
    fewest_of,
)
from confrere.methods.allowance import Alpha
from confrere.methods.asking import MANY, Ask, Asked, Protocol, Told, add_up, drive
from confrere.methods.plan import Names, Plan, Term, coefficients, linear_model
from confrere.methods.public_cells import RIDGES, Cells, HalfWhite, fit_shares, learn_again
from confrere.methods.voting import (
    BALLOT,
    PartyAverage,
    PartyCells,
    PartyStatistic,
    PartyVotes,
    Radius,
    Tally,
    accumulate_votes,
    auxiliary_radius,
    count_votes,
    shares_of_parties,
)
from confrere.model import Facts, Linear
from confrere.solver.parties import solve_parties
from confrere.views import progress_bar

Trust = Literal["coordinator", "sum"]
Method = Literal["statistic", "cells", "soft", "vote", "weights"]
Total = PartyStatistic | PartyCells | PartyVotes | PartyAverage

#: What noises what parties send, by the method.
_TOTALS: dict[str, type[Total]] = {
    "statistic": PartyStatistic,
    "cells": PartyCells,
    "soft": PartyVotes,
    "vote": PartyVotes,
    "weights": PartyAverage,
}
Flags = NDArray[np.bool_]
Sent = NDArray[Any]  #: Weights, shares of cells, or votes

#: Weights of about this length are expected where a ridge is chosen before anything is seen.
_EXPECTED_NORM = 5.0

#: Ridge of the parties' own problems: their length is bounded, and directions hardly suffer.
_AVERAGE_ALPHA = 1e-2


@dataclass(frozen=True, eq=False)
class Released:
    """What the coordinator may publish."""

    weights: Floats  #: In the frame's coordinates, (d,) or (K, d)
    alpha: float  #: The ridge behind them
    #: The noised statistic they are made from; other models of it cost nothing more.
    statistic: Floats | None = None


@dataclass(frozen=True, eq=False)
class Polled(Asked):
    """What every party sends to be added up: to a sum, or to who is trusted to add the noise."""

    operation: ClassVar[str] = "ballot"

    voting: Voting
    n_parties: int


class Uploaded(Polled):
    """The same of weights."""

    operation: ClassVar[str] = "upload"


class Shared(Polled):
    """The same of shares of cells."""

    operation: ClassVar[str] = "shares"


class Added(Polled):
    """The same to a sum."""

    operation: ClassVar[str] = "party_share"


@dataclass(frozen=True, kw_only=True, eq=False)
class Voting:
    """How a model is made of what parties send, and what it costs them."""

    frame: Frame  #: The public coordinates, in L2
    epsilon: float  #: The price, for each whole party
    #: Noise on the votes' statistic; on the shares of classes in public cells; on the model of the
    #: votes' fractions, or of their majority; on the mean of the parties' weights.
    method: Method = "statistic"
    #: Unlabelled rows, as encoded, to vote on or ("cells") to learn with.
    auxiliary: Floats | None = None
    n_classes: int = 2
    alpha: Alpha = "auto"  #: Ridge of the released model; of the parties' own ones for "weights"
    local_alpha: float = 1e-4  #: Ridge of the classifiers that vote
    #: What noise owes to the public rows: see :class:`PartyStatistic`. "soft" and "vote" take the
    #: spectral radius for an ellipsoid.
    radius: Radius = "ellipsoid"
    auxiliary_private: bool = False  #: Whether an auxiliary row may change together with a party
    normalise: bool = False  #: Average directions
    #: Who sees what parties send, and adds the noise: a coordinator whom they trust, or nobody.
    #: "soft" and "vote" noise a model, which no sum can do: they need the coordinator.
    trust: Trust = "coordinator"
    #: Of a sum: how many parties may pool what they know, by default a minority; how often one that
    #: came to nothing may be tried again at the price; what share of the parties it needs.
    colluding: Colluding = "auto"
    reserve: int = 0
    quorum: float = 1.0
    #: For "cells", as a party is told them; by default they are found in the auxiliary rows.
    partition: Cells | None = None
    delta: float = 0.0  #: With one the noise is Gaussian; not for "cells", whose noise is Laplace's

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta and self.method == "cells":
            theorem_of_point("L1", "Gaussian")
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
        if self.auxiliary_private and _TOTALS[self.method] is not PartyVotes:
            raise InvalidParameter(
                f"auxiliary_private=True: method={self.method!r} has no private auxiliary rows; "
                "use 'soft' or 'vote'."
            )

    @property
    def votes(self) -> bool:
        """Whether parties send votes, and not weights or shares."""
        return self.method not in ("weights", "cells")

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
        known = "number of auxiliary rows" if self.auxiliary_private else "auxiliary rows"
        return party_guarantee(
            self.epsilon,
            _TOTALS[self.method].theorem,
            auxiliary=None if self.method == "weights" else known,
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

    def check(self, n_parties: int) -> None:
        """Refuse, before anything is paid, what the mechanism would refuse."""
        if self.trust == "sum":
            self.shared(n_parties)
        self.mechanism(n_parties)
        if self.method != "weights":
            _ = self.rows  # says so if there are none

    def shared(self, n_parties: int) -> SecureSum:
        """Return the sum of what so many parties send, where their shares make the noise."""
        noise = self.mechanism(n_parties).noise
        if not isinstance(noise, SharedNoise):
            raise InvalidParameter("trust: a coordinator adds the noise; nobody has a share.")
        return noise.summed

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

    def mechanism(self, n_parties: int) -> Total:
        """Return what noises the total of what so many parties send."""
        facts: dict[str, Any] = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_parties": n_parties,
            "n_classes": self.n_classes,
        }
        if self.trust == "sum":
            facts["colluding"] = self._sharing(n_parties)
            facts["fewest"] = fewest_of(n_parties, self.quorum)
            facts["releases"] = 1 + self.reserve
        if self.method == "cells":
            return PartyCells(n_cells=len(self.cells(n_parties)), **facts)
        if self.method == "statistic":
            return PartyStatistic(rows=self.rows, radius=self.radius, **facts)
        if self.method == "weights":
            alpha = _AVERAGE_ALPHA if self.alpha == "auto" else float(self.alpha)
            size, normalise = self.frame.size, self.normalise
            return PartyAverage(n_features=size, alpha=alpha, normalise=normalise, **facts)
        own = self.auxiliary_private or self.radius == "unit"
        return PartyVotes(
            n_auxiliary=len(self.rows),
            n_features=self.frame.size,
            alpha=self.output_alpha(n_parties),
            labels=self.method,
            radius=1.0 if own else auxiliary_radius(self.rows),
            auxiliary_private=self.auxiliary_private,
            **facts,
        )

    def steps(self, parties: Sequence[str]) -> Protocol[Released]:
        """Ask so many parties, and return what is made of the sum of what they send, noised."""
        count = len(parties)
        told = yield Ask(self.asked(count), dict.fromkeys(parties, 0))
        if "sum" not in told.arrays:
            return self.of_noised(told.arrays["noised"], count)
        mechanism = self.mechanism(count)
        assert not isinstance(mechanism, PartyVotes)  # which have a coordinator
        return self.of_noised(mechanism.of_parts(told.arrays["sum"]), count)

    def asked(self, n_parties: int) -> Polled:
        """Return what so many parties are asked for."""
        kinds: dict[str, type[Polled]] = {"weights": Uploaded, "cells": Shared}
        kind = Added if self.trust == "sum" else kinds.get(self.method, Polled)
        return kind(self, n_parties)

    def weights(
        self, X: Any, codes: NDArray[np.intp], offsets: NDArray[np.int64], n_parties: int
    ) -> tuple[Sent, Flags]:
        """Return weights, or shares of cells, of parties whose rows begin there; and who has any.

        Rows of parties that are solved together are one after the other.
        """
        rows, alpha = self.frame.rows(X).written(), self.local_alpha
        if self.method == "cells":
            cells = self.cells(n_parties)
            shape = (len(cells), self.n_classes)
            shares = shares_of_parties(cells.of(rows), codes, offsets, shape)
            return shares, np.ones(len(shares), dtype=bool)
        if isinstance(made := None if self.votes else self.mechanism(n_parties), PartyAverage):
            alpha = made.alpha
        labels = np.where(codes == 1, 1, -1) if self.n_classes == 2 else codes
        found = solve_parties(rows, labels, offsets, loss_of(self.n_classes), alpha=alpha)
        return found.W, found.solved

    def sent(self, own: Sent) -> Sent:
        """Return what a party with these weights or shares sends: those, or its votes."""
        if not self.votes:
            return own
        votes = count_votes(own[None], self.rows)
        return votes > 0 if votes.ndim == 1 else np.argmax(votes, axis=1).astype(np.int64)

    def part(self, sent: Sent, there: bool, n_parties: int) -> Floats:
        """Return what a party adds to a sum; one that has nothing to send adds zeros."""
        summed = self.mechanism(n_parties)
        assert not isinstance(summed, PartyVotes)  # which have a coordinator
        return summed.part(sent) if there else np.zeros(self.shared(n_parties).size)

    def inputs(self, sent: Tally | Floats) -> tuple[object, ...]:
        """Return what the mechanism takes: what parties sent, added up, and what it is about."""
        return (sent, self.rows) if _TOTALS[self.method] is PartyVotes else (sent,)

    def noised(self, sent: Tally | Floats, n_parties: int, *, source: RandomSource) -> Floats:
        """Return what parties sent, added up, with noise."""
        ((noised,),) = source.draw(self.mechanism(n_parties), self.inputs(sent))
        return np.asarray(noised)

    def of_noised(self, noised: Floats, n_parties: int) -> Released:
        """Return the model: post-processing."""
        mechanism, alpha = self.mechanism(n_parties), None if self.alpha == "auto" else self.alpha
        if isinstance(mechanism, PartyStatistic):
            return Released(*mechanism.model(noised, alpha), noised)
        if not isinstance(mechanism, PartyCells):
            return Released(noised, mechanism.alpha)
        cells, deviation = self.cells(n_parties), mechanism.deviation
        weights, ridge = self._public.model(
            cells, noised, deviation=deviation, n_parties=n_parties, alpha=alpha
        )
        return Released(weights, ridge, noised)

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


#: There are so many cells times a power of ``epsilon M``: noise and detail balance.
_CELLS, _POWER = 0.4, 0.65

#: Public rows that a cell has at least, on average; and no more cells than this.
_ROWS_OF_A_CELL, _MOST = 8, 1000


def cells_for(epsilon: float, n_parties: int, n_rows: int, n_classes: int) -> int:
    """Return how many cells there are, by public sizes alone.

    Noise on a share is the same whatever its cell's size, so its part in all grows with the number
    of cells; what lies within a cell is not seen, so detail grows with it, too.
    """
    wanted = max(math.ceil(_CELLS * math.pow(epsilon * n_parties, _POWER)), 2 * n_classes)
    return max(1, min(wanted, n_rows // _ROWS_OF_A_CELL, _MOST))


@dataclass(frozen=True, eq=False)
class CellRows:
    """Public rows in a frame's coordinates, of which a last one may be constant."""

    rows: Floats
    constant: float  #: The frame's; 0 if there is none

    @cached_property
    def view(self) -> HalfWhite:
        """The rows without the constant, half-white."""
        rows = self.rows[:, :-1] if self.constant else self.rows
        return HalfWhite(np.ascontiguousarray(rows), centred=self.constant > 0)

    def partition(self, count: int) -> Cells:
        """Return a partition of all rows in the frame's coordinates."""
        cells = self.view.cells(count)
        if not self.constant:
            return cells
        return Cells(np.pad(cells.directions, ((0, 0), (0, 1))), cells.offsets)

    def explained(self, cells: Cells) -> float:
        """Return the share of the rows' spread that lies between cells."""
        if self.constant:
            cells = Cells(cells.directions[:, :-1], cells.offsets)
        return self.view.explained(cells)

    def model(
        self,
        cells: Cells,
        shares: Floats,  # As released
        *,
        deviation: float,  # Of the noise on one share
        n_parties: int,  # How many parties stand behind them, with a row at least each
        alpha: float | None,  # The ridge; None to let the shares choose
    ) -> tuple[Floats, float]:
        """Return weights in the frame's coordinates, ``(d,)`` or ``(K, d)``, and their ridge."""
        places = cells.of(self.rows)
        n_classes = shares.shape[1]
        sizes = np.bincount(places, minlength=len(cells)) / len(self.rows)
        # A class's part of a cell is uncertain besides: private and public rows are samples.
        even = (1 - 1 / n_classes) / n_classes
        sampled = sizes * even * (1 / n_parties + 1 / len(self.rows))
        seen, intercept = self.view.coordinates(self.view.rows), self.constant > 0
        weights, ridge = fit_shares(
            seen,
            places,
            shares,
            deviation**2 + sampled + 1e-12,
            intercept=intercept,
            ridges=RIDGES if alpha is None else (alpha,),
            stretches=self.view.stretches,
        )
        if n_classes > 2:  # two are ranked by scores, which a sharper border makes coarser
            weights = learn_again(seen, weights, intercept=intercept)
        turned = weights[:, : self.view.turn.shape[1]] @ self.view.turn.T
        if self.constant:
            intercepts = weights[:, -1] - turned @ self.view.mean
            turned = np.hstack([turned, intercepts[:, None] / self.constant])
        return (turned[1] - turned[0] if n_classes == 2 else turned), ridge


OnFaulty = Literal["leave-out", "refuse"]

NOT_FINITE = "X has NaN, infinite or non-numeric values"
UNDECLARED = "y has labels outside classes"
COLUMNS = "X has another number of columns"
LENGTHS = "X and y must be tables of the same number of rows, at least one"

#: How many parties a message names.
_NAMED = 10

logger = logging.getLogger("confrere.methods")


@dataclass(frozen=True, eq=False)
class Parties:
    """The parties in a fixed order, with their rows."""

    names: NDArray[Any]  #: Sorted, or in the order given
    X: Any  #: All rows, an array or CSR; those of faulty parties may be missing
    codes: NDArray[np.intp]  #: Class of every row, -1 if undeclared
    classes: NDArray[Any]  #: The declared labels, sorted
    order: NDArray[np.intp]  #: Positions of the rows, party by party
    offsets: NDArray[np.int64]  #: Where each party's rows begin in ``order``
    faults: Mapping[int, str]  #: What is wrong with a party, by its position
    features: Sequence[str] = ()  #: Names of the columns
    #: The sum of their votes, if it was taken already: code of others may fail on anything, so it
    #: runs before anything is spent.
    total: Tally | Floats | None = None

    @property
    def column_names(self) -> Names:
        """What a model of these records calls labels and columns."""
        return Names(tuple(self.classes.tolist()), tuple(self.features))

    def __len__(self) -> int:
        return len(self.names)

    def sound(self, first: int, last: int) -> NDArray[np.intp]:
        """Return the positions of the parties from ``first`` to ``last`` that are not faulty."""
        return np.array([k for k in range(first, last) if k not in self.faults], dtype=np.intp)

    def rows_of(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return where the rows of some parties are in ``X``, and where each party's begin."""
        parts = [self.order[self.offsets[k] : self.offsets[k + 1]] for k in positions]
        sizes = [len(part) for part in parts]
        where = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        return where, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def take(self, where: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, dense."""
        return dense(self.X[where])


def dense(rows: Any) -> NDArray[np.float64]:
    """Return rows as an array of doubles."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def tables_of_parties(X: Any) -> bool:
    """Whether ``X`` is a sequence of tables, one per party."""
    return isinstance(X, list | tuple) and any(getattr(table, "ndim", 0) == 2 for table in X)


def group_rows(X: Any, y: NDArray[Any], party: ArrayLike | None, classes: NDArray[Any]) -> Parties:
    """Return the parties of stacked rows; without ``party`` every row is a party of its own."""
    n_rows = X.shape[0]
    ids = np.arange(n_rows) if party is None else np.asarray(party)
    if ids.shape != (n_rows,):
        raise InvalidData("party must name one party per row of X.")
    try:
        names, owners = np.unique(ids, return_inverse=True)
    except TypeError:
        raise InvalidData("party must hold names of one type.") from None
    codes = _codes(y, classes)
    faults = {int(k): UNDECLARED for k in owners[codes < 0]}
    faults |= {int(k): NOT_FINITE for k in owners[~_usable_rows(X)]}
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=len(names))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(names, X, codes, classes, order, offsets, faults)


def stack_tables(
    X: Sequence[Any],
    y: Sequence[Any],
    party: ArrayLike | None,
    classes: NDArray[Any],
    n_features: int | None,
) -> Parties:
    """Return the parties of separate tables; a table that does not fit is a fault."""
    names = np.arange(len(X)) if party is None else np.asarray(party)
    if len(y) != len(X) or names.shape != (len(X),) or len(np.unique(names)) != len(names):
        raise InvalidData("X, y and party must hold one table, labels and one name per party.")
    width = n_features or Counter((np.shape(table) or (0,))[-1] for table in X).most_common(1)[0][0]
    faults: dict[int, str] = {}
    kept_rows: list[Any] = []
    kept_codes: list[NDArray[np.intp]] = []
    sizes = np.zeros(len(X), dtype=np.int64)
    for k, (table, labels) in enumerate(zip(X, y, strict=True)):
        why, rows = _checked_table(table, labels, width)
        codes = _codes(np.asarray(labels), classes) if why is None else np.empty(0, dtype=np.intp)
        if why is None and np.any(codes < 0):
            why = UNDECLARED
        if why is not None:
            faults[k] = why
            continue
        kept_rows.append(rows)
        kept_codes.append(codes)
        sizes[k] = len(codes)
    if not kept_rows:
        raise InvalidData(f"no party has usable rows: {_named_faults(names, faults)}.")
    stacked = np.concatenate(kept_rows)
    return Parties(
        names,
        stacked,
        np.concatenate(kept_codes),
        classes,
        np.arange(len(stacked)),
        np.concatenate([[0], np.cumsum(sizes)]),
        faults,
    )


def apply_policy(parties: Parties, on_faulty: OnFaulty) -> None:
    """Refuse faulty parties, or log that they are left out."""
    if not parties.faults:
        return
    named = _named_faults(parties.names, parties.faults)
    if on_faulty == "refuse":
        raise InvalidData(f"{named}. Repair the data, or set on_faulty='leave-out'.")
    logger.warning("left out %d of %d parties: %s", len(parties.faults), len(parties), named)


def _named_faults(names: NDArray[Any], faults: Mapping[int, str]) -> str:
    named = [f"party {names[k]!s}: {why}" for k, why in sorted(faults.items())[:_NAMED]]
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return "; ".join(named) + more


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label among the classes, -1 if it is not there."""
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:
        return np.full(len(y), -1, dtype=np.intp)
    return np.where(classes[codes] == y, codes, -1)


def _usable_rows(X: Any) -> NDArray[np.bool_]:
    if not hasattr(X, "indptr"):
        return np.asarray(np.isfinite(X).all(axis=1))
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    bad = owners[~np.isfinite(X.data)]
    return np.asarray(np.bincount(bad, minlength=X.shape[0]) == 0)


def _checked_table(table: Any, labels: Any, width: int) -> tuple[str | None, NDArray[Any]]:
    """Return what is wrong with one party's table, if anything, and its rows."""
    try:
        rows = dense(table)
    except (TypeError, ValueError):
        return NOT_FINITE, np.empty((0, width))
    if rows.ndim != 2 or len(rows) == 0 or np.shape(labels) != (len(rows),):
        return LENGTHS, rows
    if rows.shape[1] != width:
        return COLUMNS, rows
    return (None if _usable_rows(rows).all() else NOT_FINITE), rows


Step = Callable[[int], None]

#: Rows of a party that blocks are sized for; larger parties take more memory than asked for.
_ROWS = 32

#: Products of a weight and a value from which on a bar is shown.
_LONG = 5e9

logger = logging.getLogger("confrere.methods")


@dataclass(frozen=True)
class MemoryBlocks:
    """How much is held at once."""

    memory: float  #: Megabytes for what is computed in blocks
    #: ``n_features``, ``n_classes``: public sizes.
    n_features: int
    n_classes: int

    @property
    def parties(self) -> int:
        """Parties that are solved together."""
        outputs = 1 if self.n_classes == 2 else self.n_classes
        each = 8 * self.n_features * (2 * _ROWS + 2 * outputs)
        return BALLOT * max(1, min(10, int(self.memory * 2**19 / each / BALLOT)))

    @property
    def rows(self) -> int:
        """Auxiliary rows that are voted on together."""
        each = 2200 if self.n_classes == 2 else 2000 * (self.n_classes + 2)
        return max(64, min(8192, int(self.memory * 2**19 / each)))


@dataclass(frozen=True, eq=False)
class MultipartyResult:
    """A released model, and the noised statistic that it was made from, if there is one."""

    model: Linear
    statistic: Floats | None


@dataclass(frozen=True, kw_only=True, eq=False)
class MultipartyPlan(Plan[MultipartyResult]):
    """So many parties, and a coordinator that is trusted with what they send and adds the noise.

    With ``trust="sum"`` the parties' shares make the noise, and nobody has to see what they send.
    """

    voting: Voting  #: What is made of what parties send
    n_parties: int  #: Their public number
    local: Any = None  #: What parties train; None is logistic regression, all parties at once
    on_faulty: OnFaulty = "leave-out"  #: Parties whose local classifier fails
    memory: float = 256.0  #: Megabytes for what is computed in blocks

    def guarantee(self) -> Guarantee:
        """Return the price, for each whole party."""
        return self.voting.guarantee(self.n_parties)

    def run(self, data: Parties, source: RandomSource) -> MultipartyResult:
        """Return the released model of rows as given, and what it was made from."""
        plan, count = self.voting, self.n_parties

        def answer(ask: Ask) -> Told:
            if plan.trust == "sum" and self.few and data.total is None:  # as between machines
                stream = source.stream(ask.asked.operation, ask.step)
                parts = zip(ask.to, self._parts(data), strict=True)
                return Told((), {"sum": add_up(plan.shared(count), parts, stream)})
            return Told((), {"noised": plan.noised(self.total(data), count, source=source)})

        released = drive(plan.steps([str(name) for name in data.names]), answer)
        return MultipartyResult(self.model(released, data.column_names), released.statistic)

    def model(self, released: Released, names: Names) -> Linear:
        """Return the model of what was made of the noised sum."""
        frame, auxiliary = self.voting.frame, self.voting.auxiliary
        facts = Facts(
            method=self.voting.method,
            parties=self.n_parties,
            alpha=float(released.alpha),
            n_auxiliary=None if auxiliary is None else len(auxiliary),
            **frame.learned_with(),
        )
        return linear_model(frame, released.weights, facts, names)

    def terms(self, data: Parties) -> list[Term]:
        """Return the mechanism that noises what parties sent."""
        if self.local is not None:
            raise InvalidParameter(
                "local: only built-in classifiers of parties are audited this way."
            )
        plan = self.voting
        return [Term(plan.method, plan.mechanism(self.n_parties), plan.inputs(self.total(data)))]

    @property
    def batched(self) -> bool:
        """Other classifiers of parties are trained anew for every run."""
        return self.local is None and self.voting.n_classes == 2

    @property
    def _blocks(self) -> MemoryBlocks:
        return MemoryBlocks(float(self.memory), self.voting.frame.size, self.voting.n_classes)

    @property
    def few(self) -> bool:
        """Whether every party is worked on by itself."""
        return self.n_parties < MANY

    @property
    def _clipping(self) -> PartyAverage | PartyCells | None:
        """What clips weights or shares; votes need none."""
        made = None if self.voting.votes else self.voting.mechanism(self.n_parties)
        return made if isinstance(made, PartyAverage | PartyCells) else None

    def _each(self, data: Parties) -> Iterator[tuple[Sent, Flags]]:
        """Yield blocks of parties' weights or shares, zeros for those left out, and who is not."""
        plan, count = self.voting, len(data)
        size = 1 if self.few else self._blocks.parties
        mean = self._clipping
        own = (plan.frame.size,) if plan.n_classes == 2 else (plan.n_classes, plan.frame.size)
        shape, kind = own if mean is None else mean.shape, "i8" if plan.method == "cells" else "f8"
        values = len(plan.rows) if plan.votes else _ROWS * plan.frame.size
        shown = float(count) * values * plan.frame.size >= _LONG
        with progress_bar("parties", count, shown=shown) as step:
            for first in range(0, count, size):
                last = min(first + size, count)
                W, there = np.zeros((last - first, *shape), kind), np.zeros(last - first, bool)
                sound = data.sound(first, last)
                if len(sound):
                    where, offsets = data.rows_of(sound)
                    rows, codes = data.take(where), data.codes[where]
                    found = plan.weights(rows, codes, offsets, self.n_parties)
                    W[sound - first], there[sound - first] = found
                yield W, there
                step(last)

    def _parts(self, data: Parties) -> Iterator[Floats]:
        for (own,), (there,) in self._each(data):
            yield self.voting.part(self.voting.sent(own), bool(there), self.n_parties)

    def total(self, data: Parties) -> Tally | Floats:
        """Return what parties send, added up; without noise, so not for anyone to see.

        Votes, where who is left out is split; or clipped weights or shares, where it is zero.
        """
        plan, counted = self.voting, 0
        if data.total is not None:
            return data.total
        if self.local is not None:
            return tally_estimators(data, plan.auxiliary, self.local, on_faulty=self.on_faulty)
        mechanism = self._clipping
        if mechanism is not None:
            return sum(
                (mechanism.clipped(block).sum(axis=0) for block, _ in self._each(data)),
                start=np.zeros(mechanism.shape),
            )
        votes = np.zeros((len(plan.rows), plan.n_classes)[: plan.n_classes - 1], dtype=np.int64)
        for W, there in self._each(data):
            votes += count_votes(W, plan.rows, block=self._blocks.rows)
            counted += int(np.count_nonzero(there))
        if plan.n_classes > 2:
            # Weights of zero tie, and a tie is a vote for the first class.
            votes[:, 0] -= len(data) - counted
        return Tally(votes, counted, len(data))


def tally_estimators(parties: Parties, auxiliary: Any, local: Any, *, on_faulty: OnFaulty) -> Tally:
    """Fit a classifier of any kind on each party's rows and add up the votes.

    A party whose rows are of one class votes for it. One whose classifier fails is faulty too; if
    all fail, it is the classifier that is.
    """
    classes = parties.classes
    failed: list[str] = []
    trained = 0

    def ballots(step: Step) -> Iterator[NDArray[np.intp]]:
        nonlocal trained
        for k in range(len(parties)):
            step(k)
            if k in parties.faults:
                continue
            where, _ = parties.rows_of(np.array([k]))
            codes = parties.codes[where]
            if np.all(codes == codes[0]):
                yield np.full(auxiliary.shape[0], codes[0], dtype=np.intp)
                continue
            model = local_of(local, k, len(parties), parties.names[k])
            try:
                model.fit(parties.X[where], classes[codes])
                ballot = encode_labels(np.asarray(model.predict(auxiliary)), classes)
            except Exception as error:
                if on_faulty == "refuse":
                    raise InvalidData(
                        f"party {parties.names[k]!s}: its local classifier failed "
                        f"({type(error).__name__})."
                    ) from error
                failed.append(f"party {parties.names[k]!s}: {type(error).__name__}")
                continue
            trained += 1
            yield ballot

    with progress_bar("local classifiers", len(parties)) as step:
        votes, counted = accumulate_votes(
            ballots(step), n_rows=auxiliary.shape[0], n_classes=len(classes)
        )
    if failed and not trained:
        raise InvalidData(f"local: every party's classifier failed; the first is {failed[0]}.")
    if failed:
        logger.warning("left out %d whose local classifier failed: %s", len(failed), failed[:10])
    return Tally(votes, counted, len(parties))


def local_of(local: Any, position: int, n_parties: int, name: Any) -> Any:
    """Return the unfitted classifier of a party: one for all, one each, or as a rule says."""
    if isinstance(local, list | tuple):
        if len(local) != n_parties:
            raise InvalidParameter("local: a list must hold one classifier per party.")
        chosen = local[position]
    else:
        chosen = local(name) if callable(local) and not hasattr(local, "fit") else local
    if not (hasattr(chosen, "fit") and hasattr(chosen, "predict")):
        raise InvalidParameter(
            "local must be a classifier, a list of them, or party -> classifier."
        )
    return clone(chosen)
