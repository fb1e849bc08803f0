"""A real deployment gives what one process gives: TLS, node keys, three parties, four commands."""

from __future__ import annotations

import numpy as np
import pytest

from confrere.errors import SimulatedRelease
from confrere.ledger import Ledger
from confrere.release import load_release
from tests.scenarios.deployment import PARTIES, Deployment


@pytest.mark.slow
@pytest.mark.deployment
@pytest.mark.timeout(900)
def test_three_parties_over_tls_give_what_one_process_gives(tmp_path):
    with Deployment(tmp_path, seeded=True) as deployment:
        deployment.start_all()
        told = deployment.finish(200)
        assert deployment.remains() == []
    np.testing.assert_array_equal(deployment.weights(), deployment.weights_in_one_process())
    with pytest.raises(SimulatedRelease):
        load_release(told["folder"])
    release = load_release(told["folder"], allow_simulated=True)
    for name in PARTIES:
        (entry,) = Ledger(deployment.folder / f"local/{name}.ledger").entries()
        assert (entry.state, entry.spent) == ("released", 1.0)
        assert release.parties[name].hash == entry.hash
