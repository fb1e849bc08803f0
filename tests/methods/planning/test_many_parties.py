"""Which method many small parties take."""

import numpy as np
import pytest

from confrere.planning import choose_votes


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
