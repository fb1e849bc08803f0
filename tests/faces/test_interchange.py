"""What other tools read and write: schemas, and events of charges; MLflow is in test_raw_rows."""

import json
from types import SimpleNamespace

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, pld

from confrere import Guarantee, Ledger
from confrere.accounting import dp_event
from confrere.errors import SchemaError
from confrere.interchange import from_table_schema, to_table_schema
from confrere.kernel.accountants import gaussian_delta
from confrere.kernel.guarantee import GaussianPoint
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema
from tests.contracts.raw_tables import random_schema


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
