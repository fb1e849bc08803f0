"""Signatures that ``ssh-keygen -Y verify`` accepts (OpenSSH's PROTOCOL.sshsig), Ed25519 only.

An envelope holds, in this order: the magic, version 1, the public key, the namespace, a reserved
empty string, the hash's name and the signature. What is signed is not the message but the magic,
namespace, reserved, hash's name and SHA-512 of the message, so a signature made for another
purpose never verifies here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from confrere.errors import SignatureError
from confrere.release.keys import PrivateKey, PublicKey, read_private_key, read_public_key

NAMESPACE = "confrere-release"

_MAGIC = b"SSHSIG"
_VERSION = 1
_HASH = b"sha512"
_KEY_TYPE = b"ssh-ed25519"
_BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
_END = b"-----END SSH SIGNATURE-----\n"
_LINE = 70


def sign_sums(sums: bytes, key: PrivateKey) -> bytes:
    """Return the armoured signature of the bytes of ``SHA256SUMS``."""
    return sign_bytes(sums, key, namespace=NAMESPACE)


def sign_bytes(message: bytes, key: PrivateKey, *, namespace: str) -> bytes:
    """Return the armoured signature of a message, good for one purpose only: the namespace."""
    private = read_private_key(key)
    signature = private.sign(_signed_part(message, namespace))
    return _armour(_envelope(_raw(private.public_key()), signature, namespace))


def verify_bytes(signature: bytes, message: bytes, key: PublicKey, *, namespace: str) -> None:
    """Refuse a message that the owner of ``key`` did not sign for this purpose.

    Raises
    ------
    SignatureError
    """
    raw_key, raw_signature = _open_envelope(_unarmour(signature), namespace)
    if raw_key != _raw(read_public_key(key)):
        raise SignatureError("a signature was made by another key than the one it should be of.")
    try:
        Ed25519PublicKey.from_public_bytes(raw_key).verify(
            raw_signature, _signed_part(message, namespace)
        )
    except InvalidSignature as error:
        raise SignatureError("a signature does not belong to what was signed.") from error


def verify_signature(
    signature: bytes, sums: bytes, allowed: Iterable[PublicKey] | None = None
) -> Ed25519PublicKey:
    """Return the key that signed ``sums``.

    Parameters
    ----------
    signature : bytes
        The armoured envelope.
    sums : bytes
        The bytes of ``SHA256SUMS``.
    allowed : iterable of public keys, optional
        Keys to trust: files, lines or keys. Without them the signature is only known to be
        whole; who made it is not.

    Raises
    ------
    SignatureError
        If the envelope is not exactly one that OpenSSH writes, the signature is wrong, or its
        key is not allowed.
    """
    raw_key, raw_signature = _open_envelope(_unarmour(signature), NAMESPACE)
    key = Ed25519PublicKey.from_public_bytes(raw_key)
    try:
        key.verify(raw_signature, _signed_part(sums, NAMESPACE))
    except InvalidSignature as error:
        raise SignatureError(
            "a signature does not belong to this SHA256SUMS: the folder was changed after it was "
            "signed; ask the party for the folder again."
        ) from error
    if allowed is not None and raw_key not in {_raw(read_public_key(one)) for one in allowed}:
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
