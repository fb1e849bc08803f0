"""Many parties without a coordinator whom all trust: their shares make the noise."""

import numpy as np
import pytest
from scipy import stats

from confrere import Ledger, MultipartyClassifier
from confrere.audit import exact_audit, hardest_case
from confrere.errors import InvalidParameter
from confrere.kernel.measurements import SecureSum
from confrere.simulation import SeededSource

SUMMED = ("statistic", "cells", "weights")


def make(method, **more):
    settings = {"method": method, "epsilon": 1.0, "classes": [0, 1], "trust": "sum"} | more
    return MultipartyClassifier(**settings)


@pytest.mark.parametrize("method", SUMMED)
def test_the_exact_loss_is_the_claim_and_never_above(method):
    """The law that is counted on is that of the shares of those who do not collude."""
    case = hardest_case(make(method))
    assert 0.97 < exact_audit(case.estimator, case.pairs).epsilon <= 1.0


@pytest.mark.parametrize("method", SUMMED)
def test_the_promise_says_who_would_have_to_collude(method):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, size=40)
    fit = {"party": np.repeat(np.arange(10), 4), "auxiliary": X[:20]}
    model = make(method, collusion_threshold=3, random_state=0).fit(X, y, **fit)
    told = model.guarantee_.assumptions
    assert any("at most 3 of 10 parties pool what they know" in one for one in told)
    assert not any("whoever adds up" in one for one in told)
    trusted = make(method, trust="coordinator", random_state=0).fit(X, y, **fit)
    assert any("whoever adds up" in one for one in trusted.guarantee_.assumptions)


@pytest.mark.parametrize("reserve", [0, 3])
def test_noise_that_cannot_be_drawn_is_refused_before_anybody_pays(reserve):
    """Whole numbers on a grid of 2^-20: shares of cells have a sensitivity of 2^17."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, size=40)
    fit = {"party": np.repeat(np.arange(10), 4), "auxiliary": X[:20]}
    ledger = Ledger()
    ledger.open_account("all", epsilon=1.0, unit="party")
    paying = {"budget": ledger["all"], "max_retries": reserve}
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        make("cells", epsilon=4e-4 * (1 + reserve), **paying).fit(X, y, **fit)
    assert ledger.entries() == []
    make("cells", epsilon=6e-4 * (1 + reserve), **paying).fit(X, y, **fit)
    assert [entry.state for entry in ledger.entries()] == ["released"]


def test_a_sum_that_is_added_up_already_has_the_same_law():
    summed = SecureSum(
        epsilon=1.0, size=2, sensitivity=1.0, n_parties=4, fewest=4, colluding=1, largest=2.0
    )
    vectors = np.tile([0.5, -0.25], (4, 1))
    (each,) = summed.sample(vectors, SeededSource(0), 3000)
    (total,) = summed.sample(vectors.sum(axis=0), SeededSource(1), 1000)
    for j in range(2):
        assert stats.ks_2samp(each[:, j], total[:, j]).pvalue > 1e-3
    np.testing.assert_allclose(total.std(axis=0), summed.deviation, rtol=0.1)
