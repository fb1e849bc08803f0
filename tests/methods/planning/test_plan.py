"""Plans against draws of the real noise, and against what the estimators run."""

import pytest

from confrere.errors import InvalidData, InvalidParameter
from confrere.planning import choose, plan
from tests.world import each

WRONG = {
    plan: each(n_samples=(0,), n_features=(0,), epsilon=(-1,), delta=(0.01,), auc=(0.5, 1.0))
    + each(base_rate=(0.0, 1.0)),
    choose: [
        *each(n_samples=([], [5, 0]), n_features=(0, None), auc=(0.4,), epsilon=(0.0,)),
        *each(collusion_threshold=(30,)),
        {"trust": "anybody"},
    ],
}
RIGHT = {
    plan: {"n_samples": 100, "n_features": 5},
    choose: {"n_samples": [1000] * 30, "n_features": 20, "epsilon": 0.5, "auc": 0.8},
}


@pytest.mark.parametrize(("ask", "wrong"), [(ask, one) for ask in WRONG for one in WRONG[ask]])
def test_wrong_facts_are_refused(ask, wrong):
    with pytest.raises((InvalidParameter, InvalidData)):
        ask(**RIGHT[ask] | wrong)
