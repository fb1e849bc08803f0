"""Whom an organisation has to trust besides itself: a closed vocabulary, weaker from kind to kind.

A price says how much an answer tells about a person, whoever reads it. It does not say whether that
holds for who receives the answer, or for other organisations that work together. This does; it
stands beside the price in plans, policies, grants, ledgers, on screens and on cards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from confrere.errors import InvalidParameter

#: How it is written.
TRUST = "^(own noise|coordinator|[1-9][0-9]{0,6} of [1-9][0-9]{0,6})$"

_SUM = re.compile(r"([1-9][0-9]{0,6}) of ([1-9][0-9]{0,6})", re.ASCII)


class TrustKind(StrEnum):
    """What hides an organisation's own records from the others."""

    OWN_NOISE = "own noise"
    SUM = "t of M"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Trust:
    """Who must be trusted."""

    #: The noise in one's own answer; noise of which every party makes a part, in a sum; or a
    #: coordinator who sees answers and adds it.
    kind: TrustKind
    #: Of a sum: how many of its parties may work together.
    collusion_threshold: int = 0
    parties: int = 0

    @classmethod
    def sum_of(cls, collusion_threshold: int, parties: int) -> Self:
        """Return what a sum needs in which so many parties may work together."""
        return cls(TrustKind.SUM, collusion_threshold, parties)

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read "own noise", "coordinator", or "t of M" in numbers, such as "1 of 3".

        Raises InvalidParameter.
        """
        if isinstance(text, cls):
            return text
        if text in (TrustKind.OWN_NOISE, TrustKind.COORDINATOR):
            return cls(TrustKind(str(text)))
        found = _SUM.fullmatch(text) if isinstance(text, str) else None
        if found is None or int(found[1]) >= int(found[2]):
            raise InvalidParameter(
                'trust must be "own noise", "coordinator", or how many of all parties of a sum may '
                'work together, such as "1 of 3".'
            )
        return cls.sum_of(int(found[1]), int(found[2]))

    def allows(self, needed: Trust) -> bool:
        """Whether who is content with this is content with what is needed.

        A sum is as good if as many may work together, and no more of the others must be honest.
        """
        if self.kind is not TrustKind.SUM or needed.kind is not TrustKind.SUM:
            kinds = list(TrustKind)
            return kinds.index(needed.kind) <= kinds.index(self.kind)
        many = needed.collusion_threshold >= self.collusion_threshold
        return many and needed._honest <= self._honest

    @property
    def _honest(self) -> int:
        """How many of the other parties must not work together with anybody."""
        return self.parties - 1 - self.collusion_threshold

    @property
    def words(self) -> str:
        """What it means, for the officer of an organisation."""
        if self.kind is TrustKind.OWN_NOISE:
            return "safe even if everybody else works together"
        if self.kind is TrustKind.COORDINATOR:
            return "the coordinator sees your answer without noise"
        most, others = self.collusion_threshold, self.parties - 1
        return f"safe if at most {most} of the {others} others work together"

    def __str__(self) -> str:
        if self.kind is TrustKind.SUM:
            return f"{self.collusion_threshold} of {self.parties}"
        return str(self.kind)


#: What an organisation is content with that says nothing.
OWN_NOISE = Trust(TrustKind.OWN_NOISE)
