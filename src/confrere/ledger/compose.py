"""What several promises are together.

In sequence, on the same units: epsilons and deltas add. In parallel, on disjoint units: the largest
counts, provided the split does not depend on the data. Guarantees about different units or
different neighbours do not compose at all. What is drawn is added up by tickets once more: a price
that is too small here is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from typing_extensions import override

from confrere.errors import CompositionError
from confrere.kernel.guarantee import (
    Guarantee,
    PartsApart,
    Priced,
    PrivacyEvent,
    Split,
    added,
    check_split,
)


@dataclass(frozen=True)
class Together(Priced):
    """Releases computed from the same units: epsilons and deltas add."""

    parts: Sequence[Priced]
    theorem: str | None = None

    @override
    def guarantee(self) -> Guarantee:
        return _combined(self.parts, added, self.theorem)


@dataclass(frozen=True)
class Apart(Priced):
    """Releases computed from disjoint parts of the units: the largest counts."""

    parts: Sequence[Priced]
    split: Split  #: How the parts were made, which must not look at the data
    theorem: str | None = None

    @override
    def guarantee(self) -> Guarantee:
        made = _combined(self.parts, max, self.theorem, f"disjoint parts, split {self.split}")
        check_split(self.split, made.neighbours)
        return made

    @override
    def event(self) -> PrivacyEvent:
        return PartsApart(tuple(one.event() for one in self.parts), self.split)


_P = TypeVar("_P", bound=Priced)


@dataclass(frozen=True)
class Then(Priced, Generic[_P]):
    """A release, and what follows from what it brought: at most ``promise``, whatever it was."""

    first: Priced
    next: Callable[[Any], _P]  #: From what is made of the first release to what follows
    promise: Guarantee

    def after(self, value: Any) -> _P:
        """Return what follows, or refuse it; a ticket would, too, and only then."""
        follows = self.next(value)
        if not self.promise.covers(Together((self.first, follows)).guarantee()):
            raise CompositionError("what follows a release costs more than was promised.")
        return follows

    @override
    def guarantee(self) -> Guarantee:
        return self.promise


def _combined(
    priced: Iterable[Priced],
    how: Callable[[list[float]], float],
    theorem: str | None,
    *assumptions: str,
) -> Guarantee:
    parts = [one.guarantee() for one in priced]
    if not parts:
        raise CompositionError("there is nothing to compose.")
    units, relations = {part.unit for part in parts}, {part.neighbours for part in parts}
    if len(units) > 1:
        raise CompositionError(
            f"units differ ({', '.join(sorted(units))}): a guarantee per record says nothing "
            "about a whole party, nor the other way round."
        )
    if len(relations) > 1:
        raise CompositionError(f"neighbours differ ({', '.join(sorted(relations))}).")
    assumed = (one for part in parts for one in part.assumptions)
    return Guarantee(
        epsilon=how([part.epsilon for part in parts]),
        delta=how([part.delta for part in parts]),
        unit=parts[0].unit,
        neighbours=parts[0].neighbours,
        theorem=theorem or "; ".join(dict.fromkeys(part.theorem for part in parts)),
        public=tuple(dict.fromkeys(fact for part in parts for fact in part.public)),
        assumptions=tuple(dict.fromkeys((*assumed, *assumptions))),
    )
