"""What carries messages: bytes to a named party, and bytes back; it reads none of them.

An engine is a :class:`Carrier` at the coordinator, and at a party whatever hands questions to an
:class:`Answering` and replies back. Whoever carries knows by the parties' keys who sent what, and
is believed in nothing else: questions, answers and evidence are signed by those who made them.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping

#: Bytes of a message, at the most; a question grows with the evidence behind it.
MAX_MESSAGE = (64 << 20) - (1 << 16)


class Answering(typing.Protocol):
    """What answers for a party."""

    @property
    def finished(self) -> bool: ...

    @property
    def state(self) -> str: ...

    @property
    def told(self) -> list[dict[str, object]]: ...

    @property
    def gone(self) -> bool:
        """Whether it has ended without being asked; whoever waits has to look."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What whoever carries its messages tells people."""

    def handle(self, question: bytes) -> bytes: ...

    def end(self) -> None:
        """Be told that nothing more will be asked; raises if somebody has said no."""


class Carrier(typing.Protocol):
    """Moves questions to parties and replies back, under the names that their keys stand for."""

    def connected(self) -> list[str]: ...

    def exchange(
        self,
        questions: Mapping[str, bytes],  # What to send, by party
        timeout: float | None,  # Seconds to wait; None waits for ever
    ) -> Mapping[str, bytes | str]:
        """Send every party its question and wait for the replies.

        A party that was gone is asked again, as soon as it is back and until the time is up: asked
        twice it sends the same bytes. Nobody's reply counts but the named party's own. Returned is
        for each question the reply's bytes, or in a word why there is none: ``"Timeout"`` if the
        party was there, or ``"Unreachable"``.
        """
