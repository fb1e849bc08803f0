"""A release as it is shown: its card, who signed it, what it holds, and what it says of a person.

Like the clerk's other work it is done in the clerk's process, from files that a stranger may have
written: a folder is believed once its sums, its signatures and its parts agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from confrere.desk.clerk import Facts, plainly
from confrere.errors import ConfrereError, InvalidData, SignatureError
from confrere.model import Linear
from confrere.release import Release, load_release, read_additions, read_folder
from confrere.release.signing import fingerprint
from confrere.schema import Category, Flag, Ordered, PublicSchema
from confrere.study import predict, study_from_bytes

#: Points of a curve, and curves on a page.
_POINTS = 25
_MOST_CURVES = 24


@plainly
def release_facts(path: str) -> Facts:
    """Return everything that a release's page shows."""
    folder = read_folder(path)
    release = load_release(path, allow_simulated=True)
    model, card = release.model, release.card
    schema = None if model.encoder is None else model.encoder.schema
    facts: Facts = {
        "card": card.to_dict(),
        "digest": model.digest(),
        "signatures": _signatures(path, folder.signers, folder.files.get("study.toml")),
        "receipts": list(_receipts(release)),
        "people": _people(release),
        "columns": list(model.features) if schema is None else list(schema.columns),
        "classes": [str(label) for label in model.labels],
        "weights": _weights(release),
        "inputs": [] if schema is None else _inputs(schema),
        "quality": _quality(path),
    }
    if schema is not None:
        facts["curves"] = _curves(release, schema, _typical(schema))
    return facts


@plainly
def tried(path: str, values: Mapping[str, str]) -> Facts:
    """Return what a release says of one person, and how that changes with each column.

    Parameters
    ----------
    path : str
    values : mapping of str to str
        Raw values by column, as typed; an empty one is missing.
    """
    release = load_release(path, allow_simulated=True)
    encoder = release.model.encoder
    if encoder is None:
        raise InvalidData("this release takes encoded rows: it does not say what columns mean.")
    schema = encoder.schema
    row = {one["column"]: _typed(one, values.get(one["column"], "")) for one in _inputs(schema)}
    found = predict(release, pd.DataFrame([row]))
    names = [name for name in found.columns if name != "predicted"]
    return {
        "predicted": str(found["predicted"].iloc[0]),
        "probabilities": {
            name.removeprefix("probability of "): float(found[name].iloc[0]) for name in names
        },
        "curves": _curves(release, schema, row),
    }


def _signatures(path: str, signers: Mapping[str, str], study: bytes | None) -> list[Facts]:
    """Say who signed, and whether it is with the key that the study names for them."""
    keys: dict[str, str] = {}
    if study is not None:
        try:
            keys = {p.name: p.key for p in study_from_bytes(study).parties if p.key}
        except ConfrereError:
            keys = {}
    found = []
    for party, used in signers.items():
        state = "signed, by a key that the study does not name"
        if party in keys:
            try:
                read_folder(path, require_signature_from={party: keys[party]})
                state = "signed"
            except SignatureError:
                state = "signed by another key than the study names: do not rely on it"
        found.append({"party": party, "fingerprint": used, "state": state})
    lacking = [
        {"party": party, "fingerprint": fingerprint(key), "state": "has not signed"}
        for party, key in keys.items()
        if party not in signers
    ]
    return found + lacking


def _receipts(release: Release) -> Iterator[Facts]:
    """Yield which row of which ledger paid, for whom, and who approved it."""
    if release.receipt is not None:
        yield {"party": "", **release.receipt.to_dict()}
    for party, paid in release.spending.to_dict()["parties"].items():
        for receipt in paid["receipts"]:
            yield {"party": party, **receipt}


def _people(release: Release) -> Facts:
    """Return how many records are in it, where that is public."""
    facts = release.model.facts
    return {"records": facts.n_samples, "parties": facts.parties or len(release.parties) or 1}


def _weights(release: Release) -> list[tuple[str, float]]:
    """Return what a linear model gives each encoded column, the weightiest first."""
    model = release.model
    if not isinstance(model, Linear) or np.atleast_2d(model.coef).shape[0] != 1:
        return []
    found = zip(model.features, np.ravel(model.coef), strict=True)
    return sorted(((n, float(w)) for n, w in found), key=lambda one: -abs(one[1]))[:_MOST_CURVES]


def _inputs(schema: PublicSchema) -> list[Facts]:
    """Return what a form asks for: raw columns, as declared."""
    found = []
    for feature in schema.features:
        values: Any = None
        if isinstance(feature, Category):
            values = feature.values
        elif isinstance(feature, Ordered):
            values = feature.levels
        elif isinstance(feature, Flag):
            values = (*feature.false, *feature.true)
        found.append(
            {
                "column": feature.column,
                "kind": feature.kind,
                "bounds": getattr(feature, "bounds", None),
                "mean": getattr(feature, "mean", None),
                "values": None if values is None else list(values),
                "may_miss": feature.missing is not None,
            }
        )
    return found


def _typical(schema: PublicSchema) -> dict[str, Any]:
    """Return a person in the middle of what was declared."""
    return {one["column"]: _middle(one) for one in _inputs(schema)}


def _middle(column: Facts) -> Any:
    if column["values"]:
        return column["values"][0]
    low, high = column["bounds"] or (0.0, 1.0)
    return (low + high) / 2 if column["mean"] is None else column["mean"]


def _typed(column: Facts, text: str) -> Any:
    """Read what was typed: one of the declared values, or a number."""
    if text == "":
        if column["may_miss"]:
            return None
        raise InvalidData(f"{column['column']}: is missing; give a value.")
    if column["values"]:
        for value in column["values"]:
            if str(value) == text:
                return value
        raise InvalidData(f"{column['column']}: must be one of the declared values.")
    try:
        return float(text)
    except ValueError:
        raise InvalidData(f"{column['column']}: must be a number.") from None


def _curves(release: Release, schema: PublicSchema, row: Mapping[str, Any]) -> list[Facts]:
    """Return the last class's probability as each column changes and the others stay."""
    inputs = _inputs(schema)[:_MOST_CURVES]
    tables, sizes = [], []
    for one in inputs:
        if one["values"]:
            places = list(one["values"])
        else:
            low, high = one["bounds"] or (0.0, 1.0)
            places = [float(x) for x in np.linspace(low, high, _POINTS)]
        tables.append(pd.DataFrame([{**row, one["column"]: place} for place in places]))
        sizes.append(places)
    told = predict(release, pd.concat(tables, ignore_index=True)).iloc[:, -1].to_numpy()
    curves, start = [], 0
    for one, places in zip(inputs, sizes, strict=True):
        here = told[start : start + len(places)]
        start += len(places)
        number = not one["values"]
        curves.append(
            {
                "column": one["column"],
                "points": [
                    (place if number else str(place), float(p))
                    for place, p in zip(places, here, strict=True)
                ],
                "at": row[one["column"]] if number else str(row[one["column"]]),
                "number": number,
            }
        )
    return curves


def _quality(path: str) -> list[Facts]:
    """Return what was measured later, and signed."""
    folder = read_folder(path)
    try:
        found = read_additions(folder)
    except ConfrereError as error:
        return [{"fault": f"what was added later does not verify: {error}"}]
    return [
        {
            "party": one.addition.party,
            "measured_on": one.addition.measured_on,
            "epsilon": one.addition.receipt.guarantee.epsilon,
            "measures": [measure.model_dump() for measure in one.addition.quality.measures],
        }
        for one in found
    ]
