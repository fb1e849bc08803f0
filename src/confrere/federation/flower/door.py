"""The one door of a coordinator: TLS with known certificates only, five paths, bounded in all.

Whoever has no registered certificate fails in the handshake, before a byte of HTTP is read. A party
that has one can still be hostile: its bodies, its waiting and its connections are bounded here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from confrere.federation.flower.wire import HOLD_SECONDS, MAX_BODY

#: How long anybody may take for a TLS handshake, for the head of a request, for its body.
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0

#: How long a whole request may take, a slow reader's included.
REQUEST_SECONDS = HOLD_SECONDS + 2 * BODY_SECONDS

#: Bodies that are being received, all together.
_MAX_HELD = 4 * MAX_BODY


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
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
        self._held = 0

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
        try:
            status = 0
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    status = await self._read(body, receive)
            except TimeoutError:
                status = 408
            if status:
                await PlainTextResponse("", status, headers=_CLOSE)(scope, receive, send)
            else:
                await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held -= len(body)

    async def _read(self, body: bytearray, receive: Receive) -> int:
        """Take a whole body in; return the code with which it is turned away, or 0."""
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return 400  # gone before it had said all
            part = message.get("body", b"")
            body += part
            self._held += len(part)
            more = message.get("more_body", False)
            # Chunked bodies declare no size: they are counted as they come.
            if len(body) > MAX_BODY:
                return 413
            if self._held > _MAX_HELD:
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
