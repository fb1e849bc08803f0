import hashlib
import json
import pickle
import shutil
import subprocess

import pytest

from confrere.errors import InvalidParameter, InvalidRelease, SimulatedRelease
from confrere.release import (
    Release,
    Simulated,
    load_rehearsal,
    load_release,
    read_folder,
    verify_release,
)
from confrere.release import folder as folder_module
from confrere.release.folder import write_folder
from tests.world import contents, each


@pytest.mark.parametrize("change", each(kind=("../plr", ""), model=({"coef": [1.0]},)), ids=str)
def test_wrong_parts_are_refused(make_release, change):
    with pytest.raises(InvalidParameter, match=next(iter(change))):
        make_release(**change)


def test_a_simulation_stays_here(make_release, tmp_path):
    release = make_release(simulated=True)
    with pytest.raises(SimulatedRelease, match="without a seed"):
        release.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    folder = release.rehearse(tmp_path / "out")
    assert json.loads((folder / "rehearsal.json").read_text())["status"] == "simulated"
    assert type(load_rehearsal(folder)) is type(pickle.loads(pickle.dumps(release))) is Simulated
    for read in (load_release, verify_release):
        with pytest.raises(SimulatedRelease, match="rehearsal"):
            read(folder)
    with pytest.raises(SimulatedRelease):
        Release.save(load_rehearsal(folder), tmp_path / "again", allow_uncapped=True)


def test_a_rehearsal_does_not_become_a_release_by_its_name(make_release, release, tmp_path):
    """Whoever renames the card and redoes the sums has a folder that says that it was seeded."""
    renamed = dict(read_folder(make_release(simulated=True).rehearse(tmp_path / "one")).files)
    renamed["card.json"] = renamed.pop("rehearsal.json")
    written = dict(read_folder(release.save(tmp_path / "two")).files)
    written["rehearsal.json"] = written.pop("card.json")
    for name, files in {"first": renamed, "second": written}.items():
        folder = write_folder(tmp_path / name, files, {})
        for read in (load_release, verify_release, load_rehearsal):
            with pytest.raises(SimulatedRelease):
                read(folder)
    with pytest.raises(InvalidRelease):
        read_folder(write_folder(tmp_path / "both", renamed | written, {}))


def test_nothing_is_overwritten_unasked(release, stack_release, tmp_path):
    folder = release.save(tmp_path / "out")
    with pytest.raises(InvalidParameter, match="overwrite=True"):
        stack_release.save(folder)
    stack_release.save(folder, overwrite=True)
    assert load_release(folder).kind == "test-stack"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_key_and_a_name_go_together(release, tmp_path, key_pair):
    for given in ({"sign_with": key_pair[0]}, {"party": "main"}):
        with pytest.raises(InvalidParameter, match="go together"):
            release.save(tmp_path / "out", **given)


def test_only_a_release_is_ever_replaced(release, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("years")
    with pytest.raises(InvalidParameter, match="other things"):
        release.save(tmp_path / "work", overwrite=True)
    (tmp_path / "file").write_text("text")
    with pytest.raises(InvalidParameter, match="other things"):
        release.save(tmp_path / "file", overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "work")
    with pytest.raises(InvalidParameter, match="exists"):
        release.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "work" / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failure_leaves_what_was_there(release, tmp_path, monkeypatch, overwrite):
    before = contents(release.save(tmp_path / "out")) if overwrite else None
    written = []

    def full(path, content):
        written.append(path)
        if len(written) == 3:
            raise OSError("no space left")
        path.write_bytes(content)

    monkeypatch.setattr(folder_module, "write_durably", full)
    with pytest.raises(OSError, match="no space"):
        release.save(tmp_path / "out", overwrite=overwrite)
    if overwrite:
        assert contents(tmp_path / "out") == before
        assert len(list(tmp_path.iterdir())) == 1
    else:
        assert list(tmp_path.iterdir()) == []


def test_a_partner_needs_none_of_this(release, tmp_path, key_pair):
    """The README's own commands, with the tools every system has; by hand where it has not."""
    folder = release.save(tmp_path / "out", sign_with=key_pair[0], party="main")
    sums = (folder / "SHA256SUMS").read_text().splitlines()
    assert [line.split("  ")[1] for line in sums] == sorted(
        path.name for path in folder.iterdir() if path.name not in ("SHA256SUMS", "signatures")
    )
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    (tmp_path / "allowed_signers").write_text(f"main {key_pair[1].read_text()}")
    allowed = str(tmp_path / "allowed_signers")
    verify = ["-Y", "verify", "-f", allowed, "-I", "main", "-n", "confrere-release"]
    commands = [
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        ["ssh-keygen", *verify, "-s", "signatures/main.sig"],
    ]
    for command in commands:
        if shutil.which(command[0]):
            with (folder / "SHA256SUMS").open("rb") as sums_file:
                subprocess.run(
                    command, cwd=folder, stdin=sums_file, check=True, capture_output=True
                )
