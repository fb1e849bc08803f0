"""What all parties send, added up in blocks: votes on auxiliary rows, clipped weights, shares.

Blocks are made of public numbers only (parties, auxiliary rows, classes), and a faulty party keeps
its place in them: no party's data decide in which company another's floats are computed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.maths.parties import solve_parties, solve_parties_softmax
from confrere.maths.public_cells import Cells
from confrere.maths.voting import Tally, accumulate_votes, count_votes
from confrere.mechanisms.party_average import PartyAverage
from confrere.mechanisms.party_cells import shares_of_parties
from confrere.methods.linear import linear_model
from confrere.methods.party_tables import OnFaulty, Parties
from confrere.methods.plan import Plan, Term, encode_labels
from confrere.methods.voting import Mean, Voting
from confrere.model import Facts, Linear
from confrere.rows.frame import Frame
from confrere.views import progress_bar

Flags = NDArray[np.bool_]
#: Where a block begins, what its parties send, and who is not left out.
_Block = tuple[int, Any, Flags]
Step = Callable[[int], None]

#: Parties per block, a multiple of what :func:`count_votes` polls together.
_BALLOT = 240

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
        return _BALLOT * max(1, min(10, int(self.memory * 2**19 / each / _BALLOT)))

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
        plan = self.voting
        if plan.votes:
            released = plan.release_votes(self.tally(data), source=source)
        else:
            released = plan.release_mean(self._total(data), self.n_parties, source=source)
        auxiliary = plan.auxiliary
        facts = Facts(
            method=plan.method,
            parties=self.n_parties,
            alpha=float(released.alpha),
            n_auxiliary=None if auxiliary is None else len(auxiliary),
            **plan.frame.learned_with(),
        )
        model = linear_model(plan.frame, released.weights, facts, data.column_names)
        return MultipartyResult(model, released.statistic)

    def terms(self, data: Parties) -> list[Term]:
        """Return the mechanism that noises what parties sent."""
        if self.local is not None:
            raise InvalidParameter(
                "local: only built-in classifiers of parties are audited this way."
            )
        plan = self.voting
        if not plan.votes:
            return [Term(plan.method, plan.mean(self.n_parties), (self._total(data),))]
        tally = self.tally(data)
        if plan.method == "statistic":
            return [Term(plan.method, plan.statistic(self.n_parties), (tally,))]
        return [Term(plan.method, plan.output(self.n_parties), (tally, plan.rows))]

    @property
    def batched(self) -> bool:
        """Other classifiers of parties are trained anew for every run."""
        return self.local is None and self.voting.n_classes == 2

    @property
    def _blocks(self) -> MemoryBlocks:
        return MemoryBlocks(float(self.memory), self.voting.frame.size, self.voting.n_classes)

    def _total(self, data: Parties) -> Floats:
        mechanism = self.voting.mean(self.n_parties)
        cells = self.voting.cells(self.n_parties) if self.voting.method == "cells" else None
        return total_uploads(data, self.voting.frame, self._blocks, mechanism, cells)

    def tally(self, data: Parties) -> Tally:
        """Return the sum of the votes; without noise, so not for anyone to see."""
        plan = self.voting
        if data.tally is not None:
            return data.tally
        if self.local is None:
            return tally_linear(data, plan.frame, plan.rows, self._blocks, alpha=plan.local_alpha)
        return tally_estimators(data, plan.auxiliary, self.local, on_faulty=self.on_faulty)


def tally_linear(
    parties: Parties, frame: Frame, rows: Floats, blocks: MemoryBlocks, *, alpha: float
) -> Tally:
    """Solve every party's own problem and add up the votes on the auxiliary rows."""
    n_classes = blocks.n_classes
    votes = np.zeros(len(rows) if n_classes == 2 else (len(rows), n_classes), dtype=np.int64)
    work = float(len(parties)) * rows.size
    with progress_bar("votes", len(parties), shown=work >= _LONG) as step:
        counted = 0
        for first, W, present in _solutions(parties, frame, blocks, alpha):
            votes += count_votes(W, rows, block=blocks.rows)
            counted += int(np.count_nonzero(present))
            step(first + len(W))
    if n_classes > 2:
        # Weights of zero tie, and a tie is a vote for the first class.
        votes[:, 0] -= len(parties) - counted
    return Tally(votes, counted, len(parties))


def total_uploads(
    parties: Parties,
    frame: Frame,
    blocks: MemoryBlocks,
    mechanism: Mean,
    cells: Cells | None = None,
) -> Floats:
    """Add up every party's clipped weights or shares; who is left out is zero."""
    total = np.zeros(mechanism.shape)
    if isinstance(mechanism, PartyAverage):
        uploads = _solutions(parties, frame, blocks, mechanism.alpha)
    else:
        assert cells is not None
        uploads = _by_block(parties, frame, blocks, partial(_shares, cells=cells), mechanism.shape)
    work = float(len(parties)) * _ROWS * blocks.n_features**2
    with progress_bar("parties", len(parties), shown=work >= _LONG) as step:
        for first, block, _ in uploads:
            total += mechanism.clipped(block).sum(axis=0)
            step(first + len(block))
    return total


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


def _solutions(
    parties: Parties, frame: Frame, blocks: MemoryBlocks, alpha: float
) -> Iterator[_Block]:
    """Yield blocks of parties' weights, zeros for those left out: faulty, or not to be solved."""
    return _by_block(parties, frame, blocks, partial(_solve, alpha=alpha))


def _by_block(
    parties: Parties,
    frame: Frame,
    blocks: MemoryBlocks,
    compute: Callable[..., tuple[Any, Flags]],
    shape: tuple[int, ...] | None = None,
) -> Iterator[_Block]:
    """Yield blocks of what parties send, zeros for those left out, and who is not.

    ``compute`` takes rows in the unit ball, codes, offsets and the number of classes. What parties
    send has the shape of weights, in floats; with a ``shape``, that one, in whole numbers.
    """
    kind = np.float64 if shape is None else np.int64
    if shape is None:
        shape = (frame.size,) if blocks.n_classes == 2 else (blocks.n_classes, frame.size)
    for first in range(0, len(parties), blocks.parties):
        last = min(first + blocks.parties, len(parties))
        W = np.zeros((last - first, *shape), dtype=kind)
        present = np.zeros(last - first, dtype=bool)
        sound = parties.sound(first, last)
        if len(sound):
            where, offsets = parties.rows_of(sound)
            rows, codes = frame.rows(parties.take(where)).written(), parties.codes[where]
            W[sound - first], present[sound - first] = compute(
                rows, codes, offsets, blocks.n_classes
            )
        yield first, W, present


def _shares(
    rows: Floats,
    codes: NDArray[np.intp],
    offsets: NDArray[np.int64],
    n_classes: int,
    *,
    cells: Cells,
) -> tuple[NDArray[np.int64], Flags]:
    shares = shares_of_parties(cells.of(rows), codes, offsets, (len(cells), n_classes))
    return shares, np.ones(len(shares), dtype=bool)


def _solve(
    rows: Floats,
    codes: NDArray[np.intp],
    offsets: NDArray[np.int64],
    n_classes: int,
    *,
    alpha: float,
) -> tuple[Floats, Flags]:
    if n_classes == 2:
        found = solve_parties(rows, np.where(codes == 1, 1, -1), offsets, alpha=alpha)
    else:
        found = solve_parties_softmax(rows, codes, offsets, n_classes, alpha=alpha)
    return found.W, found.solved
