"""The line: gRPC over mutual TLS, one stream per party.

A coordinator's port is held by a process of its own, which has neither its journal nor the key
that signs: strangers who take all files that a process may have take that one's. Nobody gets
beyond TLS but the holders of the certificates that the coordinator was given, none of which
vouches for another. A party that has one can still be hostile. It has one stream: who comes later
with the same certificate takes the earlier one's place. It may send one reply to each question, in
parts of one size, so that all that is held for it is counted while it comes; and what it holds or
delays is its own.

A party listens on no port. It comes to the coordinator, answers what it is sent, and comes again
when the line is lost; a question that was lost with it is sent again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import queue
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from multiprocessing.connection import Connection
from pathlib import Path

from confrere.errors import EngineFailed, InvalidParameter
from confrere_federation.engines.carrier import MAX_MESSAGE, Answering
from confrere_federation.engines.keys import Authority, NodeKey, certificate_text, read_certificate
from confrere_federation.progress import Progress

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what strangers do is not for people's terminals
import grpc
from grpc import StatusCode

#: Where strangers' and parties' comings and goings are noted: two files of a megabyte at most.
LOG = "line.log"

#: Who is where: "nobody yet", "connected", "asked", "replied", "gone".
Told = Callable[[Mapping[str, str]], None]

#: What one of a coordinator's two processes says to the other: kind, parties, number; and bytes.
_Said = tuple[tuple[str, list[str], int], bytes]

_METHOD = "/confrere.Line/talk"

#: A message travels in parts of this size, each with the number of its question.
_PART = 1 << 18
_HEAD = struct.Struct(">Q?")

#: What stands before a message in a ``Connection``.
_SIZE = struct.Struct("!i")

#: Bytes of replies that are being received, of all parties together; beyond, who holds most is cut.
_MAX_HELD = 4 * MAX_MESSAGE

#: Seconds for a TLS handshake; for a whole reply from its first part on; streams of one party in a
#: minute.
_HANDSHAKE_SECONDS, _REPLY_SECONDS, _STREAMS = 2, 60.0, 120

_CONNECT_SECONDS = 60.0
_END_SECONDS = 5.0

#: Why a coordinator ends a stream, in words for the party's operator.
_ENDS = {
    StatusCode.UNAUTHENTICATED: "refused: the coordinator does not know this key",
    StatusCode.FAILED_PRECONDITION: "the coordinator ends",
    StatusCode.RESOURCE_EXHAUSTED: "refused: too much comes with this node key; who else has it?",
    StatusCode.DEADLINE_EXCEEDED: "the coordinator did not wait for a slow reply; it asks again",
    StatusCode.UNIMPLEMENTED: "what answers at this address is not a coordinator",
    StatusCode.INVALID_ARGUMENT: "what was sent is no reply; what answers is not a coordinator",
    StatusCode.ABORTED: "another process has connected with this node key; one key is for one "
    "place. End the other one, or find out who has the key.",
}

_ENDED = "the process that has the coordinator's port has ended."

#: Who is silent is asked for a sign of life, and gone without one.
_ALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _PART + _HEAD.size),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_metadata_size", 8192),
    ("grpc.absolute_max_metadata_size", 8192),
    # A small message may unpack to any size: nothing packed is taken.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.per_message_decompression", 0),
]

_SERVER = [
    *_ALIVE,
    ("grpc.server_handshake_timeout_ms", 1000 * _HANDSHAKE_SECONDS),
    ("grpc.max_connection_idle_ms", 1000 * _HANDSHAKE_SECONDS),
    ("grpc.max_concurrent_streams", 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.so_reuseport", 0),
]

_CLIENT = [
    *_ALIVE,
    # Nothing is contacted but the address that was given.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.min_reconnect_backoff_ms", int(1000 * _CONNECT_SECONDS)),
]


def parts_of(number: int, content: bytes) -> Iterator[bytes]:
    for begin in range(0, max(1, len(content)), _PART):
        last = begin + _PART >= len(content)
        yield _HEAD.pack(number, last) + content[begin : begin + _PART]


class _Wrong(Exception): ...


class _Incoming:
    def __init__(self) -> None:
        self.held = bytearray()
        self.number: int | None = None

    def add(self, part: bytes) -> tuple[int, bytes] | None:
        """Take the next part in; return number and content once the message is whole."""
        if len(part) < _HEAD.size:
            raise _Wrong
        number, last = _HEAD.unpack_from(part)
        size = len(part) - _HEAD.size
        if size > _PART or (size < _PART and not last) or self.number not in (None, number):
            raise _Wrong
        self.number = number
        self.held += memoryview(part)[_HEAD.size :]
        if len(self.held) > MAX_MESSAGE:
            raise _Wrong
        if not last:
            return None
        whole = bytes(self.held)
        self.held, self.number = bytearray(), None
        return number, whole


# The coordinator's side: here what asks, further down the process that has the port.


class LineCarrier:
    """Moves bytes between a coordinator and its parties; see ``Carrier``."""

    def __init__(
        self,
        pipe: Connection,  # To the process that has the port
        parties: list[str],  # Everybody who has a key
        tell: Told | None = None,  # Is given where every party is, whenever that has changed
    ) -> None:
        self._pipe = pipe
        self._tell = tell
        self._here: set[str] = set()
        self._states = dict.fromkeys(parties, "nobody yet")
        self._number = 0

    def connected(self) -> list[str]:
        while self._hear(0.0) is not None:
            pass
        return sorted(self._here)

    def exchange(
        self, questions: Mapping[str, bytes], timeout: float | None = None
    ) -> dict[str, bytes | str]:
        """Send every party its question, as often as it comes back, and wait for the replies."""
        for content in questions.values():
            if len(content) > MAX_MESSAGE:
                raise InvalidParameter(
                    f"a message of {len(content)} bytes is beyond {MAX_MESSAGE}."
                )
        deadline = None if timeout is None else time.monotonic() + timeout
        self.connected()
        self._number += 1
        found: dict[str, bytes | str] = {}
        asked: set[str] = set()
        for content in set(questions.values()):  # what all are asked is there once
            self._send("ask", [n for n, one in questions.items() if one == content], content)
        while len(found) < len(questions):
            waiting = questions.keys() - found.keys() & self._here
            asked |= waiting
            self._note(dict.fromkeys(waiting, "asked"))
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            told = self._hear(left)
            if told is not None and told[0][0] == "reply" and told[0][2] == self._number:
                for name in questions.keys() & set(told[0][1]):
                    found.setdefault(name, told[1])
                    self._note({name: "replied"})
        silent = [name for name in questions if name not in found]
        self._send("withdraw", silent)
        found |= {name: "Timeout" if name in asked else "Unreachable" for name in silent}
        return {name: found[name] for name in questions}

    def _hear(self, seconds: float | None) -> _Said | None:
        try:
            if not self._pipe.poll(seconds):
                return None
            told = heard(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise EngineFailed(_ENDED) from None
        kind, names, _ = told[0]
        moved = self._states.keys() & set(names)  # another's job may have others, too
        if kind in ("here", "gone"):
            self._here = self._here | moved if kind == "here" else self._here - moved
            self._note(dict.fromkeys(moved, "connected" if kind == "here" else "gone"))
        return told

    def _send(self, kind: str, names: list[str], body: bytes = b"") -> None:
        try:
            self._pipe.send_bytes(framed(kind, names, self._number, body))
        except OSError:
            raise EngineFailed(_ENDED) from None

    def _note(self, states: Mapping[str, str]) -> None:
        changed = {name: one for name, one in states.items() if self._states[name] != one}
        self._states |= changed
        if changed and self._tell is not None:
            self._tell(dict(self._states))


@contextmanager
def carrying(
    *,
    nodes: Mapping[str, Path],  # The certificate of every party that may connect
    authority: Authority,  # The coordinator's own certificate
    host: str,
    port: int,
    log: Path | None = None,
    tell: Told | None = None,  # See :class:`LineCarrier`
) -> Iterator[LineCarrier]:
    found = {name: read_certificate(path) for name, path in nodes.items()}
    for name, one in found.items():
        twins = [n for n, other in found.items() if other.public_key() == one.public_key()]
        if len(twins) > 1:
            raise InvalidParameter(
                f"node: {name} and {twins[1]} have the same key; each needs one."
            )
    settings = {
        "certificates": {name: certificate_text(one) for name, one in found.items()},
        "key": authority.server_key.read_text(),
        "shown": authority.certificate.read_text(),
        "address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "log": None if log is None else str(log),
    }
    near, far = socket.socketpair()
    with far, Connection(near.detach()) as ours:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "confrere_federation.engines.line"],
            stdin=far.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        far.close()
        try:
            carrier = LineCarrier(ours, list(nodes), tell)
            ours.send_bytes(framed("begin", body=json.dumps(settings).encode()))
            if heard(ours.recv_bytes())[0][0] != "listening":
                raise EngineFailed(
                    f"cannot listen on {host}:{port}; give an address of this machine, --host, or "
                    "have kits made for a port that is free: confrere provision."
                )
            if tell is not None:
                tell(dict.fromkeys(nodes, "nobody yet"))
            yield carrier
        finally:
            ours.close()  # it says good-bye to the parties, and ends
            try:
                process.wait(2 * _END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def framed(kind: str, names: Sequence[str] = (), number: int = 0, body: bytes = b"") -> bytes:
    return json.dumps([kind, names, number]).encode() + b"\n" + body


def heard(message: bytes) -> _Said:
    head, _, body = message.partition(b"\n")
    kind, names, number = json.loads(head)
    return (kind, names, number), body


# The process that has the port.


class _Stream:
    """What is said with one party, from when it comes until it goes."""

    def __init__(self, context: grpc.aio.ServicerContext) -> None:
        self.context = context
        self.incoming = _Incoming()
        self.asked: set[int] = set()  # and not replied to
        self.ended: asyncio.Future[StatusCode] = asyncio.Future()

    def end(self, code: StatusCode) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


class _Door:
    """Who is let in, what each of them is asked, and what comes back."""

    def __init__(self, names: Mapping[bytes, str], pipe: asyncio.StreamWriter) -> None:
        self._names = names  # by certificate
        self._pipe = pipe
        self._questions: dict[str, tuple[int, bytes]] = {}
        self._bells = {name: asyncio.Event() for name in names.values()}
        self._streams: dict[str, _Stream] = {}
        self._begun: dict[str, list[float]] = {}

    async def listen_to_coordinator(self, pipe: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (kind, names, number), body = await _next(pipe)
                for name in names:
                    if kind == "ask":
                        self._questions[name] = number, body
                        self._bells[name].set()
                    elif self._questions.get(name, (0,))[0] == number:
                        del self._questions[name]
        for stream in self._streams.values():
            stream.end(StatusCode.FAILED_PRECONDITION)

    async def talk(self, _: object, context: grpc.aio.ServicerContext) -> None:
        """Send a party its questions and take in its replies, until one of both ends it."""
        shown = context.auth_context().get("x509_pem_cert", [b""])[0].decode()
        name = self._names.get(ssl.PEM_cert_to_DER_cert(shown)) if shown else None
        if name is None:
            await _abort(context, StatusCode.UNAUTHENTICATED)
            return
        now = time.monotonic()
        begun = [*(then for then in self._begun.get(name, ()) if now - then < 60.0), now]
        self._begun[name] = begun[-_STREAMS - 1 :]
        if len(begun) > _STREAMS:
            await _abort(context, StatusCode.RESOURCE_EXHAUSTED)
            return
        await context.send_initial_metadata(())
        before, stream = self._streams.get(name), _Stream(context)
        self._streams[name] = stream
        if before is not None:
            before.end(StatusCode.ABORTED)
        self.say("here", [name])
        logging.info("%s has come", name)
        both = self._write(name, stream), self._read(name, stream)
        tasks = [asyncio.create_task(one) for one in both]
        try:
            code = await stream.ended
        finally:
            for task in tasks:
                task.cancel()
            if self._streams[name] is stream:
                del self._streams[name]
                self.say("gone", [name])
            logging.info("%s has gone", name)
        if code is not StatusCode.OK:
            logging.warning("%s was cut: %s", name, code.name)
            await _abort(context, code)

    async def _write(self, name: str, stream: _Stream) -> None:
        sent = 0
        try:
            while True:
                self._bells[name].clear()
                number, content = self._questions.get(name, (sent, b""))
                if number != sent:
                    sent = number
                    stream.asked.add(number)
                    for part in parts_of(number, content):
                        await stream.context.write(part)
                await self._bells[name].wait()
        except Exception:
            stream.end(StatusCode.OK)  # it is gone

    async def _read(self, name: str, stream: _Stream) -> None:
        due: float | None = None
        try:
            while True:
                async with asyncio.timeout_at(due):
                    part = await stream.context.read()
                if part is grpc.aio.EOF:
                    return stream.end(StatusCode.OK)
                whole = stream.incoming.add(part)
                number = whole[0] if whole else stream.incoming.number
                if number not in stream.asked:
                    raise _Wrong
                if whole is None:
                    due = due or asyncio.get_running_loop().time() + _REPLY_SECONDS
                    self._make_room()
                    continue
                due = None
                stream.asked.remove(number)
                if self._questions.get(name, (0,))[0] == number:
                    del self._questions[name]
                    self.say("reply", [name], number, whole[1])
        except TimeoutError:
            stream.end(StatusCode.DEADLINE_EXCEEDED)
        except _Wrong:
            stream.end(StatusCode.INVALID_ARGUMENT)
        except Exception:
            stream.end(StatusCode.OK)

    def _make_room(self) -> None:
        """Cut whoever holds most, where all together hold too much."""
        held = sorted(self._streams.values(), key=lambda one: len(one.incoming.held))
        if sum(len(one.incoming.held) for one in held) > _MAX_HELD:
            held[-1].end(StatusCode.RESOURCE_EXHAUSTED)
            held[-1].incoming = _Incoming()

    def say(self, kind: str, names: Sequence[str] = (), number: int = 0, body: bytes = b"") -> None:
        message = framed(kind, names, number, body)
        self._pipe.write(_SIZE.pack(len(message)) + message)


async def _abort(context: grpc.aio.ServicerContext, code: StatusCode) -> None:
    await context.abort(code, _ENDS[code])


async def _next(pipe: asyncio.StreamReader) -> _Said:
    (size,) = _SIZE.unpack(await pipe.readexactly(_SIZE.size))
    return heard(await pipe.readexactly(size))


async def _serve(pipe: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=pipe)
    settings = json.loads((await _next(reader))[1])
    if settings["log"] is not None:
        handler = RotatingFileHandler(settings["log"], maxBytes=1 << 20, backupCount=1, delay=True)
        written = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        written.converter = time.gmtime
        handler.setFormatter(written)
        logging.basicConfig(handlers=[handler], level=logging.INFO)
    certificates: dict[str, str] = settings["certificates"]
    door = _Door({ssl.PEM_cert_to_DER_cert(t): name for name, t in certificates.items()}, writer)
    server = grpc.aio.server(options=_SERVER)
    service, method = _METHOD[1:].split("/")
    handlers = {method: grpc.stream_stream_rpc_method_handler(door.talk)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    credentials = grpc.ssl_server_credentials(
        [(settings["key"].encode(), settings["shown"].encode())],
        root_certificates="".join(certificates.values()).encode(),
        require_client_auth=True,
    )
    try:
        server.add_secure_port(settings["address"], credentials)
    except RuntimeError:
        door.say("no port")
        await writer.drain()
        return
    await server.start()
    door.say("listening")
    await door.listen_to_coordinator(reader)
    await server.stop(_END_SECONDS / 2)


def main() -> None:
    """Hold a coordinator's port, as its standard input says."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # it ends with the coordinator
    with socket.socket(fileno=0) as pipe, suppress(asyncio.IncompleteReadError, ConnectionError):
        asyncio.run(_serve(pipe))


# The party's side.


class LineLost(Exception):
    """Nobody is there, or no longer, or not who was expected; its text says it to people."""


class Line:
    """One stream to a coordinator, from the handshake until it is lost."""

    def __init__(
        self,
        address: str,  # The coordinator's ``host:port``
        authority: Path,  # The certificate that vouches for it
        key: NodeKey,  # Who we are
        stopped: Callable[[], bool] = lambda: False,  # Is asked every second; then it is left
    ) -> None:
        credentials = grpc.ssl_channel_credentials(
            certificate_text(read_certificate(authority, "authority")).encode(),
            key.private_pem(),
            key.certificate.read_bytes(),
        )
        self._channel = grpc.secure_channel(address, credentials, _CLIENT)
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._call = self._channel.stream_stream(_METHOD)(iter(self._out.get, None))
        self._stopped, self._over = stopped, threading.Event()
        self._due, self._taken = time.monotonic() + _CONNECT_SECONDS, False

    def __enter__(self) -> Line:
        """Wait until the coordinator has taken the stream."""
        threading.Thread(target=self._watch, name="confrere-line", daemon=True).start()
        try:
            self._call.initial_metadata()
            self._taken = self._call.is_active()
            if not self._taken:
                next(self.questions())
        except BaseException:
            self.__exit__()
            raise
        self._due = math.inf
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._out.put(None)
        self._call.cancel()
        self._channel.close()

    def _watch(self) -> None:
        """End the stream when that is wanted, or when it was waited for long enough."""
        while not self._over.wait(1.0):
            if self._stopped() or time.monotonic() > self._due:
                self._call.cancel()

    def questions(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and content of whatever is asked, until the line is lost."""
        incoming = _Incoming()
        try:
            for part in self._call:
                whole = incoming.add(part)
                if whole is not None:
                    yield whole
        except _Wrong:
            raise LineLost(_ENDS[StatusCode.UNIMPLEMENTED]) from None
        except grpc.RpcError as error:
            raise _told(error, self._taken) from None
        raise LineLost(_LOST)

    def reply(self, number: int, content: bytes) -> None:
        if len(content) > MAX_MESSAGE:
            raise EngineFailed(f"an answer of {len(content)} bytes is beyond {MAX_MESSAGE}.")
        for part in parts_of(number, content):
            self._out.put(part)

    def finish(self, seconds: float) -> None:
        """Say that nothing more comes, and wait until the coordinator has all of it."""
        self._out.put(None)
        self._due = time.monotonic() + seconds
        with suppress(grpc.RpcError):
            for _ in self._call:
                pass
        if self._call.code() not in (StatusCode.OK, StatusCode.FAILED_PRECONDITION):
            raise LineLost(_LOST)


_LOST = "the line to the coordinator is lost"


def _told(error: grpc.RpcError, taken: bool) -> LineLost | EngineFailed:
    """Return what the end of a stream means, in words for the operator."""
    code, text = error.code(), error.details() or ""
    if code is StatusCode.ABORTED:
        return EngineFailed(_ENDS[code])
    if code is not StatusCode.UNAVAILABLE:
        return LineLost(_ENDS.get(code, _LOST))
    if "CERTIFICATE_VERIFY_FAILED" in text or "not in peer certificate" in text:
        return LineLost(
            "what answers at this address is not the coordinator of the authority's certificate"
        )
    if any(words in text for words in ("to remote host", "DNS", "imeout", "unreachable")):
        return LineLost("nobody at this address yet")
    # Servers hang up on an unknown certificate, and do not say why.
    unknown = "the coordinator hangs up: has it this node's certificate?"
    return LineLost(_LOST if taken else unknown)


def run_party(
    session: Answering,  # What questions are handed to
    *,
    coordinator: str,  # Its ``host:port``
    authority: Path,  # The certificate that vouches for it
    key: NodeKey,  # Who we are
    progress: Progress,  # Where the state is told
    patience: float = 3600.0,  # Seconds without a coordinator after which waiting is given up
    # Is asked while waiting; once it says so, nothing more is waited for.
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Answer a coordinator until the release is here.

    Raises EngineFailed if there was no coordinator for too long, or another process uses the key.
    """
    pause, last = _AGAIN_SECONDS, time.monotonic()
    while True:
        here = False
        try:
            with Line(coordinator, authority, key, stopped) as line:
                progress.say("connected", steps=session.told)
                pause, here = _AGAIN_SECONDS, True
                for number, question in line.questions():
                    progress.say("asked", steps=session.told)
                    line.reply(number, session.handle(question))
                    progress.say(session.state, steps=session.told)
                    if session.finished:
                        return line.finish(_FAREWELL_SECONDS)
        except LineLost as lost:
            last = time.monotonic() if here else last
            had = session.finished or session.state == "released"
            if had and time.monotonic() - last > _FAREWELL_SECONDS:
                return None  # the release is here; the others' signatures may not be
            progress.say(str(lost), steps=session.told)
            if stopped():
                return None
            if time.monotonic() - last > patience:
                raise EngineFailed(
                    f"no coordinator at {coordinator} for {patience:g} s: {lost}. "
                    "Start the party again when there is one."
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, _AGAIN_MOST)


_AGAIN_SECONDS = 0.5
_AGAIN_MOST = 5.0
_FAREWELL_SECONDS = 15.0


if __name__ == "__main__":
    main()
