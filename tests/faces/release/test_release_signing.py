import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from confrere.errors import InvalidParameter, SignatureError
from confrere.release import (
    NAMESPACE,
    fingerprint,
    generate_key,
    read_private_key,
    read_public_key,
    sign_sums,
    verify_signature,
)
from confrere.release.signing import has_passphrase
from tests.world import lock_key

# Made by OpenSSH 9.2: ssh-keygen -t ed25519; ssh-keygen -Y sign -n NAMESPACE.
MESSAGE = b"The quick brown fox.\n"
PUBLIC = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAHUrmTyP1/O2WvWMIx54UbMR/0i/2kglXWY2UEC6XyV reference"
)
SIGNATURE = b"""\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgAdSuZPI/X87Za9YwjHnhRsxH/S
L/aSCVdZjZQQLpfJUAAAAQY29uZnJlcmUtcmVsZWFzZQAAAAAAAAAGc2hhNTEyAAAAUwAA
AAtzc2gtZWQyNTUxOQAAAEDfd0tdSoMCE2PMFdLZc5EXt5F5psbt8WAEJmurYilqJCkeuV
rPkkIo5XnHCl96CqHo4d2gj9BRcT/comOCcrwE
-----END SSH SIGNATURE-----
"""


def test_openssh_and_we_accept_each_other(key_pair, tmp_path):
    """With ssh-keygen at hand; the pinned signature above stands in for it elsewhere."""
    private, public = key_pair
    program = shutil.which("ssh-keygen")
    if program is None:
        assert verify_signature(SIGNATURE, MESSAGE, [PUBLIC])
        return
    (tmp_path / "allowed").write_text(f"main {public.read_text()}")
    (tmp_path / "ours.sig").write_bytes(sign_sums(MESSAGE, private))

    def openssh(*arguments: str, message=MESSAGE):
        return subprocess.run(
            [program, *arguments], input=message, cwd=tmp_path, capture_output=True, check=False
        )

    check = ("-Y", "verify", "-f", "allowed", "-I", "main", "-n", NAMESPACE, "-s", "ours.sig")
    assert openssh(*check).returncode == 0
    assert openssh(*check, message=MESSAGE + b".").returncode != 0
    theirs = openssh("-Y", "sign", "-n", NAMESPACE, "-f", str(private)).stdout
    assert theirs == sign_sums(MESSAGE, private)
    listed = openssh("-l", "-f", str(public)).stdout.decode()
    assert fingerprint(public) in listed
    assert "main" in listed


def test_every_changed_byte_is_refused():
    for position in range(len(SIGNATURE)):
        for flip in (1, 0x20, 0x80):
            changed = bytearray(SIGNATURE)
            changed[position] ^= flip
            with pytest.raises(SignatureError):
                verify_signature(bytes(changed), MESSAGE)


def test_keys_are_never_overwritten_and_need_a_place_and_one_line(tmp_path):
    generate_key(tmp_path / "key")
    secret = (tmp_path / "key").read_bytes()
    with pytest.raises(InvalidParameter, match="exists"):
        generate_key(tmp_path / "key")
    (tmp_path / "key.pub").unlink()
    with pytest.raises(InvalidParameter, match="exists"):
        generate_key(tmp_path / "key")
    with pytest.raises(InvalidParameter, match="another folder"):
        generate_key(tmp_path / "nowhere" / "key")
    with pytest.raises(InvalidParameter, match="one line"):
        generate_key(tmp_path / "other", "two\nlines")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {tmp_path / "key": secret}


def test_a_private_key_that_others_can_read_is_refused(key_pair):
    private, _ = key_pair
    private.chmod(0o644)
    with pytest.raises(InvalidParameter, match="chmod 600"):
        sign_sums(MESSAGE, private)


def private_file(content, path):
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_other_keys_are_refused(tmp_path, key_pair):
    large = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    content = large.private_bytes(serialization.Encoding.PEM, *form)
    locked = private_file(key_pair[0].read_bytes(), tmp_path / "locked")
    lock_key(locked, "open, please")
    for content_, told in (
        (locked.read_bytes(), "needs its passphrase"),
        (content, "Ed25519"),
        (b"hello", "generate_key"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            read_private_key(private_file(content_, tmp_path / "other"))
    line = large.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    for read, given, told in (
        (read_private_key, tmp_path / "missing", "cannot be read"),
        (read_public_key, tmp_path / "missing.pub", "cannot be read"),
        (read_public_key, line.decode(), "Ed25519"),
        (read_public_key, "ssh-ed25519 AAAA", r"\.pub"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            read(given)


def test_a_key_with_a_passphrase_opens_with_it(tmp_path, key_pair):
    key = read_private_key(key_pair[0])
    path = private_file(key_pair[0].read_bytes(), tmp_path / "passphrase")
    lock_key(path, "open, please")
    assert has_passphrase(path)
    assert not has_passphrase(key_pair[0])
    opened = read_private_key(path, "open, please")
    assert opened.public_key() == key.public_key()
    assert read_private_key(key_pair[0], "not needed").public_key() == key.public_key()
    with pytest.raises(InvalidParameter, match="is wrong"):
        read_private_key(path, "open")
