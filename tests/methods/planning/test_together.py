"""The choice among ways to one model: by public facts, and never what policies forbid."""

from dataclasses import replace

from confrere.planning import choose
from confrere.schema import Flag, Label, Number, PublicSchema

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
