"""What other tools and notebooks read: schemas, events, and nothing from outside."""

import json
from types import SimpleNamespace

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, pld

from confrere import Guarantee, Ledger, PrivateLogisticRegression
from confrere.accounting import dp_event
from confrere.errors import SchemaError
from confrere.evaluation import evaluate
from confrere.interchange import from_table_schema, to_table_schema
from confrere.kernel.accountants import gaussian_delta
from confrere.kernel.guarantee import GaussianPoint
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema
from tests.contracts.raw_tables import random_schema
from tests.world import Page


@pytest.mark.parametrize("seed", range(6))
def test_a_schema_comes_back_whole(seed):
    schema = random_schema(seed)
    again = from_table_schema(json.loads(json.dumps(to_table_schema(schema))))
    assert again == schema
    assert again.fingerprint() == schema.fingerprint()


def test_what_others_declare_is_read_and_nothing_else():
    label = Label("sick", positive="yes")
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "ward", "type": "string", "constraints": {"enum": ["a", "b"], "required": True}},
        {"name": "grade", "categories": [{"value": 1}, {"value": 2}], "categoriesOrdered": True},
        {"name": "smoker", "type": "boolean", "trueValues": ["y"], "falseValues": ["n"]},
        {"name": "sick", "type": "string"},
    ]
    assert from_table_schema({"fields": fields}, label) == PublicSchema(
        [
            Number("age", bounds=(0, 120), missing="center"),
            Category("ward", values=("a", "b")),
            Ordered("grade", levels=(1, 2), missing="center"),
            Flag("smoker", true="y", false="n", missing="center"),
        ],
        outcome=label,
    )
    with pytest.raises(SchemaError, match="sick"):
        from_table_schema({"fields": fields})


def test_charges_leave_as_events_of_dp_accounting():
    mu, step = 0.4, 0.05
    ledger = Ledger()
    delta = float(gaussian_delta(0.7, mu))
    ledger.open_account("people")
    noise = GaussianPoint(mu, step)
    ledger.charge("people", Guarantee(0.7 + step, delta), purpose="point", event=noise)
    ledger.charge("people", Guarantee(0.3), purpose="pure")
    ledger.charge("people", Guarantee(2.0, delta), purpose="and more", event=noise)
    point, pure, more = json.loads(json.dumps([dp_event(one) for one in ledger.entries()]))
    assert more["class_name"] == "UnsupportedDpEvent"
    gaussian, rounding = point["events"]
    assert spent(gaussian, 0.7) == pytest.approx(delta, rel=1e-6)
    for event, epsilon in ((rounding, step), (pure, 0.3)):
        assert spent(event, epsilon + 1e-3) == 0  # its grid rounds up
        assert spent(event, epsilon - 1e-3) > 1e-4
    assert delta / 2 < spent(point, 0.7 + step) <= delta


def spent(event, epsilon):
    accountant = pld.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_accounting.DpEvent.from_named_tuple(as_tuple(event)))
    return accountant.get_delta(epsilon)


def as_tuple(event):
    values = {key: [*map(as_tuple, own)] if key == "events" else own for key, own in event.items()}
    return SimpleNamespace(_fields=tuple(event), **values)


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
    for thing, *words in (
        (ledger, EVIL, "1.5", "0.5", "fit PrivateLogisticRegression"),
        (found, "accuracy", "auc", "95% intervals"),
        (model.to_release(), "NOT PROTECTED", "epsilon 1"),
    ):
        told = read(thing)
        assert [word for word in words if word not in told] == []
