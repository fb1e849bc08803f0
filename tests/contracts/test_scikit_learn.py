"""scikit-learn's own checks, on every estimator."""

import warnings

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.contracts.catalogue import CHECKED


def seeded(estimator):
    # The checks compare fits with each other, so the noise must repeat: a simulation.
    return clone(estimator).set_params(random_state=0)


@parametrize_with_checks([seeded(estimator) for estimator in CHECKED])
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        # The checks themselves pass odd arrays through pandas and array-API shims.
        warnings.simplefilter("ignore", category=FutureWarning)
        check(estimator)
