"""Where the dashboard listens, what it takes from files of its own, and the server behind it."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from confrere.errors import EngineFailed, InvalidParameter

#: A secret that is guessed is none.
_SHORTEST_SECRET = 32


def serve(app: ASGIApp, listening: socket.socket) -> None:
    settings = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=100,
    )
    uvicorn.Server(settings).run(sockets=[listening])


def check_front(host: str, header: str | None, *, proven: Path | None) -> None:
    """Refuse an address that others reach without a sign-in, or a sign-in that proves nothing."""
    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = host == "localhost"
    if header is None and not own:
        raise InvalidParameter(
            f"--host: {host} can be reached by others; over a network it runs only behind the "
            "organisation's own sign-in: name its header with --sign-in-header."
        )
    if (header is None) != (proven is None):
        raise InvalidParameter(
            "--sign-in-header: whoever reaches this address could write it, so the sign-in has to "
            "prove itself: give --sign-in-header with --socket FILE, or with --front-secret "
            "FILE, and neither without it."
        )


def read_secret(path: Path) -> str:
    """Return what a sign-in shows, from a file that nobody else can read."""
    lines = read_lines(path, "--front-secret")
    if path.stat().st_mode & 0o077:
        raise InvalidParameter(f"--front-secret: {path.name} can be read by others: chmod 600 it.")
    if len(lines) != 1 or len(lines[0]) < _SHORTEST_SECRET:
        raise InvalidParameter(
            f"--front-secret: {path.name} must hold one line of {_SHORTEST_SECRET} characters or "
            "more: openssl rand -hex 32 makes one."
        )
    return lines[0]


def read_lines(path: Path, option: str) -> list[str]:
    """Return the lines of a file that say something."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(f"{option}: {path.name} cannot be read as a text.") from None
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def listen_at(path: Path) -> socket.socket:
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
        raise EngineFailed(f"cannot listen at {path} ({error.strerror or error}).") from None
    finally:
        os.umask(before)
    return listening


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise EngineFailed(
            f"cannot listen on {host}:{port} ({error.strerror}); give another --port."
        ) from None
