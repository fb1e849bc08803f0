"""Questions over Flower: one message type, one exchange per question.

Flower registers the parties, delivers and retries. What is inside a message is ours: the bytes of a
:class:`~confrere.federation.Question` on the way out, of a reply on the way back. A message that a
node had taken when it was killed is lost to Flower, so the question is asked again until the time
is up: whoever is asked twice sends the same bytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from confrere.errors import FederationError, InvalidParameter
from confrere.federation import Federation, PartyError, Payload, Question, read_reply

#: The one kind of message; its name must be a Flower category and an identifier.
MESSAGE_TYPE = "query.confrere"

#: The one record in a message.
RECORD = "confrere"

#: Seconds after which a silent node is asked again; one that was gone is as soon as it is back.
AGAIN_SECONDS = 90.0

_POLL_SECONDS = 1.0

# Flower's codes for an app that ended with an exception: it would do so again.
_FINAL = frozenset({1, 2, 6, 7})


@dataclass(frozen=True)
class _Reply:
    """What came back from a node: a record, or nothing but the news that there will be none."""

    record: ConfigRecord | None
    final: bool


class FlowerFederation(Federation):
    """Parties behind a Flower grid, under the names that their keys were registered with.

    Parameters
    ----------
    grid : Grid
        What a Flower ``ServerApp`` is given.
    run : str, optional
        Name of the run; give the same one to resume.
    schema : str, optional
        Fingerprint of the schema that questions are about.
    """

    def __init__(self, grid: Grid, *, run: str | None = None, schema: str | None = None) -> None:
        super().__init__(run)
        self._grid = grid
        self._schema = schema
        self._nodes: dict[str, int] = {}

    def parties(self) -> list[str]:
        """Return the names of all connected nodes, sorted; without a name a node is no party."""
        named = [(info.name, info.node_id) for info in self._grid.get_nodes() if info.name]
        connected = dict(sorted(named))
        if len(connected) < len(named):
            raise FederationError("two connected nodes are registered as the same party.")
        self._nodes |= connected
        return list(connected)

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
        names = (sorted(self._nodes) or self.parties()) if to is None else list(to)
        if any(name not in self._nodes for name in names):
            self.parties()
        unknown = [name for name in names if name not in self._nodes]
        if unknown:
            raise InvalidParameter(f"to: party {unknown[0]!r} is not connected.")
        question = Question(
            run=self.run, operation=operation, payload=payload, step=step, schema=self._schema
        ).encode()
        asked = {self._nodes[name]: question for name in names}
        replies = self._exchange(asked, timeout)
        return {name: _answer(name, replies.get(self._nodes[name])) for name in names}

    def _exchange(self, contents: Mapping[int, bytes], timeout: float | None) -> dict[int, _Reply]:
        """Return what every node sent, and nothing for one that is late.

        A node that was gone is asked again, as long as there is time.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        replies: dict[int, _Reply] = {}
        under_way: dict[str, int] = {}
        due = dict.fromkeys(contents, -math.inf)  # when each node that owes a reply is asked
        while due:
            connected = set(self._grid.get_node_ids())
            now = time.monotonic()
            asked = [node for node, when in due.items() if when <= now and node in connected]
            under_way |= self._push({node: contents[node] for node in asked})
            due |= dict.fromkeys(asked, now + AGAIN_SECONDS)
            for message in self._grid.pull_messages(list(under_way)):
                node = under_way.pop(message.metadata.reply_to_message_id, None)
                if node not in due:
                    continue
                replies[node] = reply = _read(message)
                if reply.final:
                    del due[node]
                else:
                    due[node] = -math.inf
            if not due or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        return replies

    def _push(self, contents: Mapping[int, bytes]) -> dict[str, int]:
        """Send, and return the node of every message that was taken."""
        messages = [_message(content, node) for node, content in contents.items()]
        ids = self._grid.push_messages(messages) if messages else []
        return {i: node for i, node in zip(ids, contents, strict=True) if i is not None}


def _message(content: bytes, node_id: int) -> Message:
    record = RecordDict({RECORD: ConfigRecord({"question": content})})
    return Message(record, dst_node_id=node_id, message_type=MESSAGE_TYPE)


def _read(reply: Message) -> _Reply:
    if not reply.has_content():
        return _Reply(None, final=reply.error.code in _FINAL)
    record = reply.content.get(RECORD)
    return _Reply(record if isinstance(record, ConfigRecord) else None, final=True)


def _answer(name: str, reply: _Reply | None) -> Payload | PartyError:
    if reply is None:
        return PartyError("Timeout")
    if reply.record is None:
        return PartyError("NodeFailed" if reply.final else "Unreachable")
    content = reply.record.get("reply")
    if reply.record.get("party") != name or not isinstance(content, bytes):
        return PartyError("InvalidReply")
    return read_reply(content)
