"""Who may connect to a coordinator: certificates in a folder, those taken back, those that end."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from confrere.errors import InvalidParameter, SignatureError
from confrere.files import write_whole
from confrere.release.signing import fingerprint
from confrere_federation.engines.keys import certificate_text, read_certificate
from confrere_federation.kits.key_request import KeyRequest
from confrere_federation.studies.study_file import Study

REVOKED = "revoked"


def read_nodes(folder: str | os.PathLike[str], study: Study) -> dict[str, Path]:
    """Return the certificates of a study's parties in a folder, by name.

    Refuses a certificate that was taken back, whatever its file is called.
    """
    place = Path(folder)
    taken_back = _revoked(place)
    found = {}
    for party in study.payers:
        path = place / f"{party.name}.pem"
        if not path.is_file():
            continue
        if _digest(read_certificate(path)) in taken_back:
            raise InvalidParameter(
                f"--node: the certificate of {party.name} was revoked; admit a new one: "
                "confrere keys admit."
            )
        found[party.name] = path
    return found


def admit(folder: str | os.PathLike[str], study: Study, request: KeyRequest) -> None:
    """Let a party in by the certificate of its request; the one before, if any, is revoked.

    The request must be signed by the key that the study names for the party.
    """
    expected = study.party(request.party).key
    if expected is None or fingerprint(expected) != request.fingerprint:
        raise SignatureError(
            f"request of {request.party}: the study names another key for this party; compare "
            "fingerprints by telephone."
        )
    place = Path(folder)
    if _digest(request.certificate) in _revoked(place):
        raise InvalidParameter(
            f"request of {request.party}: its certificate was revoked; a new key is needed: "
            "confrere keys rotate."
        )
    path = place / f"{request.party}.pem"
    text = certificate_text(request.certificate)
    if path.exists() and certificate_text(read_certificate(path)) == text:
        return
    revoke(place, request.party, missing_ok=True)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, text.encode(), mode=0o644)


def revoke(folder: str | os.PathLike[str], party: str, *, missing_ok: bool = False) -> None:
    """Take a party's certificate back: it is never accepted again, under any name."""
    place = Path(folder)
    path = place / f"{party}.pem"
    if not path.is_file():
        if missing_ok:
            return
        raise InvalidParameter(f"there is no certificate of {party} in {place.name}.")
    # The list first: a kill in between leaves a certificate that is refused, not one let in.
    with (place / REVOKED).open("a", encoding="ascii") as stream:
        stream.write(f"{_digest(read_certificate(path))}\n")
        stream.flush()
        os.fsync(stream.fileno())
    path.unlink()


def _revoked(folder: Path) -> set[str]:
    try:
        return set((folder / REVOKED).read_text(encoding="ascii").split())
    except FileNotFoundError:
        return set()


def _digest(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()
