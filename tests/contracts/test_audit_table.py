"""Every promise that is offered has a row in the table of audits, and no row is there twice."""

import itertools
from dataclasses import fields, is_dataclass, replace

import pytest

from confrere.assurance.audited import AUDITED, IN_TABLE
from confrere.assurance.table import COMPARED, OTHERS, ROWS, AuditCase, audit_row, sides_of
from confrere.errors import InvalidParameter
from confrere.estimators import PrivateLogisticRegression
from confrere.kernel.accountants import Exposure
from confrere.kernel.guarantee import RELATIONS, Neighbours
from confrere.kernel.losses import Logistic, Softmax

#: Every value of every dimension. Whether a method has it is asked of the method itself.
VALUES = {
    "relation": [str(relation) for relation in RELATIONS],
    "classes": [0, 2, 3, 4],
    "geometry": ["ball", "body", "joint", "apart", "bodies"],
    "delta": [False, True],
    "option": [
        *("", "check", "reserve", "rounds", "sum", "party", "contrast", "by", "products"),
        *("huber", "cap"),
    ],
}


def offered(method):
    """Return the dimensions that a method does not refuse."""
    found = set()
    for values in itertools.product(*VALUES.values()):
        row = AuditCase(method=method, law="", **dict(zip(VALUES, values, strict=True)))
        try:
            sides_of(row)
        except InvalidParameter:
            continue
        found.add(row.dimensions)
    return found


OFFERED = {}


def left_out(rows):
    """Return what is offered and not audited."""
    for method in (*AUDITED, *OTHERS):
        if method not in OFFERED:
            OFFERED[method] = offered(method)
    wanted = set().union(*OFFERED.values()) | {
        ("total", "replace-one", 2, "ball", delta, "") for delta in (False, True)
    }
    return wanted - {row.dimensions for row in rows}


def test_everything_that_is_offered_has_a_row():
    assert left_out(ROWS) == set()
    assert set(IN_TABLE) == {*AUDITED, *OTHERS, "total"}


@pytest.mark.parametrize("method", IN_TABLE)
def test_the_first_row_of_every_method_is_compared_and_not_refuted(method):
    row = next(one for one in ROWS if one.method == method)
    found = audit_row(row)
    assert not found.refuted, found.where
    assert set(found.shares) <= set(COMPARED)
    assert found.shares["ratio"] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_row_is_refuted(row):
    found = audit_row(row)
    assert not found.refuted, found.where
    assert found.shares["ratio"] > 0.5


def test_a_relation_that_only_old_ledgers_have_is_refused_by_every_mechanism_and_accountant():
    plain = [row for row in ROWS if row.geometry in ("ball", "joint") and row.classes == 2]
    made = (sides_of(row).mechanisms for row in plain if row.method != "total")
    found = {type(one): one for one in itertools.chain(*made) if is_dataclass(one)}
    related = [one for one in found.values() if "neighbours" in {f.name for f in fields(one)}]
    promised = [
        one for one in found.values() if "promise" in {f.name for f in fields(one) if f.init}
    ]
    assert related
    assert promised
    for one in related:
        with pytest.raises(InvalidParameter, match="neighbours"):
            replace(one, neighbours=Neighbours.LABEL_ONLY)
    for one in promised:
        with pytest.raises(InvalidParameter, match="neighbours"):
            replace(one, promise=replace(one.promise, neighbours=Neighbours.LABEL_ONLY))
    for price in (
        lambda relation: Exposure(loss=Logistic(), ridges=(1.0,), neighbours=relation),
        lambda relation: Exposure(loss=Softmax(4), ridges=(1.0,), neighbours=relation),
        lambda relation: PrivateLogisticRegression(neighbours=relation).privacy_cost(100, 4),
    ):
        with pytest.raises(InvalidParameter, match="neighbours"):
            price(Neighbours.LABEL_ONLY)
        price(Neighbours.REPLACE_ONE)


def test_a_law_that_is_not_the_declared_one_is_refuted():
    wrong = replace(ROWS[0], law="Gaussian")
    assert "noise of L2" in audit_row(wrong).where
