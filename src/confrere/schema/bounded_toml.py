"""TOML that somebody else wrote: looked at before it is parsed, so that it takes no hour to.

A parser builds a table for every part of a dotted key, and remembers every beginning of it: 120 kB
of one key took more than 8 GB. What is refused here no study, schema or local file has.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

#: Parts of dotted keys in a line, and tables within tables.
_DEEPEST = 32
#: Tables of a file: a thousand parties, and columns.
_MOST_TABLES = 20_000

_SEPARATED = re.compile(r"[^\s,\[\]{}=#]+")
#: A number with a point, or one whole quoted word: no part of a dotted key. Were its first quote
#: the end of a key's part, a dot would follow; of a string, what follows would be no TOML.
_NO_KEY = re.compile(r"""[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|"[^".\\][^"\\]*"|'[^'.][^']*'""")


class TooDeep(ValueError):
    """A file that nobody needs; says which bound it breaks."""


def parse_bounded(text: str) -> dict[str, Any]:
    """Return what a TOML text holds.

    Raises
    ------
    TooDeep
        If it breaks a bound.
    tomllib.TOMLDecodeError
        If it is not TOML.
    """
    tables = 0
    for number, line in enumerate(text.split("\n"), 1):
        tables += line.lstrip().startswith("[")
        if line.count(".") > _DEEPEST and _dots(line) > _DEEPEST:
            raise TooDeep(f"line {number} has a key of more than {_DEEPEST} parts")
    if tables > _MOST_TABLES:
        raise TooDeep(f"it has more than {_MOST_TABLES} tables")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise TooDeep(f"it has more than {_DEEPEST} values within one another") from None
    level: list[Any] = [found]
    for _ in range(_DEEPEST):
        level = [inside for one in level for inside in _inside(one)]
    if level:
        raise TooDeep(f"it has more than {_DEEPEST} values within one another")
    return found


def _dots(line: str) -> int:
    """Return how many dots of a line may be within dotted keys, or some more."""
    words = _SEPARATED.findall(line)
    return sum(word.count(".") for word in words if not _NO_KEY.fullmatch(word))


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
