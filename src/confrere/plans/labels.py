"""Labels against a declared label set: a set read off the data would be a release of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter


def declared_classes(classes: Any, y: Any, *, simulated: bool) -> NDArray[Any]:
    """Return the sorted public label set.

    It is ``classes`` if given, else what the *type* of ``y`` declares (the categories of a pandas
    categorical, the two booleans), else 0 and 1. Only a simulation may read it off the data.
    """
    if classes is not None:
        declared = np.unique(np.asarray(classes))
        if declared.ndim != 1 or len(declared) != np.size(classes):
            raise InvalidParameter("classes must be a flat list of different labels.")
        if len(declared) < 2:
            raise InvalidParameter("classes must name at least two labels.")
        return declared
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    if categories is not None and len(categories) > 1:
        return np.unique(np.asarray(categories))
    values = np.asarray(y)
    if values.dtype == bool:
        return np.array([False, True])
    if np.issubdtype(values.dtype, np.number) and np.isin(values, (0, 1)).all():
        return np.array([0, 1], dtype=values.dtype)
    if not simulated:
        raise InvalidParameter(
            "classes must be declared unless the labels are 0 and 1: a label set learned from y "
            "would reveal who is in it. Pass classes=[...]."
        )
    return np.unique(values)


def encode_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label in ``classes``, or refuse what was not declared."""
    try:
        codes = np.searchsorted(classes, y)
    except TypeError:
        raise InvalidData("y and classes have labels of different types.") from None
    codes = np.minimum(codes, len(classes) - 1)
    if np.any(classes[codes] != y):
        raise InvalidData("y has labels outside classes; declare them or drop the rows.")
    return np.asarray(codes, dtype=np.intp)


def plus_minus(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return -1 for the first class and +1 for the second."""
    return np.where(codes == 1, 1.0, -1.0)
