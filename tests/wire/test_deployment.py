"""A real deployment: three parties and a coordinator in processes of their own, over mutual TLS.

It gives what one process gives, while somebody without a key, somebody with a foreign one, and a
registered party that is hostile do what they can.
"""

from pathlib import Path

import numpy as np
import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from confrere.errors import EngineFailed, SimulatedRelease
from confrere.ledger import Ledger
from confrere.release import load_rehearsal, load_release
from confrere_federation.engines.keys import NodeKey, make_node_key, read_certificate, read_node_key
from confrere_federation.engines.line import Line, LineLost
from tests.wire.deployment import PARTIES, Deployment
from tests.wire.line.test_keys import certificate_by

pytestmark = pytest.mark.deployment


def test_three_parties_give_what_one_process_gives_whoever_attacks(tmp_path):
    with Deployment(tmp_path, seeded=True) as deployment:
        deployment.start("coordinator")
        deployment.wait(deployment.listening, 500)
        outsiders_fail_in_the_handshake(deployment)
        with insider(deployment) as line:
            for name in ("main", "branch-1"):
                deployment.start(name)
            states = dict.fromkeys(PARTIES[:2], "replied") | {"branch-2": "asked"}
            deployment.wait(lambda: deployment.status("coordinator").get("parties") == states, 500)
            deployment.wait(lambda: deployment.status("nodes/main").get("state") == "answered", 500)
            two_processes_each_and_one_port(deployment)
            garbage_is_cut(line)
        with insider(deployment) as line:
            deployment.start("branch-2")
            with pytest.raises(EngineFailed, match="another process has connected"):
                poll_for_ever(line)
        told = deployment.finish(500)
        assert deployment.remains() == []
    np.testing.assert_array_equal(deployment.released(), deployment.released_in_python())
    with pytest.raises(SimulatedRelease):
        load_release(told["folder"])
    release = load_rehearsal(told["folder"])
    for name in PARTIES:
        (entry,) = Ledger(deployment.ledger(name)).entries()
        assert (entry.state, entry.spent) == ("released", 1.0)
        assert release.parties[name].hash == entry.hash
        assert deployment.status(f"nodes/{name}")["state"] == "released"
        assert told["unsigned"] == {}
        key = next(party.key for party in deployment.study.parties if party.name == name)
        for place in (told["folder"], deployment.folder / f"had/{name}/diabetes-2026"):
            load_rehearsal(place, require_signature_from={name: key})
    nothing_is_for_others(deployment)


def line_of(deployment, key: NodeKey) -> Line:
    authority = deployment.folder / "coordinator/authority/ca.pem"
    return Line(f"127.0.0.1:{deployment.port}", authority, key)


def insider(deployment) -> Line:
    """Return the line of a party that is registered, and hostile."""
    return line_of(deployment, read_node_key(deployment.folder / "branch-2/keys/node.key"))


def outsiders_fail_in_the_handshake(deployment):
    make_node_key(deployment.folder / "stranger")
    stranger = read_node_key(deployment.folder / "stranger")
    for key in (stranger, vouched_for(deployment)):
        with (
            pytest.raises(LineLost, match="has it this node's certificate"),
            line_of(deployment, key),
        ):
            pass


def vouched_for(deployment) -> NodeKey:
    """Return a key whose certificate a registered party's key has signed."""
    insider_key = read_node_key(deployment.folder / "branch-2/keys/node.key")
    issuer = read_certificate(insider_key.certificate)
    key = ec.generate_private_key(ec.SECP384R1())
    path = deployment.folder / "friend.pem"
    made = certificate_by(insider_key.key, key, ca=False, issuer=issuer.subject)
    path.write_bytes(made + insider_key.certificate.read_bytes())
    return NodeKey(key, path)


def garbage_is_cut(line):
    """What is no reply to a question ends the stream, and nobody else's."""
    line._out.put(b"garbage")
    with pytest.raises(LineLost):
        poll_for_ever(line)


def poll_for_ever(line):
    """The honest party comes with the same key: from then on the other one is turned away."""
    for _ in line.questions():
        pass


def two_processes_each_and_one_port(deployment):
    """One has the line, the other the rows: and that one has neither a network nor gRPC."""
    coordinator = deployment.running["coordinator"].pid
    for process in deployment.processes():
        (reader,) = process.children(recursive=True)
        here, there = (
            [c for c in one.net_connections() if c.status == psutil.CONN_LISTEN]
            for one in (process, reader)
        )
        assert (here, len(there)) == ([], int(process.pid == coordinator))
        if process.pid == coordinator:
            continue
        assert namespace_of(reader) != namespace_of(process)
        assert reader.net_connections("inet") == []
        assert not any("grpc" in m.path for m in reader.memory_maps())
        loaded = [m.path for m in process.memory_maps()]
        assert not any(name in path for name in ("numpy", "pandas", "scipy") for path in loaded)
        assert process.memory_info().rss < 80 << 20
        opened = {Path(f.path).name for f in process.open_files()}
        assert not any(name.endswith((".csv", ".ledger", ".answers")) for name in opened)


def namespace_of(process):
    return Path(f"/proc/{process.pid}/ns/net").readlink()


def nothing_is_for_others(deployment):
    for place in (deployment.folder / "coordinator", *(deployment.folder / "nodes").iterdir()):
        for path in (place, *place.rglob("*")):
            if path.parent.name != "authority":
                assert path.stat().st_mode & 0o077 == 0, path
    arrays = [p.name for p in deployment.folder.rglob("*.np*")]
    assert set(arrays) <= {"model.npz"}  # the release's, and no rows
