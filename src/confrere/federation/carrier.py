"""What carries messages between machines: all that a transport has to know about the boundary.

A transport moves bytes and knows who sent them; it reads none of them. It is written against two
objects and one protocol, and everything about grants, signatures, replays, validation, journals
and prices lives behind them:

**At a party** one long-lived object, made from the study, the party's local file and its grant::

    session = confrere.study.party_session(study, local, grant=grant_file)
    reply = session.handle(question)    # bytes in, bytes out; never raises about a message
    session.finished                    # True once the release was checked and signed: end, code 0
    session.state                       # "waiting", "asked", "answered", "released": for people

``handle`` may be called again with the same bytes at any time, after a crash too: the same bytes
come back and nothing is spent. Replies to wrong, foreign or hostile questions are codes. Calls
come one after the other.

**At the coordinator** the transport is a :class:`Carrier`, and one call does the whole study::

    session = confrere.study.coordinator_session(study, key=..., folder=..., carrier=carrier)
    made = session.run()                # asks, validates, journals, releases, has it signed

The last message of a run hands the release to the parties, through the same ``exchange``; there
is no other kind of message. Started again on the same folder it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from confrere.federation.messages import PartyError


class Answering(Protocol):
    """What answers for a party."""

    @property
    def finished(self) -> bool:
        """Whether the release was had and checked."""

    @property
    def state(self) -> str:
        """How far it is, for people."""

    @property
    def told(self) -> list[dict[str, Any]]:
        """What was asked and answered so far, and what it cost, for people too."""

    def handle(self, question: bytes) -> bytes:
        """Answer a message."""


class Carrier(Protocol):
    """Moves questions to parties and replies back, under the names that their keys stand for."""

    def connected(self) -> list[str]:
        """Return the names of the parties that can be reached now."""

    def exchange(
        self, questions: Mapping[str, bytes], timeout: float | None
    ) -> Mapping[str, bytes | PartyError]:
        """Send every party its question and wait for the replies.

        A party that was gone is asked again, as soon as it is back and until the time is up: asked
        twice it sends the same bytes. Nobody's reply counts but the named party's own.

        Parameters
        ----------
        questions : mapping of str to bytes
            What to send, by party.
        timeout : float or None
            Seconds to wait; None waits for ever.

        Returns
        -------
        mapping
            One entry per question: the reply's bytes, or ``PartyError("Timeout")``,
            ``PartyError("Unreachable")`` and the like.
        """
