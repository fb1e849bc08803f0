"""A coordinator that invents the other parties, and what a party must know before it adds up.

The attack: whoever writes a study makes up all parties but one, and subtracts their shares of the
noise and their masks. The one that is left is asked for a sum, of a model or of a table.
"""

import re

import pytest

from confrere.errors import StudyError
from confrere.release import generate_key, read_private_key
from confrere.release.signing import fingerprint
from confrere_federation.studies.running import approve_study, make_approval, party_session
from confrere_federation.studies.study_file import Home, confirm_peers, gather_locals, read_study
from tests.wire.homes import moved_home
from tests.wire.study.conftest import OLD

SUMS = {OLD["name"]: 'name = "sums"'}
TABLE = {OLD["name"]: 'name = "table1"\ntrust = "sum"'}


@pytest.fixture
def invented(folder):
    """Return a function that makes a study of so many parties, all of whose keys are here."""

    def make(count, changes):
        head, _, tail = (folder / "study.toml").read_text().partition("[[party]]")
        tail = "[federation]" + tail.partition("[federation]")[2]
        names = ["main", *(f"hospital-{k}" for k in range(1, count))]
        for name in (*names, "asking"):
            generate_key(folder / f"{name}.key")
        lines = {name: (folder / f"{name}.key.pub").read_text().strip() for name in names}
        parties = "\n".join(
            f'[[party]]\nname = "{name}"\nkey = "{line}"\ndataset = "d"\ncap = {{epsilon = 9}}\n'
            for name, line in lines.items()
        )
        text = (head + parties + tail).replace(OLD["engine"], 'engine = "line"')
        text = text.replace(OLD["quorum"], "")
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new, 1)
        (folder / "study.toml").write_text(text)
        local = folder / "local/main.toml"
        asking = (folder / "asking.key.pub").read_text().strip()
        own = f'key_path = "../main.key"\ncoordinator = "{asking}"\n[policy]\ntrust = "1 of 20"'
        local.write_text(local.read_text().replace("[policy]", own))
        moved_home(folder / "home", local)
        return read_study(folder / "study.toml")

    return make


def own(study, folder):
    file = folder / "home/studies/study/local.toml"
    (local,) = gather_locals(study, folder / "study.toml", [file]).values()
    return local


def confirm(study, folder, peers):
    return confirm_peers(study, own(study, folder), Home(folder / "home"), peers)


def told(folder, names):
    return {name: fingerprint(folder / f"{name}.key.pub") for name in names}


def approve(study, folder):
    where = {"key": read_private_key(folder / "main.key"), "approval": folder / "approval.json"}
    return approve_study(study, own(study, folder), **where, name="officer", reason="x")


@pytest.mark.parametrize("changes", [SUMS, TABLE], ids=["sums", "table"])
def test_made_up_parties_get_no_part_of_a_sum(invented, folder, changes):
    study = invented(20, changes)
    with pytest.raises(StudyError, match="11 more of them must be known"):
        approve(study, folder)
    assert not (folder / "approval.json").exists()
    # Eight whom nobody knows, and one more who is in league with them, leave the whole noise.
    confirm(study, folder, told(folder, [f"hospital-{k}" for k in range(1, 11)]))
    with pytest.raises(StudyError, match="1 more of them"):
        approve(study, folder)
    confirm(study, folder, told(folder, ["hospital-11"]))
    assert approve(study, folder).study_sha256 == study.sha256


def test_an_approval_is_worth_nothing_once_a_peer_is_not_confirmed(invented, folder):
    study = invented(3, SUMS)
    confirm(study, folder, told(folder, ["hospital-1", "hospital-2"]))
    approve(study, folder)
    out = {"approval": folder / "approval.json", "out": folder / "out"}
    assert party_session(study, own(study, folder), **out).name == "main"
    (folder / "home/peers.toml").unlink()
    with pytest.raises(StudyError, match="2 more of them"):
        party_session(study, own(study, folder), **out)


@pytest.mark.parametrize(
    ("count", "needed", "collusion_threshold"),
    [(2, 1, 1), (3, 2, 1), (5, 4, 1), (6, 4, 2), (20, 11, 9)],
)
def test_how_many_must_be_known(invented, count, needed, collusion_threshold):
    study = invented(count, SUMS)
    assert (study.peers_needed, study.collusion_threshold) == (needed, collusion_threshold)


def test_another_key_than_the_confirmed_one_is_refused_whatever_is_asked(invented, folder):
    study = invented(3, {})
    with pytest.raises(StudyError, match="another key for hospital-1"):
        confirm(study, folder, {"hospital-1": fingerprint(folder / "asking.key.pub")})
    (folder / "home/peers.toml").write_text(f'[peers]\nhospital-1 = "SHA256:{"a" * 43}"\n')
    with pytest.raises(StudyError, match="another key for hospital-1"):
        make_approval(study, own(study, folder), approved_by="o", reason="r")


def test_two_parties_with_one_key_are_one(invented, folder):
    invented(3, SUMS)
    path = folder / "study.toml"
    text = path.read_text()
    first, second = re.findall(r'key = "(ssh-ed25519 \S+)', text)[1:3]
    path.write_text(text.replace(second, first))
    with pytest.raises(StudyError, match="hospital-1 and hospital-2 have the same key"):
        read_study(path)
