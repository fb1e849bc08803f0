"""Keys of a federation: one of the server, and one per party.

Each makes a certificate from its own key and hands that over: a party lets itself be asked by who
holds the key of the coordinator's, and the coordinator lets in who holds the key of a party's. No
authority stands between them, and none of these certificates vouches for another.
"""

from __future__ import annotations

import ipaddress
import os
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
    """Files of what the server proves itself by."""

    certificate: Path  #: What it shows: the one to give to every party
    server_key: Path  #: Stays with the coordinator

    @classmethod
    def in_(cls, folder: Path) -> Authority:
        return cls(folder / "ca.pem", folder / "server.key")


def make_authority(
    folder: str | os.PathLike[str],  # Where both files go; nothing is overwritten
    hosts: Sequence[str],  # Names and addresses under which parties reach the server
    *,
    days: int = 365,  # How long the certificate is valid
) -> Authority:
    """Make a server's key and certificate."""
    if not hosts:
        raise InvalidParameter("hosts must name how parties reach the server.")
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Authority.in_(place)
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    usage = ExtendedKeyUsageOID.SERVER_AUTH
    _make(made.server_key, made.certificate, "server", usage, names, days=days)
    return made


def make_node_key(path: str | os.PathLike[str]) -> Path:
    """Write a party's private key (owner only) and, beside it, its certificate ``<path>.pem``.

    Returns the certificate's file: the one to give to the coordinator. Nothing is overwritten.
    """
    private = Path(path).resolve()
    certificate = certificate_beside(private)
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    _make(private, certificate, "node", usage, days=_NODE_DAYS)
    return certificate


def certificate_beside(key: str | os.PathLike[str]) -> Path:
    return Path(key).with_name(Path(key).name + ".pem")


@dataclass(frozen=True)
class NodeKey:
    key: ec.EllipticCurvePrivateKey
    certificate: Path

    def private_pem(self) -> bytes:
        return _private_pem(self.key)


def read_node_key(path: str | os.PathLike[str]) -> NodeKey:
    """Read a node key that only its owner can read, and find its certificate."""
    place = Path(path)
    content = _read(place)
    if os.name == "posix" and stat.S_IMODE(place.stat().st_mode) & 0o077:
        raise InvalidParameter(
            f"node key: {place.name} can be read by others; make it yours alone with chmod 600."
        )
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidParameter(
            f"node key: {place.name} is not a private key without a passphrase; confrere keys "
            "rotate makes one."
        ) from None
    certificate = certificate_beside(place)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidParameter(f"node key: {place.name} is of another kind: keys request.")
    if read_certificate(certificate).public_key() != key.public_key():
        raise InvalidParameter(f"node key: {certificate.name} is the certificate of another key.")
    return NodeKey(key, certificate)


def read_certificate(path: str | os.PathLike[str], what: str = "node") -> x509.Certificate:
    place = Path(path)
    return read_certificate_text(_read(place), f"{what}: {place.name}")


def read_certificate_text(content: str | bytes, what: str) -> x509.Certificate:
    """Read the text of a certificate that vouches for itself alone; ``what`` names it in errors."""
    wrong = InvalidParameter(
        f"{what} is not the certificate of a server or node key; ask whose it is for the file "
        "that confrere made: a coordinator's ca.pem, a party's node.key.pem."
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


def _make(
    private: Path,
    certificate: Path,
    whose: str,
    usage: x509.ObjectIdentifier,
    *more: x509.ExtensionType,
    days: int,
) -> None:
    """Write a new key, its owner's alone, and a certificate that it signs itself."""
    for path in (private, certificate):
        if path.exists():
            raise InvalidParameter(f"{path.name} exists; choose another place for new keys.")
    key = ec.generate_private_key(_CURVE)
    write_new(private, _private_pem(key))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Names differ, so that one certificate is never looked up in place of another.
    called = f"confrere {whose} {identifier.digest.hex()[:32]}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    now = datetime.now(UTC) - timedelta(minutes=5)
    uses = x509.KeyUsage(**dict.fromkeys(_USES, False), digital_signature=True)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(uses, critical=True)
    )
    for extension in (identifier, x509.ExtendedKeyUsage([usage]), *more):
        made = made.add_extension(extension, critical=False)
    text = certificate_text(made.sign(key, hashes.SHA384()))
    write_new(certificate, text.encode(), mode=0o644)


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


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, form, serialization.NoEncryption())
