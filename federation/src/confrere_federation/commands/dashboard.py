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
    extra("dashboard", "confrere_federation.dashboard.server").serve_dashboard(
        folders or [Path()],
        host=host,
        port=port,
        names=name or (),
        header=sign_in_header,
        at_socket=at_socket,
        secret=front_secret,
        approvers=approvers,
        tell=tell,
        ask_passphrase=_ask,
    )
    return Answer("the dashboard is closed")


def _ask(what: str) -> str | None:
    """Return what somebody types in this terminal; None if there is none."""
    given = os.environ.get(KEY_PASSPHRASE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        return None
    return str(typer.prompt(f"{what}. Passphrase of the key", hide_input=True, err=True))
