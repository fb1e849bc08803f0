"""Keys and certificates: made once, readable by their owner, vouching for nobody else."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from confrere.errors import InvalidParameter
from confrere_federation.engines.keys import make_node_key, read_certificate, read_node_key


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path):
    make_node_key(tmp_path / "node")
    (tmp_path / "node").chmod(0o640)
    with pytest.raises(InvalidParameter, match="chmod 600"):
        read_node_key(tmp_path / "node")
    make_node_key(tmp_path / "other")
    (tmp_path / "other.pem").write_bytes((tmp_path / "node.pem").read_bytes())
    with pytest.raises(InvalidParameter, match="another key"):
        read_node_key(tmp_path / "other")
    (tmp_path / "other").write_bytes(b"-----BEGIN NOTHING-----")
    with pytest.raises(InvalidParameter, match="not a private key"):
        read_node_key(tmp_path / "other")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_node_key(tmp_path / "nowhere")


def certificate_by(signer, key, *, ca, issuer=None):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(signer, hashes.SHA384())
        .public_bytes(serialization.Encoding.PEM)
    )


def test_a_certificate_that_could_vouch_for_others_is_refused(tmp_path):
    one, two = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    file = tmp_path / "x.pem"
    file.write_bytes(certificate_by(one, one, ca=False))
    read_certificate(file)
    wrong = {
        "an authority": certificate_by(one, one, ca=True),
        "of somebody else's making": certificate_by(two, one, ca=False),
        "two of them": certificate_by(one, one, ca=False) * 2,
        "no certificate": b"x",
    }
    for content in wrong.values():
        file.write_bytes(content)
        with pytest.raises(InvalidParameter, match="not the certificate of a server or node key"):
            read_certificate(file)
