"""One message and rounds of gradients: what one record moves, and what is made of the sum."""

import numpy as np
import pandas as pd
import pytest

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere.errors import InvalidParameter
from confrere.methods import sums
from confrere.methods.asking import Sizes, Told
from confrere.methods.average import Averaging, Expansion
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.schema import Label, Number, PublicSchema

SIZES = Sizes({"a": 5, "b": 40, "c": 400})


def frame(n_features=2):
    return Frame(n_features, constant=0.0)


def rows(n, seed=0, n_features=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def test_a_party_that_cannot_solve_sends_the_centre(monkeypatch):
    def fails(*_, **__):
        raise np.linalg.LinAlgError("no")

    monkeypatch.setattr(type(sums.SOLVER), "solve", fails)
    plan = OneMessage(frame=frame(), epsilon=1.0, prior=np.array([1.0, -1.0]))
    assert np.array_equal(plan.message(*rows(5), SIZES), np.zeros(2))


@pytest.mark.parametrize("kind", [Averaging, Expansion, GradientRounds])
def test_a_delta_that_promises_nothing_to_one_party_is_refused_by_name(kind):
    asked = kind(frame=frame(), epsilon=1.0, delta=1e-6).steps(["a", "b"])
    next(asked)
    with pytest.raises(InvalidParameter, match=r"^delta .*'b'"):
        asked.send(Told(("a", "b"), {"size": np.array([100, 10**10])}))


def test_rows_by_label_turn_signs_round_that_are_reversed():
    """In the sum that the weights come from: no price, question or message of its own."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 3))
    y = (z[:, 0] - z[:, 1] + rng.logistic(size=4000) > 1).astype(int)
    facts = {"bounds": (-5, 5), "mean": 0, "sd": 1}
    label, party = Label("y", positive=1, negative=0, base_rate=0.3), np.arange(4000) % 5
    coefs = []
    for sign in (1, -1, 0):
        signs = (sign, -sign, 0)
        features = [Number(f"x{k}", **facts, sign=one) for k, one in enumerate(signs)]
        schema = PublicSchema(features, outcome=label)
        model = CollaborativeClassifier(2.0, schema, method="sums", random_state=0)
        model.fit(pd.DataFrame(z, columns=["x0", "x1", "x2"]), y, party=party)
        assert model.guarantee_.epsilon == 2.0
        prior = model.model_.facts.prior
        assert np.sign(0 if prior is None else prior.factor) == sign
        coefs.append(model.decision_function(pd.DataFrame(np.eye(3), columns=["x0", "x1", "x2"])))
    for found in coefs:
        assert found[0] > found[2] > found[1]
