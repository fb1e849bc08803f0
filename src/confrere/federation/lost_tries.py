"""Who is left out of the next try of a sum: who did not deliver, and who may have spoiled one.

Masks hide whose part makes a sum impossible, so parties are left out in turn: a sum that is good
without some of them was spoiled by one of these, or by one who wants it to look so. Nobody is left
out below the shortest roster that the noise was made for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class LostTries:
    """What the tries of a run have told about its parties.

    Attributes
    ----------
    silent : dict of str to str
        Who was on a roster and sent nothing of use, and the code for it.
    named : set of str
        Without whom a sum was good that was spoiled with them.
    """

    silent: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    _suspects: set[str] = field(default_factory=set)

    def lost(self, roster: Sequence[str], codes: Mapping[str, str]) -> None:
        """Note a try that came to nothing: who sent nothing; nobody, if the sum was spoiled."""
        self.silent |= codes
        if not codes:
            # One liar is in every spoiled sum. If nobody is, there are several: begin again.
            self._suspects = self._suspects & set(roster) or set(roster)

    def good(self, roster: Sequence[str]) -> set[str]:
        """Note a sum that is good; return who has spoiled the ones before it."""
        found = self._suspects - set(roster)
        self._suspects = set()
        self.named |= found
        return found

    def told(self) -> str:
        """Return, for people, why tries were lost; nothing if none was."""
        said = ""
        if self.silent:
            said += f"Sent nothing: {_listed([f'{n} ({c})' for n, c in self.silent.items()])}. "
        if self._suspects:
            said += f"Sent something that no sum can hold: one of {_listed(self._suspects)}. "
        return said

    def roster(self, parties: Sequence[str], *, fewest: int, tries: int) -> list[str]:
        """Return whom to ask next.

        Parameters
        ----------
        parties : sequence of str
            Who may take part.
        fewest : int
            The shortest roster.
        tries : int
            How many are left for this sum: as many are left out at a time as it takes to come
            through all suspects, and no more.
        """
        out = [name for name in parties if name in self.named or name in self.silent]
        suspects = [name for name in parties if name in self._suspects and name not in out]
        out += suspects[: math.ceil(len(suspects) / max(1, tries))]
        # Who sent nothing may only have been away: such are the first to be asked again.
        out.sort(key=lambda name: (name not in self.named, name in self.silent))
        kept = set(out[: max(0, len(parties) - fewest)])
        return [name for name in parties if name not in kept]


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return ", ".join(every[:5]) + more
