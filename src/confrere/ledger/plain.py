"""What may be written into a ledger: short texts and small plain JSON values, never data."""

from __future__ import annotations

import math
import re
from typing import Any

from confrere.errors import InvalidParameter
from confrere.ledger.chain import canonical

_LONGEST_TEXT = 200
_LONGEST_JSON = 16_384
_DEEPEST_JSON = 16
_FIRST_TOO_LARGE_INT = 2**63
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")


def check_text(value: object, name: str) -> str:
    """Return ``value`` if it is one printable, not too long line."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a str, got a {type(value).__name__}.")
    if not value.strip() or not value.isprintable() or len(value) > _LONGEST_TEXT:
        raise InvalidParameter(
            f"{name} must be one line of 1 to {_LONGEST_TEXT} printable characters."
        )
    return str(value)


def check_code(value: object, name: str) -> str:
    """Return ``value`` if it is a code like ``"SolverFailed"``, which cannot quote the data."""
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        raise InvalidParameter(
            f"{name} must be a code such as 'CalibrationError': a letter, then letters, digits, "
            "'_', '.', ':' or '-', 64 at most. An error's message may quote data; its class's "
            "name does not."
        )
    return str(value)


def check_json(value: Any, name: str) -> Any:
    """Return ``value`` if it is made of plain JSON values and small."""
    _check_plain(value, name, depth=0)
    if len(canonical(value)) > _LONGEST_JSON:
        raise InvalidParameter(
            f"{name} is longer than {_LONGEST_JSON} characters of JSON: a ledger holds facts "
            "about a release, not data."
        )
    return value


def _check_plain(value: object, name: str, *, depth: int) -> None:
    if depth > _DEEPEST_JSON:
        raise InvalidParameter(f"{name} is nested deeper than {_DEEPEST_JSON} levels.")
    if value is None or isinstance(value, str):
        return
    if isinstance(value, int):
        if abs(value) >= _FIRST_TOO_LARGE_INT:
            raise InvalidParameter(f"{name} must be an int of 64 bits at most.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameter(f"{name} must be finite to be written as JSON.")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_plain(item, f"{name}[{position}]", depth=depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidParameter(f"{name} must have str keys, got a {type(key).__name__}.")
            _check_plain(item, f"{name}[{key!r}]", depth=depth + 1)
    else:
        raise InvalidParameter(
            f"{name} must be a plain JSON value (number, str, bool, None, list, dict), "
            f"got a {type(value).__name__}."
        )
