"""What notebooks show: escaped, complete, and nothing from outside."""

import numpy as np
import pytest

from confrere import Ledger, PrivateLogisticRegression
from confrere.evaluation import evaluate
from tests.world import Page

EVIL = "<script>alert('x')</script>"


TAGS = {"div", "table", "thead", "tr", "td", "i", "b", "br"}


def read(thing):
    """What stands there: with no script, and nothing from outside."""
    made = thing._repr_html_()
    page = Page(made)
    assert page.tags <= TAGS
    assert page.attributes <= {"style"}
    assert "url(" not in made
    return page.text


@pytest.fixture
def fitted(tmp_path):
    ledger = Ledger(tmp_path / "books.ledger")
    ledger.open_account(f"a {EVIL}", epsilon=2.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.integers(0, 2, 600)
    model = PrivateLogisticRegression(epsilon=1.0, budget=ledger).fit(X, y)
    return model, ledger, X, y


def test_ledger_release_and_evaluation(fitted):
    model, ledger, X, y = fitted
    found = evaluate(
        model, X, y, epsilon=0.5, metrics=["accuracy", "auc", "calibration"], budget=ledger
    )
    told = read(ledger)
    assert EVIL in told
    assert "1.5" in told
    assert "0.5" in told
    assert "fit PrivateLogisticRegression" in told
    assert "<script" not in ledger._repr_html_()
    told = read(found)
    assert "accuracy" in told
    assert "auc" in told
    assert "95% intervals" in told
    told = read(model.to_release())
    assert "NOT PROTECTED" in told
    assert "epsilon 1" in told
