"""Twenty thousand parties in one process: the boundary costs little beside the mathematics."""

import time

import numpy as np
import pytest

from confrere.ledger import Ledger
from confrere.maths.randomness import SystemSource
from confrere.mechanisms.party_outputs import release_outputs
from confrere.privacy import Neighbours
from confrere.protocols import Averaging, Books, Facts, Frame, LocalFederation, PartyGroup, average
from confrere.protocols.sizes import Sizes


@pytest.mark.slow
def test_one_round_of_twenty_thousand_parties_costs_what_the_mathematics_cost():
    """Bounding rows, solving and drawing are the floor (13 us per party here).

    Messages and books come on top: two questions and their answers for everyone.
    """
    rng = np.random.default_rng(0)
    n_parties, rows_each, d = 20_000, 9, 50
    X = rng.normal(size=(n_parties * rows_each, d)) / np.sqrt(d)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    offsets = np.arange(0, len(y) + 1, rows_each)
    names = tuple(map(str, range(n_parties)))
    frame = Frame(d, data_norm=2.0)
    plan = Averaging(frame=frame, epsilon=1.0, perturb="output", cap=1.0, alpha=0.01)
    sizes = Sizes(dict.fromkeys(names, rows_each), Neighbours.REPLACE_ONE, {})
    mechanism = plan.request(1.0, sizes, None).output(Facts(rows_each, d))
    ratios = []
    for _ in range(6):
        ledger = Ledger()
        ledger.open_account("all")
        group = PartyGroup(names, X, y, offsets, Books(ledger=ledger, account="all"))
        started = time.process_time()
        release_outputs({rows_each: mechanism}, frame.rows(X), y, offsets, source=SystemSource())
        floor = time.process_time() - started
        started = time.process_time()
        outcome = average(LocalFederation(group), plan)
        ratios.append((time.process_time() - started) / floor)
        assert ledger.spent("all") == outcome.guarantee.epsilon == 1.0
        assert len(outcome.sizes) == n_parties
    # The first pair pays for compilation.
    assert np.median(ratios[1:]) < 3
