"""The server that runs the dashboard on this machine's own address."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from confrere.errors import EngineFailed, InvalidParameter
from confrere_federation.dashboard.auth import AccessControl
from confrere_federation.dashboard.screens import make_app
from confrere_federation.dashboard.state import AskPassphrase, Dashboard

#: A secret that is guessed is none.
_SHORTEST_SECRET = 32


def serve_dashboard(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Sequence[str] = (),
    header: str | None = None,
    at_socket: Path | None = None,
    secret: Path | None = None,
    approvers: Path | None = None,
    tell: Callable[[str], None],  # Is given what to print: the address, and the next one
    ask_passphrase: AskPassphrase | None = None,
) -> None:
    """Serve the dashboard until it is stopped; what is said here is the command's to explain."""
    import uvicorn

    if not _own(host) and header is None:
        raise InvalidParameter(
            f"host: {host} can be reached by others; over a network it runs only behind the "
            "organisation's own sign-in: name its header with --sign-in-header."
        )
    if (header is None) != (at_socket is None and secret is None):
        raise InvalidParameter(
            "sign_in_header: whoever reaches this address could write it, so the sign-in has to "
            "prove itself: give --sign-in-header with --socket FILE, or with --front-secret "
            "FILE, and neither without it."
        )
    shown = None if secret is None else _own_secret(secret)
    listed = frozenset(_lines(approvers)) if approvers is not None else frozenset[str]()
    number: object = at_socket
    if at_socket is not None:
        listening, called, where = _listen_at(at_socket), set(names), f"the socket {at_socket}"
    else:
        listening = _listen(host, port)
        address, number = listening.getsockname()[:2]
        called = {f"{name}:{number}" for name in (_bracketed(address), "localhost")} | set(names)
        where = f"http://{_bracketed(address)}:{number}"
    access = AccessControl(
        hosts=frozenset(called),
        cookie=f"confrere-dashboard-{number}",
        header=header,
        secret=shown,
        by_socket=at_socket is not None,
        approvers=listed,
        renewed=lambda token: tell(f"opened; another browser uses: {where}/enter?token={token}"),
    )
    dashboard = Dashboard(folders, ask_passphrase=ask_passphrase)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(dashboard, access),
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            limit_concurrency=100,
        )
    )
    if header is None:
        tell(f"the dashboard is at {where}/enter?token={access.token}")
    else:
        tell(f"the dashboard is at {where}, behind its sign-in; {len(listed)} may decide")
    tell(f"counts for Prometheus: {where}/metrics with bearer token {access.metrics_token}")
    server.run(sockets=[listening])


def _own(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _own_secret(path: Path) -> str:
    """Return what a sign-in shows, from a file that nobody else can read."""
    lines = _lines(path)
    if path.stat().st_mode & 0o077:
        raise InvalidParameter(f"front_secret: {path.name} can be read by others: chmod 600 it.")
    if len(lines) != 1 or len(lines[0]) < _SHORTEST_SECRET:
        raise InvalidParameter(
            f"front_secret: {path.name} must hold one line of {_SHORTEST_SECRET} characters or "
            "more: openssl rand -hex 32 makes one."
        )
    return lines[0]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(f"{path.name}: it cannot be read as a text.") from None
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def _listen_at(path: Path) -> socket.socket:
    """Listen on a socket to which its owner and group can connect, and nobody else."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        if path.is_socket():
            path.unlink()  # of a dashboard that has ended
        listening.bind(str(path))
        listening.listen()
    except OSError as error:
        listening.close()
        raise EngineFailed(f"cannot listen at {path} ({error.strerror}).") from None
    finally:
        os.umask(before)
    return listening


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise EngineFailed(
            f"cannot listen on {host}:{port} ({error.strerror}); give another --port."
        ) from None
