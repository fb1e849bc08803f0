"""A real deployment: three parties and a coordinator in processes of their own, over mutual TLS.

It gives what one process gives, while somebody without a key, somebody with a foreign one, and a
registered party that is hostile do what they can.
"""

from __future__ import annotations

import socket
import ssl
import time
import warnings
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from confrere.errors import EngineFailed, SimulatedRelease
from confrere.ledger import Ledger
from confrere.release import load_rehearsal, load_release
from tests.scenarios.deployment import PARTIES, Deployment

with warnings.catch_warnings():
    warnings.simplefilter("ignore", category=DeprecationWarning)
    import httpx
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.app.message.message import make_message
    from flwr.app.metadata import Metadata
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.message_pb2 import ObjectTree
    from flwr.proto.node_pb2 import Node

    from confrere.federation.flower.answering import _beating
    from confrere.federation.flower.fleet import Line, LineLost
    from confrere.federation.flower.keys import NodeKey, make_node_key, read_node_key
    from confrere.federation.flower.wire import CONTENT, MAX_BODY, PATHS, RECORD

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(600)]


def test_three_parties_give_what_one_process_gives_whoever_attacks(tmp_path):
    with Deployment(tmp_path, seeded=True) as deployment:
        deployment.start("coordinator")
        deployment.wait(deployment.listening, 120)
        slow = slow_clients(deployment)
        outsiders_fail_in_the_handshake(deployment)
        slow_clients_are_closed(slow)
        with insider(deployment) as line, _beating(line):
            nothing_else_exists(line)
            names_of_others_are_refused(line, deployment)
            objects_are_refused(line)
            bodies_are_bounded(line)
            for name in ("main", "branch-1"):
                deployment.start(name)
            states = dict.fromkeys(PARTIES[:2], "replied, not checked yet") | {"branch-2": "asked"}
            deployment.wait(lambda: deployment.status("coordinator").get("parties") == states, 120)
            # A party notes that it has answered when the coordinator has said that it has it.
            deployment.wait(lambda: deployment.status("nodes/main").get("state") == "answered", 60)
            two_processes_each_and_one_port(deployment)
            deployment.start("branch-2")
            with pytest.raises(EngineFailed, match="another process has connected"):
                poll_for_ever(line)
        told = deployment.finish(200)
        assert deployment.remains() == []
    np.testing.assert_array_equal(deployment.released(), deployment.released_in_one_process())
    with pytest.raises(SimulatedRelease):
        load_release(told["folder"])
    release = load_rehearsal(told["folder"])
    for name in PARTIES:
        (entry,) = Ledger(deployment.folder / f"local/{name}.ledger").entries()
        assert (entry.state, entry.spent) == ("released", 1.0)
        assert release.parties[name].hash == entry.hash
        assert deployment.status(f"nodes/{name}")["state"] == "released"
        assert told["unsigned"] == {}
        key = next(party.key for party in deployment.study.parties if party.name == name)
        for place in (told["folder"], deployment.folder / f"had/{name}/diabetes-2026"):
            load_rehearsal(place, require_signature_from={name: key})
    nothing_is_for_others(deployment)


def context_of(deployment, key: NodeKey | None) -> ssl.SSLContext:
    authority = deployment.folder / "coordinator/authority/ca.pem"
    if key is not None:
        return key.client_context(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    return context


def insider(deployment) -> Line:
    """Return the line of a party that is registered, and hostile."""
    key = read_node_key(deployment.folder / "branch-2.node")
    address = f"127.0.0.1:{deployment.port}"
    return Line(address, context_of(deployment, key), key.key)


def outsiders_fail_in_the_handshake(deployment):
    make_node_key(deployment.folder / "stranger")
    stranger = read_node_key(deployment.folder / "stranger")
    vouched = vouched_for(deployment)
    assert answered(deployment, read_node_key(deployment.folder / "branch-2.node"))
    for key in (None, stranger, vouched):
        assert not answered(deployment, key)
    address = f"127.0.0.1:{deployment.port}"
    with (
        pytest.raises(LineLost, match="has it this node's certificate"),
        Line(address, context_of(deployment, stranger), stranger.key),
    ):
        pass


def answered(deployment, key: NodeKey | None) -> bool:
    """Whether somebody with this certificate gets as much as one byte of HTTP."""
    context = context_of(deployment, key)
    try:
        with (
            socket.create_connection(("127.0.0.1", deployment.port), 20) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            return secure.recv(1000) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def vouched_for(deployment) -> NodeKey:
    """Return a key whose certificate a registered party's key has signed."""
    insider_key = read_node_key(deployment.folder / "branch-2.node")
    issuer = x509.load_pem_x509_certificate(insider_key.certificate.read_bytes())
    key = ec.generate_private_key(ec.SECP384R1())
    now = datetime.now(UTC) - timedelta(minutes=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a friend")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(insider_key.key, hashes.SHA384())
    )
    path = deployment.folder / "friend.pem"
    content = made.public_bytes(serialization.Encoding.PEM)
    path.write_bytes(content + insider_key.certificate.read_bytes())
    return NodeKey(key, path)


def status_of(call) -> int:
    """Return the code that a call is answered with."""
    try:
        call()
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    return 200


def nothing_else_exists(line):
    client, base = line._client._client, line._client._base_url
    for path in (
        *("/", "/health", "/docs", "/redoc", "/openapi.json", "/v1/control/start-run"),
        *("/v1/control/register-node", "/v1/runtime/acquire-task", "/v1/runtime/pull-messages"),
        *("/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet/deactivate-node"),
        *("/v1/fleet/get-run", "/v1/fleet/get-fab", "/v1/fleet/push-object"),
        *("/v1/fleet/pull-object", "/v1/fleet/confirm-message-received"),
        *("/v1/fleet/pull-messages/", "/v1/fleet/%70ull-messages", "//v1/fleet/pull-messages"),
    ):
        for method in ("POST", "GET"):
            assert client.request(method, base + path).status_code == 404, path
    for path in PATHS:
        assert client.get(base + path).status_code == 405
        unsigned = client.post(base + path, headers={"content-type": "application/x-protobuf"})
        assert unsigned.status_code in (400, 401, 415, 422)


def reply(line, *, source=None, content=None, tree=None, **more) -> PushMessagesRequest:
    """Return what a party would push, with something wrong in it."""
    node = line._node.node_id
    metadata = Metadata(
        run_id=more.pop("run", 1),
        message_id="ab" * 32,
        src_node_id=source or node,
        dst_node_id=1,
        reply_to_message_id="cd" * 32,
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type="query.confrere",
    )
    record = RecordDict({RECORD: ConfigRecord({CONTENT: b"x"})}) if content is None else content
    message: Message = make_message(metadata, record)
    return PushMessagesRequest(
        node=more.pop("node", line._node),
        messages_list=[message_to_proto(message)] * more.pop("count", 1),
        message_object_trees=[ObjectTree(object_id="ab" * 32) if tree is None else tree],
    )


def names_of_others_are_refused(line, deployment):
    def pushed(**wrong):
        return status_of(lambda: line._client.PushMessages(reply(line, **wrong)))

    assert pushed(source=12345) == 400
    assert pushed(node=Node(node_id=12345)) == 401
    assert pushed(count=2) == 400
    assert pushed(count=0) == 400
    assert pushed(run=99) == 500  # there is no such run: Flower says no more
    # Another key's signature over another key's name, through our own certificate.
    mine = read_node_key(deployment.folder / "branch-2.node")
    stranger = read_node_key(deployment.folder / "stranger")
    address = f"127.0.0.1:{deployment.port}"
    with (
        pytest.raises(LineLost, match="does not know this key"),
        Line(address, context_of(deployment, mine), stranger.key),
    ):
        pass


def objects_are_refused(line):
    """Trees too wide, too deep, too large: a reply has no objects beside it."""

    def deep(levels):
        tree = ObjectTree(object_id="ab" * 32)
        for _ in range(levels):
            tree = ObjectTree(object_id="ab" * 32, children=[tree])
        return tree

    leaf = ObjectTree(object_id="ef" * 32)
    wrong = {
        "one child": {"tree": ObjectTree(object_id="ab" * 32, children=[leaf])},
        "100,000 children": {"tree": ObjectTree(object_id="ab" * 32, children=[leaf] * 100_000)},
        "deep": {"tree": deep(80)},
        "another root": {"tree": leaf},
        "no record": {"content": RecordDict()},
        "another record": {"content": RecordDict({"other": ConfigRecord({CONTENT: b"x"})})},
        "two entries": {"content": RecordDict({RECORD: ConfigRecord({CONTENT: b"x", "y": b"x"})})},
        "a text": {"content": RecordDict({RECORD: ConfigRecord({CONTENT: "x"})})},
    }
    for what, part in wrong.items():
        code = status_of(lambda part=part: line._client.PushMessages(reply(line, **part)))
        assert code == 400, what
    too_deep = status_of(lambda: line._client.PushMessages(reply(line, tree=deep(90))))
    assert too_deep in (400, 422)


def bodies_are_bounded(line):
    client, base = line._client._client, line._client._base_url
    path = base + "/v1/fleet/push-messages"
    sent = []

    def endless():
        for _ in range(200):
            sent.append(1)
            yield bytes(1 << 20)

    for content in (bytes(MAX_BODY + 1), endless()):
        with suppress(httpx.TransportError):  # closed while we were still sending
            assert client.post(path, content=content).status_code == 413
    assert MAX_BODY >> 20 <= len(sent) < 100  # it was counted, not believed
    assert client.post(path, content=bytes(1000)).status_code != 413


def poll_for_ever(line):
    """The honest party comes with the same key: from then on the other one is turned away."""
    while True:
        line.poll()


def two_processes_each_and_one_port(deployment):
    """One has the line, the other the rows: and that one has neither a network nor Flower."""
    coordinator = deployment.running["coordinator"].pid
    for process in deployment.processes():
        family = process.children(recursive=True)
        listening = [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
        if process.pid == coordinator:
            assert (family, len(listening)) == ([], 1)
            continue
        assert listening == []
        (reader,) = family
        assert namespace_of(reader) != namespace_of(process)
        assert reader.net_connections("inet") == []
        loaded = [m.path for m in reader.memory_maps()]
        assert not any("grpc" in path for path in loaded)
        opened = {Path(f.path).name for f in process.open_files()}
        assert not any(name.endswith((".csv", ".ledger", ".answers")) for name in opened)


def namespace_of(process):
    return Path(f"/proc/{process.pid}/ns/net").readlink()


def slow_clients(deployment) -> list[socket.socket]:
    """Open connections that say nothing, or half a thing."""
    address = ("127.0.0.1", deployment.port)
    silent = socket.create_connection(address, 30)
    key = read_node_key(deployment.folder / "branch-2.node")
    half = context_of(deployment, key).wrap_socket(
        socket.create_connection(address, 30), server_hostname="127.0.0.1"
    )
    half.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: x\r\nx-slow: ")
    return [silent, half]


def slow_clients_are_closed(slow):
    for connection in slow:
        with connection, suppress(ConnectionError, ssl.SSLError):
            assert connection.recv(10) == b""


def nothing_is_for_others(deployment):
    for place in (deployment.folder / "coordinator", *(deployment.folder / "nodes").iterdir()):
        for path in (place, *place.rglob("*")):
            if path.parent.name != "authority":
                assert path.stat().st_mode & 0o077 == 0, path
    arrays = [p.name for p in deployment.folder.rglob("*.np*")]
    assert set(arrays) <= {"model.npz"}  # the release's, and no rows


@pytest.mark.slow
def test_a_study_that_differs_at_one_party_spends_nothing_and_can_be_mended(tmp_path):
    with Deployment(tmp_path, seeded=True) as deployment:
        text = (deployment.folder / "study.toml").read_text()
        (deployment.folder / "other.toml").write_text(text + "\n# one byte more\n")
        right = deployment.commands["branch-2"]
        deployment.commands["branch-2"] = [
            part.replace("study.toml", "other.toml") for part in right
        ]
        deployment.start_all()
        assert deployment.running["coordinator"].wait(200) == 6
        assert (
            "branch-2: OperationRefused:study"
            in (deployment.folder / "coordinator.out").read_text()
        )
        for name in PARTIES:
            assert Ledger(deployment.folder / f"local/{name}.ledger").entries() == []
        deployment.kill("branch-2")
        deployment.commands["branch-2"] = right
        (deployment.folder / "branch-2.grant").unlink()  # it was for the other bytes
        deployment.start("branch-2")
        deployment.start("coordinator")
        deployment.finish(200)
    np.testing.assert_array_equal(deployment.released(), deployment.released_in_one_process())
