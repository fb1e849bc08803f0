"""Questions over a carrier: the bytes of a question out, the bytes of a reply back."""

from __future__ import annotations

from collections.abc import Sequence

from confrere.federation.carrier import Carrier
from confrere.federation.federation import Federation, PartyError
from confrere.federation.payload import Payload
from confrere.federation.question import Question, read_reply


class FlowerFederation(Federation):
    """Parties behind a carrier, under the names that their keys stand for.

    Parameters
    ----------
    carrier : Carrier
        What moves the messages.
    names : sequence of str
        Everybody who is to be asked; who is not connected yet is waited for.
    run : str, optional
        Name of the run; give the same one to resume.
    schema : str, optional
        Fingerprint of the schema that questions are about.
    """

    def __init__(
        self,
        carrier: Carrier,
        names: Sequence[str],
        *,
        run: str | None = None,
        schema: str | None = None,
    ) -> None:
        super().__init__(run)
        self._carrier = carrier
        self._names = sorted(names)  # so that sums do not depend on who came first
        self._schema = schema

    def parties(self) -> list[str]:
        """Return the names of all parties."""
        return list(self._names)

    def ask(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
    ) -> dict[str, Payload | PartyError]:
        """Send the question to every party and wait for the replies."""
        question = Question(
            run=self.run, operation=operation, payload=payload, step=step, schema=self._schema
        ).encode()
        names = self._names if to is None else to
        replies = self._carrier.exchange(dict.fromkeys(names, question), timeout)
        return {name: _read(replies[name]) for name in names}


def _read(reply: bytes | PartyError) -> Payload | PartyError:
    return reply if isinstance(reply, PartyError) else read_reply(reply)
