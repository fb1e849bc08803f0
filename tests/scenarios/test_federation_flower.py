"""A real deployment on the loopback interface: TLS, node keys, three parties in three processes."""

import socket
import threading
import time
import warnings

import numpy as np
import pytest

from confrere.ledger import Ledger
from confrere.protocols import Averaging, Frame, LocalFederation, average

with warnings.catch_warnings():
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation import (
        Coordinator,
        load_party,
        make_authority,
        make_node_key,
        run_coordinator,
        run_party,
    )
    from confrere.federation.job import Job
    from confrere.federation.launch import registered_keys, stop

PARTY = """\
name = "{name}"
data = "rows.npz"
ledger = "books.ledger"
account = "study"
answers = "answers.db"
operations = ["size", "objective"]
epsilon_per_run = 1.0
random_state = {seed}
"""


def make_party_folder(folder, name, seed):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50 + 10 * seed, 3)) / 3
    np.savez(folder / "rows.npz", X=X, y=np.where(X[:, 0] > 0, 1.0, -1.0))
    Ledger(folder / "books.ledger").open_account("study", epsilon=1.0)
    (folder / "party.toml").write_text(PARTY.format(name=name, seed=seed))
    return folder / "party.toml"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_parties_over_tls_give_what_one_process_gives(tmp_path):
    authority = make_authority(tmp_path / "keys", ["127.0.0.1", "localhost"])
    files, nodes = {}, {}
    for seed, name in enumerate("abc"):
        files[name] = make_party_folder(tmp_path / name, name, seed)
        nodes[name] = make_node_key(tmp_path / name / "node")
    link, *ports = free_ports(4)
    coordinator = Coordinator(
        folder=tmp_path / "coordinator", authority=authority, nodes=nodes, port=link
    )
    job = Job(plan=Averaging(frame=Frame(3), epsilon=1.0), parties=("a", "b", "c"), timeout=240.0)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(run_coordinator(coordinator, job)))
    thread.start()
    processes = []
    try:
        while registered_keys(coordinator) < 3 and thread.is_alive():
            time.sleep(0.2)
        for (name, file), port in zip(files.items(), ports, strict=True):
            processes.append(
                run_party(
                    file,
                    superlink=coordinator.address,
                    authority=authority.certificate,
                    key=tmp_path / name / "node",
                    folder=tmp_path / name / "state",
                    port=port,
                )
            )
        thread.join()
    finally:
        for process in processes:
            stop(process)
    (outcome,) = outcomes
    assert outcome.guarantee.epsilon == 1.0
    assert outcome.simulated
    books = {name: Ledger(file.parent / "books.ledger") for name, file in files.items()}
    for name, ledger in books.items():
        (entry,) = ledger.entries("study")
        assert entry.state == "released"
        assert outcome.receipts[name][0].hash == entry.hash
    # The same seeds in one process, with other books: bit for bit the same.
    here = []
    for seed, name in enumerate("abc"):
        here.append(load_party(make_party_folder(tmp_path / "again" / name, name, seed)))
    expected = average(LocalFederation(here), job.plan)
    np.testing.assert_array_equal(outcome.weights, expected.weights)
