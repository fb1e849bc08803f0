"""Noisy counts, and the evaluation of a public model."""

import numpy as np
import pytest
from scipy import stats

from confrere.federation import LocalFederation, evaluate
from confrere.federation.protocols import Count
from confrere.kernel.streams import SeededSource


def test_the_law_is_two_sided_geometric(make_party):
    party, request, source = make_party(n=100), Count(epsilon=0.7), SeededSource(2)
    drawn = np.array([int(request.answer(party, source)["size"]) - 100 for _ in range(6_000)])
    q = np.exp(-0.7)
    support = np.arange(-6, 7)
    expected = (1 - q) / (1 + q) * q ** np.abs(support)
    observed = np.array([(drawn == k).sum() for k in support])
    rest = len(drawn) - observed.sum()
    chi2 = stats.chisquare(
        np.append(observed, rest), np.append(expected, 1 - expected.sum()) * len(drawn)
    )
    assert chi2.pvalue > 1e-4
    # Neighbouring counts differ by one: the ratio of probabilities is exp(epsilon) at most.
    assert np.max(np.abs(np.diff(np.log(expected)))) == pytest.approx(0.7)


def test_errors_are_counted_at_every_party(make_party):
    parties = [
        make_party(name, n, seed=k, cap=None) for k, (name, n) in enumerate([("a", 80), ("b", 40)])
    ]
    coef = np.array([1.0, 0.2, 0.0])
    exact = {p.name: int(np.sum(np.where(p.X @ coef + 0.1 > 0, 1.0, -1.0) != p.y)) for p in parties}
    result = evaluate(LocalFederation(parties), coef, 0.1, epsilon=1e3)
    assert result.errors == exact
    assert 0 < result.error_rate < 0.5
    assert result.error_rate == sum(exact.values()) / 120
    assert result.guarantee.epsilon == 1e3


def test_noise_may_exceed_but_the_rate_does_not(make_party):
    parties = [make_party(random_state=k, name=f"p{k}", n=2) for k in range(4)]
    results = [
        evaluate(LocalFederation([party]), np.ones(3), epsilon=0.01, step=0) for party in parties
    ]
    assert any(abs(next(iter(r.errors.values()))) > 2 for r in results)
    assert all(0 <= r.error_rate <= 1 for r in results)
