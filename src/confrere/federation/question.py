"""Questions and replies as bytes, for engines that carry them between machines."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Self

from confrere.errors import ConfrereError, InvalidMessage
from confrere.federation.federation import PartyError
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.serving import PROTOCOL, serve

_FIELDS = frozenset({"protocol", "run", "operation", "step", "schema", "request"})
_MAX_NAME = 64
_MAX_SCHEMA = 200

logger = logging.getLogger("confrere.federation")


@dataclass(frozen=True, slots=True)
class Question:
    """What :func:`~confrere.federation.serving.serve` needs to know, in one message.

    Parameters
    ----------
    run, operation, step, schema, protocol
        As for ``serve``.
    payload : Payload
        The request.
    """

    run: str
    operation: str
    payload: Payload
    step: int = 0
    schema: str | None = None
    protocol: int = PROTOCOL

    def encode(self) -> bytes:
        """Return the message."""
        address = {name: getattr(self, name) for name in _FIELDS - {"request"}}
        request = dict(self.payload.values)
        return Payload(address | {"request": request}, self.payload.arrays).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read a message, or raise :class:`~confrere.errors.InvalidMessage`."""
        whole = Payload.decode(content)
        values = whole.values
        if values.keys() != _FIELDS or not isinstance(values["request"], dict):
            raise InvalidMessage("a question has a protocol, run, operation, step and request.")
        run, operation, schema = values["run"], values["operation"], values["schema"]
        texts_fit = all(isinstance(t, str) and 0 < len(t) <= _MAX_NAME for t in (run, operation))
        schema_fits = schema is None or (isinstance(schema, str) and len(schema) <= _MAX_SCHEMA)
        if not texts_fit or not schema_fits:
            raise InvalidMessage("a question's run, operation or schema is not a short text.")
        if type(values["step"]) is not int or type(values["protocol"]) is not int:
            raise InvalidMessage("a question's step and protocol are ints.")
        return cls(
            run=run,
            operation=operation,
            payload=Payload(values["request"], whole.arrays),
            step=values["step"],
            schema=schema,
            protocol=values["protocol"],
        )


def answer(content: bytes, local: LocalParty) -> bytes:
    """Serve a question that came as bytes; what goes back is an answer or a code, never a word.

    Errors are logged here, inside the organisation. Only what would stop the process passes.
    """
    try:
        question = Question.decode(content)
        reply = serve(
            question.operation,
            question.payload,
            local,
            run=question.run,
            step=question.step,
            protocol=question.protocol,
            study=question.schema,
        )
    except ConfrereError as error:
        logger.warning("%s: a question was not answered: %s", local.name, error)
        return _refusal(PartyError.of(error))
    except Exception as error:
        logger.exception("%s: a question was not answered", local.name)
        return _refusal(PartyError.of(error))
    return Payload({"answer": dict(reply.values)}, reply.arrays).encode()


def read_reply(content: bytes) -> Payload | PartyError:
    """Read what :func:`answer` sent; a reply that breaks the form is the party's error."""
    try:
        reply = Payload.decode(content)
        if reply.values.keys() == {"error"} and not reply.arrays:
            return PartyError(reply.values["error"])
        if reply.values.keys() == {"answer"} and isinstance(reply.values["answer"], dict):
            return Payload(reply.values["answer"], reply.arrays)
    except InvalidMessage:
        pass
    return PartyError("InvalidReply")


def _refusal(error: PartyError) -> bytes:
    return Payload({"error": error.code}).encode()
