"""coordinator, party and status, with parties in this process in place of Flower's programs."""

import json
import os
import signal
import time
import tomllib
import warnings
from pathlib import Path

import pytest

from confrere.cli.commands import federation
from confrere.errors import EngineFailed
from confrere.federation import LocalFederation
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.release import load_release

with warnings.catch_warnings():
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation.flower.coordinator_app import work

    import confrere.federation.flower as flower
    from confrere.federation.flower import load_party

NAMES = ("main", "branch-1", "branch-2")
PARTIES = []


@pytest.fixture
def study(folder):
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('engine = "local"', 'engine = "flower"'))
    return path


@pytest.fixture
def prepared(line, study, monkeypatch):
    """Every party has agreed; its node has been started, has read its file, and has ended."""
    _agree(line, monkeypatch)
    return study


def _agree(line, monkeypatch):
    monkeypatch.setattr(flower, "run_party", lambda file, **_: PARTIES.append(load_party(file)))
    PARTIES.clear()
    line("keys", "node", "node")
    for name in NAMES:
        line(*_party(name), typed="1\n")


def _party(name):
    return [
        *("party", "study.toml", "--superlink", "127.0.0.1:8000", "--authority", "ca.pem"),
        *("--node-key", "node", "--local", f"local/{name}.toml", "--folder", f"nodes/{name}"),
    ]


def in_process(coordinator, job):
    """Do the coordinator's job with the parties' own files, as Flower would."""
    coordinator.folder.mkdir(exist_ok=True)
    (coordinator.folder / "job").write_bytes(job.to_payload().encode())
    return work(
        coordinator.folder, lambda run, schema: LocalFederation(PARTIES, run=run, study=schema)
    )


def test_a_study_between_machines_ends_in_a_release(line, prepared, monkeypatch):
    monkeypatch.setattr(flower, "run_coordinator", in_process)
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


def test_every_round_has_its_receipt(line, study, monkeypatch):
    study.write_text(study.read_text().replace('name = "average"', 'rounds = 3\nname = "average"'))
    _agree(line, monkeypatch)
    monkeypatch.setattr(flower, "run_coordinator", in_process)
    nodes = [part for name in NAMES for part in ("--node", f"{name}=node.pub")]
    answer = line.json("coordinator", "study.toml", *nodes, "--folder", "c", "--out", "out")
    release = load_release(answer["data"]["folder"])
    assert release.card.status == "released"
    assert release.card.epsilon == pytest.approx(1.0)
    for paid in release.card.guarantee["per_party"]:
        assert paid["recorded"]
        assert paid["epsilon"] == pytest.approx(1.0)
    for name in NAMES:
        entries = Ledger(f"local/{name}.ledger").entries()
        assert [receipt.hash for receipt in release.parties[name]] == [e.hash for e in entries]
        assert len(entries) == 3
        line("verify", answer["data"]["folder"], "--ledger", f"local/{name}.ledger")


def test_a_party_allows_its_own_study_s_bytes_and_no_more(line, prepared, monkeypatch):
    settings = tomllib.loads(Path("nodes/main/party.toml").read_text())
    assert settings["operations"] == ["size", "objective"]
    assert settings["epsilon_per_run"] == 1.0
    assert Ledger("local/main.ledger").entries() == []
    prepared.write_text(prepared.read_text().replace("epsilon = 1.0   ", "epsilon = 0.9   "))
    monkeypatch.setattr(flower, "run_coordinator", in_process)
    nodes = ("--node", "main=node.pub")
    answer = line.json("coordinator", "study.toml", *nodes, "--folder", "c", code=6)
    assert "OperationRefused:study" in answer["message"]
    assert Ledger("local/main.ledger").entries() == []


def test_a_party_that_does_not_agree_starts_nothing(line, study, monkeypatch):
    monkeypatch.setattr(flower, "run_party", lambda *_, **__: pytest.fail("it was started"))
    line(*_party("main"), code=7, typed="\n")
    assert not Path("nodes").exists()
    local = Path("local/main.toml")
    local.write_text(local.read_text().replace('"size", "objective"', '"size"'))
    line(*_party("main"), "--yes", code=6)


def test_rows_are_there_while_a_party_answers_and_no_longer(line, study, monkeypatch):
    rows = Path("nodes/main/rows.npz")
    rows.parent.mkdir(parents=True)
    rows.write_bytes(b"left by a party that was killed")
    rows.chmod(0o644)
    seen = []

    def node(file, **_):
        seen.append((rows.stat().st_mode & 0o777, load_party(file).facts.n_samples > 0))
        raise KeyboardInterrupt

    monkeypatch.setattr(flower, "run_party", node)
    line("keys", "node", "node")
    line(*_party("main"), "--yes", code=130)
    assert seen == [(0o600, True)]
    assert not rows.exists()
    rows.write_bytes(b"left by a party that was killed")
    line(*_party("main"), code=7, typed="\n")
    assert not rows.exists()
    rows.write_bytes(b"of a party that runs")
    with flower.programs.alone(rows.parent, "party"):
        assert "another party" in line(*_party("main"), "--yes", code=6).stderr
    assert rows.exists()


def test_a_service_manager_stops_a_command_as_control_c_does(line, study, monkeypatch):
    def stopped(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(9)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(flower, "run_party", stopped)
    monkeypatch.setattr(flower, "run_coordinator", stopped)
    line("keys", "node", "node")
    line(*_party("main"), "--yes", code=130)
    assert not Path("nodes/main/rows.npz").exists()
    line("coordinator", "study.toml", "--node", "main=node.pub", "--folder", "c", code=130)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_party_goes_on_though_its_budget_covers_no_second_price(line, prepared, monkeypatch):
    account = next(iter(Ledger("local/main.ledger").accounts())).name
    Ledger("local/main.ledger").charge(
        account, Guarantee(epsilon=2.5), purpose="most of what there was"
    )
    line(*_party("main"), "--yes")
    elsewhere = [*_party("main")[:-1], "nodes/elsewhere"]
    line(*elsewhere, "--yes", code=4)


def test_an_engine_that_fails_says_why_and_what_to_do(line, study, monkeypatch):
    def fail(*_, **__):
        raise EngineFailed("flower-supernode ended with code 1: no such key; its log is node.log")

    monkeypatch.setattr(flower, "run_party", fail)
    line("keys", "node", "node")
    told = line(*_party("main"), "--yes", code=6).stderr
    assert "no such key; its log is node.log" in told
    assert "start it again" in told


def test_the_price_of_a_study_between_machines_names_its_commands(line, study):
    for more in ((), ("--out", "plan.json")):
        answer = line.json("price", "study.toml", *more)
        assert "confrere coordinator study.toml" in answer["message"]
        assert "confrere party study.toml" in answer["message"]
        assert "confrere fit" not in answer["message"]


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
        if name == "confrere.federation.flower":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert "confrere[flower]" in line(*_party("main"), "--yes", code=6).stderr


def test_the_launchers_are_the_federation_s():
    assert federation.load_flower() is flower
