"""Clopper and Pearson's limits, the choice of events, and the honesty of the bound."""

from scipy import stats

from confrere.audit import Pair, audit_function


def laplace(scale):
    def sample(data, count, generator):
        return data + generator.laplace(scale=scale, size=(count, 1))

    return sample


PAIR = Pair("0 and 1", 0.0, 1.0)


def test_the_bound_approaches_the_truth_and_stays_below():
    for scale in (1.0, 0.5):
        result = audit_function(laplace(scale), PAIR, claimed=1.0, runs=40_000)
        assert 0.9 / scale < result.epsilon <= 1 / scale
        assert result.refuted == (scale < 1)


def test_a_sound_mechanism_is_refuted_no_more_often_than_the_confidence_allows():
    refuted = sum(
        audit_function(
            laplace(1.0), PAIR, claimed=1.0, runs=1_000, confidence=0.9, random_state=seed
        ).refuted
        for seed in range(150)
    )
    # Chosen on the counting runs themselves, events would refute far more than one in ten.
    assert refuted <= stats.binom.ppf(0.999, 150, 0.1)
