"""dashboard: a page for the officer and the operator, on this machine's own address."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.app import Answer, Option, command, tell
from confrere.extras import extra
from confrere_federation.commands.party import KEY_PASSPHRASE

_FOLDERS = Option(
    "Where to look; this folder by default.", metavar="[FOLDER]...", exists=True, file_okay=False
)


@command("dashboard")
def dashboard(
    folders: Annotated[list[Path] | None, _FOLDERS] = None,
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
    room, called = "confrere_federation.dashboard", frozenset(name or ())
    auth, screens, server = (
        extra("dashboard", f"{room}.{one}") for one in ("auth", "screens", "server")
    )
    server.check_front(host, sign_in_header, proven=at_socket or front_secret)
    secret = None if front_secret is None else server.read_secret(front_secret)
    may_decide = [] if approvers is None else server.read_lines(approvers, "--approvers")
    if at_socket is None:
        listening = server.listen(host, port)
        address, number = listening.getsockname()[:2]
        reached = f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
        where, called = f"http://{reached}", called | {reached, f"localhost:{number}"}
    else:
        listening, where, number = server.listen_at(at_socket), str(at_socket), at_socket
    access = auth.AccessControl(
        hosts=called,
        cookie=f"confrere-dashboard-{number}",
        header=sign_in_header,
        secret=secret,
        by_socket=at_socket is not None,
        approvers=frozenset(may_decide),
        renewed=lambda token: tell(f"opened; another browser uses: {where}/enter?token={token}"),
    )
    told = f", behind its sign-in; {len(may_decide)} may decide"
    tell(f"the dashboard is at {where}{told if sign_in_header else f'/enter?token={access.token}'}")
    tell(f"counts for Prometheus: {where}/metrics with bearer token {access.metrics_token}")
    shown = screens.Dashboard(folders or [Path()], ask_passphrase=_ask)
    server.serve(screens.make_app(shown, access), listening)
    return Answer("the dashboard is closed")


def _ask(what: str) -> str | None:
    """Return what somebody types in this terminal; None if there is none."""
    given = os.environ.get(KEY_PASSPHRASE)
    if given is not None or not sys.stdin.isatty():
        return given
    return str(typer.prompt(f"{what}. Passphrase of the key", hide_input=True, err=True))
