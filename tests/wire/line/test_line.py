"""A real line: whoever is lost is found again, and whoever is hostile harms nobody else."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from multiprocessing import Pipe

import grpc
import pytest

from confrere.errors import EngineFailed, InvalidParameter
from confrere_federation.engines import line
from confrere_federation.engines.carrier import MAX_MESSAGE
from confrere_federation.progress import read_progress
from tests.wire.line.conftest import Echo, Wire, until


def test_what_goes_wrong_has_a_code(wire):
    with wire.open() as carrier:
        wire.send("a", Echo())
        until(lambda: carrier.connected() == ["a"])
        assert carrier.exchange({"a": b"1"}, None) == {"a": b"1"}
        assert wire.states[-1] == {"a": "replied", "b": "nobody yet", "c": "nobody yet"}
        assert carrier.exchange({"c": b"2"}, 0.1) == {"c": "Unreachable"}
        with pytest.raises(InvalidParameter, match="beyond"):
            carrier.exchange({"a": bytes(MAX_MESSAGE + 1)}, 1)
        assert carrier.connected() == ["a"]


def test_what_all_are_asked_is_handed_on_once():
    """A question grows with its evidence: a hundred copies of it would be gigabytes."""
    near, far = Pipe()
    names = [f"p{k}" for k in range(100)]
    carrier = line.LineCarrier(near, names)
    far.send_bytes(line.framed("here", [*names, "another's"]))
    found = carrier.exchange(dict.fromkeys(names, b"question") | {"p0": b"other"}, 0.0)
    assert found == dict.fromkeys(names, "Timeout")
    told = [line.heard(far.recv_bytes()) for _ in range(3)]
    assert sorted(body for _, body in told) == [b"", b"other", b"question"]
    assert not far.poll()


def test_the_same_key_from_two_places_is_noticed(wire):
    with wire.open() as carrier:
        wire.send("a", Echo())
        until(lambda: carrier.connected() == ["a"])
        first = wire.threads["a"]
        wire.send("a", Echo())
        first.join(60)
        assert isinstance(wire.errors["a"], EngineFailed)
        assert "another process has connected with this node key" in str(wire.errors["a"])
        assert carrier.exchange({"a": b"1"}, 60) == {"a": b"1"}


def test_two_parties_with_one_key_are_refused(wire):
    for end in ("", ".pem"):
        (wire.folder / f"b{end}").write_bytes((wire.folder / f"a{end}").read_bytes())
    with pytest.raises(InvalidParameter, match="the same key"), wire.open():
        pass


def test_a_party_does_not_take_another_coordinator_for_its_own(wire, tmp_path):
    """One that was restarted in a new folder has other keys: nothing is said to it."""
    (tmp_path / "new").mkdir()
    other = Wire(tmp_path / "new", wire.names)
    other.port = wire.port
    session = Echo()
    with other.open(end=False):
        home = wire.send("a", session, patience=1.0)
        wire.threads["a"].join(60)
        assert "not the coordinator of the authority" in str(wire.errors["a"])
        assert "not the coordinator of the authority" in read_progress(home)["state"]
    assert session.asked == []


def test_who_has_no_certificate_of_the_study_is_told_to_look_at_it(wire, tmp_path):
    (tmp_path / "new").mkdir()
    stranger = Wire(tmp_path / "new", ["a"])
    stranger.authority, stranger.address = wire.authority, wire.address
    with wire.open(end=False) as carrier:
        stranger.send("a", Echo(), patience=1.0)
        stranger.threads["a"].join(60)
        assert "has it this node's certificate" in str(stranger.errors["a"])
        shown = grpc.ssl_channel_credentials(wire.authority.certificate.read_bytes())
        assert Insider(wire, shown).say([]) is grpc.StatusCode.UNAVAILABLE
        assert carrier.connected() == []


def test_a_party_that_is_told_to_stop_does_so_while_it_waits(wire):
    over = threading.Event()
    with wire.open(end=False):
        home = wire.send("a", Echo(), stopped=over.is_set)
        until(lambda: (read_progress(home) or {}).get("state") == "connected")
        over.set()
        wire.threads["a"].join(60)
        assert not wire.threads["a"].is_alive()
    wire.send("b", Echo(), stopped=over.is_set)  # nor where nobody is there to ask
    wire.threads["b"].join(60)
    assert (wire.threads["b"].is_alive(), wire.errors) == (False, {})


# Messages in parts.


WHOLE = line._PART
HEAD = line._HEAD.pack
WRONG = {
    "nothing": [b""],
    "no head": [b"12345678"],
    "a short part that is not the last": [HEAD(1, False) + b"abc"],
    "empty parts": [HEAD(1, False)],
    "a part of another message": [HEAD(1, False) + bytes(WHOLE), HEAD(2, True) + b"x"],
    "too large a part": [HEAD(1, True) + bytes(WHOLE + 1)],
    "parts without end": [HEAD(1, False) + bytes(WHOLE)] * (MAX_MESSAGE // WHOLE + 1),
}


# A party that has a certificate, and is hostile.


class Insider:
    """Streams of a registered party that say anything."""

    def __init__(self, wire, shown):
        known = wire.credentials(shown) if isinstance(shown, str) else shown
        self._channel = grpc.secure_channel(wire.address, known)

    def say(self, parts, *, method=line._METHOD, before=lambda call: None, **more):
        """Send these once the stream is taken; return the code with which it ends."""
        taken = threading.Event()

        def asked():
            taken.wait(60)
            yield from parts

        call = self._channel.stream_stream(method)(asked(), timeout=120, **more)
        call.initial_metadata()
        before(call)
        taken.set()
        with suppress(grpc.RpcError):
            for _ in call:
                pass
        return call.code()


def test_what_a_hostile_party_sends_ends_its_stream_and_nothing_else(wire):
    with wire.open() as carrier:
        wire.send("b", Echo())
        insider = Insider(wire, "a")
        for words, parts in WRONG.items():
            code = insider.say(parts)
            assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert carrier.exchange({"b": words.encode()}, 60) == {"b": words.encode()}
        assert insider.say([], method="/confrere.Line/other") is grpc.StatusCode.UNIMPLEMENTED
        many = [("x", "y" * 60_000)]
        assert insider.say([], metadata=many) is not grpc.StatusCode.OK
        # A small packed message would be a large one.
        packed = insider.say([bytes(1000)], compression=grpc.Compression.Gzip)
        assert packed is grpc.StatusCode.UNIMPLEMENTED
        # Asked, it replies twice; nothing but the first counts.
        replies = []
        asking = threading.Thread(
            target=lambda: replies.append(carrier.exchange({"a": b"q"}, 60)), daemon=True
        )
        twice = [HEAD(0, True)]

        def begin(call):
            asking.start()
            twice[:] = [next(call)[: line._HEAD.size] + b"r"] * 2

        assert insider.say(twice, before=begin) is grpc.StatusCode.INVALID_ARGUMENT
        asking.join(60)
        assert replies == [{"a": b"r"}]
        assert carrier.exchange({"b": b"1"}, 60) == {"b": b"1"}


def test_one_party_does_not_take_the_places_of_the_others(wire):
    """It opens as many streams and connections as it can; another one speaks all the same."""
    with wire.open() as carrier, ExitStack() as held:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(wire.authority.certificate)
        context.load_cert_chain(wire.folder / "a.pem", wire.folder / "a")
        context.set_alpn_protocols(["h2"])
        for _ in range(140):
            raw = socket.create_connection(("127.0.0.1", wire.port), 60)
            secure = held.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1"))
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        insider = Insider(wire, "a")
        codes = [insider.say([]) for _ in range(line._STREAMS + 5)]
        assert codes[0] is grpc.StatusCode.OK
        assert codes[-5:] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 5
        wire.send("b", Echo())
        assert carrier.exchange({"b": b"1"}, None) == {"b": b"1"}


@pytest.mark.parametrize(
    ("bound", "value", "count", "code"),
    [
        ("_REPLY_SECONDS", 0.2, 1, "DEADLINE_EXCEEDED"),
        ("_MAX_HELD", 3 * WHOLE, 5, "RESOURCE_EXHAUSTED"),
    ],
)
def test_who_is_slow_or_hoards_is_cut_and_no_other(
    wire, inside, monkeypatch, bound, value, count, code
):
    monkeypatch.setattr(line, bound, value)
    parts, found, over = [], [], threading.Event()

    def begin(call):
        asking.start()
        number = line._HEAD.unpack_from(next(call))[0]
        parts.extend([HEAD(number, False) + bytes(WHOLE)] * count)

    def slowly():
        yield from parts
        over.wait()

    with wire.open() as carrier:
        asking = threading.Thread(
            target=lambda: found.append(carrier.exchange({"a": b"q", "b": b"q"}, None))
        )
        wire.send("b", Echo())
        assert Insider(wire, "a").say(slowly(), before=begin) is grpc.StatusCode[code]
        wire.send("a", Echo())  # by now it is honest
        asking.join()
        over.set()
        assert found == [{"a": b"q", "b": b"q"}]


# Strangers.

FLOOD = """
import select, socket, sys, time
port, count = map(int, sys.argv[1:])
held, poll = {}, select.poll()
while True:
    while len(held) < count:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        held[one.fileno()] = one
        poll.register(one, select.POLLIN | select.POLLHUP)
    for file, _ in poll.poll(200):
        poll.unregister(file)
        held.pop(file).close()
"""

FLOODED = """
import psutil, resource, sys
from pathlib import Path
from confrere_federation.parties.answers import Answers, Key
from tests.wire.line.conftest import Echo, Wire
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
wire = Wire(Path(sys.argv[1]), ["a", "b"])
journal = Answers(Path(sys.argv[1]) / "journal")
with wire.open() as carrier:
    (holder,) = psutil.Process().children()
    wire.send("a", Echo())
    assert carrier.exchange({"a": b"0"}, None) == {"a": b"0"}
    print(wire.port, flush=True)
    while holder.num_fds() < 1000:
        pass
    for step in range(100):
        journal.claim(Key("run", "size", step), question="")
        journal.keep(Key("run", "size", step), b"")  # its files are not the strangers'
        assert carrier.exchange({"a": b"1"}, None) == {"a": b"1"}
    wire.send("b", Echo())  # who comes now is let in too
    assert carrier.exchange({"b": b"1"}, None) == {"b": b"1"}
    print(holder.memory_info().rss >> 20, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts files as Linux does")
@pytest.mark.parametrize("strangers", [1500, pytest.param(6000, marks=pytest.mark.slow)])
def test_strangers_who_hold_all_files_keep_nobody_from_answering(tmp_path, strangers):
    """More connect and say nothing than the process may have files; closed, they come again."""
    words = [sys.executable, "-c", FLOODED, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as flooded:
        words = ["-c", FLOOD, flooded.stdout.readline().strip(), str(strangers)]
        more = f'ulimit -n {strangers + 100} && exec {sys.executable} "$@"'
        with subprocess.Popen(["bash", "-c", more, "flood", *words]) as flood:
            try:
                assert int(flooded.stdout.readline()) < 300
            finally:
                flood.kill()
        assert flooded.wait() == 0
