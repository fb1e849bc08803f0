"""What an evaluation charges, answers and refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score

from confrere import Ledger, PrivateLogisticRegression, PublicSchema
from confrere.assurance.evaluation import Estimate
from confrere.errors import InvalidData, InvalidParameter
from confrere.evaluation import evaluate
from confrere.schema import Label, Number
from tests.world import each

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=600) > 0).astype(int)
MODEL = LogisticRegression().fit(X[:300], Y[:300])
ALL = ("accuracy", "confusion", "auc", "calibration")
SIGNS = {"a": 1, "b": -1, "c": 0}


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.ledger")
    book.open_account("test set", epsilon=1.0)
    return book


def test_without_noise_the_answers_are_the_usual_ones():
    found = evaluate(MODEL, X, Y, epsilon=1e6, metrics=ALL, random_state=0)
    assert found.simulated
    predicted = MODEL.predict(X)
    assert found.accuracy.value == pytest.approx(np.mean(predicted == Y))
    assert found.errors.value == np.sum(predicted != Y) == found.errors.low == found.errors.high
    lines = str(found).splitlines()
    assert lines[0].startswith("600 records, 95% intervals, ")
    assert f"accuracy  {found.accuracy.value:.4g} [" in lines[1]
    assert str(Estimate(3.0, 0.0, 9.0)) == "3 [0, 9]"  # a count that may be none is measured
    assert str(Estimate(0.5, 0.0, 1.0)) == "not measurable at this epsilon"
    assert len(lines) == 4 + len(found.confusion) + len(found.calibration)
    table = confusion_matrix(Y, predicted) / 600
    assert found.confusion[1, 0].value == pytest.approx(table[1, 0])
    exact = roc_auc_score(Y, MODEL.predict_proba(X)[:, 1])
    assert found.auc.value == pytest.approx(exact, abs=0.01)
    assert found.auc.low < exact < found.auc.high
    assert sum(each.count for each in found.calibration) == 600
    binned = MODEL.predict_proba(X)[:, 1] >= found.calibration[-1].low
    assert found.calibration[-1].positive.value == pytest.approx(Y[binned].mean())


@pytest.mark.parametrize(
    "bad",
    [
        *each(epsilon=(0, 1e-7), metrics=((), "accuracy", ("f1",)), confidence=(1.0,)),
        *each(thresholds=((), (0.5, 0.5), (0.0, 0.5)), by=("sex",)),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(bad, ledger):
    with pytest.raises(InvalidParameter):
        evaluate(MODEL, X, Y, **{"epsilon": 1.0, "budget": ledger, **bad})
    assert ledger.spent("test set") == 0


def test_wrong_labels_cost_nothing(ledger):
    for labels in (Y + 5, Y[:0]):
        with pytest.raises(InvalidData):
            evaluate(MODEL, X, labels, epsilon=1.0, budget=ledger)
    with pytest.raises(InvalidParameter, match="y must be given"):
        evaluate(MODEL, X, None, epsilon=0.5, budget=ledger)
    with pytest.raises(ValueError, match=r"inconsistent|shape"):
        evaluate(MODEL, X[:-1], Y, epsilon=1.0, budget=ledger)
    assert ledger.spent("test set") == 0


def test_what_signs_alone_say_stands_beside_the_model():
    columns = [
        Number(name, bounds=(-4, 4), importance=1, sign=sign) for name, sign in SIGNS.items()
    ]
    schema = PublicSchema(columns, outcome=Label("y", positive=[1], negative=[0], base_rate=0.5))
    table = pd.DataFrame(X, columns=list(SIGNS)).assign(y=Y)
    model = PrivateLogisticRegression(1e3, schema, prior=None, random_state=0).fit(table)
    told = {"metrics": ["auc", "experts"], "random_state": 0}
    found = evaluate(model, table, epsilon=1e4, **told)
    assert found.experts.value == pytest.approx(roc_auc_score(Y, X[:, 0] - X[:, 1]), abs=0.01)
    assert found.experts.value < found.auc.value
    assert {one["name"] for one in found.quality()["measures"]} > {"auc"}
    assert sum(one.epsilon for one in found.guarantees.values()) == pytest.approx(1e4)
    with pytest.raises(InvalidParameter, match="signs"):
        evaluate(MODEL, X, Y, epsilon=1.0, metrics=["experts"])
