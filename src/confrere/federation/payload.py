"""What crosses between organisations: named arrays and plain values, in one canonical form.

The form is a magic word, a version, a JSON header of known length, then the arrays' bytes. Equal
payloads have equal bytes, so a digest names a payload; bytes that are not exactly what encoding
would produce are refused. No pickle, no object, no size that was not compared with what is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidMessage

#: Version of the wire format; another one is refused.
FORMAT = 1
MAX_BYTES = 1 << 28
MAX_HEADER = 1 << 20
MAX_ARRAYS = 64
MAX_DIMENSIONS = 4

_MAGIC = b"CONFRERE"
_PREFIX = len(_MAGIC) + 2 + 4
_DTYPES = {"<f8": 8, "<f4": 4, "<i8": 8, "|b1": 1, "|u1": 1}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MAX_DEPTH = 8
_MAX_TEXT = 4096


@final
class Payload:
    """Named arrays and plain values; immutable, validated when made.

    Parameters
    ----------
    values : mapping, optional
        Plain JSON values: None, bool, int of 64 bits, finite float, printable str, list, dict.
    arrays : mapping, optional
        Arrays of float64, float32, int64, bool or uint8 (bytes); finite.

    Raises
    ------
    InvalidMessage
        If anything in it may not cross.
    """

    __slots__ = ("_bytes", "arrays", "values")

    arrays: Mapping[str, NDArray[Any]]
    values: Mapping[str, Any]

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        arrays: Mapping[str, ArrayLike] | None = None,
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
        """SHA-256 of the encoded payload, in hex."""
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        """Return the one byte string that stands for this payload."""
        if self._bytes is None:
            shapes = [[n, a.dtype.str, list(a.shape)] for n, a in self.arrays.items()]
            header = _canonical({"arrays": shapes, "values": dict(self.values)})
            if len(header) > MAX_HEADER:
                raise InvalidMessage("values are too long; send numbers as arrays.")
            size = _PREFIX + len(header) + sum(a.nbytes for a in self.arrays.values())
            if size > MAX_BYTES:
                raise InvalidMessage(f"a payload has at most {MAX_BYTES >> 20} MiB.")
            prefix = _MAGIC + FORMAT.to_bytes(2) + len(header).to_bytes(4)
            self._bytes = b"".join([prefix, header, *(a.tobytes() for a in self.arrays.values())])
        return self._bytes

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read what :meth:`encode` wrote, and nothing else.

        Raises
        ------
        InvalidMessage
            If the bytes are anything else.
        """
        if not isinstance(content, bytes) or len(content) > MAX_BYTES:
            raise InvalidMessage(f"a message is at most {MAX_BYTES >> 20} MiB of bytes.")
        if len(content) < _PREFIX or not content.startswith(_MAGIC):
            raise InvalidMessage("not a message of this library.")
        if int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + 2]) != FORMAT:
            raise InvalidMessage(f"the message has another wire format than {FORMAT}.")
        end = _PREFIX + int.from_bytes(content[_PREFIX - 4 : _PREFIX])
        if end - _PREFIX > MAX_HEADER or end > len(content):
            raise InvalidMessage("the header is longer than allowed, or than the message.")
        try:
            header = json.loads(content[_PREFIX:end].decode("ascii"))
        except (ValueError, RecursionError):
            raise InvalidMessage("the header is not plain JSON.") from None
        if not isinstance(header, dict) or header.keys() != {"arrays", "values"}:
            raise InvalidMessage("the header must hold arrays and values.")
        if not isinstance(header["values"], dict) or not isinstance(header["arrays"], list):
            raise InvalidMessage("the header must hold a list of arrays and an object of values.")
        payload = cls(header["values"], _read_arrays(header["arrays"], content, end))
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


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _frozen(name: str, value: ArrayLike) -> NDArray[Any]:
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
    copy.flags.writeable = False
    return copy


def _read_arrays(entries: list[Any], content: bytes, start: int) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 3 or len(arrays) == MAX_ARRAYS:
            raise InvalidMessage("an array is described by its name, dtype and shape.")
        name, dtype, shape = entry
        sizes_fit = (
            isinstance(shape, list)
            and len(shape) <= MAX_DIMENSIONS
            and all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape)
        )
        names_fit = isinstance(name, str) and name not in arrays and isinstance(dtype, str)
        if not names_fit or not sizes_fit or dtype not in _DTYPES:
            raise InvalidMessage("an array's name, dtype or shape is not allowed.")
        length = math.prod(shape) * _DTYPES[dtype]
        if start + length > len(content):
            raise InvalidMessage("an array is longer than the message.")
        body = content[start : start + length]
        if dtype == "|b1" and body.strip(b"\x00\x01"):
            raise InvalidMessage("a bool is 0 or 1.")
        arrays[name] = np.frombuffer(body, dtype=dtype).reshape(shape)
        start += length
    if start != len(content):
        raise InvalidMessage("the message is longer than its arrays.")
    return arrays


def _check_plain(value: object, *, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidMessage(f"values are nested deeper than {_MAX_DEPTH} levels.")
    if value is None or type(value) is bool:
        return
    if type(value) is int:
        if value.bit_length() > 63:
            raise InvalidMessage("a value must be an int of 64 bits at most.")
    elif type(value) is float:
        if not math.isfinite(value):
            raise InvalidMessage("a value must be finite.")
    elif type(value) is str:
        if len(value) > _MAX_TEXT or not (value.isprintable() or value == ""):
            raise InvalidMessage(f"a text must be printable, {_MAX_TEXT} characters at most.")
    elif type(value) is list:
        for item in value:
            _check_plain(item, depth=depth + 1)
    elif type(value) is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isprintable() or len(key) > _MAX_TEXT:
                raise InvalidMessage("a key must be a printable text.")
            _check_plain(item, depth=depth + 1)
    else:
        raise InvalidMessage(f"a {type(value).__name__} is not a plain value.")
