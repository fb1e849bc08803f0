"""Parties check their data when they are set up, and draw noise of their own."""

import numpy as np
import pytest

from confrere.errors import InvalidData
from confrere_federation.parties.party import LocalParty
from tests.wire.conftest import loose_books

BOOKS = loose_books()
X, Y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("bad_X", "bad_y"),
    [
        (np.full((4, 4), np.nan), Y),
        (np.full((4, 4), np.inf), Y),
        (X, np.array([1.0, 0.0, 1.0, 1.0])),
        (X, Y[:3]),
        (X[:0], Y[:0]),
        (X[:, :0], Y),
        (X[0], Y),
    ],
)
def test_bad_data_are_found_before_anyone_asks(bad_X, bad_y):
    with pytest.raises(InvalidData):
        LocalParty("a", bad_X, bad_y, BOOKS)


def test_noise_is_the_systems_or_repeats_per_question():
    def drawn(party, operation, step):
        return party.simulation(operation, step).uniforms(3).tolist()

    assert LocalParty("a", X, Y, BOOKS).simulation("objective", 0) is None
    seeded = LocalParty("a", X, Y, BOOKS, random_state=3)
    again = LocalParty("a", X, Y, BOOKS, random_state=3)
    assert drawn(seeded, "objective", 0) == drawn(again, "objective", 0)
    streams = [
        drawn(LocalParty("a", X, Y, BOOKS, random_state=seed), operation, step)[0]
        for seed in (3, 4)
        for operation in ("objective", "output")
        for step in (0, 1)
    ]
    assert len(set(streams)) == 8
    generator = np.random.default_rng(0)
    first = LocalParty("a", X, Y, BOOKS, random_state=generator)
    assert drawn(first, "objective", 0) == drawn(first, "objective", 0)
    assert drawn(first, "objective", 0) != drawn(
        LocalParty("a", X, Y, BOOKS, random_state=generator), "objective", 0
    )
