"""A study between processes over TLS, started from the command line alone."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings

import pytest

from confrere.ledger import Ledger
from confrere.release import load_release
from confrere.study import write_example

with warnings.catch_warnings():
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation import make_node_key

COMMAND = [sys.executable, "-m", "confrere.cli"]
NAMES = ("main", "branch-1", "branch-2")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_three_parties_and_a_coordinator(tmp_path):
    write_example(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace('engine = "local"', 'engine = "flower"'))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")}
    link, *ports = map(str, free_ports(4))

    def start(*arguments):
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    for name in NAMES:
        make_node_key(tmp_path / f"{name}.node")
    nodes = [part for name in NAMES for part in ("--node", f"{name}={name}.node.pub")]
    running = [
        start(
            *("coordinator", "study.toml", "--json", "--port", link, "--out", "out"),
            *("--folder", "coordinator", "--timeout", "240", *nodes),
        )
    ]
    try:
        registered = tmp_path / "coordinator" / "registered"
        deadline = time.monotonic() + 180
        while not registered.exists() or len(list(registered.iterdir())) < len(NAMES):
            assert running[0].poll() is None, running[0].communicate()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        for name, port in zip(NAMES, ports, strict=True):
            running.append(
                start(
                    *("party", "study.toml", "--yes", "--local", f"local/{name}.toml"),
                    *("--superlink", f"127.0.0.1:{link}", "--port", port),
                    *("--authority", "coordinator/authority/ca.pem"),
                    *("--node-key", f"{name}.node", "--folder", f"nodes/{name}"),
                )
            )
        told, problems = running[0].communicate(timeout=400)
        assert running[0].returncode == 0, problems
        for node in running[1:]:
            node.send_signal(signal.SIGINT)
            _, said = node.communicate(timeout=60)
            assert node.returncode in (0, 6, 130)
            assert not re.search("Traceback", said)
    finally:
        for process in running:
            process.kill()
    release = load_release(json.loads(told)["data"]["folder"])
    assert release.card.status == "released"
    assert set(release.parties) == set(NAMES)
    for name in NAMES:
        (entry,) = Ledger(tmp_path / "local" / f"{name}.ledger").entries()
        assert entry.state == "released"
