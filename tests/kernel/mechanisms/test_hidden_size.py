"""Under add-remove neighbours nothing that leaves tells how many rows there are."""

from types import SimpleNamespace

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.kernel.accountants import loss_of
from confrere.kernel.noise import HiddenSize
from confrere.methods.average import NoisedMinimiser, Weights
from confrere.simulation import SeededSource
from confrere_federation.parties.requests import request_for


def question(centre=None, declared=1000, kind=Weights, **changes):
    settings = {
        "frame": Frame(20),
        "epsilon": 0.5,
        "ridge": 10.0,
        "loss": loss_of(2, 0.5),
        "alpha": 0.0,
    }
    return request_for(
        kind(
            **settings
            | {"neighbours": "add-remove", "declared": declared, "centre": centre}
            | changes
        )
    )


def rows(n, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X / (1.001 * np.abs(X).sum(axis=1, keepdims=True)), np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.mark.parametrize("operation", [Weights, NoisedMinimiser], ids=lambda one: one.operation)
def test_no_centre_tells_a_thousand_rows_from_one_more(operation):
    """Spacings that followed n told them apart in every answer, at 256971.67 in this frame."""
    centres = [None]
    if operation is Weights:
        centres += [np.full(21, length) for length in (1.0, 256971.67013221033, 1e6)]
    for centre in centres:
        asked = question(centre, kind=operation)
        spacings = set()
        for n in (1000, 1001, 500_000):
            if operation is Weights:
                spacings.add(asked.asked.mechanism(n).act.output_step.spacing)
            else:
                spacings.add(asked.asked.mechanism(n).steps[0].spacing)
            assert asked.response(n).guarantee == asked.response(3).guarantee
        assert len(spacings) == 1
    # And so it is with what leaves.
    for n in (1000, 1001):
        X, y = rows(n)
        party = SimpleNamespace(X=X, y=y, engine=None)
        answer = asked.answer(party, SeededSource(0))["weights"]
        steps = answer / spacings.copy().pop()
        assert np.array_equal(steps, np.rint(steps))
        assert np.any(steps % 2)


def test_one_more_row_adds_one_or_takes_one_away():
    """For any cells that are drawn, rows that both data sets have keep theirs."""
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(300):
        cells = rng.integers(0, 10, size=12)
        place = rng.integers(0, 12)
        with_it, without = (_alone(each) for each in (cells, np.delete(cells, place)))
        both = np.delete(with_it, place)
        came, went = np.sum(both & ~without), np.sum(without & ~both)
        came += with_it[place]
        assert came + went <= 1
        kinds.add((int(came), int(went)))
    assert kinds == {(0, 0), (1, 0), (0, 1)}


class Cells(SeededSource):
    """Uniforms that fall into given cells."""

    def __init__(self, cells, most):
        super().__init__(0)
        self._fixed = (np.asarray(cells) + 0.5) / most

    def uniforms(self, *shape):
        return self._fixed.reshape(shape)


def _alone(cells):
    hidden = HiddenSize(1)
    return hidden.used(len(cells), Cells(cells, hidden.most))[0]
