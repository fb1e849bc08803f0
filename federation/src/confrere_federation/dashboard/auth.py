"""Who may see the dashboard: its own address, one token, then a cookie; nobody from elsewhere.

The page shows what other organisations wrote, so nothing on it may run: no script, style, picture
or font but the dashboard's own, no frames, no forms to elsewhere. Whoever has no key, comes from
another origin or calls it by another name (as a page would that was rebound) is turned away.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1 << 16

#: In which a front that is reached over an address shows that it is the front.
SECRET_HEADER = "x-confrere-dashboard-secret"  # noqa: S105  its name, not what it holds

_LONGEST_NAME = 200

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": browsers would then say that forms come from nowhere.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_SAFE = ("GET", "HEAD")


@dataclass
class AccessControl:
    """What the dashboard knows about who may come in."""

    hosts: frozenset[str]  #: The names and ports by which the dashboard may be called
    cookie: str = "confrere-dashboard"  #: Its name; browsers do not keep those of two ports apart
    #: Who has signed in, as the organisation's own front says it; then there are no tokens. It
    #: counts from a front that proves itself: whoever reaches the port could write it.
    header: str | None = None
    #: What the front sends besides, in the header :data:`SECRET_HEADER`.
    secret: str | None = field(default=None, repr=False)
    #: Whether the dashboard listens on a Unix socket, which the system opens to the front alone.
    by_socket: bool = False
    #: Behind a sign-in, who may decide about studies; the others look.
    approvers: frozenset[str] = frozenset()
    renewed: Callable[[str], None] | None = None  #: Is given the next token whenever one was used
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _cookies: set[str] = field(default_factory=set, repr=False)

    def admit(self, token: str) -> str | None:
        """Return a fresh cookie for the token, which is good once; None for another."""
        right = hmac.compare_digest(token.encode(), self.token.encode())
        if self.header is not None or not right:
            return None
        self.token = secrets.token_urlsafe(32)
        if self.renewed is not None:
            self.renewed(self.token)
        cookie = secrets.token_urlsafe(32)
        self._cookies.add(_digest(cookie))
        return cookie

    def visitor(self, headers: Headers) -> str | None:
        """Return who it is: a name, "" for whoever has a cookie, None for nobody."""
        if self.header is not None:
            named = headers.get(self.header, "").strip()
            return named if 0 < len(named) <= _LONGEST_NAME and self._is_front(headers) else None
        with suppress(CookieError):
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
            if found is not None and _digest(found.value) in self._cookies:
                return ""
        return None

    def _is_front(self, headers: Headers) -> bool:
        """Whether it is the organisation's own sign-in that speaks."""
        told = headers.get(SECRET_HEADER, "").encode()
        knows = self.secret is not None and hmac.compare_digest(told, self.secret.encode())
        return self.by_socket or knows

    def may_decide(self, visitor: str) -> bool:
        """Whether somebody may approve, refuse or withdraw; others may look."""
        return self.header is None or visitor in self.approvers

    def may_measure(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(
            token.encode(), self.metrics_token.encode()
        )

    @property
    def metrics_token(self) -> str:
        """What a program reads the counts with, and nothing else; a front's secret keeps it."""
        known = self._secret if self.secret is None else self.secret.encode()
        return hmac.new(known, b"metrics", hashlib.sha256).hexdigest()

    def form_key(self, visitor: str) -> str:
        """Return what every form carries: a page elsewhere cannot know it."""
        return hmac.new(self._secret, f"form {visitor}".encode(), hashlib.sha256).hexdigest()

    def holds(self, visitor: str, key: str) -> bool:
        return hmac.compare_digest(self.form_key(visitor).encode(), key.encode())


class Guarded:
    """Middleware: who is turned away gets no further, and every answer is sealed."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app, self._keeper, self.refused = app, access, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        response = self._answer(scope)
        if response is not None:
            self.refused += response.status_code >= 400
            await response(scope, receive, sealed)
            return
        scope["state"] = {**scope.get("state", {}), "refused": self.refused}
        await self._app(scope, receive, sealed)

    def _answer(self, scope: Scope) -> Response | None:
        """Return why somebody is turned away, or the way in; None to pass on."""
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        host = headers.get("host", "")
        if path == "/health" and method in _SAFE:
            return PlainTextResponse("ok\n")  # to anybody: that it runs, and nothing else
        if host not in self._keeper.hosts:
            return _no(421, "The dashboard is not called that. Use the address that it printed.")
        if method not in (*_SAFE, "POST"):
            return _no(405, "The dashboard knows GET and POST.")
        origin, posted = headers.get("origin"), method == "POST"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return _no(403, "The dashboard answers to its own pages only.")
        if posted and origin is None and headers.get("sec-fetch-site") != "same-origin":
            return _no(403, "The dashboard takes forms from its own pages only.")
        # Whoever announces a length is held to it by the server; without one there is no bound.
        length = "" if "transfer-encoding" in headers else headers.get("content-length", "")
        if posted and not (re.fullmatch("[0-9]+", length) and int(length) <= LARGEST_BODY):
            return _no(413, "That is too long for a form.")
        visitor = self._keeper.visitor(headers)
        scope.setdefault("state", {})["visitor"] = visitor
        if path == "/metrics" and self._keeper.may_measure(headers):
            return None
        if path == "/enter" and method == "GET":
            return self._enter(scope)
        if visitor is None and not path.startswith("/static/"):
            signed = "Come through the organisation's own sign-in."
            opened = "Open the address that `confrere dashboard` printed in its terminal."
            return _no(401, opened if self._keeper.header is None else signed)
        return None

    def _enter(self, scope: Scope) -> Response:
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        cookie = self._keeper.admit(tokens[0])
        if cookie is None:
            return _no(401, "That address was used, or is another dashboard's. See the terminal.")
        # Not to the page itself: what came from a terminal or another program has no cookie yet.
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self._keeper.cookie, cookie, httponly=True, samesite="strict", path="/")
        return response


def _no(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
