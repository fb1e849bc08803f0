"""What is said: questions, which a coordinator signs, and answers and codes, which a party gives.

A **payload** is named arrays and plain values in one canonical form: a magic word, a version, a
JSON header of known length, then the arrays' bytes. Equal payloads have equal bytes, so a digest
names a payload; bytes that are not exactly what encoding would produce are refused. What is
**expected** of an answer comes from public facts alone, the request and the party's declared size:
bounds are so wide that an honest answer leaves them with probability 1e-18, and so narrow that a
party which lies moves the result by a stated amount at most. Between machines everything has a
signature in OpenSSH's format, in a namespace of its own. Replies of others travel along as
evidence, as their parties signed them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

from confrere.errors import (
    ConfrereError,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
    SignatureError,
)
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.release.signing import PrivateKey, PublicKey, sign_bytes, verify_bytes

Values = dict[str, Any]
Array = NDArray[Any]
Arrays = dict[str, Array]

#: Version of what is said; another one is refused.
FORMAT = 4
MAX_BYTES = 1 << 28
MAX_HEADER = 1 << 20
MAX_ARRAYS = 64
MAX_DIMENSIONS = 4

#: What a signature, a receipt and a place on a roster take of a message, at the most.
MOST_SIGNED = 4096

_PAYLOAD_MAGIC = b"CONFRERE"
_PREFIX = len(_PAYLOAD_MAGIC) + 2 + 4
_DTYPES = {"<f8": 8, "<f4": 4, "<i8": 8, "|b1": 1, "|u1": 1}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MAX_DEPTH = 8
_MAX_TEXT = 4096
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@final
class Payload:
    """Named arrays and plain values; immutable, refused when made if anything may not cross."""

    __slots__ = ("_bytes", "arrays", "values")

    #: Arrays of float64, float32, int64, bool or uint8 (bytes); finite
    arrays: Mapping[str, Array]
    #: Plain JSON values: None, bool, int of 64 bits, finite float, printable str, list, dict
    values: Mapping[str, Any]

    def __init__(
        self, values: Mapping[str, Any] | None = None, arrays: Mapping[str, ArrayLike] | None = None
    ) -> None:
        given = dict(values or {})
        _check_plain(given, depth=0)
        self.values = MappingProxyType(json.loads(_canonical(given)))
        self.arrays = MappingProxyType(
            {name: _frozen(name, array) for name, array in sorted((arrays or {}).items())}
        )
        if len(self.arrays) > MAX_ARRAYS:
            raise InvalidMessage(f"a payload has at most {MAX_ARRAYS} arrays; stack them.")
        self._bytes: bytes | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        if self._bytes is None:
            shapes = [[n, a.dtype.str, list(a.shape)] for n, a in self.arrays.items()]
            header = _canonical({"arrays": shapes, "values": dict(self.values)}).encode()
            if len(header) > MAX_HEADER:
                raise InvalidMessage("values are too long; send numbers as arrays.")
            size = _PREFIX + len(header) + sum(a.nbytes for a in self.arrays.values())
            if size > MAX_BYTES:
                raise InvalidMessage(f"a payload has at most {MAX_BYTES >> 20} MiB.")
            prefix = _PAYLOAD_MAGIC + FORMAT.to_bytes(2) + len(header).to_bytes(4)
            self._bytes = b"".join([prefix, header, *(a.tobytes() for a in self.arrays.values())])
        return self._bytes

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read what :meth:`encode` wrote, and nothing else."""
        if not isinstance(content, bytes) or len(content) > MAX_BYTES:
            raise InvalidMessage(f"a message is at most {MAX_BYTES >> 20} MiB of bytes.")
        if len(content) < _PREFIX or not content.startswith(_PAYLOAD_MAGIC):
            raise InvalidMessage("not a message of this library.")
        if int.from_bytes(content[len(_PAYLOAD_MAGIC) : len(_PAYLOAD_MAGIC) + 2]) != FORMAT:
            raise InvalidMessage(f"the message has another wire format than {FORMAT}.")
        end = _PREFIX + int.from_bytes(content[_PREFIX - 4 : _PREFIX])
        if end - _PREFIX > MAX_HEADER or end > len(content):
            raise InvalidMessage("the header is longer than allowed, or than the message.")
        try:
            header = json.loads(content[_PREFIX:end].decode("ascii"))
            payload = cls(header["values"], _read_arrays(header["arrays"], content, end))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            raise InvalidMessage("the header is not JSON of arrays and values.") from None
        # Other spellings of the same content (spaces, key order, 1e0) are other messages.
        if payload.encode() != content:
            raise InvalidMessage("the message is not in canonical form.")
        return payload

    def __eq__(self, other: object) -> bool:
        return self.encode() == other.encode() if isinstance(other, Payload) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        arrays = {name: array.shape for name, array in self.arrays.items()}
        return f"Payload(values={sorted(self.values)}, arrays={arrays})"


def _frozen(name: str, value: ArrayLike) -> Array:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidMessage("an array's name is letters, digits and '_', 64 at most.")
    given = np.asarray(value)
    dtype = given.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise InvalidMessage(f"array {name!r} must be float64, float32, int64, bool or uint8.")
    if given.ndim > MAX_DIMENSIONS or given.nbytes > MAX_BYTES:
        raise InvalidMessage(f"array {name!r} has too many dimensions or bytes.")
    if dtype.kind == "f" and not np.all(np.isfinite(given)):
        raise InvalidMessage(f"array {name!r} must be finite.")
    copy = np.array(given, dtype=dtype, order="C")
    if dtype.kind == "b":
        copy = np.asarray(copy.view("|u1") != 0)  # bytes of others may be neither 0 nor 1
    copy.flags.writeable = False
    return copy


def _read_arrays(entries: list[tuple[str, str, list[int]]], content: bytes, start: int) -> Arrays:
    """Return the arrays that a header describes; what is left over is not canonical."""
    arrays: Arrays = {}
    for name, dtype, shape in entries:
        body = content[start : start + math.prod(shape) * _DTYPES[dtype]]
        arrays[name] = np.frombuffer(body, dtype=dtype).reshape(shape)
        start += len(body)
    return arrays


_PLAIN: Mapping[type, Callable[[Any], bool]] = {
    type(None): lambda _: True,
    bool: lambda _: True,
    int: lambda value: value.bit_length() <= 63,
    float: math.isfinite,
    str: lambda value: len(value) <= _MAX_TEXT and value.isprintable(),
    list: lambda _: True,
    dict: lambda value: all(type(key) is str for key in value),
}


def _check_plain(value: object, *, depth: int) -> None:
    fine = depth <= _MAX_DEPTH and type(value) in _PLAIN and _PLAIN[type(value)](value)
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    for item in inner if fine and isinstance(inner, list) else ():
        _check_plain(item, depth=depth + 1)
    if not fine:
        raise InvalidMessage(
            f"values are None, truth values, whole numbers of 64 bits, finite floats, printable "
            f"texts of {_MAX_TEXT} characters, and lists and tables of them, {_MAX_DEPTH} deep."
        )


def alike(one: object, other: object, rel: float, near: float = 0.0) -> bool:
    """Whether two documents say the same, numbers but for their last bits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[k], other[k], rel, near) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(*pair, rel, near) for pair in pairs)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=rel, abs_tol=near)
    if type(one) is not type(other):
        return False
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape or one.dtype.kind != "f":
        return one.dtype == other.dtype and bool(np.array_equal(one, other))
    # Scaled first: squares of numbers beyond 1e154 would overflow, and agree with anything.
    largest = max(float(np.abs(array).max(initial=0.0)) for array in (one, other)) or 1.0
    one, other = one / largest, other / largest
    scale = max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
    return float(np.linalg.norm(one - other)) <= rel * scale


#: Probability with which honest noise may be longer than a bound reckons with.
FARTHEST = 1e-18

#: More records than any organisation has.
MOST_RECORDS = 10**10

#: A large number of records, in dry runs.
_MANY = 10**6

_RECEIPT = "receipt"


@dataclass(frozen=True)
class Numbers:
    shape: tuple[int, ...]
    dtype: str = "<f8"
    longest: float = math.inf  #: The largest Euclidean norm
    lowest: float = -math.inf  #: Of every entry
    highest: float = math.inf

    def fault(self, array: Array | None) -> str | None:
        if array is None or array.shape != self.shape or array.dtype.str != self.dtype:
            return "shape"
        if not np.all((array >= self.lowest) & (array <= self.highest)):
            return "range"
        # Scaled first: squares of numbers beyond 1e154 would overflow.
        largest = float(np.abs(array).max(initial=0.0))
        if largest > 0 and largest * float(np.linalg.norm(array / largest)) > self.longest:
            return "norm"
        return None

    def made_up(self, rng: np.random.Generator, size: float) -> Array:
        draws = rng.uniform(0.5, 1.0, size=self.shape)
        if self.dtype == "<f8":
            return np.asarray(draws * min(1.0, self.longest / (1 + math.prod(self.shape))))
        if self.dtype == "|b1":
            return np.asarray(draws > 0.75)
        low, high = max(self.lowest, 1), min(self.highest, _MANY)
        return np.asarray(np.rint(low + draws * size * (high - low)), dtype=self.dtype)


@dataclass(frozen=True)
class ResponseSpec:
    """An answer of one party, as far as it is known before it comes."""

    arrays: Mapping[str, Numbers]  #: Exactly these
    guarantee: Guarantee | None = None  #: What it spends; None if only public facts leave

    def fault(self, answer: Payload) -> str | None:
        if answer.arrays.keys() != self.arrays.keys():
            return "shape"
        for name, numbers in self.arrays.items():
            fault = numbers.fault(answer.arrays[name])
            if fault is not None:
                return fault
        try:
            receipt = receipt_of(answer)
        except InvalidMessage:
            return _RECEIPT
        if receipt is None:
            return None if self.guarantee is None else _RECEIPT
        if self.guarantee is None or terms(receipt.guarantee) != terms(self.guarantee):
            return "price"
        return None

    def made_up(self, rng: np.random.Generator, size: float) -> Payload:
        return Payload(arrays={name: n.made_up(rng, size) for name, n in self.arrays.items()})


#: From a party's name to what its answer must be.
Expect = Callable[[str], ResponseSpec]


def receipt_of(answer: Payload) -> Receipt | None:
    values = answer.values.get(_RECEIPT)
    if values is None:
        return None
    try:
        return Receipt.from_dict(values)
    except Exception:  # whatever a stranger put there: it is not a receipt
        raise InvalidMessage("an answer's receipt is not one.") from None


def paid_for(answers: Mapping[str, Payload]) -> dict[str, tuple[Receipt, ...]]:
    """Return what each has paid for its answer: nothing where only public facts leave."""
    found = {name: receipt_of(answer) for name, answer in answers.items()}
    return {name: () if one is None else (one,) for name, one in found.items()}


def terms(guarantee: Guarantee) -> tuple[float, float, str, str]:
    return (guarantee.epsilon, guarantee.delta, str(guarantee.unit), str(guarantee.neighbours))


QUESTION, ANSWER = "confrere-question", "confrere-answer"

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_PARTS = 1 << 16
_PARTS_MAGIC = b"CONFRERE-PARTS-1"
_Name = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True)
class PartyError:
    """Why a party did not answer: a code, and nothing that could quote its data."""

    #: ``"BudgetExceeded"``, ``"OperationRefused:schema"``, ``"Unreachable"`` and the like
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
    return uuid.uuid4().hex


def check_run(run: object) -> str:
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise InvalidParameter("run must be letters, digits, '-' or '_', 64 at most.")
    return run


_STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


@checked(frozen=True, slots=True, config=_STRICT)
class Question:
    """What a party is asked."""

    run: Annotated[str, Field(pattern=f"^{_RUN.pattern}$")]  #: Name of the run
    study: _Name | None  #: Hash of the study that it is about, or fingerprint of the schema
    operation: _Name  #: What is asked for
    payload: Payload  #: The request
    step: int = 0  #: Which time in the run; of a sum, which try
    #: Of a try at a sum: the signed keys, in hex, of who is in it. An empty one asks who is ready.
    roster: dict[str, str] | None = None

    @property
    def asks_ready(self) -> bool:
        return self.roster == {}

    @property
    def keys(self) -> Mapping[str, str]:
        return self.roster or {}

    @property
    def digest(self) -> str:
        """The name of what is asked; run, operation and step are its key."""
        told = _canonical([self.payload.digest, self.study, self.roster and dict(self.roster)])
        return hashlib.sha256(told.encode()).hexdigest()

    @property
    def _address(self) -> Values:
        return {n: getattr(self, n) for n in ("run", "study", "operation", "step")}

    def about(self, party: str) -> Values:
        """Say whose answer it is, and to which question: what a signature covers."""
        return self._address | {"party": party, "question": self.digest}

    def encode(self) -> bytes:
        told = self._address | {"request": dict(self.payload.values), "roster": self.roster}
        return Payload(told, self.payload.arrays).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        whole = Payload.decode(content)
        told = dict(whole.values)
        try:
            payload = Payload(told.pop("request"), whole.arrays)
            return cls(payload=payload, step=told.pop("step"), roster=told.pop("roster"), **told)
        except (KeyError, TypeError, ValueError):
            raise InvalidMessage("a question has a run, study, operation and request.") from None

    def sign(self, key: PrivateKey, evidence: Sequence[bytes] = ()) -> bytes:
        body = self.encode()
        return join_parts([body, sign_bytes(body, key, namespace=QUESTION), *evidence])

    @classmethod
    def open(cls, content: bytes, coordinator: PublicKey) -> tuple[Self, tuple[bytes, ...]]:
        """Return a question that the coordinator signed, and the evidence that came with it."""
        parts = split_parts(content)
        if len(parts) < 2:
            raise InvalidMessage("a question has a body and a signature.")
        verify_bytes(parts[1], parts[0], coordinator, namespace=QUESTION)
        return cls.decode(parts[0]), tuple(parts[2:])


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """What a party sent, as it signed it."""

    payload: Payload  #: Arrays, receipt, the ledger's head, and what it is about
    signature: bytes  #: Of the party, over the whole payload

    @classmethod
    def sign(cls, payload: Payload, key: PrivateKey) -> Self:
        return cls(payload, sign_bytes(payload.encode(), key, namespace=ANSWER))

    @classmethod
    def open(cls, content: bytes, keys: Mapping[str, PublicKey]) -> Self:
        """Read an answer that one of ``keys``' owners signed in its own name."""
        parts = split_parts(content)
        if len(parts) != 2:
            raise InvalidMessage("an answer has a body and a signature.")
        answer = cls(Payload.decode(parts[0]), parts[1])
        if len(_canonical(dict(answer.payload.values))) + len(parts[1]) > MOST_SIGNED:
            raise InvalidMessage("an answer says more than whose it is, its cost and its question.")
        key = keys.get(answer.party)
        if key is None:
            raise SignatureError("an answer is in the name of somebody who is not in the study.")
        verify_bytes(answer.signature, parts[0], key, namespace=ANSWER)
        return answer

    def encode(self) -> bytes:
        return join_parts([self.payload.encode(), self.signature])

    @property
    def party(self) -> str:
        """Who signed it, by its own word."""
        about = self.payload.values.get("about")
        if not isinstance(about, dict) or not isinstance(about.get("party"), str):
            raise InvalidMessage("an answer says whose it is, and to which question.")
        return str(about["party"])

    @property
    def head(self) -> str | None:
        head = self.payload.values.get("head")
        return head if isinstance(head, str) else None

    @property
    def receipt(self) -> Receipt | None:
        return receipt_of(self.payload)

    def answers(self, question: Question) -> bool:
        return bool(self.payload.values.get("about") == question.about(self.party))


def refusal(error: PartyError) -> bytes:
    return Payload({"error": error.code}).encode()


def refused(content: bytes) -> PartyError | None:
    try:
        reply = Payload.decode(content)
        if reply.values.keys() == {"error"} and not reply.arrays:
            return PartyError(reply.values["error"])
    except InvalidMessage:
        pass
    return None


def join_parts(parts: Sequence[bytes]) -> bytes:
    return _PARTS_MAGIC + b"".join(len(part).to_bytes(8) + part for part in parts)


def split_parts(content: bytes) -> list[bytes]:
    if not isinstance(content, bytes) or not content.startswith(_PARTS_MAGIC):
        raise InvalidMessage("not a message of this library.")
    if len(content) > MAX_BYTES:
        raise InvalidMessage(f"a message is at most {MAX_BYTES >> 20} MiB.")
    parts: list[bytes] = []
    place = len(_PARTS_MAGIC)
    while place < len(content):
        length = int.from_bytes(content[place : place + 8])
        begin, place = place + 8, place + 8 + length
        if begin > len(content) or place > len(content) or len(parts) == _MAX_PARTS:
            raise InvalidMessage("a part of the message is longer than the message.")
        parts.append(content[begin:place])
    return parts
