"""Read and write the ``[data]`` tables of a study file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confrere.errors import SchemaError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(source: str | Path) -> Mapping[str, Any]:
    """Return the ``data`` table of a file, or of a text of several lines."""
    if isinstance(source, Path) or "\n" not in source:
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise SchemaError(f"the schema cannot be read: {problem}.") from None
    else:
        text = source
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SchemaError(f"the schema is not valid TOML: {problem}.") from None
    data = tables.get("data")
    if not isinstance(data, dict):
        raise SchemaError("the schema needs a [data] table.")
    return data


def write_toml(facts: Mapping[str, Any]) -> str:
    """Return the text of what ``PublicSchema.to_dict`` gave, one line per feature."""
    lines = ["[data]"]
    lines += [f"{key} = {_written(facts[key])}" for key in facts if key != "features"]
    lines += ["", "[data.features]"]
    for entry in facts["features"]:
        rest = {key: value for key, value in entry.items() if key != "column"}
        lines.append(f"{_key(entry['column'])} = {_written(rest)}")
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_written(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value)  # truth values and numbers are written alike in both


def _text(value: str) -> str:
    # TOML shares JSON's escapes, but wants the delete character escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)
