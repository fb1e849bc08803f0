"""Schemas and tables written at random: every kind of column, with the dirt that real ones have."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd

from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

LABELS = (
    {"positive": "sick", "negative": "healthy"},
    {"positive": 1, "negative": 0},
    {"positive": ["ill", "very ill"], "negative": ["well", "unknown"]},
    {"positive": "yes"},
    {"positive": True, "negative": False},
    {"classes": ["blue", "green", "red"]},
)


def random_schema(seed):
    """Return a schema with two to four columns of each kind, in a random order."""
    rng = np.random.default_rng([seed, 1])
    weighted = seed % 2 == 0
    features = []
    for kind in rng.permutation(
        ["number", "log", "ordered", "category", "flag"] * 2 + ["date"]
    ).tolist():
        name = f"{kind} {len(features)}"
        shared = {"importance": float(rng.uniform(0.1, 3))} if weighted else {}
        rule = rng.choice(["none", "center", "indicator", "value"])
        features.append(MAKERS[kind](name, rng, rule, shared))
    return PublicSchema(features, Label("outcome", **LABELS[seed % len(LABELS)]))


def with_rule(rule, value, na, rng):
    if rule == "none":
        return {}
    found = {"missing": value if rule == "value" else str(rule), "na": na}
    return found | ({"missing_share": 0.2} if rule == "indicator" and rng.random() < 0.5 else {})


def number(name, rng, rule, shared, log=False):
    low = float(np.round(rng.uniform(0.01, 50), 2))
    high = low + float(np.round(rng.uniform(1, 1e4 if log else 90), 1))
    facts = {}
    if not log and rng.random() < 0.5:
        facts = {"mean": (low + high) / 2, "sd": (high - low) / 4}
    missing = with_rule(rule, (low + high) / 2, ["?", -1, "unknown"], rng)
    return Number(name, bounds=(low, high), log=log, **facts, **missing, **shared)


def logarithm(name, rng, rule, shared):
    return number(name, rng, rule, shared, log=True)


def date(name, rng, rule, shared):
    missing = with_rule(rule, 700.25, ["?", "1900-01-01"], rng)
    return Number(name, bounds=(0, 2000), dates="days since 2015-01-01", **missing, **shared)


def ordered(name, rng, rule, shared):
    levels = [["low", "mid", "high"], [1, 2, 3, 4]][rng.integers(2)]
    facts = {"scores": np.cumsum(rng.uniform(0.5, 2, len(levels))).tolist()}
    if rng.random() < 0.5:
        facts["shares"] = rng.dirichlet(np.full(len(levels), 9.0)).tolist()
    return Ordered(name, levels=levels, **facts, **with_rule(rule, levels[1], ["?"], rng), **shared)


def category(name, rng, rule, shared):
    values = [["a", "b", "c, d"], ['say "x"', "ö", "none", "1"], [10, 20, 30]][rng.integers(3)]
    unknown = [None, "zeros", "other", values[0]][rng.integers(4)]
    unknown = unknown if unknown is None or isinstance(unknown, str) else "other"
    count = len(values) + (unknown == "other")
    facts = {"shares": rng.dirichlet(np.full(count, 9.0)).tolist()} if unknown != "zeros" else {}
    missing = with_rule(rule, values[1], [".", -9], rng)
    return Category(name, values=values, unknown=unknown, **facts, **missing, **shared)


def flag(name, rng, rule, shared):
    sides = [{}, {"true": ["yes", "Y"], "false": "no"}, {"true": 1, "false": 2}][rng.integers(3)]
    missing = with_rule(rule, sides.get("false", False), ["?", 9], rng)
    return Flag(name, share=float(rng.uniform(0.1, 0.9)), **sides, **missing, **shared)


MAKERS = {
    "number": number,
    "log": logarithm,
    "date": date,
    "ordered": ordered,
    "category": category,
    "flag": flag,
}


def random_table(schema, seed, n):
    """Return a table of the schema: values in and out of bounds, missing, tokens, unknown ones."""
    rng = np.random.default_rng([seed, 2])
    table = {}
    for feature in schema.features:
        if isinstance(feature, Number):
            low, high = feature.bounds
            cells = list(rng.uniform(low - (high - low) / 3, high + (high - low) / 3, n))
            if feature.dates is not None:
                cells = [(datetime(2015, 1, 1) + timedelta(days=x)).isoformat() for x in cells]
        else:
            facts = feature.to_dict()
            known = facts.get("levels") or facts.get("values")
            known = known or [*feature.true, *feature.false]
            cells = [known[k] for k in rng.integers(len(known), size=n)]
            if facts.get("unknown"):
                cells = [c if rng.random() > 0.1 else "something new" for c in cells]
        if feature.missing is not None:
            nothing = [None, *feature.na]
            cells = [
                c if rng.random() > 0.2 else nothing[rng.integers(len(nothing))] for c in cells
            ]
        table[feature.column] = pd.Series(cells, dtype=object)
    outcome = schema.outcome
    sides = outcome.classes or (*outcome.positive, *(outcome.negative or ("no", "perhaps")))
    table["outcome"] = pd.Series([sides[k] for k in rng.integers(len(sides), size=n)], dtype=object)
    return pd.DataFrame(table).infer_objects()
