"""party: who is started has the line alone; all about the study is done by its child.

And what all commands between machines take and open.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import confrere_federation.engines.keys as keys
from confrere.cli.app import Answer, Option, command, said, tell
from confrere.errors import FederationError, StudyError, StudyRefused
from confrere_federation.engines.carrier import Answering
from confrere_federation.engines.offline import without_network
from confrere_federation.progress import Progress, private, read_progress

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Released = Annotated[Path | None, Option("Where the release goes.", envvar="CONFRERE_OUT")]

APPROVAL = "approval.json"  # beside the study

#: Where services put the passphrase of a key; people are asked for it.
KEY_PASSPHRASE = "CONFRERE_KEY_PASSPHRASE"  # noqa: S105  the name of a variable


@contextmanager
def stopped_by_services() -> Iterator[None]:
    """Let a service manager's way to stop a program be control-C: it leaves nothing behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def kit_address(beside: Path) -> str:
    """Return where a coordinator is reached, ``HOST:PORT``, as the kit beside a study says."""
    try:
        return (beside / "address").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise StudyError(
            "study: there is no kit beside it; its coordinator makes one (confrere provision), and "
            "you open it: confrere kit open KIT."
        ) from None


def signing_key(path: Path | None) -> Ed25519PrivateKey:
    if path is None:
        raise StudyError("key_path: between machines a party signs what it sends; name its key.")
    # Only now: the dashboard's process, which asks for passphrases too, is to stay small.
    from confrere.release.signing import has_passphrase, read_private_key

    given = os.environ.get(KEY_PASSPHRASE)
    if given is None and has_passphrase(path):
        given = str(typer.prompt(f"Passphrase of {path.name}", hide_input=True, err=True))
    return read_private_key(path, given)


_NODE_KEY = "../../keys/node.key"  # of the home, from a study's folder


@command("party")
def party(
    study: Path,
    *,
    folder: Annotated[Path, "Its files: state, journal, log."] = Path("confrere-party"),
    timeout: Annotated[
        float, Option("Seconds without a coordinator until it gives up.", min=1)
    ] = 3600.0,
    out: Released = None,
    same_mount: Annotated[
        bool, "As a service, start though ledger and witness share a mount."
    ] = False,
) -> Answer:
    """Answer a study's coordinator: what was approved, and nothing else.

    Ends by itself, with code 0, when it has checked and signed the release. It listens on no port;
    rows are in the memory of a process that has no network, where the system allows it.
    """
    beside, sha256 = study.parent, hashlib.sha256(_read(study)).hexdigest()
    where, authority = kit_address(beside), beside / "ca.pem"
    before = read_progress(folder) or {}
    if before.get("state") == "released" and before.get("study") == sha256:
        return _released(str(before.get("party")))
    node = keys.read_node_key(beside / _NODE_KEY)
    shown, asker = node.certificate, keys.read_certificate(authority, "authority")
    ends = {"this node": keys.read_certificate(shown), "the coordinator": asker}
    tell(*keys.expiry_warnings(ends))

    def make() -> Answering:
        # Only here: who has the line reads no tables.
        from confrere_federation.commands.studies import answering

        return answering(study, out, same_mount=same_mount)

    with (
        stopped_by_services(),
        private(folder, "party") as home,
        without_network(make, tell) as session,
    ):
        # Only now: what reads rows has not even gRPC in its process.
        from confrere_federation.engines.line import run_party

        own = session.facts["party"]
        progress = Progress(home, tell, coordinator=where, **session.facts)
        try:
            run_party(
                session,
                coordinator=where,
                authority=authority,
                key=node,
                progress=progress,
                patience=timeout,
                # An approval is put aside by a no; no ledger is open here.
                stopped=lambda: session.gone or not (beside / APPROVAL).exists(),
            )
            session.end()
            if session.state != "released":
                raise FederationError(f"{own} is {session.state}: it signs no release.")
        except StudyRefused:
            progress.say(session.state, steps=session.told)
            raise
        except Exception as error:
            told = f"failed: {type(error).__name__}; started again it goes on"
            progress.say(told, steps=session.told)
            raise
    return _released(own)


def _released(own: str) -> Answer:
    return said("{party} has the release", party=own, state="released")


def _read(study: Path) -> bytes:
    try:
        return study.read_bytes()
    except OSError as error:
        what = f"the study {study.name!r} cannot be read: {error.strerror}."
        raise StudyError(what).hinting("give the path of the study that a kit holds") from None


def answer_standard_input() -> None:
    """Answer for the party of this folder what another carrier has on standard input."""
    pipe = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nobody is asked anything

    def make() -> Answering:
        from confrere_federation.commands.studies import answering

        return answering(Path("study.toml"))

    with (
        stopped_by_services(),
        private(Path("confrere-party"), "party") as home,
        without_network(make, tell) as session,
    ):
        progress = Progress(home, None, **session.facts)
        progress.say("connected", steps=session.told)
        with suppress(EOFError):
            while True:
                pipe.send_bytes(session.handle(pipe.recv_bytes()))
                progress.say(session.state, steps=session.told)
        session.end()


if __name__ == "__main__":
    answer_standard_input()
