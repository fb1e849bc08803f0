"""What commands between machines take and open: locked keys by a variable or a question."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from confrere.cli.app import Option
from confrere.errors import StudyError

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
