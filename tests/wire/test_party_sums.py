"""Votes and weights through sums that nobody sees into, one whole party as the unit."""

import numpy as np
import pytest

from confrere.methods.votes import Voting
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.requests import request_for
from tests.wire.conftest import loose_books
from tests.wire.test_ballots import AUXILIARY, FRAME, D, M, N, parties

SETTINGS = [
    {"method": "statistic"},
    {"method": "statistic", "local_alpha": 0.1},
    {"method": "cells"},
    {"method": "weights"},
]
every = pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())))


def plan(epsilon=1.0, **settings):
    more = {"trust": "sum", "n_parties": M} | settings
    return Voting(frame=FRAME, epsilon=epsilon, auxiliary=AUXILIARY, **more)


@every
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_party_moves_its_part_by_no_more_than_is_paid_for(settings, n_classes):
    voting = plan(**settings, n_classes=n_classes)
    mechanism, summand = voting.shared, voting.mechanism
    request = request_for(voting)
    labels = (-1.0, 1.0) if n_classes == 2 else range(3)
    own = loose_books("party")
    extreme = [
        LocalParty("p0", np.tile(direction, (N, 1)), np.full(N, label), own, n_classes=n_classes)
        for direction in np.vstack([np.eye(D), -np.eye(D)])
        for label in labels
    ]
    parts = [request.part(one) for one in (*parties(n_classes), *extreme)]
    measured = 1 if settings["method"] == "cells" else 2  # shares pay in L1
    moved = max(float(np.linalg.norm(a - b, measured)) for a in parts for b in parts)
    assert moved <= mechanism.sensitivity
    nearly = 0.3 if n_classes > 2 else 0.05
    assert moved >= nearly * mechanism.sensitivity
    assert all(part.shape == (mechanism.size,) for part in parts)
    assert all(float(np.abs(part).max()) <= mechanism.largest for part in parts)
    assert mechanism.sensitivity == summand.sensitivity
