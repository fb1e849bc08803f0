"""JSON without its traps: no duplicate keys, no NaN, no surprises of depth or encoding."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import TypeAdapter, ValidationError

from confrere.errors import InvalidRelease

T = TypeVar("T")


def wrong(where: str, what: str) -> InvalidRelease:
    """Return the error to raise about a model."""
    return InvalidRelease(f"the model is wrong: {where} {what}.")


def json_bytes(value: object) -> bytes:
    """Return the text of a file of a release: readable, ending in a newline, order kept."""
    return (json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n").encode()


def canonical_bytes(value: object) -> bytes:
    """Return the form that is hashed: sorted keys, no spaces, ASCII."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def hashed_array(numbers: ArrayLike) -> dict[str, Any]:
    """Return what stands for numbers where they are hashed: the SHA-256 of their doubles.

    Little-endian, in C order. Decimal digits of many would take longer than learning them.
    """
    array = np.array(numbers, dtype="<f8")
    return {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}


def read_json(content: bytes, name: str) -> dict[str, Any]:
    """Return the object that ``content`` holds.

    Raises InvalidRelease if it is not one object of plain JSON.
    """
    try:
        value = _parse(content)
    except (ValueError, RecursionError) as error:
        raise InvalidRelease(f"{name} is not plain JSON; ask for the folder again.") from error
    if not isinstance(value, dict):
        raise InvalidRelease(f"{name} is not one JSON object; ask for the folder again.")
    return value


def _parse(content: bytes) -> Any:
    return json.loads(
        content.decode("utf-8"),
        object_pairs_hook=_no_duplicates,
        parse_constant=_no_constant,
        parse_float=_finite,
        parse_int=_machine_integer,
    )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def _machine_integer(text: str) -> int:
    value = int(text)
    if value.bit_length() > 63:
        raise ValueError("a number is too large")
    return value


def validated(adapter: TypeAdapter[T], value: object, name: str) -> T:
    """Return a JSON value as what a type says it is.

    Raises InvalidRelease: naming the first key that is wrong and the rule that it breaks, never its
    value.
    """
    try:
        content = canonical_bytes(value)
    except (TypeError, ValueError) as error:
        raise InvalidRelease(f"{name} holds something that is not JSON.") from error
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, (name, *first["loc"])))
    # This message alone would quote what was found.
    tagged = first["type"] == "union_tag_invalid"
    rule = "is none of the kinds there are" if tagged else first["msg"]
    raise InvalidRelease(f"{where}: {rule}. Ask who made it for a valid one.")
