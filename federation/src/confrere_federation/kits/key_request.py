"""What a party sends to be in a study: its public key and its node's certificate, signed.

The signature shows that whoever asks holds the private key; that it is the right organisation's is
for people to find out: they compare fingerprints by telephone.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from confrere.errors import InvalidParameter, SignatureError
from confrere.release.signing import (
    PrivateKey,
    fingerprint,
    generate_key,
    public_line,
    read_private_key,
    read_public_key,
    sign_bytes,
    verify_bytes,
)
from confrere_federation.engines.keys import (
    certificate_beside,
    certificate_text,
    make_node_key,
    read_certificate,
    read_certificate_text,
)
from confrere_federation.studies.study_file import (
    FileTable,
    Name,
    PublicKeyLine,
    parse_json,
    read_bytes,
)

FORMAT = "confrere-request/1"
NAMESPACE = "confrere-request"


class _Written(FileTable):
    format: str
    party: Name
    key: PublicKeyLine
    certificate: str
    signature: str


@dataclass(frozen=True)
class KeyRequest:
    """A party's request, whose signature holds."""

    party: str
    key: str  #: The line ``ssh-ed25519 AAAA...`` that goes into the study
    certificate: x509.Certificate  #: Of the node key with which it connects
    content: bytes  #: The file

    @property
    def fingerprint(self) -> str:
        """What people compare by telephone."""
        return fingerprint(self.key)


def make_request(
    # Gets ``<party>.key``, ``node.key``, public halves, ``<party>.request``; nothing is overwritten
    folder: str | os.PathLike[str],
    party: str,  # Its name in the study
    passphrase: str | None = None,  # What the node key is locked with
) -> KeyRequest:
    """Make a party's keys in a folder of its own, and its request."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (place / "node.key").exists():  # before half of it is made
        raise InvalidParameter("node.key exists; choose another folder, or put all keys elsewhere.")
    generate_key(place / f"{party}.key", party)
    make_node_key(place / "node.key", passphrase)
    return _write(place, party, read_private_key(place / f"{party}.key"))


def renew_node_key(
    folder: str | os.PathLike[str], party: str, key: PrivateKey, passphrase: str | None = None
) -> KeyRequest:
    """Make a new node key in place of the old one, which is kept under another name.

    Study and grants stay good: they hold the signing key only, which signs the new request.
    """
    place = Path(folder)
    old = place / "node.key"
    if not old.exists():
        raise InvalidParameter(f"there is no node.key in {place.name}; make one: keys request.")
    today = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    for path in (old, certificate_beside(old)):
        path.rename(path.with_name(f"{path.name}.{today}"))
    make_node_key(old, passphrase)
    (place / f"{party}.request").unlink(missing_ok=True)
    return _write(place, party, read_private_key(key))


def read_request(path: str | os.PathLike[str]) -> KeyRequest:
    """Read a request, and refuse one that its own key has not signed."""
    return request_from_bytes(read_bytes(Path(path), "the request"))


def request_from_bytes(content: bytes) -> KeyRequest:
    """Read the content of a request's file."""
    found = _Written.read(parse_json(content, "the request"), "the request")
    if found.format != FORMAT:
        raise InvalidParameter(f"request: it is not of the form {FORMAT}.")
    signed = _signed_part(found.party, found.key, found.certificate)
    try:
        verify_bytes(
            found.signature.encode(), signed, read_public_key(found.key), namespace=NAMESPACE
        )
    except SignatureError as error:
        raise SignatureError(f"request of {found.party}: {error}") from None
    return KeyRequest(
        found.party, found.key, read_certificate_text(found.certificate, "request"), content
    )


def _write(place: Path, party: str, key: Ed25519PrivateKey) -> KeyRequest:
    line = public_line(key.public_key(), party)
    certificate = certificate_text(read_certificate(place / "node.key.pem"))
    signature = sign_bytes(_signed_part(party, line, certificate), key, namespace=NAMESPACE)
    document = {
        "format": FORMAT,
        "party": party,
        "key": line,
        "certificate": certificate,
        "signature": signature.decode(),
    }
    content = (json.dumps(document, indent=2) + "\n").encode()
    made = request_from_bytes(content)
    path = place / f"{party}.request"
    if path.exists():
        raise InvalidParameter(f"{path.name} exists; choose another folder.")
    path.write_bytes(content)
    return made


def _signed_part(party: str, key: str, certificate: str) -> bytes:
    return json.dumps([FORMAT, party, key, certificate]).encode()
