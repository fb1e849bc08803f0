"""Stacks whose groups have noise shaped like the rows: chosen by public facts, kept in releases."""

import pytest

from confrere import FeatureStackingClassifier, TransferStackingClassifier
from confrere.errors import InvalidParameter
from confrere.schema import Category, Flag, Number, PublicSchema
from tests.methods.estimators.test_schema_noise import LABEL, SCHEMA, accuracy, table

IMPORTANT = PublicSchema(
    [
        Number("age", bounds=(18, 90), importance=3.0),
        Category("job", values=("a", "b", "c"), importance=1.0),
        Flag("smoker", share=0.2, importance=0.0),
    ],
    outcome=LABEL,
)
SEEDED = {"schema": SCHEMA, "n_groups": 3, "random_state": 0}


def stacked(**settings):
    return FeatureStackingClassifier(**{**SEEDED, "epsilon": 6.0, **settings})


def test_importances_deal_out_epsilon_to_groups_of_whole_columns():
    plan, _ = stacked(schema=IMPORTANT, n_groups=3, epsilon=1.0).prepare(table(), None)
    assert plan.maps.frames
    # Nobody needs the flag.
    (low,) = plan.low
    assert [block.weight for block in low.blocks] == pytest.approx([0.75, 0.25])
    assert [act.law.rate for act in low.acts] == pytest.approx([0.75 * low.rate, 0.25 * low.rate])
    # Every group's body and ridge are those of a regression with its part of epsilon.
    assert [frame.ridge for frame in plan.maps.frames] == [
        block.ridge for block in plan.low[0].blocks
    ]
    assert plan.guarantee().epsilon == 1.0
    named = [feature.tolist() for feature in plan.maps.groups]
    assert named == [list(range(8)), [8, 9, 10]]


@pytest.mark.parametrize("geometry", ["l2", "schema", "auto"])
def test_groups_are_declared_by_the_names_of_columns(geometry):
    model = stacked(groups=[["job"], ["age", "smoker"]], geometry=geometry)
    plan, data = model.prepare(table(), None)
    names = [[data.features[j] for j in group] for group in plan.maps.groups]
    assert names[0] == ["job=a", "job=b", "job=c"]
    assert (names[1] == ["age", "smoker"]) == (geometry == "l2")
    assert bool(plan.maps.frames) == (geometry != "l2")
    with pytest.raises(InvalidParameter, match="no column 'jobs'"):
        stacked(groups=[["jobs"], ["age", "smoker"]], geometry=geometry).prepare(table(), None)
    with pytest.raises(InvalidParameter, match="exactly once"):
        stacked(groups=[["job"], ["age"]], geometry=geometry).prepare(table(), None)
    with pytest.raises(InvalidParameter, match="there is a schema"):
        FeatureStackingClassifier(groups=[["a"], ["b"]]).privacy_cost(100, 2)


def test_the_check_believes_a_right_source_and_not_a_wrong_one():
    """Scores of rows in bodies are neither centred nor as long as a bound: the check knows."""
    source = stacked(epsilon=20.0).fit(table(6000)).to_release()
    settings = {"source": source, "schema": SCHEMA, "epsilon": 3.0, "random_state": 0}
    rows = table(2000, seed=2)
    right = TransferStackingClassifier(**settings).fit(rows)
    assert right.model_.facts.prior.factor > 0.5
    assert accuracy(right, table(seed=1)) > 0.75
    wrong = TransferStackingClassifier(**settings).fit(rows.assign(y=1 - rows["y"]))
    assert wrong.model_.facts.prior.factor < 0


def test_a_source_whose_groups_divide_a_column_is_refused():
    """A stack in a ball whose columns were encoded for a body may have put them anywhere."""
    lines = SCHEMA.encoder(form="linear")
    made = FeatureStackingClassifier(
        schema=lines, groups=[[0, 1], [2, 3, 4]], geometry="l2", random_state=0
    ).fit(table())
    settings = {"source": made.to_release(), "schema": SCHEMA, "random_state": 0}
    near = TransferStackingClassifier(**settings).fit(table(300, seed=2))
    assert near.model_.facts.body is None
    with pytest.raises(InvalidParameter, match="geometry='schema'"):
        TransferStackingClassifier(**settings, geometry="schema").fit(table(300, seed=2))
