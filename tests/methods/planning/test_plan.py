"""Plans and choices among methods: by public facts alone, and never what policies forbid."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import InvalidData, InvalidParameter
from confrere.planning import choose, choose_votes, plan
from confrere.schema import Flag, Label, Number, PublicSchema
from tests.world import each

WRONG = {
    plan: each(n_samples=(0,), n_features=(0,), epsilon=(-1,), delta=(0.01,), auc=(0.5, 1.0))
    + each(base_rate=(0.0, 1.0)),
    choose: [
        *each(n_samples=([], [5, 0]), n_features=(0, None), auc=(0.4,), epsilon=(0.0,)),
        *each(collusion_threshold=(30,)),
        {"trust": "anybody"},
    ],
}
RIGHT = {
    plan: {"n_samples": 100, "n_features": 5},
    choose: {"n_samples": [1000] * 30, "n_features": 20, "epsilon": 0.5, "auc": 0.8},
}


@pytest.mark.parametrize(("ask", "wrong"), [(ask, one) for ask in WRONG for one in WRONG[ask]])
def test_wrong_facts_are_refused(ask, wrong):
    with pytest.raises((InvalidParameter, InvalidData)):
        ask(**RIGHT[ask] | wrong)


def test_the_rule_takes_cells_where_rows_are_clustered_or_classes_many():
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(8, 12))
    clustered = centres[rng.integers(0, 8, size=600)] + rng.normal(size=(600, 12)) / 3
    cloud = rng.normal(size=(600, 12)) * np.linspace(3, 0.5, 12)
    sizes = {"n_parties": 500, "epsilon": 1.0}
    assert choose_votes(clustered, **sizes).method == "cells"
    assert choose_votes(cloud, **sizes).method == "statistic"
    assert choose_votes(cloud, n_classes=3, **sizes).method == "cells"
    assert choose_votes(cloud, **sizes).clustered == pytest.approx(1.0, abs=0.1)
    # Units do not matter, nor how rows are turned.
    turned = clustered @ np.linalg.qr(rng.normal(size=(12, 12)))[0] * 1000
    assert choose_votes(turned, **sizes).explained == pytest.approx(
        choose_votes(clustered, **sizes).explained, abs=0.02
    )
    assert "times as much as in one cloud" in str(choose_votes(cloud, **sizes))


LABEL = Label("y", positive=1, negative=0)
KNOWN = {"bounds": (0, 10), "mean": 5, "sd": 2}
PLAIN = PublicSchema([Number("a", **KNOWN, curve=False), Flag("b")], outcome=LABEL)
LINES = PublicSchema([Number(f"x{k}", **KNOWN, curve=False) for k in range(12)], outcome=LABEL)
BENT = PublicSchema([Number("a", bounds=(0, 10)), Flag("b")], outcome=LABEL)


def test_sums_are_taken_of_many_where_their_average_loses_much_to_noise():
    few, many = [3000, 2000, 1000], [300] * 20
    for schema in (BENT, PLAIN):
        assert choose(n_samples=few, schema=schema, trust="1 of 3").best.name == "average"
    assert choose(n_samples=[6000], schema=PLAIN).best.name == "alone"
    for sizes, best in ((many, "sums"), ([600] * 10, "average")):  # in a ball: by their number
        assert choose(n_samples=sizes, schema=LINES, trust="coordinator").best.name == best
    told = replace(LINES, outcome=replace(LABEL, base_rate=0.3))
    how = {"n_samples": many, "epsilon": 0.1, "trust": "coordinator"}
    assert choose(schema=told, **how).best.name == "sums"
    assert choose(schema=told, **how | {"epsilon": 3.0}).best.name == "average"
    assert choose(schema=told, **how | {"n_samples": [1200] * 5}).best.name == "average"
    signed = replace(told, features=[replace(one, sign=1) for one in told.features])
    found = choose(schema=signed, **how | {"epsilon": 0.3}).best
    assert (found.name, found.settings["prior"]) == ("sums", "experts")
    found = choose(n_samples=many, schema=LINES)
    assert found.best.name == "average"
    assert 'trust = "9 of 20"' in str(found)
    for way in found.ways:
        assert "delta" not in way.settings
        assert "rounds" not in way.settings
