"""A wrong setting is named, whatever estimator it is given to, and costs nothing."""

from math import inf, nan

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from confrere import Ledger
from tests.contracts.catalogue import MAKERS, X, Y
from tests.world import each

#: What every estimator that has the parameter refuses.
ANYWHERE = {
    "epsilon": (0, -1, nan, inf, True, "1", None),
    "delta": (-1e-6, 1.0, nan, True, "1e-6", None),
    "data_norm": (0, -1.0, inf, [1.0, 2.0]),
    "alpha": (0, -1.0, nan, "big"),
    "ridge_floor": (0,),
    "intercept_scale": (1.0,),
    "loss": ("squared",),
    "neighbours": ("all", "label-only"),
    "classes": ([0], [0, 0, 1]),
    "prior": ("expert", "experts", [1.0], [nan] * 6),
    "prior_intercept": (inf,),
    "feature_scale": ([1.0] * 5, [-1.0] * 6),
    "noise": ("round", "schema"),
    "ledger": ("budget.ledger",),
    "random_state": (-3,),
}
#: What belongs to one of them.
ALONE = {
    "plr": [
        *each(delta=(1e-2, 1e-13), declared_samples=(100,)),
        *({"declared_samples": n, "neighbours": "add-remove"} for n in (None, 0, -3)),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
        {"prior_intercept": 1.0, "classes": [0, 1, 2]},
    ],
    "pst-f": [
        *each(importance=(-np.ones(6), np.zeros(6), np.ones(5)), high_fraction=(1.0, "half")),
        *each(groups=([range(3)], [range(6), range(2)]), combiner=("mean",), clipping=("none",)),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
    ],
    "average": [
        *each(method=("sum",), rounds=(0,), combine=("mode",), declared_samples=(0, -3)),
        {"rounds": 2, "method": "ofaa"},
        {"combine": "median", "method": "ofaa"},
        {"delta": 1e-6, "method": "ofpa"},
        {"prior": np.ones((3, 4))},
    ],
    "statistic": [
        *each(method=("mean", "average"), local_alpha=(0,), radius=("round",), memory=(0,)),
        *each(on_faulty=("ignore",), normalise=(True,), auxiliary_private=(True,)),
        *({"local": GaussianNB(), "method": method} for method in ("weights", "cells")),
        {"auxiliary_private": True, "method": "cells"},
        {"delta": 1e-6, "method": "cells"},
        *({"trust": "sum", "method": method} for method in ("soft", "vote")),
        {"colluding": 4000, "trust": "sum"},
    ],
}


def cases():
    for name, make in MAKERS.items():
        if name.endswith("Gaussian"):  # the same class
            continue
        known = make().get_params()
        given = {word: values for word, values in ANYWHERE.items() if word in known}
        for settings in [*each(**given), *ALONE.get(name, [])]:
            yield pytest.param(make, settings, id=f"{name}-{settings}")


@pytest.mark.parametrize(("make", "settings"), [*cases()])
def test_it_is_named_before_anything_is_spent(make, settings):
    ledger = Ledger()
    with pytest.raises(ValueError, match=next(iter(settings))):
        make(**{"ledger": ledger} | settings).fit(X, Y)
    assert ledger.entries() == []
