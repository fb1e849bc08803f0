"""Which path is recommended, and what is expected of each."""

import pytest

from confrere.planning import recommend

HOSPITALS = {"n": 3200, "d": 50, "auc": 0.771, "prior_auc": 0.717, "base_rate": 0.11}
CENTRES = [10_000] + [4_000] * 16


def test_what_is_expected_is_near_what_the_demonstration_reached():
    made = recommend(**HOSPITALS, n_source=10_162, parties=CENTRES)
    reached = {"one organisation": 0.724, "main to branches": 0.740, "many centres": 0.756}
    expected = {one.path: one.auc for one in made.expected}
    for path, auc in reached.items():
        assert expected[path] == pytest.approx(auc, abs=0.02)
    assert made.best.path == "many centres"
    assert made.without_prior < expected["one organisation"]
    assert "recommended: many centres" in str(made)


def test_a_path_that_asks_for_less_is_taken_where_it_is_as_good():
    assert recommend(**HOSPITALS).best.path == "one organisation"
    tiny = recommend(**{**HOSPITALS, "n": 200}, epsilon=0.05)
    assert tiny.best.path == "experts alone"
    assert tiny.verifiable is False
    assert "not verifiable" in str(tiny)
    rich = recommend(n=10**6, d=20, epsilon=1.0, parties=[10**6, 10**6])
    assert rich.best.path == "one organisation"
    assert rich.verifiable is None
