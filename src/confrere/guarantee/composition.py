"""How guarantees add up.

In sequence, on the same units: epsilons and deltas add. In parallel, on disjoint units: the
largest counts, provided the split does not depend on the data, which the caller has to name.
Guarantees about different units or different neighbours do not compose here at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

from confrere.errors import CompositionError, InvalidParameter
from confrere.guarantee.guarantee import Guarantee, Neighbours, Unit, check_epsilon


class Split(StrEnum):
    """How rows came to be in disjoint parts. Only these do not depend on the data."""

    BY_INDEX = "by index"
    SEEDED_PERMUTATION = "seeded permutation"
    BY_ORGANISATION = "by organisation"


def in_sequence(guarantees: Iterable[Guarantee], *, theorem: str | None = None) -> Guarantee:
    """Compose releases computed from the same units: epsilons and deltas add."""
    parts = _compatible(guarantees)
    return _combine(
        parts,
        epsilon=math.fsum(part.epsilon for part in parts),
        delta=math.fsum(part.delta for part in parts),
        theorem=theorem,
    )


def in_parallel(
    guarantees: Iterable[Guarantee], *, split: Split, theorem: str | None = None
) -> Guarantee:
    """Compose releases computed from disjoint parts of the units: the largest counts.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        One per part.
    split : Split
        How the parts were made; anything but a :class:`Split` is refused, since a split that
        looks at the data (stratified, sorted, clustered) lets one unit move others.
    theorem : str, optional
        The composed proof; by default the parts' theorems.
    """
    if not isinstance(split, Split):
        raise CompositionError(
            "parallel composition needs split= a confrere.guarantee.Split: parts made by looking "
            "at the data (stratified, sorted) do not compose in parallel."
        )
    parts = _compatible(guarantees)
    if any(part.neighbours is Neighbours.ADD_REMOVE for part in parts) and split in (
        Split.BY_INDEX,
        Split.SEEDED_PERMUTATION,
    ):
        raise CompositionError(
            f"under add-remove neighbours a split {split} shifts rows between parts when one is "
            "removed; use replace-one neighbours, or parts by organisation."
        )
    return _combine(
        parts,
        epsilon=max(part.epsilon for part in parts),
        delta=max(part.delta for part in parts),
        theorem=theorem,
        assumption=f"disjoint parts, split {split}",
    )


def one_of(guarantees: Iterable[Guarantee], *, theorem: str | None = None) -> Guarantee:
    """Return what a single release promises that is one of several, whichever it turns out to be.

    Each of them is private at the largest epsilon and the largest delta, which need not be those
    of one and the same candidate.
    """
    parts = _compatible(guarantees)
    return _combine(
        parts,
        epsilon=max(part.epsilon for part in parts),
        delta=max(part.delta for part in parts),
        theorem=theorem,
    )


def shares(epsilon: float, weights: Sequence[float]) -> tuple[float, ...]:
    """Divide a budget in proportion to non-negative weights; the shares never sum to more."""
    total_epsilon = check_epsilon(epsilon)
    if len(weights) == 0 or any(not math.isfinite(w) or w < 0 for w in weights):
        raise InvalidParameter("weights must be finite numbers >= 0, at least one of them.")
    total = math.fsum(weights)
    if total <= 0:
        raise InvalidParameter("weights must not all be zero.")
    parts = [total_epsilon * (w / total) for w in weights]
    while math.fsum(parts) > total_epsilon:
        parts = [math.nextafter(part, 0.0) if part > 0 else 0.0 for part in parts]
    return tuple(parts)


def _compatible(guarantees: Iterable[Guarantee]) -> list[Guarantee]:
    parts = list(guarantees)
    if not parts:
        raise CompositionError("there is nothing to compose.")
    units: set[Unit] = {part.unit for part in parts}
    relations: set[Neighbours] = {part.neighbours for part in parts}
    if len(units) > 1:
        raise CompositionError(
            f"units differ ({', '.join(sorted(units))}): a guarantee per record says nothing "
            "about a whole party, nor the other way round."
        )
    if len(relations) > 1:
        raise CompositionError(f"neighbours differ ({', '.join(sorted(relations))}).")
    return parts


def _combine(
    parts: list[Guarantee],
    *,
    epsilon: float,
    delta: float,
    theorem: str | None,
    assumption: str | None = None,
) -> Guarantee:
    assumptions = [a for part in parts for a in part.assumptions]
    if assumption is not None:
        assumptions.append(assumption)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=parts[0].unit,
        neighbours=parts[0].neighbours,
        theorem=theorem or "; ".join(dict.fromkeys(part.theorem for part in parts)),
        public=tuple(dict.fromkeys(fact for part in parts for fact in part.public)),
        assumptions=tuple(dict.fromkeys(assumptions)),
    )
