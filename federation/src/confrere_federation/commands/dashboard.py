"""dashboard: a page for the officer and the operator, on this machine's own address."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.app import Answer, Option, command, tell
from confrere.errors import EngineFailed, InvalidParameter
from confrere.extras import extra
from confrere_federation.commands.party import KEY_PASSPHRASE

#: A secret that is guessed is none.
_SHORTEST_SECRET = 32


@command("dashboard")
def dashboard(
    folders: Annotated[
        list[Path] | None, Option("Where to look; this folder by default.", metavar="[FOLDER]...")
    ] = None,
    *,
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    port: Annotated[int, Option("Port; 0 takes a free one.", min=0, max=65535)] = 0,
    sign_in_header: Annotated[
        str | None, "The header in which the organisation's own sign-in names who is there."
    ] = None,
    name: Annotated[
        list[str] | None, Option("Another name that it is called by.", metavar="HOST[:PORT]")
    ] = None,
    at_socket: Annotated[
        Path | None, Option("Listen for the sign-in on a Unix socket.", "--socket", metavar="FILE")
    ] = None,
    front_secret: Annotated[
        Path | None, Option("Holds what the sign-in sends to prove itself.", metavar="FILE")
    ] = None,
    approvers: Annotated[
        Path | None, Option("Who may decide behind a sign-in, a name in a line.", metavar="FILE")
    ] = None,
) -> Answer:
    """Show budgets, waiting studies, runs and releases in a browser; approve or refuse studies.

    Prints an address with a token that is good once. Reads what lies in the folders; writes
    nothing but an approval that a party's key signs, or a refusal or withdrawal in its ledger.
    """
    if not _own(host) and sign_in_header is None:
        raise InvalidParameter(
            f"--host: {host} can be reached by others; over a network it runs only behind the "
            "organisation's own sign-in: name its header with --sign-in-header."
        )
    if (sign_in_header is None) != (at_socket is None and front_secret is None):
        raise InvalidParameter(
            "--sign-in-header: whoever reaches this address could write it, so the sign-in has to "
            "prove itself: give --sign-in-header with --socket FILE, or with --front-secret "
            "FILE, and neither without it."
        )
    secret = None if front_secret is None else _secret(front_secret)
    may_decide = frozenset(_lines(approvers, "--approvers") if approvers is not None else ())
    room = "confrere_federation.dashboard"
    auth, screens = (extra("dashboard", f"{room}.{one}") for one in ("auth", "screens"))
    listening = _listen(host, port) if at_socket is None else _listen_at(at_socket)
    where, number, hosts = str(at_socket), str(at_socket), frozenset(name or ())
    if at_socket is None:
        address, number = listening.getsockname()[:2]
        where = f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
        where, hosts = f"http://{where}", hosts | {where, f"localhost:{number}"}
    access = auth.AccessControl(
        hosts=hosts,
        cookie=f"confrere-dashboard-{number}",
        header=sign_in_header,
        secret=secret,
        by_socket=at_socket is not None,
        approvers=may_decide,
        renewed=lambda token: tell(f"opened; another browser uses: {where}/enter?token={token}"),
    )
    told = f", behind its sign-in; {len(may_decide)} may decide"
    tell(f"the dashboard is at {where}{told if sign_in_header else f'/enter?token={access.token}'}")
    tell(f"counts for Prometheus: {where}/metrics with bearer token {access.metrics_token}")
    shown = screens.Dashboard(folders or [Path()], ask_passphrase=_ask)
    _serve(screens.make_app(shown, access), listening)
    return Answer("the dashboard is closed")


def _serve(app: object, listening: socket.socket) -> None:
    uvicorn = extra("dashboard", "uvicorn")
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


def _ask(what: str) -> str | None:
    """Return what somebody types in this terminal; None if there is none."""
    given = os.environ.get(KEY_PASSPHRASE)
    if given is not None or not sys.stdin.isatty():
        return given
    return str(typer.prompt(f"{what}. Passphrase of the key", hide_input=True, err=True))


def _own(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secret(path: Path) -> str:
    """Return what a sign-in shows, from a file that nobody else can read."""
    lines = _lines(path, "--front-secret")
    if path.stat().st_mode & 0o077:
        raise InvalidParameter(f"--front-secret: {path.name} can be read by others: chmod 600 it.")
    if len(lines) != 1 or len(lines[0]) < _SHORTEST_SECRET:
        raise InvalidParameter(
            f"--front-secret: {path.name} must hold one line of {_SHORTEST_SECRET} characters or "
            "more: openssl rand -hex 32 makes one."
        )
    return lines[0]


def _lines(path: Path, option: str) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(f"{option}: {path.name} cannot be read as a text.") from None
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
