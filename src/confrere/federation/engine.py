"""Questions over Flower: one message type, one exchange per question.

Flower registers the parties, delivers, retries and times out. What is inside a message is ours: the
bytes of a :class:`~confrere.protocols.Question` on the way out, of a reply on the way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from confrere.errors import FederationError, InvalidParameter
from confrere.protocols import Federation, PartyError, Payload, Question, read_reply

#: The one kind of message; its name must be a Flower category and an identifier.
MESSAGE_TYPE = "query.confrere"

#: The one record in a message.
RECORD = "confrere"

#: Seconds to wait for every node's name.
HELLO_SECONDS = 120.0


class FlowerFederation(Federation):
    """Parties behind a Flower grid.

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
        """Ask every newly connected node who it is, and return all names, sorted."""
        connected = set(self._grid.get_node_ids())
        known = {name: node for name, node in self._nodes.items() if node in connected}
        strangers = dict.fromkeys(connected - set(known.values()), b"")
        told = self._exchange(strangers, HELLO_SECONDS) if strangers else {}
        for node_id, record in sorted(told.items()):
            name = record.get("party") if record is not None else None
            if not isinstance(name, str):
                continue
            if name in known:
                raise FederationError(f"two nodes say that they are party {name!r}.")
            known[name] = node_id
        self._nodes = dict(sorted(known.items()))
        return list(self._nodes)

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
        names = (list(self._nodes) or self.parties()) if to is None else list(to)
        if any(name not in self._nodes for name in names):
            self.parties()
        unknown = [name for name in names if name not in self._nodes]
        if unknown:
            raise InvalidParameter(f"to: party {unknown[0]!r} is not connected.")
        question = Question(
            run=self.run, operation=operation, payload=payload, step=step, schema=self._schema
        ).encode()
        replies = self._exchange({self._nodes[name]: question for name in names}, timeout)
        return {name: _answer(name, replies, self._nodes[name]) for name in names}

    def _exchange(
        self, contents: dict[int, bytes], timeout: float | None
    ) -> dict[int, ConfigRecord | None]:
        """Return every node's record: None for an error, nothing for a node that is late."""
        messages = [_message(content, node) for node, content in contents.items()]
        replies: Iterable[Message] = self._grid.send_and_receive(messages, timeout=timeout)
        return {reply.metadata.src_node_id: _record(reply) for reply in replies}


def _message(content: bytes, node_id: int) -> Message:
    record = RecordDict({RECORD: ConfigRecord({"question": content})})
    return Message(record, dst_node_id=node_id, message_type=MESSAGE_TYPE)


def _record(reply: Message) -> ConfigRecord | None:
    if not reply.has_content():
        return None
    record = reply.content.get(RECORD)
    return record if isinstance(record, ConfigRecord) else None


def _answer(
    name: str, replies: dict[int, ConfigRecord | None], node_id: int
) -> Payload | PartyError:
    if node_id not in replies:
        return PartyError("Timeout")
    record = replies[node_id]
    if record is None:
        return PartyError("Unreachable")
    content = record.get("reply")
    if record.get("party") != name or not isinstance(content, bytes):
        return PartyError("InvalidReply")
    return read_reply(content)
