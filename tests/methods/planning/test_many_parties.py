"""Plans for many small parties: Theorem 4 with the noise that is drawn, cells, and the rule."""

import math

import numpy as np
import pytest
from scipy import stats

from confrere.planning import choose_votes, plan_votes


def test_terms_are_those_of_the_theorem_with_the_exact_quantile():
    """Where the paper has d log(d/delta)/rho for the noise's length, there is its quantile."""
    made = plan_votes(parties=1000, auxiliary=500, n_features=9, epsilon=0.5, alpha=0.01)
    sensitivity = 1 / (1000 * 0.01)
    assert made.sensitivity == pytest.approx(sensitivity, rel=1e-3)
    longest = stats.gamma.ppf(0.99, 10, scale=sensitivity / 0.5)
    assert made.noise(0.99) == pytest.approx(longest, rel=2e-3)
    assert longest < 10 * math.log(10 / 0.01) * sensitivity / 0.5 / 3
    assert made.privacy_term(0.01) == pytest.approx((0.25 + 0.01) * longest**2, rel=4e-3)
    assert made.sampling_term(0.05) == pytest.approx(16 * (32 + math.log(20)) / (0.01 * 500))
    assert made.shrinking_term == pytest.approx(0.005 * 25)
    whole = made.privacy_term(0.01) + made.sampling_term(0.01) + made.shrinking_term
    assert made.excess(0.02) == pytest.approx(whole)


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
