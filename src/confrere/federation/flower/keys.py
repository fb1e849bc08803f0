"""Keys of a federation: the authority that vouches for the server, and a key per node."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from confrere.errors import InvalidParameter

_CURVE = ec.SECP384R1()


@dataclass(frozen=True, slots=True)
class Authority:
    """Files of the server's certificate and of the authority that signed it.

    Parameters
    ----------
    certificate : Path
        The authority's own certificate: the one to give to every party.
    server_certificate, server_key : Path
        What the server shows; the key stays with the coordinator.
    """

    certificate: Path
    server_certificate: Path
    server_key: Path


def make_authority(
    folder: str | os.PathLike[str], hosts: Sequence[str], *, days: int = 365
) -> Authority:
    """Make an authority and a server certificate; the authority's key is thrown away.

    Parameters
    ----------
    folder : path-like
        Where the three files go; nothing is overwritten.
    hosts : sequence of str
        Names and addresses under which parties reach the server.
    days : int, default=365
        How long both certificates are valid.
    """
    if not hosts:
        raise InvalidParameter("hosts must name how parties reach the server.")
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    authority_key, server_key = (ec.generate_private_key(_CURVE) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "confrere authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(hosts[0])[:64])])
    now = datetime.now(UTC) - timedelta(minutes=5)

    def certificate(
        name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(_usage(authority=authority), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
        )

    root = certificate(issuer, authority_key, authority=True).sign(authority_key, hashes.SHA384())
    server = (
        certificate(subject, server_key, authority=False)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    made = Authority(place / "ca.pem", place / "server.pem", place / "server.key")
    _write_new(made.certificate, root.public_bytes(serialization.Encoding.PEM), 0o644)
    _write_new(made.server_certificate, server.public_bytes(serialization.Encoding.PEM), 0o644)
    _write_new(
        made.server_key,
        server_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        0o600,
    )
    return made


def make_node_key(path: str | os.PathLike[str]) -> Path:
    """Write a party's private key (OpenSSH, owner only) and, beside it, ``<path>.pub``.

    Returns
    -------
    Path
        The public key's file: the one to give to the coordinator.
    """
    private = Path(path).resolve()
    public = private.with_name(private.name + ".pub")
    key = ec.generate_private_key(_CURVE)
    _write_new(
        private,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ),
        0o600,
    )
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _write_new(public, line + b"\n", 0o644)
    return public


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InvalidParameter(f"{path.name} exists; choose another place for new keys.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
