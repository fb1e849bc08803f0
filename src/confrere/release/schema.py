"""The card's JSON schema, and the part of JSON Schema it is written in.

The schema is the one place where the card's shape is said. The keywords below are all that is
understood; any other keyword is an error, so no rule in the schema can go unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

#: Keyword -> (type of value it speaks about, whether the value obeys it).
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda value, limit: value >= limit),
    "maximum": ("number", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("number", lambda value, limit: value > limit),
    "exclusiveMaximum": ("number", lambda value, limit: value < limit),
    "minLength": ("string", lambda value, limit: len(value) >= limit),
    "maxLength": ("string", lambda value, limit: len(value) <= limit),
    "minItems": ("array", lambda value, limit: len(value) >= limit),
    "pattern": ("string", lambda value, limit: re.search(limit, value) is not None),
}

_READ_ELSEWHERE = {"$schema", "$defs", "title", "description", "properties"}


@cache
def card_schema() -> Schema:
    """Return the schema of ``card.json``, as packaged."""
    content = resources.files("confrere.release").joinpath("card.schema.json").read_text("utf-8")
    schema: Schema = json.loads(content)
    return schema


def violations(value: Any, schema: Schema, root: Schema | None = None) -> Iterator[str]:
    """Yield what is wrong, as ``where: rule``; never a value.

    Parameters
    ----------
    value : JSON value
        What to check.
    schema : mapping
        The rules.
    root : mapping, optional
        Where ``$ref`` points into; ``schema`` itself by default.
    """
    yield from _violations(value, schema, root or schema, "card")


def _violations(value: Any, schema: Schema, root: Schema, where: str) -> Iterator[str]:
    for keyword, rule in schema.items():
        if keyword == "$ref":
            yield from _violations(value, _resolve(rule, root), root, where)
        elif keyword == "anyOf":
            if all(any(_violations(value, one, root, where)) for one in rule):
                yield f"{where}: fits none of the allowed shapes"
        elif keyword == "type":
            if not _TYPES[rule](value):
                yield f"{where}: must be of type {rule}"
        elif keyword in ("const", "enum"):
            allowed = [rule] if keyword == "const" else rule
            if not any(type(value) is type(one) and value == one for one in allowed):
                yield f"{where}: must be one of {allowed}"
        elif keyword in _LIMITS:
            kind, obeys = _LIMITS[keyword]
            if _TYPES[kind](value) and not obeys(value, rule):
                yield f"{where}: {keyword} is {rule}"
        elif keyword == "items":
            for position, item in enumerate(value if isinstance(value, list) else ()):
                yield from _violations(item, rule, root, f"{where}[{position}]")
        elif keyword == "required":
            if isinstance(value, dict):
                yield from (f"{where}: lacks {name}" for name in rule if name not in value)
        elif keyword == "additionalProperties":
            yield from _properties(value, schema, root, where)
        elif keyword not in _READ_ELSEWHERE:
            raise NotImplementedError(f"the schema's keyword {keyword} is not understood")


def _properties(value: Any, schema: Schema, root: Schema, where: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in known:
            yield from _violations(item, known[name], root, f"{where}.{name}")
        elif others is False:
            yield f"{where}: has a field that the schema does not know"
        else:
            yield from _violations(item, others, root, f"{where}.{name}")


def _resolve(reference: str, root: Schema) -> Schema:
    found: Schema = root["$defs"][reference.removeprefix("#/$defs/")]
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
