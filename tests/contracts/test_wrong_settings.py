"""A wrong setting is named, whatever estimator it is given to, and costs nothing."""

from math import inf, nan

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from confrere import AddRemove, Ledger
from confrere.errors import InvalidParameter
from tests.contracts.catalogue import MAKERS, X, Y
from tests.world import each

#: What every estimator that has the parameter refuses.
ANYWHERE = {
    "epsilon": (0, -1, nan, inf, True, "1", None),
    "delta": (-1e-6, 1.0, nan, True, "1e-6", None),
    "data_norm": (0, -1.0, inf, [1.0, 2.0]),
    "alpha": (0, -1.0, nan, "big"),
    "purpose": ("squared",),
    "neighbours": ("all", "label-only", "add-remove"),
    "classes": ([0], [0, 0, 1]),
    "prior": ("expert", "experts", [1.0], [nan] * 6),
    "geometry": ("round", "schema"),
    "budget": ("budget.ledger",),
    "random_state": (-3,),
}
#: What belongs to one of them.
ALONE = {
    "plr": [
        *each(delta=(0.01, 1e-13), neighbours=(100, None)),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
    ],
    "pst-f": [
        *each(importance=(-np.ones(6), np.zeros(6), np.ones(5)), combiner=("mean",)),
        *each(groups=([range(3)], [range(6), range(2)])),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
    ],
    "average": [
        *each(method=("sum",), rounds=(0,), combine=("mode",), max_retries=(-1,)),
        {"rounds": 2, "method": "ofaa"},
        {"combine": "median", "method": "ofaa"},
        {"delta": 1e-6, "method": "ofpa"},
        {"prior": np.ones((3, 4))},
    ],
    "statistic": [
        *each(method=("mean", "average"), local_alpha=(0,), trust=("nobody",)),
        *each(on_faulty=("ignore",), auxiliary_private=(True,)),
        *({"local": GaussianNB(), "method": method} for method in ("weights", "cells")),
        {"auxiliary_private": True, "method": "cells"},
        {"delta": 1e-6, "method": "cells"},
        *({"trust": "sum", "method": method} for method in ("soft", "vote")),
        {"collusion_threshold": 4000, "trust": "sum"},
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


@pytest.mark.parametrize("n_samples", [0, -3, None, True, 1.5, "many"])
def test_what_stands_for_the_number_of_rows_is_a_whole_number(n_samples):
    with pytest.raises(InvalidParameter, match="n_samples"):
        AddRemove(n_samples)


@pytest.mark.parametrize(("make", "settings"), [*cases()])
def test_it_is_named_before_anything_is_spent(make, settings):
    ledger = Ledger()
    with pytest.raises(ValueError, match=next(iter(settings))):
        make(**{"budget": ledger} | settings).fit(X, Y)
    assert ledger.entries() == []
