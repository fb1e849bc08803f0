"""Keys and certificates: made once, readable by their owner, good for one server."""

import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from confrere.errors import InvalidParameter
from confrere.federation.flower import make_authority, make_node_key


def test_an_authority_vouches_for_the_server(tmp_path):
    made = make_authority(tmp_path / "keys", ["127.0.0.1", "hub.example"])
    root, server = (
        x509.load_pem_x509_certificate(path.read_bytes())
        for path in (made.certificate, made.server_certificate)
    )
    server.verify_directly_issued_by(root)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert stat.S_IMODE(made.server_key.stat().st_mode) == 0o600
    # The authority's key is nowhere: nobody can make a second server certificate.
    assert sorted(p.name for p in (tmp_path / "keys").iterdir()) == [
        "ca.pem",
        "server.key",
        "server.pem",
    ]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server_certificate, made.server_key)


def test_node_keys_are_openssh_on_a_nist_curve(tmp_path):
    public = make_node_key(tmp_path / "node")
    private = serialization.load_ssh_private_key((tmp_path / "node").read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert public.read_text().startswith("ecdsa-sha2-nistp384 ")
    loaded = serialization.load_ssh_public_key(public.read_bytes())
    assert loaded.public_numbers() == private.public_key().public_numbers()
    assert stat.S_IMODE((tmp_path / "node").stat().st_mode) == 0o600


def test_nothing_is_overwritten(tmp_path):
    make_node_key(tmp_path / "node")
    before = (tmp_path / "node").read_bytes()
    with pytest.raises(InvalidParameter):
        make_node_key(tmp_path / "node")
    assert (tmp_path / "node").read_bytes() == before
    make_authority(tmp_path / "keys", ["localhost"])
    with pytest.raises(InvalidParameter):
        make_authority(tmp_path / "keys", ["localhost"])
    with pytest.raises(InvalidParameter):
        make_authority(tmp_path / "other", [])
