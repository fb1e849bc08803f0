"""keys: the pair with which a party signs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command
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
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Lock the key with a passphrase.")
    ] = False,
) -> Answer:
    """Make the key with which a party connects to a coordinator, and its certificate."""
    from confrere.cli.commands.deployment import NODE_PASSPHRASE, need_flower

    need_flower()
    from confrere.federation.flower.keys import make_node_key

    word = None
    if passphrase:
        word = os.environ.get(NODE_PASSPHRASE) or str(
            typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
        )
    certificate = make_node_key(path, word)
    return Answer(
        f"private key {path} (keep it), certificate {certificate} (give it to the coordinator)",
        {"private": str(path), "certificate": str(certificate)},
    )


def show(
    path: Annotated[Path, typer.Argument(help="A public key's file.")],
) -> Answer:
    """Print a public key's fingerprint."""
    found = fingerprint(path)
    return Answer(found, {"fingerprint": found})
