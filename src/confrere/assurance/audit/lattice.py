"""Whether what leaves lies on its public lattice, and its lowest digits have noise of their own.

Noise of a norm is drawn in floats, whose low bits tell of the point they were added to; a step on a
public lattice with integer noise of its own hides that. Events do not hear whether it is there: it
is far smaller than the other noise. So every draw is repeated but one, draw by draw. One of them
must move what leaves by as much as the step declares, and not by more than whole lattice steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.assurance.audit.densities import densities
from confrere.assurance.audit.estimator import prepared
from confrere.assurance.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.kernel.noise import LatticeStep, RandomSource
from confrere.methods.plan import Term

#: Draws are tried this often; the one that makes the integer noise then this often.
_FEW, _MANY = 4, 120

#: Mean distance of two draws of the integer noise, over its scale: 1.5. Less than this is refuted,
#: more than that is no integer noise.
_LEAST, _FARTHEST = 1.0, 30.0

#: Turning coordinates back costs some rounding, in lattice steps.
_OFF = 0.05


@dataclass(frozen=True)
class LatticeAudit:
    """What was found."""

    parts: int  #: How many output steps were looked at
    fault: str | None  #: What is wrong, in words

    @property
    def refuted(self) -> bool:
        """Whether a step is missing, or smaller than declared."""
        return self.fault is not None


class _Replayed(RandomSource):
    """Words that are a function of how many draws came before, but for one fresh draw."""

    simulated = True

    def __init__(self, seed: int, fresh: int = -1, number: int = 0) -> None:
        self._seed, self._fresh, self._number = seed, fresh, number
        self.draws = 0

    def _words(self, count: int) -> NDArray[np.uint64]:
        key = [self._seed, self.draws, self._number if self.draws == self._fresh else 0]
        self.draws += 1
        return np.random.default_rng(key).integers(0, 2**64, size=count, dtype=np.uint64)


def lattice_audit(
    estimator: Any, pair: Pair | None = None, *, random_state: int = 0
) -> LatticeAudit:
    """Look at the output step behind every noise of a classifier's plan, as it runs.

    Parameters
    ----------
    estimator : private classifier
        Not fitted, and nothing is charged.
    pair : Pair, optional
        Made-up data, of which the first set is used; by default one of :func:`worst_pairs`.
    random_state : int, default=0
        Of the draws.

    Returns
    -------
    LatticeAudit
        Sums of many parties, whose integer noise is made of shares, and noise of more classes on
        a computed point have no step that could be looked at from outside: ``parts`` is 0.
    """
    pairs = worst_pairs(estimator) if pair is None else as_pairs(pair)
    plan, records = prepared(estimator, pairs[0].first)
    parts = 0
    for term in plan.terms(records):
        for name, found in _faults(term, random_state):
            parts += 1
            if found is not None:
                return LatticeAudit(parts, f"{term.name}, {name}: {found}")
    return LatticeAudit(parts, None)


def _faults(term: Term, seed: int) -> Iterator[tuple[str, str | None]]:
    """Yield every output step of a term and what is wrong with it."""
    found = densities(term.mechanism, term.data)
    steps = [density.step for density in found if density.step is not None]
    source = _Replayed(seed)
    kept = term.run_many(source, 1)[0]
    if len(steps) < len(found) or sum(step.size for step in steps) != len(kept):
        return

    def redrawn(fresh: int, count: int) -> Floats:
        return np.vstack([term.run_many(_Replayed(seed, fresh, k), 1) for k in range(1, count + 1)])

    ends = np.cumsum([step.size for step in steps])
    tried = [redrawn(fresh, _FEW) for fresh in range(source.draws)]
    for k, (step, end) in enumerate(zip(steps, ends, strict=True)):
        mine = slice(end - step.size, end)
        fault = _off_lattice(kept[mine], step)
        if fault is None:
            moves = [_moved(runs[:, mine], kept[mine], step) for runs in tried]
            fits = [i for i, move in enumerate(moves) if 0 < move <= _FARTHEST]
            if not fits:
                fault = "no draw moves the lattice steps by what is declared: no integer noise"
            else:
                largest = max(fits, key=lambda i: moves[i])
                move = _moved(redrawn(largest, _MANY)[:, mine], kept[mine], step)
                if move < _LEAST:
                    fault = f"integer noise has {move / 1.5:.2f} of its declared scale"
        yield f"step {k}", fault


def _off_lattice(released: Floats, step: LatticeStep) -> str | None:
    places = released / step.spacing
    if np.all(np.abs(places - np.rint(places)) < _OFF):
        return None
    return "what leaves does not lie on the declared lattice"


def _moved(runs: Floats, kept: Floats, step: LatticeStep) -> float:
    """Return the mean distance from what was kept, over the scale of the integer noise.

    What is kept is itself a draw, so distances are taken between all runs.
    """
    places = np.vstack([kept, runs]) / step.spacing
    ordered = np.sort(places, axis=0)
    n = len(ordered)
    # The mean of |a - b| over pairs, from order statistics.
    weights = 2 * np.arange(1, n + 1) - n - 1
    pairs = (weights @ ordered) / (n * (n - 1) / 2)
    return float(np.mean(pairs)) / step.scale
