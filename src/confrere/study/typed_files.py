"""TOML and JSON files as typed tables: unknown keys are refused, and no error prints a value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from confrere.errors import InvalidParameter, StudyError
from confrere.release.signing import read_key_line
from confrere.schema.bounded_toml import TooDeep, parse_bounded

_LARGEST_FILE = 1 << 20
# Cards refuse the word; better to hear it before anything is spent.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)

#: What is said of a fault, by pydantic's word for it; its own words quote values.
#: What to do about a file that is not there.
_FIND = {
    "the study": "give the path of a study; confrere init FOLDER writes one to begin with",
    "the plan": "give the path of a plan; confrere price STUDY --out PLAN writes one",
    "the local file": "give the path of a party's local file: --local FILE",
}
_SAID = {
    "missing": "is missing",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "string_type": "must be one line of text",
    "string_too_long": "must have {max_length} characters at most",
    "string_pattern_mismatch": "must be letters, digits, '.', '_' or '-', 64 at most",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be a number above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} at most",
    "list_type": "must be a list",
    "too_short": "must have {min_length} at least",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
}


def fault(what: str) -> PydanticCustomError:
    """Return the error that a validator raises: what is wrong, and no value."""
    return PydanticCustomError("said", "{what}", {"what": what})


class Table(BaseModel):
    """One table of a file: its keys and no others."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, values: Any) -> Any:
        if cls.model_config.get("extra") != "forbid" or not isinstance(values, Mapping):
            return values
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in values:
            if key not in known and key not in cls.model_fields:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}? It" if near else "it"
                raise PydanticCustomError(
                    "unknown_key",
                    "{what}",
                    {"what": f"{key!r}; {hint} knows {', '.join(sorted(known))}"},
                )
        return values

    @classmethod
    def read(cls, values: Any, what: str, **context: Any) -> Self:
        """Check what a file holds.

        Raises
        ------
        StudyError
            Naming the key; of several faults, the first.
        """
        try:
            return cls.model_validate(values, context=context)
        except ValidationError as error:
            raise StudyError(first_fault(error, what, values)) from None


def first_fault(error: ValidationError, what: str, values: Any = None) -> str:
    """Return the first fault: the key's path and what is wrong, never a value.

    A key that is missing may be there under a name that is nearly its own.
    """
    found: Any = error.errors(include_url=False, include_input=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    where = where.removeprefix(".")
    context = found.get("ctx", {})
    if found["type"] == "unknown_key":
        return f"{f'[{where}]' if where else what} does not know {context['what']}."
    said = context["what"] if found["type"] == "said" else None
    if said is None:
        said = _SAID.get(found["type"], "is not what belongs here").format(**context)
    if found["type"] == "missing":
        said += _misspelt(values, found["loc"])
    return f"{where or what}: {said}."


def _misspelt(values: Any, place: tuple[Any, ...]) -> str:
    for part in place[:-1]:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return ""
    keys = [str(key) for key in values] if isinstance(values, Mapping) else []
    near = get_close_matches(str(place[-1]), keys, n=1)
    return f"; did you write {near[0]!r} for it" if near else ""


def read_bytes(path: Path, what: str, largest: int = _LARGEST_FILE) -> bytes:
    """Return a file's content, or say that it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = stream.read(largest + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        fault = StudyError(f"{what} {path.name!r} cannot be read: {reason}.")
        raise fault.hinting(_FIND.get(what, "give its path")) from None
    if len(content) > largest:
        raise StudyError(f"{what} {path.name!r} is larger than {largest} bytes.")
    return content


def parse_toml(content: bytes, what: str) -> dict[str, Any]:
    """Return what a TOML file holds."""
    try:
        return parse_bounded(content.decode("utf-8"))
    except TooDeep as error:
        raise StudyError(f"{what} is not read: {error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise StudyError(f"{what} is not valid TOML: {told}.") from None


def parse_json(content: bytes, what: str) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise StudyError(f"{what} is not valid JSON.") from None


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise fault("must be one line of text")
    if _FORBIDDEN.search(text):
        raise fault("says anonymous; privacy here bounds a risk, say by how much")
    return text


def _public_key(line: str) -> str:
    try:
        read_key_line(line)
    except InvalidParameter:
        raise fault("must be a line 'ssh-ed25519 AAAA...'") from None
    return line


def _fingerprint(text: str) -> str:
    if not re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", text):
        raise fault("must be a fingerprint, 'SHA256:...', as confrere keys show prints it")
    return text


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise fault("must be a SHA-256: 64 of 0-9 and a-f")
    return text


def _number(value: Any) -> Any:
    """Let files write numbers as they like; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fault("must be a number")
    return float(value) if abs(value) < 2**53 else value


#: One printable line for people.
Text = Annotated[str, Field(max_length=200), AfterValidator(_one_line)]
#: What may name a party, a study or a release's folder.
Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), AfterValidator(_one_line)
]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1, allow_inf_nan=False)]
Delta = Annotated[float, BeforeValidator(_number), Field(ge=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, lt=2**53)]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Digest = Annotated[str, AfterValidator(_digest)]
Fingerprint = Annotated[str, AfterValidator(_fingerprint)]
PublicKeyLine = Annotated[Text, AfterValidator(_public_key)]
