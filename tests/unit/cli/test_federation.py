"""coordinator, party and status, with parties in this process in place of Flower's programs."""

import json
import tomllib
import warnings
from pathlib import Path

import pytest

from confrere.cli.commands import federation
from confrere.ledger import Ledger
from confrere.protocols import LocalFederation
from confrere.release import load_release

with warnings.catch_warnings():
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation import launch, load_party
    from confrere.federation.coordinator_app import work

NAMES = ("main", "branch-1", "branch-2")


class Stopped:
    """A node's process that has ended."""

    def __init__(self, code):
        self.code = code

    def wait(self):
        return self.code

    def poll(self):
        return self.code


@pytest.fixture
def study(folder):
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('engine = "local"', 'engine = "flower"'))
    return path


@pytest.fixture
def prepared(line, study, monkeypatch):
    """Every party has agreed; its node has been started and has ended."""
    monkeypatch.setattr(launch, "run_party", lambda *_, **__: Stopped(0))
    line("keys", "node", "node")
    for name in NAMES:
        line(*_party(name), typed="1\n")
    return study


def _party(name):
    return [
        *("party", "study.toml", "--superlink", "127.0.0.1:8000", "--authority", "ca.pem"),
        *("--node-key", "node", "--local", f"local/{name}.toml", "--folder", f"nodes/{name}"),
    ]


def in_process(coordinator, job):
    """Do the coordinator's job with the parties' own files, as Flower would."""
    coordinator.folder.mkdir(exist_ok=True)
    (coordinator.folder / "job").write_bytes(job.to_payload().encode())
    parties = [load_party(f"nodes/{name}/party.toml") for name in NAMES]
    return work(
        coordinator.folder, lambda run, schema: LocalFederation(parties, run=run, schema=schema)
    )


def test_a_study_between_machines_ends_in_a_release(line, prepared, monkeypatch):
    monkeypatch.setattr(launch, "run_coordinator", in_process)
    nodes = [part for name in NAMES for part in ("--node", f"{name}=node.pub")]
    answer = line.json("coordinator", "study.toml", *nodes, "--folder", "c", "--out", "out")
    release = load_release(answer["data"]["folder"])
    assert release.card.status == "released"
    assert release.card.epsilon == 1.0
    assert set(release.parties) == set(NAMES)
    assert (Path(answer["data"]["folder"]) / "study.toml").read_bytes() == prepared.read_bytes()
    for name in NAMES:
        (entry,) = Ledger(f"local/{name}.ledger").entries()
        assert entry.state == "released"
    line("predict", answer["data"]["folder"], "local/main.csv", "--out", "p.csv")
    assert line.json("status", "c")["data"]["state"] == "finished"
    assert len(line.json("status", "nodes/main")["data"]["entries"]) == 1
    assert "left" in line("status", "nodes/main").stdout
    line("keys", "new", "main.key")
    line("release", "sign", answer["data"]["folder"], "--party", "main", "--key", "main.key")


def test_a_party_allows_its_own_study_s_bytes_and_no_more(line, prepared, monkeypatch):
    settings = tomllib.loads(Path("nodes/main/party.toml").read_text())
    assert settings["operations"] == ["size", "objective"]
    assert settings["epsilon_per_run"] == 1.0
    assert Path(settings["data"]).stat().st_mode & 0o077 == 0
    assert Ledger("local/main.ledger").entries() == []
    prepared.write_text(prepared.read_text().replace("epsilon = 1.0   ", "epsilon = 0.9   "))
    monkeypatch.setattr(launch, "run_coordinator", in_process)
    nodes = ("--node", "main=node.pub")
    answer = line.json("coordinator", "study.toml", *nodes, "--folder", "c", code=6)
    assert "OperationRefused:schema" in answer["message"]
    assert Ledger("local/main.ledger").entries() == []


def test_a_party_that_does_not_agree_starts_nothing(line, study, monkeypatch):
    monkeypatch.setattr(launch, "run_party", lambda *_, **__: pytest.fail("it was started"))
    line(*_party("main"), code=7, typed="\n")
    assert not Path("nodes").exists()
    local = Path("local/main.toml")
    local.write_text(local.read_text().replace('"size", "objective"', '"size"'))
    line(*_party("main"), "--yes", code=6)


def test_a_node_that_fails_is_a_federation_s_error(line, study, monkeypatch):
    monkeypatch.setattr(launch, "run_party", lambda *_, **__: Stopped(305))
    line("keys", "node", "node")
    assert "code 305" in line(*_party("main"), "--yes", code=6).stderr


def test_a_study_for_one_process_is_told_where_to_go(line, folder):
    line("keys", "node", "node")
    told = line("coordinator", "study.toml", "--node", "main=node.pub", code=3).stderr
    assert "use confrere fit" in told


def test_status_of_what_is_no_folder_of_ours(line, folder):
    line("status", "local", code=3)
    Path("c").mkdir()
    Path("c/job").write_bytes(b"")
    assert json.loads(line("status", "c", "--json").stdout)["data"]["state"].startswith("waiting")
    Path("c/failure").write_text("x")
    assert "failed" in line("status", "c").stdout


def test_without_flower_the_extra_is_named(line, study, monkeypatch):
    import builtins

    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "confrere.federation":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert "confrere[flower]" in line(*_party("main"), "--yes", code=6).stderr


def test_the_launchers_are_the_federation_s(monkeypatch):
    assert federation.load_flower() is launch
