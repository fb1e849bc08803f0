"""Stacks whose groups have noise shaped like the rows: chosen by public facts, kept in releases."""

import pytest

from confrere import FeatureStackingClassifier
from confrere.errors import InvalidParameter
from tests.methods.estimators.test_schema_noise import SCHEMA, table

SEEDED = {"schema": SCHEMA, "n_groups": 3, "random_state": 0}


def stacked(**settings):
    return FeatureStackingClassifier(**{**SEEDED, "epsilon": 6.0, **settings})


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
