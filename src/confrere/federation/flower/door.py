"""The one door of a coordinator: TLS with known certificates only, five paths, bounded in all.

Whoever has no registered certificate fails in the handshake, before a byte of HTTP is read. A party
that has one can still be hostile: its bodies, its waiting and its connections are bounded here,
each party's by themselves, so that none takes the place of the others. Of those who have not shown
a certificate yet no more are let in than leave files for the coordinator's own work.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

if sys.platform != "win32":
    import resource

from confrere.federation.flower.wire import HOLD_SECONDS, MAX_BODY

#: How long anybody may take for a TLS handshake, for the head of a request, for its body.
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0

#: How long a whole request may take, a slow reader's included.
REQUEST_SECONDS = HOLD_SECONDS + 2 * BODY_SECONDS

#: Bodies that are being received: all together, and one party's.
_MAX_HELD = 4 * MAX_BODY
_MAX_HELD_EACH = MAX_BODY + (1 << 20)

#: Connections of one certificate. A party has two; those of one that was killed linger a while.
MAX_CONNECTIONS = 8

#: Connections beyond those of parties: handshakes, of strangers too.
_STRANGERS = 256

#: Names the certificate in a request's state.
_PEER = "confrere.peer"


class Listener(socket.socket):
    """A listening socket that accepts no more connections than leave files for others.

    Beyond, it says what a system says that has no more files: event loops then wait a second, and
    go on.
    """

    most = 0
    _accepted: weakref.WeakSet[socket.socket]

    @classmethod
    def on(cls, address: tuple[str, int], family: int, *, parties: int) -> Listener:
        """Listen for so many parties."""
        made = socket.create_server(address, family=family, backlog=128)
        found = cls(made.family, made.type, made.proto, fileno=made.detach())
        found.most = MAX_CONNECTIONS * parties + _STRANGERS
        if sys.platform != "win32":
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if files != resource.RLIM_INFINITY:
                found.most = max(1, min(found.most, files // 2))
        found._accepted = weakref.WeakSet()
        return found

    def accept(self) -> tuple[socket.socket, Any]:
        """Take the next connection, if there is a place for it."""
        if sum(one.fileno() >= 0 for one in self._accepted) >= self.most:
            raise OSError(errno.EMFILE, "too many connections")
        found, address = super().accept()
        self._accepted.add(found)
        return found, address


def server_context(certificate: Path, key: Path, clients: Sequence[str]) -> ssl.SSLContext:
    """Return TLS that lets nobody in but the holders of these certificates.

    Parameters
    ----------
    certificate, key : Path
        What the coordinator shows.
    clients : sequence of str
        The parties' own certificates, as PEM. None of them may vouch for another.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata="\n".join(clients))
    return context


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers are not kept waiting in a handshake."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """Create a server; uvicorn does not pass a time limit on."""
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        return await super().create_server(*args, **kwargs)

    async def hang_up(self) -> None:
        """Close what is left when a server has ended: who was still in a handshake."""
        for transport in list(getattr(self, "_transports", {}).values()):
            transport.abort()
        await asyncio.sleep(0)


class Punctual(H11Protocol):
    """Connections that are closed when the head of a request does not come whole in time."""

    _due: asyncio.TimerHandle | None = None
    peer: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless the party has connections enough."""
        super().connection_made(transport)
        encrypted = transport.get_extra_info("ssl_object")
        self.peer = None if encrypted is None else encrypted.getpeercert(binary_form=True)
        self.app_state = {**self.app_state, _PEER: self.peer}
        own = [one for one in self.connections if getattr(one, "peer", None) == self.peer]
        if len(own) > MAX_CONNECTIONS:
            transport.write(b"HTTP/1.1 429 \r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            transport.close()
            return
        self._due = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def handle_events(self) -> None:
        """Stop waiting once a request has begun, and begin again at the first byte of the next."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._due is None:
            self._due = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_response_complete(self) -> None:
        """Leave an idle connection to uvicorn's own clock."""
        self._wait_no_more()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_no_more(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class Door:
    """Exact paths, POST only, whole bodies of bounded size in bounded time.

    Parameters
    ----------
    app : ASGI application
        What is behind.
    paths : collection of str
        All that exists.
    """

    def __init__(self, app: ASGIApp, *, paths: frozenset[str]) -> None:
        self._app = app
        self._paths = paths
        self._held: Counter[Any] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or turn it away."""
        if scope["type"] != "http":
            return
        status = 0
        if scope["path"] not in self._paths or scope["raw_path"].decode() != scope["path"]:
            status = 404
        elif scope["method"] != "POST":
            status = 405
        elif _declared(scope) > MAX_BODY:
            status = 413
        if status:
            await PlainTextResponse("", status, headers=_CLOSE)(scope, receive, send)
            return
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._let_in(scope, receive, send)
        except TimeoutError:
            return  # uvicorn closes the connection

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        peer = scope.get("state", {}).get(_PEER)
        try:
            status = 0
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    status = await self._read(body, receive, peer)
            except TimeoutError:
                status = 408
            if status:
                await PlainTextResponse("", status, headers=_CLOSE)(scope, receive, send)
            else:
                await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held[peer] -= len(body)
            if not self._held[peer]:
                del self._held[peer]

    async def _read(self, body: bytearray, receive: Receive, peer: bytes | None) -> int:
        """Take a whole body in; return the code with which it is turned away, or 0."""
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return 400  # gone before it had said all
            part = message.get("body", b"")
            body += part
            self._held[peer] += len(part)
            more = message.get("more_body", False)
            # Chunked bodies declare no size: they are counted as they come.
            if len(body) > MAX_BODY:
                return 413
            if self._held[peer] > _MAX_HELD_EACH:
                return 429
            if self._held.total() > _MAX_HELD:
                return 503
        return 0


_CLOSE = {"connection": "close"}


def _declared(scope: Scope) -> int:
    sizes = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(size) for size in sizes if size.isdigit()), default=0)


def _replayed(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def next_message() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return next_message
