"""Keys of a federation: the authority that vouches for the server, and a key per party.

A party makes a certificate from its own node key and hands that over. The coordinator lets in who
holds the key of such a certificate; no authority stands between them.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from confrere.errors import InvalidParameter
from confrere.files import write_new

_CURVE = ec.SECP384R1()
_NODE_DAYS = 5 * 365
_KEY_BYTES = 1 << 16
_USES = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)

#: How many days before its end a certificate is spoken of.
WARNING_DAYS = 30


@dataclass(frozen=True, slots=True)
class Authority:
    """Files of the server's certificate and of the authority that signed it."""

    certificate: Path  #: The authority's own certificate: the one to give to every party
    server_certificate: Path  #: What the server shows; the key stays with the coordinator
    server_key: Path


def make_authority(
    folder: str | os.PathLike[str],  # Where the three files go; nothing is overwritten
    hosts: Sequence[str],  # Names and addresses under which parties reach the server
    *,
    days: int = 365,  # How long both certificates are valid
) -> Authority:
    """Make an authority and a server certificate; the authority's key is thrown away."""
    if not hosts:
        raise InvalidParameter("hosts must name how parties reach the server.")
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority_key, server_key = (ec.generate_private_key(_CURVE) for _ in range(2))
    vouching = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    issuer = _called("confrere authority")
    root = _certificate(issuer, authority_key, vouching, days=days, authority=True)
    server = _certificate(
        _called(str(hosts[0])[:64]),
        server_key,
        vouching,
        x509.SubjectAlternativeName([_name(host) for host in hosts]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        days=days,
        signed_by=(issuer, authority_key),
    )
    made = Authority(place / "ca.pem", place / "server.pem", place / "server.key")
    _write(made.certificate, certificate_text(root).encode(), 0o644)
    _write(made.server_certificate, certificate_text(server).encode(), 0o644)
    _write(made.server_key, _private_pem(server_key), 0o600)
    return made


def authority_in(folder: Path, host: str) -> Authority:
    """Return the coordinator's certificate, made when it is first needed."""
    if not folder.exists():
        # Made whole under another name: a kill leaves all of it or nothing.
        draft = folder.with_name(f".{folder.name}")
        shutil.rmtree(draft, ignore_errors=True)
        make_authority(draft, [host])
        draft.replace(folder)
    return Authority(folder / "ca.pem", folder / "server.pem", folder / "server.key")


def make_node_key(
    path: str | os.PathLike[str],  # The private key's file; nothing is overwritten
    passphrase: str | None = None,  # What the key is locked with
) -> Path:
    """Write a party's private key (owner only) and, beside it, its certificate ``<path>.pem``.

    Returns the certificate's file: the one to give to the coordinator.
    """
    private = Path(path).resolve()
    certificate = certificate_beside(private)
    if certificate.exists():
        raise _taken(certificate)
    key = ec.generate_private_key(_CURVE)
    _write(private, _private_pem(key, passphrase), 0o600)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Names differ, so that one certificate is never looked up in place of another.
    name = _called(f"confrere node {identifier.digest.hex()[:32]}")
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    made = _certificate(name, key, usage, days=_NODE_DAYS)
    _write(certificate, certificate_text(made).encode(), 0o644)
    return certificate


def certificate_beside(key: str | os.PathLike[str]) -> Path:
    return Path(key).with_name(Path(key).name + ".pem")


def is_locked(path: str | os.PathLike[str]) -> bool:
    return b"ENCRYPTED" in _read(Path(path)).split(b"\n", 1)[0]


@dataclass(frozen=True)
class NodeKey:
    key: ec.EllipticCurvePrivateKey
    certificate: Path

    def private_pem(self) -> bytes:
        return _private_pem(self.key)


def read_node_key(path: str | os.PathLike[str], passphrase: str | None = None) -> NodeKey:
    """Read a node key that only its owner can read, and find its certificate."""
    place = Path(path)
    content = _read(place)
    if os.name == "posix" and stat.S_IMODE(place.stat().st_mode) & 0o077:
        raise InvalidParameter(
            f"node key: {place.name} can be read by others; make it yours alone with chmod 600."
        )
    try:
        word = passphrase.encode() if passphrase and is_locked(place) else None
        key = serialization.load_pem_private_key(content, word)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidParameter(
            f"node key: {place.name} is not a private key, or needs another passphrase; "
            "confrere keys node makes one."
        ) from None
    certificate = certificate_beside(place)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidParameter(f"node key: {place.name} is of another kind; make one: keys node.")
    if read_certificate(certificate).public_key() != key.public_key():
        raise InvalidParameter(f"node key: {certificate.name} is the certificate of another key.")
    return NodeKey(key, certificate)


def read_certificate(path: str | os.PathLike[str]) -> x509.Certificate:
    place = Path(path)
    return read_certificate_text(_read(place), f"node: {place.name}")


def read_certificate_text(content: str | bytes, what: str) -> x509.Certificate:
    """Read the text of a party's certificate; ``what`` names it in an error."""
    wrong = InvalidParameter(
        f"{what} is not the certificate of a node key; ask the party for the file that confrere "
        "keys node made."
    )
    try:
        (found,) = x509.load_pem_x509_certificates(
            content.encode() if isinstance(content, str) else content
        )
        found.verify_directly_issued_by(found)
        limits = found.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        raise wrong from None
    if limits.ca or not isinstance(found.public_key(), ec.EllipticCurvePublicKey):
        raise wrong
    return found


def read_authority(path: str | os.PathLike[str]) -> x509.Certificate:
    return read_authority_text(_read(Path(path)))


def read_authority_text(content: bytes) -> x509.Certificate:
    try:
        (found,) = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise InvalidParameter(
            "authority: it is no certificate; ask the coordinator for ca.pem."
        ) from None
    return found


def certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def expiry_warnings(
    certificates: Mapping[str, x509.Certificate],  # Mapping of name to certificate
    now: datetime | None = None,  # With a time zone; the present by default
) -> list[str]:
    """Return a line for every certificate that has ended, or will within :data:`WARNING_DAYS`."""
    present = now or datetime.now(UTC)
    found = []
    for name, certificate in certificates.items():
        end = certificate.not_valid_after_utc
        if end <= present:
            found.append(f"the certificate of {name} has ended on {end:%d %B %Y}; make a new one.")
        elif end - present <= timedelta(days=WARNING_DAYS):
            days = (end - present).days
            found.append(f"the certificate of {name} ends in {days} days, on {end:%d %B %Y}.")
    return found


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *more: x509.ExtensionType,
    days: int,
    authority: bool = False,
    signed_by: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
) -> x509.Certificate:
    """Return a key's certificate, signed by another's, or by itself."""
    issuer, signing = signed_by or (name, key)
    now = datetime.now(UTC) - timedelta(minutes=5)
    told = dict.fromkeys(_USES, False)
    told |= dict.fromkeys(("key_cert_sign", "crl_sign"), authority)
    usage = x509.KeyUsage(**told, digital_signature=not authority)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), *more):
        made = made.add_extension(extension, critical=False)
    return made.sign(signing, hashes.SHA384())


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_KEY_BYTES)
    except OSError as error:
        raise InvalidParameter(f"{path.name} cannot be read ({error.strerror}).") from None


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        write_new(path, content, mode=mode)
    except FileExistsError:
        raise _taken(path) from None


def _taken(path: Path) -> InvalidParameter:
    return InvalidParameter(f"{path.name} exists; choose another place for new keys.")


def _private_pem(key: ec.EllipticCurvePrivateKey, passphrase: str | None = None) -> bytes:
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        lock = serialization.BestAvailableEncryption(passphrase.encode())
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, form, lock)
