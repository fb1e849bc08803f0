"""Every promise that is offered has a row in the table of audits, and no row is there twice."""

import itertools
from dataclasses import replace

import pytest

from confrere.assurance.audited import AUDITED, IN_TABLE
from confrere.assurance.table import COMPARED, OTHERS, ROWS, AuditCase, audit_row, sides_of
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import RELATIONS

#: Every value of every dimension. Whether a method has it is asked of the method itself.
VALUES = {
    "relation": [str(relation) for relation in RELATIONS],
    "classes": [0, 2, 3, 4],
    "geometry": ["ball", "body", "joint", "apart", "bodies"],
    "delta": [False, True],
    "option": [
        *("", "check", "reserve", "rounds", "sum", "party", "contrast", "by", "products"),
        *("huber", "cap", "average", "sums"),
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


def test_a_law_that_is_not_the_declared_one_is_refuted():
    wrong = replace(ROWS[0], law="Gaussian")
    assert "noise of L2" in audit_row(wrong).where
