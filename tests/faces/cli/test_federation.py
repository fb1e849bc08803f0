"""coordinator, party and status, with parties in this process in place of a line to others."""

from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from confrere.errors import EngineFailed
from confrere.ledger import Ledger
from confrere.release import load_release
from confrere_federation.commands import party
from confrere_federation.engines import line as engine
from confrere_federation.studies.running import refuse_study
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.wire.homes import open_kits

NAMES = ("main", "branch-1", "branch-2")
OF = "studies/diabetes-2026"
APPROVAL = Path("main", OF, "approval.json")
APPROVE = ["approve", f"main/{OF}/study.toml"]
COORDINATOR = ["coordinator", "coordinator/study.toml", "--folder", "c"]


def book(name):
    return Path(name, "ledgers/checkups.ledger")


@pytest.fixture
def study(folder):
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('engine = "local"', 'engine = "line"'))
    open_kits(folder, NAMES, port=8000)
    return folder / "coordinator/study.toml"


@pytest.fixture
def sessions(monkeypatch):
    """What parties answer with: they have agreed, and are asked without a line in between."""
    found = {}

    def run_party(session, *, progress, **_):
        found[session.facts["party"]] = session
        progress.say("connected")
        session.state = "released"  # as if it had come

    class Carrier:
        def connected(self):
            return sorted(found)

        def exchange(self, questions, timeout=None):
            return {name: found[name].handle(question) for name, question in questions.items()}

    @contextmanager
    def here(**_):
        yield Carrier()

    monkeypatch.setattr(party, "without_network", lambda make, tell: nullcontext(make()))
    monkeypatch.setattr(engine, "run_party", run_party)
    monkeypatch.setattr(engine, "carrying", here)
    return found


@pytest.fixture
def prepared(line, study, sessions):
    """Every party has agreed."""
    _agree(line)
    return study


def _agree(line):
    for name in NAMES:
        line("approve", f"{name}/{OF}/study.toml", typed="1\n")
        line(*_party(name))


def _party(name):
    own = ("--out", f"had/{name}", "--folder", f"nodes/{name}")
    return ["party", f"{name}/{OF}/study.toml", *own]


def test_a_study_between_machines_ends_in_a_release(line, prepared, sessions):
    answer = line.json(*COORDINATOR, "--out", "out")
    assert answer["data"]["unsigned"] == {}
    assert all(session.finished for session in sessions.values())
    assert Path("c").stat().st_mode & 0o777 == 0o700
    assert Path("nodes/main").stat().st_mode & 0o777 == 0o700
    release = load_release(answer["data"]["folder"])
    assert release.card.status == "released"
    assert release.card.epsilon == 1.0
    assert set(release.parties) == set(NAMES)
    assert (Path(answer["data"]["folder"]) / "study.toml").read_bytes() == prepared.read_bytes()
    for name in NAMES:
        (entry,) = Ledger(book(name)).entries()
        assert (entry.study, len(entry.study_sha256)) == ("diabetes-2026", 64)
        assert entry.state == "released"
    line("predict", answer["data"]["folder"], "local/main.csv", "--out", "p.csv")
    told = line.json("status", "c")["data"]
    assert (told["role"], told["state"]) == ("coordinator", "released")
    assert told["counts"] | {"connected": 0} == {
        "connected": 0,
        "asked": 3,
        "answered": 3,
        "paid": 3,
        "dropped": 0,
    }
    assert [one["operation"] for one in told["steps"]] == ["size", "objective", "finish", "finish"]
    assert told["steps"][1]["parties"]["main"] == {"state": "answered", "epsilon": 1.0, "row": 3}
    own = sessions["main"].told
    assert [one["operation"] for one in own] == ["size", "objective"]
    assert own[1]["parties"]["main"]["epsilon"] == 1.0
    # Killed while it handed the release out, it hands it out again.
    again = line.json(*COORDINATOR, "--out", "out")
    assert again["data"] == answer["data"]
    assert len(line.json("status", "nodes/main")["data"]["entries"]) == 1
    assert "left" in line("status", "nodes/main").stdout
    signed = [part for n in NAMES for part in ("--key", f"{n}={n}/keys/{n}.key.pub")]
    line("verify", answer["data"]["folder"], *signed)
    line("verify", f"had/main/{Path(answer['data']['folder']).name}", "--key", signed[1])


def test_a_party_that_waits_ends_when_it_is_withdrawn(line, study, monkeypatch):
    line(*APPROVE, "--yes")

    def run_party(session, *, stopped, **_):
        assert not stopped()
        found, path = read_study(APPROVE[1]), Path(APPROVE[1])
        (local,) = gather_locals(found, path).values()
        refuse_study(found, local, name="the officer", reason="no", approval=APPROVAL)
        assert stopped()

    monkeypatch.setattr(engine, "run_party", run_party)
    assert "withdrawn by the officer" in line(*_party("main"), code=4).stderr
    assert line.json("status", "nodes/main")["data"]["state"] == "withdrawn by the officer"


def test_a_study_in_one_process_that_was_refused_is_not_learned(line, folder):
    approve = ["approve", "study.toml", "--local", "local/main.toml"]
    line(*approve, "--refuse", "--name", "the officer", "--reason", "not our purpose")
    assert "refused by the officer" in line("fit", "study.toml", "--yes", code=4).stderr
    (told,) = Ledger("local/main.ledger").decisions()
    assert (told.said, told.name, told.reason) == ("refused", "the officer", "not our purpose")
    assert "refused" in line("ledger", "show", "local/main.ledger").stdout
    shown = line.json("ledger", "show", "local/main.ledger")["data"]["decisions"]
    assert shown == [vars(told)]
    assert [Ledger(one).entries() for one in Path("local").glob("*.ledger")] == [[]]
    assert "agreed again" in line(*approve, "--name", "the officer", "--reason", "now it is").stdout
    line("fit", "study.toml", "--yes")


def test_between_machines_a_party_has_a_home(line, study):
    """Without one, a second study of the same data would begin at nothing spent."""
    local = Path("main", OF, "local.toml")
    own = 'party = "main"\ndata_path = "../../../local/main.csv"\n[policy]\n'
    local.write_text(own + Path("main/policy.toml").read_text())
    told = line(*APPROVE, "--yes", code=3).stderr
    assert "confrere kit open" in " ".join(told.split())
    assert not APPROVAL.exists()


def test_a_party_that_is_left_out_or_cannot_go_on_says_so(line, study, monkeypatch):
    def left_out(session, **_):
        session.state = "left out"

    def fail(*_, **__):
        raise EngineFailed("no coordinator at this address for 3600 s")

    monkeypatch.setattr(party, "without_network", lambda make, tell: nullcontext(make()))
    monkeypatch.setattr(engine, "run_party", left_out)
    line(*APPROVE, "--yes")
    assert "left out" in line(*_party("main"), code=6).stderr
    monkeypatch.setattr(engine, "run_party", fail)
    told = line(*_party("main"), code=6).stderr
    assert "no coordinator at this address" in told
    assert "start it again" in told
    assert line.json("status", "nodes/main")["data"]["state"].startswith("failed")


def test_a_witness_that_a_restored_volume_would_take_back_is_loud(line, study, sessions):
    line(*APPROVE, "--yes")
    assert "WARNING: the ledger" in " ".join(line(*_party("main")).stderr.split())


def test_a_service_does_not_start_with_its_witness_on_the_ledger_s_mount(
    line, study, sessions, monkeypatch
):
    monkeypatch.setenv("CONFRERE_SERVICE", "1")
    line(*APPROVE, "--yes")
    told = line.json(*_party("main"), code=3)
    assert "are on one mount" in told["message"]
    assert "--same-mount" in told["message"]
    assert not list(Path().rglob("*.ledger"))
    line(*_party("main"), "--same-mount")
