"""The evaluation of a public model: noisy counts."""

import numpy as np

from confrere_federation.parties import LocalFederation, evaluation
from confrere_federation.parties.federation import guarantee_of


def count_errors(parties, coef, intercept=0.0, **settings):
    sizes = {party.name: len(party.y) for party in parties}
    steps = evaluation(coef, intercept, sizes, **settings)
    return LocalFederation(parties).run_protocol(steps)


def test_errors_are_counted_at_every_party(make_party):
    parties = [
        make_party(name, n, seed=k, cap=None) for k, (name, n) in enumerate([("a", 80), ("b", 40)])
    ]
    coef = np.array([1.0, 0.2, 0.0])
    exact = {p.name: int(np.sum(np.where(p.X @ coef + 0.1 > 0, 1.0, -1.0) != p.y)) for p in parties}
    result = count_errors(parties, coef, 0.1, epsilon=1e3)
    assert result.errors == exact
    assert 0 < result.error_rate < 0.5
    assert result.error_rate == sum(exact.values()) / 120
    assert guarantee_of(result.receipts).epsilon == 1e3


def test_noise_may_exceed_but_the_rate_does_not(make_party):
    parties = [make_party(random_state=k, name=f"p{k}", n=2) for k in range(4)]
    results = [count_errors([party], np.ones(3), epsilon=0.01) for party in parties]
    assert any(abs(next(iter(r.errors.values()))) > 2 for r in results)
    assert all(0 <= r.error_rate <= 1 for r in results)
