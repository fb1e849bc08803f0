"""keys: the pair with which a party signs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.answers import Answer, command
from confrere.release import fingerprint, generate_key


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    keys = typer.Typer(help="Make keys, and show fingerprints to compare by telephone.")
    app.add_typer(keys, name="keys", no_args_is_help=True)
    command(keys, "new")(new)
    command(keys, "node")(node)
    command(keys, "show")(show)


def new(
    path: Annotated[Path, typer.Argument(help="The private key's file; nothing is overwritten.")],
    comment: Annotated[str, typer.Option(help="Whose key it is.")] = "",
) -> Answer:
    """Make an Ed25519 key pair in OpenSSH's files."""
    public = generate_key(path, comment)
    return Answer(
        f"private key {path} (keep it), public key {public} (give it to partners), "
        f"{fingerprint(public)}",
        {"private": str(path), "public": str(public), "fingerprint": fingerprint(public)},
    )


def node(
    path: Annotated[Path, typer.Argument(help="The private key's file; nothing is overwritten.")],
) -> Answer:
    """Make the key with which a party's node connects to a coordinator."""
    from confrere.cli.commands.federation import load_flower

    load_flower()
    from confrere.federation.flower.keys import make_node_key

    public = make_node_key(path)
    return Answer(
        f"private key {path} (keep it), public key {public} (give it to the coordinator)",
        {"private": str(path), "public": str(public)},
    )


def show(
    path: Annotated[Path, typer.Argument(help="A public key's file.")],
) -> Answer:
    """Print a public key's fingerprint."""
    found = fingerprint(path)
    return Answer(found, {"fingerprint": found})
