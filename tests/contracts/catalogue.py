"""Every method of the catalogue, made to fit small data. Nothing is listed by hand.

A method that is registered is checked; so are the settings of its class that have a proof of their
own: ``delta``, and choices of ``method`` that no other registered method stands for.
"""

from functools import cache
from inspect import signature
from typing import get_args, get_type_hints

import numpy as np

from confrere import CollaborativeClassifier, MultipartyClassifier
from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import ConfrereError
from confrere.estimators import ReleasedClassifier, designed
from confrere.methods import PublicFacts

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)) / 4
Y = (X[:, 0] > 0).astype(int)
AUXILIARY = RNG.normal(size=(150, 6)) / 4

#: Fast and nearly noiseless: scikit-learn's checks are about behaviour, not about noise.
GENEROUS = {"epsilon": 1e5, "data_norm": 10.0}
WEAK_RIDGE = {"alpha": 1e-5, "n_groups": 2}


class Voting(MultipartyClassifier):
    """Parties that vote on rows which everyone knows."""

    def fit(self, X, y):
        return super().fit(X, y, auxiliary=AUXILIARY)


class Together(CollaborativeClassifier):
    """Two parties that hold the rows in turn: a sum of one hides nobody."""

    def fit(self, X, y):
        return super().fit(X, y, party=np.arange(len(y)) % 2)


def parameters(estimator):
    return set(signature(estimator).parameters)


def source_of(method):
    """Return a release that a transfer, or a model used as it is, starts from."""
    return release_of(method.source or "plr")


@cache
def release_of(name):
    return find_method(name).make(epsilon=1.0).fit(X, Y).to_release()


def needs_auxiliary(method, settings):
    plan = method.make(**settings).plan(PublicFacts(n_samples=200, n_features=6))
    return plan.voting.method != "weights"


def maker(method, settings):
    """Return a function from parameters to an estimator of the method that fits X and Y."""

    def make(**given):
        chosen = {**settings, **given}
        if method.shape == "transfer":
            chosen = {"source": source_of(method), **chosen}
        if method.settings.get("method") == "sums":
            return Together(**{**method.settings, **chosen})
        if method.shape != "votes":
            return method.make(**chosen)
        kind = Voting if needs_auxiliary(method, settings) else method.estimator
        return kind(**{**method.settings, "on_faulty": "refuse", **chosen})

    return make


def priced(method, settings):
    """Whether the class has these settings, for one organisation that holds all rows."""
    try:
        method.estimator(**method.settings | settings).privacy_cost(200, 6)
    except ConfrereError:
        return False
    return True


def variants(method):
    """Return a method's own settings, and others of its class with a proof of their own."""
    found = {method.name: {}}
    known = parameters(method.estimator)
    if "delta" in known and priced(method, {"delta": 1e-6}):
        found[f"{method.name}, Gaussian"] = {"delta": 1e-6}
    siblings = [m for m in CATALOGUE.values() if m.estimator is method.estimator]
    if "method" in known and method is siblings[0]:
        registered = {sibling.settings["method"] for sibling in siblings}
        choices = get_args(get_type_hints(method.estimator)["method"])
        for choice in sorted(set(choices) - registered):
            if priced(method, {"method": choice}):
                found[f"{method.estimator.__name__}, {choice}"] = {"method": choice}
    return found


PRIVATE = {name: method for name, method in CATALOGUE.items() if method.proof is not None}

#: Makers of estimators that fit ``X`` and ``Y``.
MAKERS = {
    name: maker(method, settings)
    for method in PRIVATE.values()
    for name, settings in variants(method).items()
}

#: The classes of the catalogue that spend, each once.
CLASSES = sorted({m.estimator for m in PRIVATE.values()}, key=lambda cls: cls.__name__)

#: The others: they learn nothing and spend nothing.
FREE = {name: method for name, method in CATALOGUE.items() if method.proof is None}


def checkable(method, settings):
    """Whether scikit-learn's checks can fit it.

    Transfers refuse data whose columns are not the source's, and the checks fit all kinds of
    columns; votes need auxiliary rows and sums parties, which the checks do not give.
    """
    if method.settings.get("method") == "sums":
        return False
    if method.shape == "votes":
        return not needs_auxiliary(method, settings)
    return method.shape in ("alone", "together")


def generous(method, settings):
    wanted = GENEROUS if method.shape == "votes" else GENEROUS | WEAK_RIDGE
    known = parameters(method.estimator)
    chosen = {name: value for name, value in wanted.items() if name in known}
    return designed(maker(method, settings)(**chosen), high_alpha=1e-5)


#: What scikit-learn's own checks run on.
CHECKED = [
    generous(method, settings)
    for method in PRIVATE.values()
    for settings in variants(method).values()
    if checkable(method, settings)
]


def as_is(method, **given):
    """Return a classifier that uses a release as it is."""
    assert issubclass(method.estimator, ReleasedClassifier)
    return method.make(source=source_of(method), **given)
