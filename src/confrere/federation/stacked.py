"""The answers of a group: one row per party, and a payload of its own for whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage
from confrere.federation.payload import Payload


@final
class StackedAnswers(Mapping[str, Payload]):
    """What twenty thousand parties answered, without twenty thousand objects.

    Parameters
    ----------
    names : sequence of str
        The parties.
    whole : Payload
        Every array has one row per party; the values are everyone's.
    """

    def __init__(self, names: Sequence[str], whole: Payload) -> None:
        if any(a.ndim == 0 or len(a) != len(names) for a in whole.arrays.values()):
            raise InvalidMessage("every array must have one row per party.")
        self._rows = {name: row for row, name in enumerate(names)}
        self.whole = whole

    def __getitem__(self, name: str) -> Payload:
        row = self._rows[name]
        return Payload(
            self.whole.values, {key: array[row] for key, array in self.whole.arrays.items()}
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def stacked(
    answers: Mapping[str, Payload], name: str, shape: tuple[int, ...], dtype: str = "<f8"
) -> NDArray[Any]:
    """Return everyone's array of that name, one row per party, in order.

    Raises
    ------
    InvalidMessage
        If a party's answer has no such array, or one of another shape or type.
    """
    if isinstance(answers, StackedAnswers):
        whole = answers.whole.arrays.get(name)
        rows = [] if whole is None else [whole[0]]
    else:
        whole = None
        rows = [a.arrays[name] for a in answers.values() if name in a.arrays]
        if len(rows) < len(answers):
            rows = []
    if not rows or any(row.shape != shape or row.dtype.str != dtype for row in rows):
        raise InvalidMessage(f"a party's answer has no {name} of the agreed shape.")
    return np.stack(rows) if whole is None else whole
