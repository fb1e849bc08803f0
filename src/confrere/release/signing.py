"""Keys and signatures that OpenSSH reads and writes, Ed25519 only: a partner needs nothing of ours.

A signature is one that ``ssh-keygen -Y verify`` accepts (OpenSSH's PROTOCOL.sshsig). An envelope
holds, in this order: the magic, version 1, the public key, the namespace, a reserved empty string,
the hash's name and the signature. What is signed is not the message but the magic, namespace,
reserved, hash's name and SHA-512 of the message, so a signature made for another purpose never
verifies here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from confrere.errors import InvalidParameter, SignatureError
from confrere.files import read_plain

PrivateKey: TypeAlias = Ed25519PrivateKey | str | os.PathLike[str]
PublicKey: TypeAlias = Ed25519PublicKey | str | os.PathLike[str]

_KEY_BYTES = 1 << 16
_COMMENT = re.compile(r"[^\x00-\x1f\x7f]*")

NAMESPACE = "confrere-release"

_MAGIC = b"SSHSIG"
_VERSION = 1
_HASH = b"sha512"
_KEY_TYPE = b"ssh-ed25519"
_BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
_END = b"-----END SSH SIGNATURE-----\n"
_LINE = 70


def generate_key(
    path: str | os.PathLike[str],  # Where the private key goes; nothing is ever overwritten
    comment: str = "",  # Whose key it is; the last word of the public line
) -> Path:
    """Write a new private key (mode 0600) and, beside it, ``<path>.pub``, to give to partners."""
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


def read_private_key(
    key: PrivateKey,
    passphrase: str | None = None,  # Of a file that has one; see :func:`has_passphrase`
) -> Ed25519PrivateKey:
    """Return the key itself, or read it from an OpenSSH file that only its owner can read."""
    if isinstance(key, Ed25519PrivateKey):
        return key
    path = Path(key)
    content = _read_key(path, "the private key")
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
    return _is_locked(_read_key(Path(path), "the private key"))


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
        return read_key_line(key)
    return read_key_line(_read_key(Path(key), "the public key"))


def read_key_line(line: str | bytes) -> Ed25519PublicKey:
    """Read ``ssh-ed25519 AAAA...``, which may come from anybody: it is never taken for a path."""
    content = line.encode() if isinstance(line, str) else line
    try:
        loaded = serialization.load_ssh_public_key(content.strip())
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


def _read_key(path: Path, what: str) -> bytes:
    try:
        return read_plain(path, _KEY_BYTES, links=True) or b""
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


def sign_sums(sums: bytes, key: PrivateKey) -> bytes:
    """Return the armoured signature of the bytes of ``SHA256SUMS``."""
    return sign_bytes(sums, key, namespace=NAMESPACE)


def sign_bytes(message: bytes, key: PrivateKey, *, namespace: str) -> bytes:
    """Return the armoured signature of a message, good for one purpose only: the namespace."""
    private = read_private_key(key)
    signature = private.sign(_signed_part(message, namespace))
    return _armour(_envelope(_raw(private.public_key()), signature, namespace))


def signer_of(signature: bytes, message: bytes, *, namespace: str) -> Ed25519PublicKey:
    """Return the key that signed a message for this purpose; whose it is, it does not say.

    Raises SignatureError.
    """
    raw_key, raw_signature = _open_envelope(_unarmour(signature), namespace)
    key = Ed25519PublicKey.from_public_bytes(raw_key)
    try:
        key.verify(raw_signature, _signed_part(message, namespace))
    except InvalidSignature as error:
        raise SignatureError(
            "a signature does not belong to what it lies beside: that was changed after it was "
            "signed; ask the party for it again."
        ) from error
    return key


def verify_bytes(signature: bytes, message: bytes, key: PublicKey, *, namespace: str) -> None:
    """Refuse a message that the owner of ``key`` did not sign for this purpose.

    Raises SignatureError.
    """
    if signer_of(signature, message, namespace=namespace) != read_public_key(key):
        raise SignatureError("a signature was made by another key than the one it should be of.")


def verify_signature(
    signature: bytes,  # The armoured envelope
    sums: bytes,  # The bytes of ``SHA256SUMS``
    # Keys to trust: files, lines or keys. Without them the signature is only known to be whole;
    # who made it is not.
    allowed: Iterable[PublicKey] | None = None,
) -> Ed25519PublicKey:
    """Return the key that signed ``sums``.

    Raises SignatureError if the envelope is not exactly one that OpenSSH writes, the signature is
    wrong, or its key is not allowed.
    """
    key = signer_of(signature, sums, namespace=NAMESPACE)
    if allowed is not None and key not in map(read_public_key, allowed):
        raise SignatureError(
            "a signature was made by a key you do not trust; compare fingerprints with the party "
            "before you accept a new key."
        )
    return key


def _signed_part(message: bytes, namespace: str) -> bytes:
    digest = hashlib.sha512(message).digest()
    return _MAGIC + b"".join(_string(part) for part in (namespace.encode(), b"", _HASH, digest))


def _envelope(raw_key: bytes, raw_signature: bytes, namespace: str) -> bytes:
    parts = (
        _string(_KEY_TYPE) + _string(raw_key),
        namespace.encode(),
        b"",
        _HASH,
        _string(_KEY_TYPE) + _string(raw_signature),
    )
    return _MAGIC + _VERSION.to_bytes(4, "big") + b"".join(_string(part) for part in parts)


def _open_envelope(blob: bytes, namespace: str) -> tuple[bytes, bytes]:
    """Return key and signature.

    Both have fixed lengths, so the whole envelope has one: cut them out at their places, then
    ask whether the envelope rebuilt around them is the one given.
    """
    template = _envelope(bytes(32), bytes(64), namespace)
    if len(blob) == len(template):
        key_at = template.index(_string(_KEY_TYPE)) + len(_string(_KEY_TYPE)) + 4
        raw_key, raw_signature = blob[key_at : key_at + 32], blob[-64:]
        if _envelope(raw_key, raw_signature, namespace) == blob:
            return raw_key, raw_signature
    raise SignatureError(
        f"a signature is not an Ed25519, SHA-512 one of namespace {namespace}; have it made "
        f"with: ssh-keygen -Y sign -n {namespace} -f KEY FILE"
    )


def _armour(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    lines = [text[start : start + _LINE] + b"\n" for start in range(0, len(text), _LINE)]
    return _BEGIN + b"".join(lines) + _END


def _unarmour(armoured: bytes) -> bytes:
    if armoured.startswith(_BEGIN) and armoured.endswith(_END):
        try:
            blob = base64.b64decode(armoured[len(_BEGIN) : -len(_END)])
        except binascii.Error:
            blob = b""
        # One text for one envelope: base64 has slack bits, and a changed byte must not pass.
        if _armour(blob) == armoured:
            return blob
    raise SignatureError(
        "a signature is not an OpenSSH signature file; ask the party for it again."
    )


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
