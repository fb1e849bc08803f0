"""A schema as plain values and as the ``[data]`` tables of a study file; what differs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from confrere.errors import SchemaError
from confrere.schema.bounded_toml import TooDeep, parse_bounded
from confrere.schema.discrete import Category, Flag, Ordered
from confrere.schema.feature import Feature, Number
from confrere.schema.label import Label
from confrere.schema.paid_facts import PaidFacts

_Fact = TypeVar("_Fact", bound=Feature | Label)

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

_KINDS: dict[str, type[Feature]] = {
    "number": Number,
    "ordered": Ordered,
    "category": Category,
    "flag": Flag,
}


def write_schema(
    features: Sequence[Feature],
    label: Label | None,
    clip_norm: float | str,
    note: str,
    paid: Sequence[PaidFacts] = (),
) -> dict[str, Any]:
    """Return plain values; what was not declared is left out."""
    facts: dict[str, Any] = {} if label is None else {"label": label.to_dict()}
    facts["clip_norm"] = clip_norm
    if note:
        facts["note"] = note
    if paid:
        facts["paid"] = [one.to_dict() for one in paid]
    facts["features"] = [feature.to_dict() for feature in features]
    return facts


def read_schema(
    facts: Mapping[str, Any],
) -> tuple[tuple[Feature, ...], Label | None, Any, str, tuple[PaidFacts, ...]]:
    """Return features, label, clipping norm, note and paid facts from plain values."""
    _refuse_unknown("the schema", facts, {"label", "clip_norm", "note", "features", "paid"})
    paid = facts.get("paid", [])
    if not isinstance(paid, list):
        raise SchemaError("paid must be a list of tables: learned and receipts.")
    label = facts.get("label")
    note = facts.get("note", "")
    if not isinstance(note, str):
        raise SchemaError("note must be a text.")
    features = tuple(_read_feature(entry) for entry in _entries(facts.get("features")))
    return (
        features,
        None if label is None else _read_label(label),
        facts.get("clip_norm", "rms"),
        note,
        tuple(map(PaidFacts.from_dict, paid)),
    )


def _entries(features: object) -> list[Mapping[str, Any]]:
    """Return a list of facts, from a list or from a table of column to facts."""
    if isinstance(features, Mapping):
        for column, entry in features.items():
            if not isinstance(entry, Mapping):
                raise SchemaError(f"column {column!r}: its facts must be a table.")
        return [{"column": column, **entry} for column, entry in features.items()]
    if isinstance(features, list) and all(isinstance(entry, Mapping) for entry in features):
        return features
    raise SchemaError("features must be a table of columns.")


def _read_feature(entry: Mapping[str, Any]) -> Feature:
    column = entry.get("column")
    if not isinstance(column, str):
        raise SchemaError("every feature needs a column name: a non-empty text.")
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"column {column!r}: kind must be one of {', '.join(_KINDS)}.")
    return _build(
        _KINDS[kind], f"column {column!r}", {k: v for k, v in entry.items() if k != "kind"}
    )


def _read_label(entry: object) -> Label:
    if not isinstance(entry, Mapping):
        raise SchemaError("label must be a table: column, positive, ...")
    return _build(Label, "label", entry)


def _build(kind: type[_Fact], what: str, entry: Mapping[str, Any]) -> _Fact:
    _refuse_unknown(what, entry, {fact.name for fact in fields(kind)})
    lacking = [f.name for f in fields(kind) if f.default is MISSING and f.name not in entry]
    if lacking:
        raise SchemaError(f"{what}: needs {', '.join(map(repr, lacking))}.")
    return kind(**entry)


def _refuse_unknown(what: str, facts: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(facts) - known)
    if unknown:
        raise SchemaError(f"{what}: does not know {', '.join(map(repr, unknown))}.")


def difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return one line per fact of two written schemas that differs; notes have no meaning."""
    lines = _differing("label", here.get("label", {}), there.get("label", {}))
    lines += _differing("", {"clip_norm": here["clip_norm"]}, {"clip_norm": there["clip_norm"]})
    ours = {entry["column"]: entry for entry in here["features"]}
    theirs = {entry["column"]: entry for entry in there["features"]}
    lines += [f"{column}: declared here only" for column in ours if column not in theirs]
    lines += [f"{column}: declared there only" for column in theirs if column not in ours]
    common = [column for column in ours if column in theirs]
    for column in common:
        lines += _differing(column, ours[column], theirs[column])
    if common != [column for column in theirs if column in ours]:
        lines.append("features: the order differs")
    if here.get("paid", []) != there.get("paid", []):
        lines.append("paid: other facts were paid for, or by other receipts")
    return lines


def _differing(name: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    prefix = f"{name}." if name else ""
    return [
        f"{prefix}{key}: {_shown(here, key)} here, {_shown(there, key)} there"
        for key in dict.fromkeys([*here, *there])
        if _shown(here, key) != _shown(there, key)
    ]


def _shown(facts: Mapping[str, Any], key: str) -> str:
    return json.dumps(facts[key], ensure_ascii=False) if key in facts else "not declared"


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
        tables = parse_bounded(text)
    except (tomllib.TOMLDecodeError, TooDeep) as problem:
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
