"""Averages: exact where nothing is drawn, priced as promised, rounds that shrink to the average."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere.errors import InvalidParameter
from confrere.kernel.norms import Body
from confrere.methods import PublicFacts
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere.methods.priors import Prior
from confrere.schema import Category, Number, PublicSchema
from confrere_federation.parties.federation import dry_run

BODY_SCHEMA = PublicSchema((Number("x", bounds=(-2, 2)), Category("c", values=("a", "b"))))


def shaped(**changed):
    encoder = BODY_SCHEMA.encoder(form="linear")
    settings = {"epsilon": 1.0, "geometry": "schema", "schema": encoder, **changed}
    facts = PublicFacts(n_samples=1000, n_features=3)
    return CollaborativeClassifier(**settings).plan(facts).protocol


def test_a_body_that_cannot_be_one_has_no_price():
    good = shaped().at(Sizes({"a": 60, "b": 45, "c": 15})).frame
    parts = {name: getattr(good.body, name) for name in ("roots", "groups", "shares")}
    first, second, *rest = good.body.roots
    nearly = second.copy()
    nearly[1] = nearly[0] * (1 + 1e-12)
    wrong = {
        "rows outside the unit ball": {"roots": tuple(3 * root for root in good.body.roots)},
        "a singular root": {"roots": (first, np.full_like(second, 0.3), *rest)},
        "one that is nearly singular": {"roots": (first, nearly, *rest)},
        "no number": {"roots": (np.full_like(first, np.nan), second, *rest)},
        "too few roots": {"roots": good.body.roots[:-1]},
        "no size": {"roots": ()},
        "a share of none": {"shares": (0.0,) * len(good.body.shares)},
        "a group of none": {"groups": (7, 7, 7)},
        "a ridge of none": {"ridge": 0.0},
        "a constant of two columns": {"roots": (first, rest[0], second)},
    }

    def made(ridge=good.ridge, **more):
        return replace(good, body=Body(**parts | more), ridge=ridge)

    assert made().arrays()["roots"].tobytes() == good.arrays()["roots"].tobytes()
    for what, change in wrong.items():
        with pytest.raises(InvalidParameter) as refused:
            made(**change)
        assert str(refused.value), what


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 11, 40])
@pytest.mark.parametrize("epsilon", [1.0, 0.3, 2.2])
def test_rounds_never_spend_more_than_epsilon(make_party, rounds, epsilon):
    plan = Averaging(frame=Frame(3), epsilon=epsilon, rounds=rounds)
    part = plan.allowed(Sizes({"a": 10})).epsilon
    assert rounds * Decimal(repr(part)) <= Decimal(repr(epsilon))
    assert rounds * part == pytest.approx(epsilon, rel=1e-12)


def test_what_follows_from_answers_is_known_to_be_derived():
    prior = Prior(np.array([2.0, 1.0, 0.0]))
    made = Averaging(frame=Frame(3), epsilon=1.0, prior=prior, checked=True)
    requests = dry_run(made.steps, ["a", "b"], "0" * 64)["a"]
    by_name = {request.operation: request for request in requests}
    assert by_name["check"].derived == ("epsilon",)  # of how many records all have
    assert {"epsilon", "ridge", "centre"} <= set(by_name["objective"].derived)
    assert by_name["check"].epsilon + by_name["objective"].epsilon == pytest.approx(1.0)
