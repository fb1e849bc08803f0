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
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter

from confrere.arrays import Floats
from confrere.errors import ConfrereError, InvalidParameter, InvalidRelease
from confrere.model.models import Clip, Encoder, Facts, Linear, LowLevelModel, Model, Stack, wrong
from confrere.model.strict_json import json_bytes, read_json, validated
from confrere.schema import PublicSchema
from confrere.schema.encoding import Encoding, Form, NumberColumn

SCHEMA = "confrere-model/4"

#: How far two machines' tanh and exp may be apart; everything else has no slack at all.
TOLERANCE = 1e-12


#: What reading a schema that somebody else wrote may raise.
_UNREADABLE = (
    ConfrereError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


_Labels: TypeAlias = list[bool] | list[int] | list[float] | list[str]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Clip(_Form):
    norm: Literal[1, 2]
    bound: float
    radius: float

    def built(self) -> Clip:
        return Clip(bound=self.bound, radius=self.radius, norm=self.norm)


class _Encoder(_Form):
    schema_: dict[str, Any] = Field(alias="schema")
    weighted: bool
    power: float
    labels: _Labels | None
    form: Form
    encoding: Encoding

    def built(self) -> Encoder:
        try:
            return Encoder.checked(
                Encoder(
                    schema=PublicSchema.from_dict(self.schema_),
                    weighted=self.weighted,
                    power=self.power,
                    labels=None if self.labels is None else tuple(self.labels),
                    form=self.form,
                    encoding=self.encoding,
                )
            )
        except InvalidRelease:
            raise
        except _UNREADABLE as error:
            raise wrong("encoder.schema", "must be a valid public schema") from error


class _Group(_Form):
    name: str
    features: list[NonNegativeInt]
    clip: _Clip | None
    coef: list[float] | list[list[float]]
    intercept: float | list[float]
    baseline: float
    sharpness: float
    importance: float
    epsilon: float
    noise: float

    def built(self) -> LowLevelModel:
        values = {name: getattr(self, name) for name in _Group.model_fields if name != "clip"}
        return LowLevelModel(**values, clip=None if self.clip is None else self.clip.built())


class _Common(_Form):
    classes: _Labels
    features: list[str]
    clip: _Clip | None
    encoder: _Encoder | None
    facts: Facts

    def common(self) -> dict[str, Any]:
        return {
            "classes": tuple(self.classes),
            "features": tuple(self.features),
            "clip": None if self.clip is None else self.clip.built(),
            "encoder": None if self.encoder is None else self.encoder.built(),
            "facts": self.facts,
        }


class _Linear(_Common):
    kind: Literal["linear"]
    coef: list[float] | list[list[float]]
    intercept: float | list[float]
    link: Literal["sigmoid", "softmax"]

    def built(self) -> Model:
        return Linear(coef=self.coef, intercept=self.intercept, **self.common())  # type: ignore[arg-type]


class _Stack(_Common):
    kind: Literal["stack"]
    groups: list[_Group]
    combine: Literal["stack", "vote", "alone"]
    coef: list[float]
    intercept: float
    link: Literal["sigmoid", "softmax", "share"]

    def built(self) -> Model:
        return Stack(
            groups=tuple(group.built() for group in self.groups),
            combine=self.combine,
            coef=np.array(self.coef),
            intercept=self.intercept,
            **self.common(),
        )


class _Document(_Form):
    schema_: Literal["confrere-model/4"] = Field(alias="schema")
    kind: str
    model: Annotated[_Linear | _Stack, Field(discriminator="kind")]
    test_vectors: list[dict[str, Any]]


_MODEL: TypeAdapter[_Linear | _Stack] = TypeAdapter(
    Annotated[_Linear | _Stack, Field(discriminator="kind")]
)
_DOCUMENT = TypeAdapter(_Document)


def read_model(description: dict[str, Any]) -> Model:
    """Read what :meth:`Model.to_dict` wrote.

    Raises InvalidRelease if anything is missing, unknown, of the wrong shape or not finite.
    """
    return _checked(validated(_MODEL, description, "model").built(), description)


def model_document(
    model: Model,  # What was learned
    kind: str,  # The method's name, as in the catalogue
) -> bytes:
    """Return the content of ``model.json``."""
    return json_bytes(
        {
            "schema": SCHEMA,
            "kind": kind,
            "model": model.to_dict(),
            "test_vectors": vectors_of(model),
        }
    )


def read_document(content: bytes) -> tuple[str, Model]:
    """Return kind and model of ``model.json``, after asking whether it is as it was written.

    Raises InvalidRelease if the content is anything else than :func:`model_document` of what it
    describes.
    """
    found = read_json(content, "model.json")
    if found.get("schema") != SCHEMA:
        raise InvalidRelease(f"model.json is not a {SCHEMA}; update confrere, or ask again.")
    form = validated(_DOCUMENT, found, "model.json")
    model = _checked(form.model.built(), found["model"])
    _check_vectors(model, found["test_vectors"])
    if json_bytes(found) != content:
        raise InvalidRelease("model.json is not in the form that is written; ask for it again.")
    return form.kind, model


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
        X = model.encoded(pd.DataFrame(raw, dtype=object)).toarray()
    scores = model.decision_function(X)
    shares = model.probabilities(scores)
    return [
        {
            **({"row": raw[i]} if raw else {}),
            "x": row.tolist(),
            "decision": score.tolist(),
            "probability": share.tolist(),
            "label": model.labels[code],
        }
        for i, (row, score, share, code) in enumerate(
            zip(X, scores, shares, model.codes(scores), strict=True)
        )
    ]


def _checked(model: Model, description: dict[str, Any]) -> Model:
    """Return a model that writes what was read: no number was changed, no shape bent."""
    model.require_plain()
    if json_bytes(model.to_dict()) != json_bytes(description):
        raise wrong("model", "is not in the form that is written")
    return model


def _check_vectors(model: Model, vectors: list[dict[str, Any]]) -> None:
    """Refuse a description whose own test vectors it does not reproduce."""
    expected = vectors_of(model)
    same = len(vectors) == len(expected)
    for given, own in zip(vectors, expected, strict=True) if same else ():
        same = same and given.keys() == own.keys()
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
    """Rows inside and outside the clipping bound, by arithmetic, never by drawing."""
    d = len(model.features)
    i, j = np.arange(5)[:, None], np.arange(d)[None, :]
    bound = 1.0 if model.clip is None else max(model.clip.bound, 1e-3)
    rows = np.round(((7 * i + 3 * j + i * j) % 11 - 5) / 4 * (i / 2) * bound / np.sqrt(d), 6)
    rows[-1] *= 1e200
    return np.asarray(rows)


def raw_examples(encoding: Encoding) -> list[dict[str, Any]]:
    """Return raw rows by arithmetic: inside and outside of bounds, missing, unknown."""
    rows: list[dict[str, Any]] = [{} for _ in range(5)]
    for j, column in enumerate(encoding.columns):
        for i, row in enumerate(rows):
            cell: Any
            if isinstance(column, NumberColumn):
                low, high = column.clip
                share = 3.0 if i == 4 else ((7 * i + 3 * j) % 11) / 10
                cell = float(f"{low + (high - low) * share:.6g}")
            else:
                texts = {place: text for text, place in reversed(column.codes.items())}
                cell = texts[(2 * i + j) % (max(texts) + 1)]
                if i == 4 and column.unknown is not None:
                    cell = f"no {column.column} that is declared"
            if i == 3 and column.missing is not None:
                cell = None
            row[column.column] = cell
    return rows


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
    expected = npz_bytes(arrays)
    if content == expected:
        return
    if expected in content:
        raise InvalidRelease(
            "model.npz has bytes before or after its archive; releases hide nothing: do not use it."
        )
    raise InvalidRelease(
        "model.npz does not hold the numbers of model.json, each once; do not use it."
    )


def _npy_bytes(array: Floats) -> bytes:
    """Return a member: format 1.0, double precision, rows one after the other."""
    facts = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {array.shape}, }}".encode()
    length = len(_MAGIC) + 2 + len(facts) + 1
    header = facts + b" " * (-length % _ALIGNED) + b"\n"
    return _MAGIC + len(header).to_bytes(2, "little") + header + array.astype("<f8").tobytes()
