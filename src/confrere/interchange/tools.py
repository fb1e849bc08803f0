"""An MLflow model of a release, and a frictionless Table Schema of a public one.

A schema leaves with all of its facts, ours under the key ``confrere``. One that somebody else wrote
is read as far as it declares what is public: bounds of numbers and lists of values. What a tool has
inferred from records is not public: do not read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from confrere.data.features import Category, Flag, Label, Number, Ordered
from confrere.data.schema import PublicSchema
from confrere.errors import SchemaError
from confrere.estimators.classifiers import opened
from confrere.estimators.predictions import predict
from confrere.extras import extra

Plain = dict[str, Any]


def log_release(folder: str | os.PathLike[str], name: str = "model", **more: object) -> object:
    """Log a release, which is verified, as a model of the MLflow run under way.

    The folder itself is kept, and verified again where it is served; nothing is pickled. The model
    answers what ``confrere predict`` writes. ``more`` goes to ``mlflow.pyfunc.log_model``, whose
    answer is returned. Needs the ``mlflow`` extra.
    """
    opened(folder, None)
    need = [f"confrere[mlflow]=={version('confrere')}"]
    given = {"loader_module": __name__, "data_path": os.fspath(folder), "pip_requirements": need}
    return extra("mlflow", "mlflow.pyfunc").log_model(name=name, **given | more)


def _load_pyfunc(folder: str) -> SimpleNamespace:
    """Return what MLflow asks for predictions; it finds this by its name."""
    release, *_ = opened(folder, None)
    encoded = release.model.encoder is None
    return SimpleNamespace(predict=lambda rows: predict(release, rows, encoded=encoded).to_pandas())


def to_table_schema(schema: PublicSchema) -> Plain:
    """Return a frictionless Table Schema (version 2) that says the same."""
    label = [] if schema.outcome is None else [schema.outcome]
    kept = {key: own for key, own in schema.to_dict().items() if key not in ("features", "label")}
    return {"fields": [_field(one) for one in (*schema.features, *label)], "confrere": kept}


def from_table_schema(written: Mapping[str, Any], label: Label | None = None) -> PublicSchema:
    """Return what a Table Schema declares; ``label`` tells the outcome's column, if it does not."""
    known = None if label is None else label.column
    facts = [_facts(one) for one in written.get("fields", ()) if one.get("name") != known]
    labels = [label.to_dict()] if label else [one for one in facts if "kind" not in one]
    said = {**written.get("confrere", {}), "features": [one for one in facts if "kind" in one]}
    return PublicSchema.from_dict(said | ({"label": labels[0]} if labels else {}))


def _field(one: Any) -> Plain:
    facts = one.to_dict()
    said: Plain = {"name": facts.pop("column"), "type": "string", "confrere": facts}
    limits: Plain = {"required": "missing" not in facts and not isinstance(one, Label)}
    if isinstance(one, Number):
        said["type"] = "number" if one.dates is None else "any"
        if one.dates is None:
            limits |= dict(zip(("minimum", "maximum"), one.bounds, strict=True))
    elif isinstance(one, Flag):
        words = {f"{side}Values": _texts(getattr(one, side)) for side in ("true", "false")}
        said |= {"type": "boolean", **words}
    elif isinstance(one, Category | Ordered):
        said |= {"categories": _texts(one.known), "categoriesOrdered": isinstance(one, Ordered)}
    if facts.get("na"):
        said["missingValues"] = ["", *_texts(facts["na"])]
    return said | {"constraints": limits}


def _texts(values: Sequence[object]) -> list[str]:
    return [str(value) for value in values]


def _facts(field: Mapping[str, Any]) -> Plain:
    name, limits = field.get("name"), field.get("constraints", {})
    if "confrere" in field:
        return {"column": name, **field["confrere"]}
    said: Plain = {"column": name, **({} if limits.get("required") else {"missing": "center"})}
    said |= {"na": list(filter(None, field.get("missingValues", ())))}
    values = field.get("categories", limits.get("enum", ()))
    listed = [one["value"] if isinstance(one, Mapping) else one for one in values]
    if field.get("type") == "boolean":
        said["kind"] = "flag"
        own = {"true": field.get("trueValues"), "false": field.get("falseValues")}
        return said | {side: own[side] for side in filter(own.get, own)}
    if listed:
        ordered = field.get("categoriesOrdered")
        kind, key = ("ordered", "levels") if ordered else ("category", "values")
        return said | {"kind": kind, key: listed}
    if not {"minimum", "maximum"} <= limits.keys():
        raise SchemaError(
            f"column {name!r}: nothing public is declared of it: give minimum and maximum of a "
            "number, or the list of values (categories, or enum)."
        )
    return said | {"kind": "number", "bounds": [limits["minimum"], limits["maximum"]]}
