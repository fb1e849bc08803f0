"""Read TOML tables strictly: every key is asked for, and what nobody asked for is refused."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confrere.errors import StudyError

#: What may name a party, a study or a release's folder.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LONGEST_TEXT = 200
_LARGEST_FILE = 1 << 20
# Cards refuse the word; better to hear it before anything is spent.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)
_REQUIRED: Any = object()


def read_bytes(path: Path, what: str) -> bytes:
    """Return a file's content, or say that it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise StudyError(f"{what} {path.name!r} cannot be read: {reason}.") from None
    if len(content) > _LARGEST_FILE:
        raise StudyError(f"{what} {path.name!r} is larger than {_LARGEST_FILE} bytes.")
    return content


def parse(content: bytes, what: str) -> Table:
    """Return the top table of a TOML file."""
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise StudyError(f"{what} is not valid TOML: {_first_line(error)}.") from None
    return Table(values, "")


class Table:
    """One table of a file; each getter takes a key, checks it and crosses it off.

    Parameters
    ----------
    values : mapping
        What TOML gave.
    name : str
        How messages call it; empty for the top of the file.
    """

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values = values
        self.name = name
        self._asked: set[str] = set()

    def error(self, key: str, what: str) -> StudyError:
        """Return an error that names the table and the key."""
        return StudyError(f"{self.name}.{key}: {what}." if self.name else f"{key}: {what}.")

    def done(self) -> None:
        """Refuse every key that nobody asked for."""
        unknown = sorted(set(self.values) - self._asked)
        if unknown:
            where = f"[{self.name}]" if self.name else "the file"
            known = ", ".join(sorted(self._asked))
            raise StudyError(
                f"{where} does not know {', '.join(map(repr, unknown))}; it knows {known}."
            )

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return one printable line."""
        value = self._take(key, default)
        if value is default:
            return value
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.error(key, "must be one line of text")
        if len(value) > _LONGEST_TEXT:
            raise self.error(key, f"must have {_LONGEST_TEXT} characters at most")
        if _FORBIDDEN.search(value):
            raise self.error(key, "says anonymous; privacy here bounds a risk, say by how much")
        return value

    def identifier(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a name that can be a file's name."""
        value = self.text(key, default)
        if value is not default and not NAME.fullmatch(value):
            raise self.error(key, "must be letters, digits, '.', '_' or '-', 64 at most")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: Any = _REQUIRED) -> Any:
        """Return one of several words."""
        value = self._take(key, default)
        if value is not default and (not isinstance(value, str) or value not in choices):
            raise self.error(key, f"must be one of {', '.join(map(repr, choices))}")
        return value

    def number(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a finite number above zero."""
        value = self._take(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "must be a number above 0")
        if not 0 < value <= 1e9 or not math.isfinite(value):
            raise self.error(key, "must be a number above 0, 1e9 at most")
        return float(value)

    def whole(self, key: str, default: Any = _REQUIRED, *, least: int = 1) -> Any:
        """Return a whole number."""
        value = self._take(key, default)
        if value is default:
            return value
        if type(value) is not int or not least <= value < 2**53:
            raise self.error(key, f"must be a whole number, {least} or more")
        return value

    def truth(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return true or false."""
        value = self._take(key, default)
        if value is not default and not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def texts(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of texts."""
        value = self._take(key, default)
        if value is default:
            return value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "must be a list of texts")
        return tuple(value)

    def table(self, key: str, *, required: bool = True) -> Table:
        """Return a table in this one; an empty one if it is not there and need not be."""
        value = self._take(key, _REQUIRED if required else {})
        if not isinstance(value, dict):
            raise self.error(key, "must be a table")
        return Table(value, self._path(key))

    def tables(self, key: str) -> list[Table]:
        """Return a list of tables, one at least."""
        value = self._take(key, _REQUIRED)
        if not isinstance(value, list) or not value or not all(isinstance(t, dict) for t in value):
            raise self.error(key, "must be one or more tables")
        return [Table(item, f"{self._path(key)}[{place}]") for place, item in enumerate(value)]

    def rest(self) -> dict[str, Any]:
        """Return, and cross off, everything not asked for yet."""
        left = {key: value for key, value in self.values.items() if key not in self._asked}
        self._asked |= set(left)
        return left

    def _path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def _take(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self.values.get(key, default)
        if value is _REQUIRED:
            raise self.error(key, "is missing")
        return value


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
