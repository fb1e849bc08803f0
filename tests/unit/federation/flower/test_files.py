"""A party's file, a coordinator's job, and the outcome that comes back."""

import numpy as np
import pytest
from confrere.federation.flower.coordinator_app import JOB, OUTCOME, work

from confrere.errors import (
    FederationError,
    InvalidData,
    InvalidMessage,
    InvalidParameter,
    QuorumMissed,
)
from confrere.federation import (
    Averaging,
    Expansion,
    Frame,
    LocalFederation,
    Outcome,
    Payload,
    serve,
)
from confrere.federation.flower import (
    Coordinator,
    coordinator_app,
    load_party,
    make_authority,
    run_coordinator,
)
from confrere.federation.flower.job import Job
from confrere.ledger import Ledger
from tests.unit.federation.conftest import make_data

FILE = """\
name = "St. Anna"
data = "rows.npz"
ledger = "books.ledger"
account = "study"
answers = "answers.db"
operations = ["size", "objective"]
unit = "record"
relation = "replace-one"
epsilon_per_run = 1.0
schema = "fingerprint"
"""


@pytest.fixture
def folder(tmp_path):
    X, y = make_data(30)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    Ledger(tmp_path / "books.ledger").open_account("study", epsilon=1.0)
    (tmp_path / "party.toml").write_text(FILE)
    return tmp_path


def test_a_party_file_is_a_party(folder):
    party = load_party(folder / "party.toml")
    assert party.name == "St. Anna"
    assert party.facts.n_samples == 30
    assert party.books.policy.epsilon_per_run == 1.0
    assert not party.simulated
    answer = serve("size", Payload(), party, run="r", study="fingerprint")
    assert int(answer.arrays["size"]) == 30
    (folder / "party.toml").write_text(FILE + "random_state = 3\n")
    assert load_party(folder / "party.toml").simulated


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (FILE.replace('name = "St. Anna"\n', ""), InvalidParameter),
        (FILE + 'password = "x"\n', InvalidParameter),
        (FILE.replace('"books.ledger"', "7"), InvalidParameter),
        (FILE.replace("rows.npz", "nothing.npz"), InvalidData),
        ("not toml", InvalidParameter),
    ],
)
def test_a_wrong_file_is_refused(folder, text, error):
    (folder / "party.toml").write_text(text)
    with pytest.raises(error):
        load_party(folder / "party.toml")


def test_data_are_never_unpickled(folder):
    np.savez(folder / "rows.npz", X=np.array([{}], dtype=object), y=np.ones(1))
    with pytest.raises(InvalidData):
        load_party(folder / "party.toml")
    with pytest.raises(InvalidParameter):
        load_party(folder / "nowhere.toml")


PLANS = [
    Averaging(frame=Frame(3, feature_scale=np.ones(3)), epsilon=1.0, rounds=2, prior=np.ones(4)),
    Averaging(frame=Frame(3, norm="l1"), epsilon=1.0, alpha=0.1, cap=1.0),
    Expansion(frame=Frame(3), epsilon=0.5, linear_share=0.3),
]


@pytest.mark.parametrize("plan", PLANS)
def test_a_job_crosses_a_file(plan):
    job = Job(plan=plan, parties=("a", "b"), quorum=0.5, timeout=9.0, schema="s")
    read = Job.from_payload(Payload.decode(job.to_payload().encode()))
    assert read.to_payload() == job.to_payload()
    assert type(read.plan) is type(plan)
    assert (read.parties, read.quorum, read.timeout, read.schema) == (("a", "b"), 0.5, 9.0, "s")
    with pytest.raises(InvalidMessage):
        Job.from_payload(Payload({"protocol": "steal"}))


@pytest.mark.parametrize("plan", PLANS)
def test_the_job_is_done_once(make_party, tmp_path, plan):
    parties = [make_party(name, seed=k, random_state=k) for k, name in enumerate("ab")]
    job = Job(plan=plan, parties=("a", "b"))
    (tmp_path / JOB).write_bytes(job.to_payload().encode())

    def connect(run, schema):
        return LocalFederation(parties, run=run, study=schema)

    outcome = work(tmp_path, connect)
    kept = Outcome.from_payload(Payload.decode((tmp_path / OUTCOME).read_bytes()))
    np.testing.assert_array_equal(kept.weights, outcome.weights)
    assert kept.guarantee == outcome.guarantee
    assert kept.receipts == outcome.receipts
    np.testing.assert_array_equal(work(tmp_path, connect).weights, outcome.weights)
    assert parties[0].books.ledger.spent("study") == plan.epsilon
    with pytest.raises(InvalidMessage):
        Outcome.from_payload(Payload())


def test_a_coordinator_waits_for_its_parties(make_party, tmp_path, monkeypatch):
    monkeypatch.setattr(coordinator_app, "_POLL_SECONDS", 0.01)
    job = Job(plan=PLANS[0], parties=("a", "nobody"), timeout=0.05)
    (tmp_path / JOB).write_bytes(job.to_payload().encode())
    party = make_party("a")
    with pytest.raises(QuorumMissed, match="nobody"):
        work(tmp_path, lambda run, schema: LocalFederation([party], run=run))
    assert party.books.ledger.spent("study") == 0


def test_a_folder_has_one_job_and_keeps_its_outcome(make_party, tmp_path):
    authority = make_authority(tmp_path / "keys", ["localhost"])
    coordinator = Coordinator(folder=tmp_path / "work", authority=authority, nodes={})
    coordinator.folder.mkdir()
    job = Job(plan=PLANS[0], parties=("a",))
    (coordinator.folder / JOB).write_bytes(job.to_payload().encode())
    party = make_party("a")
    outcome = work(coordinator.folder, lambda run, schema: LocalFederation([party], run=run))
    # Nothing is started for a job that is done.
    np.testing.assert_array_equal(run_coordinator(coordinator, job).weights, outcome.weights)
    with pytest.raises(FederationError, match="another job"):
        run_coordinator(coordinator, Job(plan=PLANS[1], parties=("a",)))
