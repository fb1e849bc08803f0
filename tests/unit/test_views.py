"""What notebooks show: escaped, complete, and nothing from outside."""

import sys
import types

import numpy as np
import pandas as pd
import pytest

from confrere import Ledger, PrivateLogisticRegression, PublicSchema
from confrere.evaluation import evaluate
from confrere.schema import Category, Label, Number, data_report
from confrere.views import progress_bar
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
    model = PrivateLogisticRegression(epsilon=1.0, ledger=ledger).fit(X, y)
    return model, ledger, X, y


def test_ledger_release_and_evaluation(fitted):
    model, ledger, X, y = fitted
    found = evaluate(
        model, X, y, epsilon=0.5, metrics=["accuracy", "auc", "calibration"], ledger=ledger
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


def test_what_is_not_capped_and_what_is_frozen_stands_out():
    ledger = Ledger()
    assert "no account yet" in read(ledger)
    ledger.open_account("open")
    ledger.open_account("shut", epsilon=1.0)
    ledger.freeze("shut", reason="over")
    told = read(ledger)
    assert all(word in told for word in ("no limit", "frozen"))
    assert "goes with this process" in told


def test_schema_and_report():
    schema = PublicSchema(
        [Number("age", bounds=(18, 100)), Category("job", values=(EVIL, "b"))],
        outcome=Label("ill", positive="yes"),
    )
    told = read(schema)
    assert EVIL in told
    assert "worth declaring" in told
    assert schema.fingerprint() in told
    table = pd.DataFrame({"age": [400.0] * 9, "job": ["b"] * 9, "ill": ["yes", "no", "no"] * 3})
    report = data_report(schema, table)
    assert str(report.findings[0]).split(";")[0] in read(report)


def test_progress_is_shown_in_notebooks_only(monkeypatch):
    with progress_bar("counting", 2) as step:
        step(1)  # neither a terminal nor a notebook
    shown = []

    class Place:
        def update(self, html):
            shown.append(read(html))

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    display = types.SimpleNamespace(display=lambda html, display_id: Place())
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with progress_bar("counting", 2) as step:
        step(1)
        step(2)
    assert shown == ["counting 1 of 2", "counting 2 of 2"]
    with progress_bar("counting", 2, shown=False) as step:
        step(1)
    assert len(shown) == 2
