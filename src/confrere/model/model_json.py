"""A model in a folder: ``model.json``, plain numbers with answers to expect, and ``model.npz``.

The JSON is written and read strictly. The archive is the same bytes for the same arrays and holds
no code: members are stored, sorted by name, with a fixed date and headers of our own. Nothing here
reads such a file: whoever has the model makes the bytes again and compares, so that nothing can
hide in an archive, before it, after it or twice in it.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from confrere.arrays import Floats
from confrere.data.features import Told
from confrere.data.schema import PublicSchema
from confrere.errors import ConfrereError, InvalidParameter, InvalidRelease
from confrere.model.models import Encoder, Facts, Linear, Link, LowLevelModel, Model, Stack
from confrere.model.strict_json import json_bytes, read_json, validated, wrong

SCHEMA = "confrere-model/4"

#: How far two machines' tanh and exp may be apart; everything else has no slack at all.
TOLERANCE = 1e-12


#: What reading values that somebody else wrote may raise.
_OF_VALUES = (AttributeError, LookupError, TypeError, ValueError)
_UNREADABLE = (*_OF_VALUES, ArithmeticError, ConfrereError, RecursionError)
_FACTS = TypeAdapter(Facts)


def read_model(description: dict[str, Any]) -> Model:
    """Read what :meth:`Model.to_dict` wrote.

    What was read has to write the same again: no number changed, no shape bent, nothing unknown.

    Raises InvalidRelease if anything is missing, unknown, of the wrong shape or not finite.
    """
    try:
        model = _built(description)
        model.require_plain()
    except InvalidRelease:
        raise
    except _UNREADABLE:
        raise wrong("model", "must be what to_dict() writes, of the right types") from None
    difference = _differing(model.to_dict(), description)
    if difference is not None:
        raise wrong(difference, "must be in the form that is written")
    return model


def _built(told: dict[str, Any]) -> Model:
    encoder, link = told["encoder"], told["link"]
    if not told["classes"]:
        __import__("confrere.outcomes")  # knows what links scores to numbers
    kinds = {frozenset(vars(one())): one for one in [*Link.__subclasses__(), Link]}
    common: dict[str, Any] = {
        "classes": tuple(told["classes"]),
        "features": tuple(told["features"]),
        "encoder": None if encoder is None else _encoder(encoder),
        "facts": validated(_FACTS, told["facts"], "model.facts"),
        "link": kinds[frozenset(link)](**link) if isinstance(link, dict) else Link(),
    }
    if told["kind"] == "linear":
        return Linear(coef=told["coef"], intercept=told["intercept"], **common)
    try:
        groups = tuple(LowLevelModel(**one) for one in told["groups"])
    except TypeError:
        raise wrong("groups", "must be groups, each with every part and no other") from None
    own: dict[str, Any] = {name: told[name] for name in ("coef", "intercept", "combine")}
    return Stack(groups=groups, **own, **common)


def _encoder(told: dict[str, Any]) -> Encoder:
    labels = None if told["labels"] is None else tuple(told["labels"])
    schema = PublicSchema.from_dict(told["schema"])
    return Encoder.checked(Encoder(**{**told, "schema": schema, "labels": labels}))


def _differing(own: Any, given: Any, where: str = "model") -> str | None:
    """Return where two plain values are not the same text, or None."""
    if json_bytes(own) == json_bytes(given):
        return None
    if isinstance(own, dict) and isinstance(given, dict) and list(own) == list(given):
        parts = (_differing(own[key], given[key], f"{where}.{key}") for key in own)
        return next((part for part in parts if part is not None), where)
    return where


def model_document(model: Model, kind: str) -> bytes:
    """Return the content of ``model.json``; the kind is a method's name of the catalogue."""
    told = {"schema": SCHEMA, "kind": kind, "model": model.to_dict()}
    return json_bytes(told | {"test_vectors": vectors_of(model)})


def read_document(content: bytes) -> tuple[str, Model]:
    """Return kind and model of ``model.json``, after asking whether it is as it was written.

    Raises InvalidRelease if the content is anything else than :func:`model_document` of what it
    describes.
    """
    found = read_json(content, "model.json")
    if found.get("schema") != SCHEMA:
        raise InvalidRelease(f"model.json is not a {SCHEMA}; update confrere, or ask again.")
    if list(found) != ["schema", "kind", "model", "test_vectors"]:
        raise InvalidRelease("model.json has other keys than it should; ask for it again.")
    model = read_model(found["model"])
    _check_vectors(model, found["test_vectors"])
    if json_bytes(found) != content or not isinstance(found["kind"], str):
        raise InvalidRelease("model.json is not in the form that is written; ask for it again.")
    return found["kind"], model


def vectors_of(model: Model) -> list[dict[str, Any]]:
    """Return five rows, made from public facts, with the answers that a correct reader gives.

    Raw rows where there is an encoder, and what they become. The last row is beyond every bound:
    whoever reads entries as large as they are fails it.
    """
    raw: list[dict[str, Any]] = []
    if model.encoder is None:
        X = _example_rows(model)
    else:
        raw = raw_examples(model.encoder.encoding)
        X = model.encoded(raw).toarray()
    scores = model.decision_function(X)
    shares = model.probabilities(scores)
    return [
        {
            **({"row": raw[i]} if raw else {}),
            "x": row.tolist(),
            "decision": score.tolist(),
            "probability": share.tolist(),
            "label": model.labels[code] if model.labels else None,
        }
        for i, (row, score, share, code) in enumerate(
            zip(X, scores, shares, model.codes(scores), strict=True)
        )
    ]


def _check_vectors(model: Model, vectors: Any) -> None:
    """Refuse a description whose own test vectors it does not reproduce."""
    expected = vectors_of(model)
    same = isinstance(vectors, list) and len(vectors) == len(expected)
    for given, own in zip(vectors, expected, strict=True) if same else ():
        same = same and isinstance(given, dict) and given.keys() == own.keys()
        # What is asked is written exactly; answers, also of an encoder, differ by roundings.
        words = ["row", "label"] if "row" in own else ["x", "label"]
        same = same and all(json_bytes(given[name]) == json_bytes(own[name]) for name in words)
        answers = ("x", "decision", "probability")
        same = same and all(_close(given[name], own[name]) for name in answers)
    if not same:
        raise wrong("test_vectors", "are not what it predicts")


def _close(given: Any, own: Any) -> bool:
    if isinstance(own, list):
        same_length = isinstance(given, list) and len(given) == len(own)
        return same_length and all(map(_close, given, own))
    # A whole number where a float is written is another text.
    return type(given) is float and math.isclose(given, own, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _example_rows(model: Model) -> Floats:
    """Rows inside and outside of bounds, by arithmetic, never by drawing."""
    d = len(model.features)
    i, j = np.arange(5)[:, None], np.arange(d)[None, :]
    rows = np.round(((7 * i + 3 * j + i * j) % 11 - 5) / 4 * (i / 2) / np.sqrt(d), 6)
    rows[-1] *= 1e200
    return np.asarray(rows)


def raw_examples(encoding: Told) -> list[dict[str, Any]]:
    """Return raw rows by arithmetic: inside and outside of bounds, missing, unknown."""
    columns = encoding["columns"]
    return [{one["column"]: _cell(one, i, j) for j, one in enumerate(columns)} for i in range(5)]


def _cell(column: Told, i: int, j: int) -> object:
    if i == 3 and column["missing"] is not None:
        return None
    if column["kind"] != "number":
        if i == 4 and column["unknown"] is not None:
            return f"no {column['column']} that is declared"
        texts = {place: text for text, place in reversed(column["codes"].items())}
        return texts[(2 * i + j) % (max(texts) + 1)]
    low, high = column["clip"]
    share = 3.0 if i == 4 else ((7 * i + 3 * j) % 11) / 10
    if "dates" not in column:
        return float(f"{low + (high - low) * share:.6g}")
    unit, since = column["dates"]
    after = since + unit * (low + (high - low) * min(share, 1.0))
    return (datetime(1970, 1, 1) + timedelta(microseconds=round(after))).isoformat()


#: Larger releases are refused on both sides.
MAX_BYTES = 1 << 28

_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644 << 16
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNED = 64


def npz_bytes(arrays: Mapping[str, Floats]) -> bytes:
    """Return the archive; equal arrays give equal bytes on every machine and day."""
    if sum(array.nbytes for array in arrays.values()) > MAX_BYTES:
        raise InvalidParameter(f"a model must take at most {MAX_BYTES >> 20} MiB.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            member.create_system = 3
            member.external_attr = _REGULAR_FILE
            archive.writestr(member, _npy_bytes(arrays[name]))
    return buffer.getvalue()


def check_npz(content: bytes, arrays: Mapping[str, Floats]) -> None:
    """Refuse an archive that holds anything else than these arrays, each once, and nothing more."""
    if content != npz_bytes(arrays):
        what = "the numbers of model.json, each once, and nothing else"
        raise InvalidRelease(f"model.npz does not hold {what}; do not use it.")


def _npy_bytes(array: Floats) -> bytes:
    """Return a member: format 1.0, double precision, rows one after the other."""
    facts = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {array.shape}, }}".encode()
    length = len(_MAGIC) + 2 + len(facts) + 1
    header = facts + b" " * (-length % _ALIGNED) + b"\n"
    return _MAGIC + len(header).to_bytes(2, "little") + header + array.astype("<f8").tobytes()
