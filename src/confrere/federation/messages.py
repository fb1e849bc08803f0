"""What is said: questions, which a coordinator signs, and answers and codes, which a party gives.

Between machines everything is bytes in one canonical form, a signature in OpenSSH's format, and a
namespace, so that what was signed for one purpose is worth nothing for another. A question names
run, study, operation and step; an answer says in what is signed whose it is, to which question,
what it cost and where the ledger stood. Replies of others travel along as evidence: they are as
their parties signed them.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confrere.errors import (
    ConfrereError,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
    SignatureError,
)
from confrere.federation.expected import receipt_of
from confrere.federation.payload import MAX_BYTES, Payload
from confrere.ledger import Receipt
from confrere.release.signing import PrivateKey, PublicKey, sign_bytes, verify_bytes

#: Version of what is said; a question in another one is refused.
PROTOCOL = 2

#: The largest message that a transport has to carry; a question grows with the evidence behind it.
MAX_MESSAGE = (64 << 20) - (1 << 16)

QUESTION, ANSWER = "confrere-question", "confrere-answer"

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FIELDS = frozenset({"protocol", "run", "operation", "step", "study", "request"})
_ABOUT = frozenset({"party", "run", "study", "operation", "step", "question"})
_MAX_NAME = 64
_MAX_PARTS = 1 << 16
_MAGIC = b"CONFRERE-PARTS-1"


@dataclass(frozen=True, slots=True)
class PartyError:
    """Why a party did not answer: a code, and nothing that could quote its data.

    Parameters
    ----------
    code : str
        ``"BudgetExceeded"``, ``"OperationRefused:schema"``, ``"Unreachable"`` and the like.
    """

    code: str

    def __post_init__(self) -> None:
        if not isinstance(self.code, str) or not _CODE.fullmatch(self.code):
            raise InvalidMessage("a party's error must be a code of 64 characters at most.")

    @classmethod
    def of(cls, error: BaseException) -> PartyError:
        """Reduce an exception to its code; foreign exceptions are told apart from ours only."""
        if isinstance(error, OperationRefused):
            return cls(f"OperationRefused:{error.reason}")
        return cls(type(error).__name__ if isinstance(error, ConfrereError) else "InternalError")


def new_run() -> str:
    """Return a fresh name for a run."""
    return uuid.uuid4().hex


def check_run(run: object) -> str:
    """Return ``run`` if it can name a run: letters, digits, ``-`` and ``_``, 64 at most."""
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise InvalidParameter("run must be letters, digits, '-' or '_', 64 at most.")
    return run


@dataclass(frozen=True, slots=True)
class Question:
    """What a party is asked.

    Parameters
    ----------
    run : str
        Name of the run.
    study : str or None
        Hash of the study that it is about, or fingerprint of the schema.
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
    study: str | None
    operation: str
    payload: Payload
    step: int = 0
    protocol: int = PROTOCOL

    @property
    def digest(self) -> str:
        """The name of what is asked; run, operation and step are its key."""
        return hashlib.sha256(f"{self.payload.digest} {self.study or ''}".encode()).hexdigest()

    def about(self, party: str) -> dict[str, Any]:
        """Say whose answer it is, and to which question: what a signature covers."""
        return {
            "party": party,
            "run": self.run,
            "study": self.study,
            "operation": self.operation,
            "step": self.step,
            "question": self.payload.digest,
        }

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
        return self.about == question.about(self.party)


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
