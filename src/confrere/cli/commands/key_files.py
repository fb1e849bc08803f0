"""keys: the pair with which a party signs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command
from confrere.cli.key_access import NODE_PASSPHRASE, need_flower, signing_key
from confrere.release import fingerprint, generate_key

NewKey = Annotated[
    Path, typer.Argument(dir_okay=False, help="The private key's file; nothing is overwritten.")
]
Passphrase = Annotated[
    bool, typer.Option("--passphrase", help="Lock the node key with a passphrase.")
]
PartyName = Annotated[str, typer.Argument(metavar="PARTY", help="Its name in the study.")]
Nodes = Annotated[Path, typer.Option(help="The coordinator's folder of certificates.")]
Own = Annotated[
    Path | None, typer.Option(help="The folder of the party's keys; by default its home's.")
]


@command("keys new")
def new(
    path: NewKey, comment: Annotated[str, typer.Option(help="Whose key it is.")] = ""
) -> Answer:
    """Make an Ed25519 key pair in OpenSSH's files."""
    public = generate_key(path, comment)
    return Answer(
        f"private key {path} (keep it), public key {public} (give it to partners), "
        f"{fingerprint(public)}",
        {"private": str(path), "public": str(public), "fingerprint": fingerprint(public)},
    )


@command("keys node")
def node(path: NewKey, passphrase: Passphrase = False) -> Answer:
    """Make the key with which a party connects to a coordinator, and its certificate."""
    need_flower()
    from confrere.federation.flower.keys import make_node_key

    certificate = make_node_key(path, _word(passphrase))
    return Answer(
        f"private key {path} (keep it), certificate {certificate} (give it to the coordinator)",
        {"private": str(path), "certificate": str(certificate)},
    )


@command("keys show")
def show(path: Annotated[Path, typer.Argument(help="A public key's file.")]) -> Answer:
    """Print a public key's fingerprint."""
    found = fingerprint(path)
    return Answer(found, {"fingerprint": found})


@command("keys request")
def request(party: PartyName, folder: Own = None, passphrase: Passphrase = False) -> Answer:
    """Make a party's keys, and the request that it sends to whoever coordinates."""
    need_flower()
    from confrere.provision import make_request
    from confrere.release.folder import check_party
    from confrere.study.local_file import home_folder, open_home

    place = folder or open_home(home_folder()).keys
    made = make_request(place, check_party(party), _word(passphrase))
    return _asked(place, party, made.fingerprint)


@command("keys rotate")
def rotate(party: PartyName, folder: Own = None, passphrase: Passphrase = False) -> Answer:
    """Make a new node key in place of the old one, and a new request; the study stays good."""
    need_flower()
    from confrere.provision import renew_node_key
    from confrere.release.folder import check_party
    from confrere.study.local_file import Home, home_folder

    place = folder or Home(home_folder()).keys
    key = signing_key(place / f"{check_party(party)}.key")
    made = renew_node_key(place, party, key, _word(passphrase))
    return _asked(place, party, made.fingerprint)


@command("keys admit")
def admit(
    file: Annotated[Path, typer.Argument(metavar="REQUEST", help="A party's request.")],
    study: Annotated[Path, typer.Option(help="The study, which names its key.")],
    nodes: Nodes,
) -> Answer:
    """Let a party connect by its request's certificate; the one before is revoked."""
    need_flower()
    from confrere.provision import admit as let_in
    from confrere.provision import read_request
    from confrere.study import read_study

    found = read_request(file)
    let_in(nodes, read_study(study), found)
    return Answer(
        f"{found.party} may connect; a coordinator that is running has to be started again",
        {"party": found.party, "fingerprint": found.fingerprint},
    )


@command("keys revoke")
def revoke(party: PartyName, nodes: Nodes) -> Answer:
    """Take a party's certificate back; a coordinator that is running has to be started again."""
    need_flower()
    from confrere.provision import revoke as take_back
    from confrere.release.folder import check_party

    take_back(nodes, check_party(party))
    return Answer(
        f"{party} cannot connect any more; start a coordinator that is running again",
        {"party": party},
    )


def _asked(folder: Path, party: str, own: str) -> Answer:
    file = folder / f"{party}.request"
    return Answer(
        f"send {file} to the coordinator, and tell {own} by telephone",
        {"request": str(file), "fingerprint": own},
    )


def _word(asked: bool) -> str | None:
    """Return a new node key's passphrase: a service's variable has it, or somebody types it."""
    if not asked:
        return None
    return os.environ.get(NODE_PASSPHRASE) or str(
        typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    )
