"""Ed25519 keys in the files OpenSSH uses, so that a partner needs nothing of ours."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from confrere.errors import InvalidParameter

PrivateKey: TypeAlias = Ed25519PrivateKey | str | os.PathLike[str]
PublicKey: TypeAlias = Ed25519PublicKey | str | os.PathLike[str]

_KEY_BYTES = 1 << 16
_COMMENT = re.compile(r"[^\x00-\x1f\x7f]*")


def generate_key(path: str | os.PathLike[str], comment: str = "") -> Path:
    """Write a new private key (mode 0600) and, beside it, ``<path>.pub``.

    Parameters
    ----------
    path : path
        Where the private key goes; nothing is ever overwritten.
    comment : str, default=""
        Whose key it is; the last word of the public line.

    Returns
    -------
    Path
        The public key's file: the one to give to partners.
    """
    if not _COMMENT.fullmatch(comment):
        raise InvalidParameter("comment must be one line of text.")
    private_path = Path(path)
    public_path = private_path.with_name(private_path.name + ".pub")
    if public_path.exists():
        raise InvalidParameter(f"path: {public_path.name} exists; choose another name.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    _write_new(private_path, secret, 0o600)
    _write_new(public_path, f"{public_line(key.public_key(), comment)}\n".encode(), 0o644)
    return public_path


def read_private_key(key: PrivateKey, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Return the key itself, or read it from an OpenSSH file that only its owner can read.

    Parameters
    ----------
    key : key or path
    passphrase : str, optional
        Of a file that has one; see :func:`has_passphrase`.
    """
    if isinstance(key, Ed25519PrivateKey):
        return key
    path = Path(key)
    content = _read(path, "the private key")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidParameter(
            f"key: {path.name} can be read by others; make it yours alone with chmod 600."
        )
    try:
        secret = passphrase.encode() if passphrase and _is_locked(content) else None
        loaded = serialization.load_ssh_private_key(content, password=secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if _is_locked(content):
            lacks = "its passphrase is wrong" if passphrase else "it needs its passphrase"
            raise InvalidParameter(f"key: {path.name} cannot be opened: {lacks}.") from None
        raise InvalidParameter(
            f"key: {path.name} is not an OpenSSH private key; make one with "
            "confrere.release.generate_key, or sign with ssh-keygen -Y sign."
        ) from error
    if not isinstance(loaded, Ed25519PrivateKey):
        raise InvalidParameter(f"key: {path.name} is not an Ed25519 key; generate one.")
    return loaded


def has_passphrase(path: str | os.PathLike[str]) -> bool:
    """Whether a private key's file can only be opened with a passphrase."""
    return _is_locked(_read(Path(path), "the private key"))


def _is_locked(content: bytes) -> bool:
    """Whether the file names a cipher: OpenSSH's format says it after the magic, in the clear."""
    body = b"".join(line for line in content.splitlines() if not line.startswith(b"-----"))
    try:
        blob = base64.b64decode(body[:64])
    except ValueError:
        return False
    magic = b"openssh-key-v1\0"
    name_at = len(magic) + 4
    return blob.startswith(magic) and not blob[name_at:].startswith(b"none")


def read_public_key(key: PublicKey) -> Ed25519PublicKey:
    """Return the key itself, or read its ``ssh-ed25519 AAAA...`` line, or a file with that line."""
    if isinstance(key, Ed25519PublicKey):
        return key
    if isinstance(key, str) and key.lstrip().startswith("ssh-"):
        content = key.strip().encode()
    else:
        content = _read(Path(key), "the public key").strip()
    try:
        loaded = serialization.load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidParameter(
            "key: not a line 'ssh-ed25519 AAAA... comment'; ask the party for its .pub file."
        ) from error
    if not isinstance(loaded, Ed25519PublicKey):
        raise InvalidParameter("key: not an Ed25519 key; ask the party for one.")
    return loaded


def public_line(key: Ed25519PublicKey, comment: str = "") -> str:
    """Return ``ssh-ed25519 AAAA... comment``."""
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode()} {comment}".rstrip()


def fingerprint(key: PublicKey) -> str:
    """Return ``SHA256:...``, what ``ssh-keygen -l`` prints and people compare by telephone."""
    blob = base64.b64decode(public_line(read_public_key(key)).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_KEY_BYTES)
    except OSError as error:
        raise InvalidParameter(
            f"key: {what} {path.name!r} cannot be read ({error.strerror}); give its path."
        ) from error


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise InvalidParameter(f"path: {path.name} exists; choose another name.") from error
    except OSError as error:
        raise InvalidParameter(
            f"path: {path.name} cannot be written ({error.strerror}); choose another folder."
        ) from error
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
