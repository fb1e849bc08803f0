from __future__ import annotations

import copy

import pytest

from confrere.errors import InvalidParameter
from confrere_research import load_spec, load_specs
from confrere_research.methods import METHODS
from confrere_research.problems import PROBLEMS
from confrere_research.spec import derived_seed, read_spec
from research.tests.conftest import FACTS

ITEMS = {*(f"S{n}" for n in range(1, 7)), "T1", "T2", "M1", "M2", "M3", "C1", "C2", "C3"}


def test_every_item_of_the_papers_is_specified():
    assert set(load_specs()) >= ITEMS


@pytest.mark.parametrize("item", sorted(load_specs()))
def test_specifications_name_what_exists(item):
    spec = load_spec(item)
    assert spec.problem in PROBLEMS
    assert {method.run for method in spec.methods} <= set(METHODS)
    names = {(method.name, method.variant) for method in spec.methods}
    for claim in spec.claims:
        assert tuple(claim["method"]) in names
        assert tuple(claim.get("than", claim["method"])) in names
        assert set(claim.get("at", spec.epsilons)) <= set(spec.epsilons)
    for published in spec.published:
        assert (published.method, "sound") in names
        if spec.published_at == "epsilon":
            assert len(published.values) == len(spec.epsilons)
        assert not published.sd or len(published.sd) == len(published.values)


@pytest.mark.parametrize("item", sorted(load_specs()))
def test_cells_have_keys_of_their_own_and_quick_ones_are_among_all(item):
    spec = load_spec(item)
    keys = [spec.key(cell) for cell in spec.cells()]
    quick = [spec.key(cell) for cell in spec.cells(quick=True)]
    assert len(set(keys)) == len(keys)
    assert set(quick) < set(keys)


def test_a_seed_depends_on_item_method_epsilon_and_repeat_only():
    spec = read_spec(FACTS)
    cells = list(spec.cells())
    seeds = {(c.item, c.method, c.epsilon, c.repeat): c.seed for c in cells}
    assert len(set(seeds.values())) == len(seeds)
    by_variant = {(c.method, c.variant, c.epsilon, c.repeat): c.seed for c in cells}
    assert by_variant["PLR", "sound", 1.0, 0] == by_variant["PLR", "printed", 1.0, 0]
    assert derived_seed("a", 1) != derived_seed("a", "1")


def test_changing_one_method_leaves_the_keys_of_the_others():
    before = read_spec(FACTS)
    facts = copy.deepcopy(FACTS)
    facts["methods"][0]["options"] = {"loss": "capped"}
    after = read_spec(facts)
    changed = {
        (cell.method, cell.variant)
        for cell in before.cells()
        if before.key(cell) != after.key(cell)
    }
    assert changed == {("PLR", "sound")}


def test_wrong_specifications_are_refused():
    with pytest.raises(InvalidParameter, match="item must be one of"):
        load_spec("Z9")
    twice = {**FACTS, "methods": [FACTS["methods"][0]] * 2}
    with pytest.raises(InvalidParameter, match="twice"):
        read_spec(twice)
    unknown = {**FACTS, "methods": [{**FACTS["methods"][0], "variant": "wishful"}]}
    with pytest.raises(InvalidParameter, match="variant"):
        read_spec(unknown)
