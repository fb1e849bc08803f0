"""desk: a page for the officer and the operator, on this machine's own address."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, aside, command
from confrere.cli.key_access import KEY_PASSPHRASE
from confrere.errors import NotInstalled


@command("desk")
def desk(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", help="Where to look; this folder by default."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    sign_in_header: Annotated[
        str | None,
        typer.Option(help="The header in which the organisation's own sign-in names who is there."),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Another name that it is called by."),
    ] = None,
    at_socket: Annotated[
        Path | None,
        typer.Option("--socket", metavar="FILE", help="Listen for the sign-in on a Unix socket."),
    ] = None,
    front_secret: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds what the sign-in sends to prove itself."),
    ] = None,
    approvers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who may decide behind a sign-in, a name in a line."),
    ] = None,
) -> Answer:
    """Show budgets, waiting studies, runs and releases in a browser; approve or refuse studies.

    Prints an address with a token that is good once. Reads what lies in the folders; writes
    nothing but a grant that a party's key signs, or a refusal or withdrawal in its ledger.
    """
    try:
        from confrere.desk.serving_desk import serve_desk
    except ImportError as error:
        raise NotInstalled("it needs FastAPI and uvicorn: pip install 'confrere[desk]'.") from error
    console = aside()
    serve_desk(
        folders or [Path()],
        host=host,
        port=port,
        names=name or (),
        header=sign_in_header,
        at_socket=at_socket,
        secret=front_secret,
        approvers=approvers,
        tell=lambda text: console.print(text, soft_wrap=True),
        ask_passphrase=_ask,
    )
    return Answer("the desk is closed")


def _ask(what: str) -> str | None:
    """Return what somebody types in this terminal; None if there is none."""
    given = os.environ.get(KEY_PASSPHRASE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        return None
    return str(typer.prompt(f"{what}. Passphrase of the key", hide_input=True, err=True))
