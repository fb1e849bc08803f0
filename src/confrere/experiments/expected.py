"""What the quick form of an item gave when it was last looked at: a regression test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files

from confrere.experiments.records import Record
from confrere.experiments.spec import load_spec
from confrere.experiments.summary import Point, summarise

#: Seeds fix the noise, so only rounding may differ between machines.
TOLERANCE = 0.005


def frozen_items() -> list[str]:
    """Return the items that have expected results."""
    folder = files("confrere.experiments") / "expected"
    return sorted(path.name.removesuffix(".json") for path in folder.iterdir())


def frozen(item: str) -> dict[str, float]:
    """Return an item's expected means by the name of their point."""
    path = files("confrere.experiments") / "expected" / f"{item}.json"
    means: dict[str, float] = json.loads(path.read_text("utf-8"))
    return means


def freeze(item: str, records: Sequence[Record]) -> str:
    """Return the text of ``expected/<item>.json`` for the records of a quick run."""
    points = summarise(records, load_spec(item).metric)
    return json.dumps({point_name(p): round(p.mean, 4) for p in points}, indent=1) + "\n"


def differences(item: str, records: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """Return the points that differ from what is expected: expected and found."""
    expected = frozen(item)
    found = {point_name(p): p.mean for p in summarise(records, load_spec(item).metric)}
    missing = float("nan")
    return {
        name: (expected.get(name, missing), found.get(name, missing))
        for name in {**expected, **found}
        if not abs(expected.get(name, missing) - found.get(name, missing)) <= TOLERANCE
    }


def point_name(point: Point) -> str:
    """Return a readable name of a point."""
    where = [f"{point.method} ({point.variant})"]
    if point.epsilon is not None:
        where.append(f"epsilon {point.epsilon:g}")
    if point.setting is not None:
        where.append(f"setting {point.setting:g}")
    return ", ".join(where)
