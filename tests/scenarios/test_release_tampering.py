"""Somebody changes a release between two organisations, in every way we could think of."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from confrere.errors import InvalidRelease, ReleaseError, SignatureError
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.model import Clip, Linear
from confrere.release import Release, generate_key, load_release, read_folder

KIND = "scenario-linear"


def make() -> Release:
    ledger = Ledger(Path(tempfile.mkdtemp()) / "own.ledger")
    ledger.open_account("checkups", epsilon=2.0)
    guarantee = Guarantee(1.0, theorem="docs/proofs/objective_perturbation.md")
    receipt = ledger.charge("checkups", guarantee, purpose="test")
    model = Linear(
        coef=np.array([1.0, -2.0]),
        intercept=0.5,
        classes=("no", "yes"),
        features=("age", "bmi"),
        clip=Clip(2.0),
    )
    return Release(KIND, model, guarantee, receipt)


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A signed release with every optional file, and the sender's public key."""
    place = tmp_path_factory.mktemp("sender")
    public = generate_key(place / "key", "main")
    (place / "study.toml").write_text("schema = 1\n")
    folder = make().save(
        place / "out",
        sign_with=place / "key",
        party="main",
        study=place / "study.toml",
    )
    return folder, public


@pytest.fixture
def received(sent, tmp_path):
    return shutil.copytree(sent[0], tmp_path / "received", symlinks=True)


def redo_sums(folder):
    """What a forger does next, who has no key."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    names.remove("SHA256SUMS")
    lines = [f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names]
    (folder / "SHA256SUMS").write_text("".join(lines))
    shutil.rmtree(folder / "signatures", ignore_errors=True)


def test_untouched_it_loads(sent, received):
    release = load_release(received, require_signature_from={"main": sent[1]})
    assert release.card.status == "released"


def test_one_changed_byte_in_any_file_is_refused(sent, received):
    files = sorted(path for path in received.rglob("*") if path.is_file())
    assert len(files) == 7
    tried = 0
    for path in files:
        whole = path.read_bytes()
        step = max(1, len(whole) // 60)
        for position in [*range(0, len(whole), step), len(whole) - 1]:
            for flip in (0x01, 0x20):
                changed = bytearray(whole)
                changed[position] ^= flip
                path.write_bytes(changed)
                with pytest.raises((InvalidRelease, SignatureError)):
                    load_release(received)
                tried += 1
        for other in (whole[:-1], whole + b"\n", b""):
            path.write_bytes(other)
            with pytest.raises((InvalidRelease, SignatureError)):
                load_release(received)
        path.write_bytes(whole)
    assert tried > 600
    assert load_release(received, require_signature_from={"main": sent[1]})


def test_one_changed_byte_is_refused_without_signatures_too(received):
    shutil.rmtree(received / "signatures")
    for path in sorted(received.iterdir()):
        whole = path.read_bytes()
        for position in range(0, len(whole), max(1, len(whole) // 40)):
            changed = bytearray(whole)
            changed[position] ^= 0x01
            path.write_bytes(changed)
            with pytest.raises(InvalidRelease):
                load_release(received)
        path.write_bytes(whole)
    assert load_release(received)


@pytest.mark.parametrize("redone", [False, True])
@pytest.mark.parametrize(
    "name", ["README.md", "SHA256SUMS", "card.json", "model.json", "model.npz"]
)
def test_a_missing_file_is_refused_though_the_sums_miss_it_too(received, name, redone):
    if redone and name != "SHA256SUMS":
        (received / name).unlink()
        redo_sums(received)
    (received / name).unlink(missing_ok=True)
    with pytest.raises(InvalidRelease, match="missing"):
        load_release(received)


@pytest.mark.parametrize("name", ["run.py", ".hidden", "model.pkl", "MODEL.NPZ", "card.json~"])
def test_an_unlisted_file_is_refused(received, name):
    (received / name).write_text("import os")
    with pytest.raises(InvalidRelease, match="remove them"):
        load_release(received)
    redo_sums(received)
    with pytest.raises(InvalidRelease, match=r"remove them|plain file names"):
        load_release(received)


def test_an_unlisted_folder_is_refused(received):
    (received / "more").mkdir()
    with pytest.raises(InvalidRelease, match="plain files only"):
        load_release(received)


@pytest.mark.parametrize(
    "line",
    [
        "{digest}  ../outside.txt",
        "{digest}  /etc/hostname",
        "{digest}  sub/file",
        "{digest}  a..b",
        "{digest} *README.md",
        "\\{digest}  READ\\nME.md",
        "{digest}  README.md ",
        "README.md",
        "",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(received, line):
    (received.parent / "outside.txt").write_text("text")
    shutil.rmtree(received / "signatures")
    lines = (received / "SHA256SUMS").read_text().splitlines()
    lines.append(line.format(digest=hashlib.sha256(b"text").hexdigest()))
    (received / "SHA256SUMS").write_text("\n".join(sorted(lines)) + "\n")
    with pytest.raises(InvalidRelease, match="plain file names"):
        load_release(received)


@pytest.mark.parametrize("change", [lambda s: s * 2, lambda s: b"", lambda s: s.upper()])
def test_sums_in_another_form_are_refused(received, change):
    shutil.rmtree(received / "signatures")
    sums = received / "SHA256SUMS"
    sums.write_bytes(change(sums.read_bytes()))
    with pytest.raises(InvalidRelease, match="plain file names"):
        load_release(received)


@pytest.mark.parametrize(
    "name", ["model.npz", "card.json", "SHA256SUMS", "signatures", "signatures/main.sig"]
)
def test_a_link_is_refused_even_to_the_same_bytes(received, name):
    aside = received.parent / Path(name).name
    (received / name).rename(aside)
    (received / name).symlink_to(aside)
    with pytest.raises(InvalidRelease, match="link"):
        load_release(received)


def test_a_link_to_a_release_is_refused(received, tmp_path):
    (tmp_path / "link").symlink_to(received)
    with pytest.raises(InvalidRelease, match="not a folder"):
        load_release(tmp_path / "link")
    with pytest.raises(InvalidRelease, match="not there"):
        load_release(tmp_path / "nowhere")


def test_a_pipe_neither_passes_nor_blocks(received):
    os.mkfifo(received / "signatures" / "branch.sig")
    with pytest.raises(InvalidRelease, match="plain file"):
        load_release(received)


@pytest.mark.parametrize("name", ["notes.txt", "..sig", "a b.sig", ".sig"])
def test_other_files_among_the_signatures_are_refused(received, name):
    (received / "signatures" / name).write_text("text")
    with pytest.raises(InvalidRelease, match="remove it"):
        load_release(received)


@pytest.mark.parametrize("name", ["SHA256SUMS", "card.json", "README.md", "signatures/main.sig"])
def test_a_file_that_is_too_large_is_refused(received, name):
    with (received / name).open("ab") as stream:
        stream.write(b"\n" * (1 << 20))
    with pytest.raises(InvalidRelease, match="at most"):
        load_release(received)


def test_a_signature_of_another_party_does_not_count(sent, received):
    with pytest.raises(SignatureError, match="branch has not signed"):
        load_release(received, require_signature_from={"main": sent[1], "branch": sent[1]})


def test_a_forger_who_redoes_the_sums_is_caught_by_the_signature(sent, received):
    signature = (received / "signatures" / "main.sig").read_bytes()
    (received / "README.md").write_text("Use me.")
    redo_sums(received)
    assert read_folder(received).signers == {}
    (received / "signatures").mkdir()
    (received / "signatures" / "main.sig").write_bytes(signature)
    for required in (None, {"main": sent[1]}):
        with pytest.raises(SignatureError, match="changed after it was"):
            load_release(received, require_signature_from=required)


def test_nothing_is_parsed_before_it_is_verified(received, monkeypatch):
    """A changed file never reaches a parser."""
    from confrere.release import release as release_module

    def parsed(*_):
        raise AssertionError("parsed before verified")

    for name in ("read_json", "read_document"):
        monkeypatch.setattr(release_module, name, parsed)
    for path in sorted(received.glob("*.*")):
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        with pytest.raises(ReleaseError):
            load_release(received)
        path.write_bytes(whole)
