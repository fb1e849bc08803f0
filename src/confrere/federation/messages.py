"""Messages between machines: questions that the coordinator signs, answers that a party signs.

Everything is bytes in one canonical form, a signature in OpenSSH's format, and a namespace, so that
what was signed for one purpose is worth nothing for another. A question names run, study, operation
and step; an answer says in what is signed whose it is, to which question, what it cost and where
the ledger stood. Replies of others travel along as evidence: they are as their parties signed them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confrere.errors import InvalidMessage, InvalidParameter, SignatureError
from confrere.federation.expected import receipt_of
from confrere.federation.federation import PartyError, check_run
from confrere.federation.payload import MAX_BYTES, Payload
from confrere.federation.serving import PROTOCOL
from confrere.ledger import Receipt
from confrere.release.signing import PrivateKey, PublicKey, sign_bytes, verify_bytes

QUESTION, ANSWER = "confrere-question", "confrere-answer"

_FIELDS = frozenset({"protocol", "run", "operation", "step", "study", "request"})
_ABOUT = frozenset({"party", "run", "study", "operation", "step", "question"})
_MAX_NAME = 64
_MAX_PARTS = 1 << 16
_MAGIC = b"CONFRERE-PARTS-1"


@dataclass(frozen=True, slots=True)
class Question:
    """What a party is asked.

    Parameters
    ----------
    run : str
        Name of the run.
    study : str
        Hash of the study that it is about.
    operation : str
        What is asked for.
    payload : Payload
        The request.
    step : int, default=0
        Which time in the run.
    protocol : int
        The asker's version.
    """

    run: str
    study: str
    operation: str
    payload: Payload
    step: int = 0
    protocol: int = PROTOCOL

    def encode(self) -> bytes:
        """Return the message without a signature."""
        address = {name: getattr(self, name) for name in _FIELDS - {"request"}}
        request = dict(self.payload.values)
        return Payload(address | {"request": request}, self.payload.arrays).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read a message, or raise :class:`~confrere.errors.InvalidMessage`."""
        whole = Payload.decode(content)
        values = whole.values
        if values.keys() != _FIELDS or not isinstance(values["request"], dict):
            raise InvalidMessage("a question has a protocol, run, study, operation and request.")
        texts = [values[name] for name in ("operation", "study")]
        if not all(isinstance(text, str) and 0 < len(text) <= _MAX_NAME for text in texts):
            raise InvalidMessage("a question's operation and study are short texts.")
        if type(values["step"]) is not int or type(values["protocol"]) is not int:
            raise InvalidMessage("a question's step and protocol are ints.")
        try:
            run = check_run(values["run"])
        except InvalidParameter as error:
            raise InvalidMessage(str(error)) from None
        return cls(
            run=run,
            study=values["study"],
            operation=values["operation"],
            payload=Payload(values["request"], whole.arrays),
            step=values["step"],
            protocol=values["protocol"],
        )

    def sign(self, key: PrivateKey, evidence: Sequence[bytes] = ()) -> bytes:
        """Return the message with the coordinator's signature and the evidence behind it."""
        body = self.encode()
        return join_parts([body, sign_bytes(body, key, namespace=QUESTION), *evidence])

    @classmethod
    def open(cls, content: bytes, coordinator: PublicKey) -> tuple[Self, tuple[bytes, ...]]:
        """Return a question that the coordinator signed, and the evidence that came with it.

        Raises
        ------
        InvalidMessage, SignatureError
        """
        parts = split_parts(content)
        if len(parts) < 2:
            raise InvalidMessage("a question has a body and a signature.")
        verify_bytes(parts[1], parts[0], coordinator, namespace=QUESTION)
        return cls.decode(parts[0]), tuple(parts[2:])


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """What a party sent, as it signed it.

    Parameters
    ----------
    payload : Payload
        Arrays, receipt, the ledger's head, and what it is about.
    signature : bytes
        Of the party, over the whole payload.
    """

    payload: Payload
    signature: bytes

    @classmethod
    def sign(cls, payload: Payload, key: PrivateKey) -> Self:
        """Sign what :func:`~confrere.federation.serve` returned."""
        return cls(payload, sign_bytes(payload.encode(), key, namespace=ANSWER))

    @classmethod
    def open(cls, content: bytes, keys: Mapping[str, PublicKey]) -> Self:
        """Read an answer that one of ``keys``' owners signed in its own name.

        Raises
        ------
        InvalidMessage, SignatureError
        """
        parts = split_parts(content)
        if len(parts) != 2:
            raise InvalidMessage("an answer has a body and a signature.")
        answer = cls(Payload.decode(parts[0]), parts[1])
        key = keys.get(answer.party)
        if key is None:
            raise SignatureError("an answer is in the name of somebody who is not in the study.")
        verify_bytes(answer.signature, parts[0], key, namespace=ANSWER)
        return answer

    def encode(self) -> bytes:
        """Return the message."""
        return join_parts([self.payload.encode(), self.signature])

    @property
    def about(self) -> Mapping[str, Any]:
        """Whose answer it is, and to what."""
        about = self.payload.values.get("about")
        if not isinstance(about, dict) or about.keys() != _ABOUT:
            raise InvalidMessage("an answer says whose it is, and to which question.")
        return about

    @property
    def party(self) -> str:
        """Who signed it."""
        return str(self.about["party"])

    @property
    def head(self) -> str | None:
        """Where the party's ledger stood."""
        head = self.payload.values.get("head")
        return head if isinstance(head, str) else None

    @property
    def receipt(self) -> Receipt | None:
        """What the party paid."""
        return receipt_of(self.payload)

    def answers(self, question: Question) -> bool:
        """Whether it is the answer to this very question."""
        about = self.about
        asked = (question.run, question.study, question.operation, question.step)
        told = tuple(about[name] for name in ("run", "study", "operation", "step"))
        return told == asked and about["question"] == question.payload.digest


def refusal(error: PartyError) -> bytes:
    """Return the reply of a party that does not answer: a code, never a word."""
    return Payload({"error": error.code}).encode()


def refused(content: bytes) -> PartyError | None:
    """Read a refusal; None if the reply is something else."""
    try:
        reply = Payload.decode(content)
        if reply.values.keys() == {"error"} and not reply.arrays:
            return PartyError(reply.values["error"])
    except InvalidMessage:
        pass
    return None


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Return several byte strings as one, each after its length."""
    return _MAGIC + b"".join(len(part).to_bytes(8) + part for part in parts)


def split_parts(content: bytes) -> list[bytes]:
    """Read what :func:`join_parts` wrote, and nothing else."""
    if not isinstance(content, bytes) or not content.startswith(_MAGIC):
        raise InvalidMessage("not a message of this library.")
    if len(content) > MAX_BYTES:
        raise InvalidMessage(f"a message is at most {MAX_BYTES >> 20} MiB.")
    parts: list[bytes] = []
    place = len(_MAGIC)
    while place < len(content):
        length = int.from_bytes(content[place : place + 8])
        begin, place = place + 8, place + 8 + length
        if begin > len(content) or place > len(content) or len(parts) == _MAX_PARTS:
            raise InvalidMessage("a part of the message is longer than the message.")
        parts.append(content[begin:place])
    return parts


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hex."""
    return hashlib.sha256(content).hexdigest()
