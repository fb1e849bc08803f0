"""No other class can say that rows are bounded, and what was measured stays."""

import pickle

import numpy as np
import pytest

from confrere.data.frame import BoundedRows
from confrere.errors import InvalidData
from confrere.kernel.noise import MeasuredRows, certify_rows
from confrere.solver.row_blocks import BlockRows


def made():
    return BoundedRows(np.eye(3), 1.0)


def test_no_other_class_can_say_so():
    lie = {"longest": 0.0, "norm": "l2", "shape": (3, 3)}
    for bases in ((MeasuredRows,), (BoundedRows,), (BlockRows, MeasuredRows)):
        with pytest.raises(TypeError):
            type("Fake", bases, {**lie, "__module__": BoundedRows.__module__})
    assert not hasattr(MeasuredRows, "register")


def test_what_only_calls_itself_so_is_measured():
    class Fake:
        __class__ = BoundedRows
        longest, norm, corners, shape = 0.0, "l2", None, (3, 3)

        def __array__(self, dtype=None, copy=None):
            return 2 * np.eye(3)

    with pytest.raises(InvalidData, match="bound"):
        certify_rows(Fake())


@pytest.mark.parametrize("name", ["X", "longest", "norm", "corners", "factors", "constant"])
def test_nothing_changes_once_they_are_measured(name):
    for rows in (made(), made()[:2], pickle.loads(pickle.dumps(made()))):
        with pytest.raises(AttributeError, match=name):
            setattr(rows, name, 2 * np.eye(3))
