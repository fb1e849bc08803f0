"""A study is approved or refused on the page: words, amount, key; then the party answers."""

import json
import shutil

import pytest

from confrere.ledger import Ledger
from confrere.release import load_release
from confrere_federation.studies.running import CoordinatorSession, approve_study, party_session
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.faces.dashboard.conftest import visit
from tests.faces.dashboard.test_screens import words
from tests.wire.signed_run import Loopback
from tests.world import lock_key

SAID = {
    "name": "B. Kim, data protection",
    "reason": "board of 3 November",
    "justification": "twice last year's records, half the noise",
    "amount": "1",
}
STUDY = r"/studies/\w+/main"


def approval_of_world(world):
    return json.loads((world.party / "approval.json").read_bytes())["approval"]


def answer_all(world, out):
    """Run the study with the approval that is there; the branches approve as they always do."""
    study = read_study(world.study)
    aside = world.root / ".elsewhere"
    (aside / "study.toml").write_bytes(world.study.read_bytes())
    shutil.copy(world.party / "local.toml", aside / "local" / "main.toml")
    here = gather_locals(study, world.study)
    away = gather_locals(
        study,
        aside / "study.toml",
        [aside / "local" / f"{n}.toml" for n in ("branch-1", "branch-2")],
    )
    sessions = {
        "main": party_session(
            study, here["main"], approval=world.party / "approval.json", out=out / "main"
        )
    }
    for name, local in away.items():
        approval = aside / f"second-{name}.json"
        approve_study(
            study,
            local,
            key=aside / f"local/{name}.key",
            approval=approval,
            name="branch",
            reason="the same",
        )
        sessions[name] = party_session(study, local, approval=approval, out=out / name)
    out.mkdir(exist_ok=True)
    return CoordinatorSession(
        study,
        key=aside / "coordinator.key",
        folder=out,
        carrier=Loopback(sessions),
        out=out / "released",
    ).run()


def test_approval_becomes_an_approval_the_approval_an_answer_and_the_words_reach_the_card(
    world, visitor, tmp_path
):
    study = visitor.link("/studies", STUDY)
    sha256 = read_study(world.study).sha256
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    told = approval_of_world(world)
    assert (told["approved_by"], told["reason"]) == (SAID["name"], SAID["reason"])
    assert (told["epsilon"], told["study_sha256"]) == (1.0, sha256)
    assert f"Approved by {SAID['name']}" in words(visitor.text(study))
    assert len(list(world.party.glob("approval-*.json"))) == 1  # the earlier one, put aside
    finished = answer_all(world, tmp_path / "run")
    (folder,) = finished.folders.values()
    card = load_release(folder).card
    own = next(one for one in card.approvals if "main/" in one.role)
    assert (own.name, own.justification) == (SAID["name"], SAID["justification"])
    (entry,) = [e for e in Ledger(world.ledger).entries() if e.study_sha256 == sha256]
    assert entry.approval.reason == SAID["reason"]
    assert "Approved, and answered" in words(visitor.text(study))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": " "}, "name: say it"),
        ({"reason": ""}, "reason: say it"),
        ({"justification": ""}, "justification: say it"),
        ({"amount": ""}, "amount: type"),
        ({"amount": "0.5"}, "amount: type"),
        ({"amount": "nan"}, "amount: type"),
        ({"reason": "they are anonymous"}, "reason: it calls something anonymous"),
        ({"name": "x" * 300}, "approval.name must be"),
        ({"sha256": "00"}, "the study has changed since it was shown"),
    ],
)
def test_nothing_is_signed_for_less_than_all_words_and_the_amount(world, visitor, wrong, why):
    study = visitor.link("/studies", STUDY)
    before = approval_of_world(world)
    fields = {**SAID, "decision": "approve", "sha256": read_study(world.study).sha256, **wrong}
    seen = words(visitor.fill(study, code=422, **fields).text)
    assert f"Nothing was done. {why}" in seen
    assert approval_of_world(world) == before


def test_what_the_policy_or_the_budget_does_not_allow_is_not_signed(world):
    text = world.study.read_text()
    world.study.write_text(text.replace("epsilon = 1.0   ", "epsilon = 2.9   "))
    visitor = visit(world.root).enter()
    study = visitor.link("/studies", STUDY)
    assert "The budget does not cover it" in words(visitor.text(study))
    fields = {**SAID, "amount": "2.9", "decision": "approve"}
    seen = visitor.fill(study, code=422, sha256=read_study(world.study).sha256, **fields).text
    assert "Nothing was done" in seen


def test_a_locked_key_is_opened_in_the_terminal_only(world, monkeypatch):
    lock_key(world.party / "main.key", "correct horse")
    fields = {**SAID, "decision": "approve", "sha256": read_study(world.study).sha256}
    asked, typed = [], [None, "wrong", "correct horse"]

    def ask(what):
        asked.append(what)
        return typed[len(asked) - 1]

    visitor = visit(world.root, ask_passphrase=ask).enter()
    study = visitor.link("/studies", STUDY)
    text = visitor.text(study)
    assert "asked for in the terminal that runs the dashboard, never here" in text
    assert 'type="password"' not in text
    assert "nobody typed it" in visitor.fill(study, code=422, **fields).text
    assert "passphrase" in visitor.fill(study, code=422, **fields).text
    visitor.fill(study, **{**fields, "name": "B. Kim\x1b[2J"}, code=422)
    assert "\x1b" not in "".join(asked)
    typed.append("correct horse")
    visitor.fill(study, **fields)
    assert approval_of_world(world)["approved_by"] == SAID["name"]
    assert "epsilon 1" in asked[0]


def test_what_was_approved_is_withdrawn_by_a_button_and_stops(world, visitor, tmp_path):
    study = visitor.link("/studies", STUDY)
    sha256 = read_study(world.study).sha256
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    assert 'value="refuse">Withdraw<' in visitor.text(study)
    no = {"name": "B. Kim", "reason": "the purpose has changed", "decision": "refuse"}
    visitor.fill(study, sha256=sha256, **no)
    assert not (world.party / "approval.json").exists()
    assert "Withdrawn by B. Kim" in words(visitor.text(study))
    assert "withdrawn" in words(visitor.text("/studies"))
    listed = words(visitor.text(visitor.link("/", r"/ledger/\w+")))
    assert "diabetes-2026 withdrawn by B. Kim" in listed
    account = words(visitor.text(visitor.link("/", r"/ledger/\w+\?account=[^\"]+")))
    assert "diabetes-2026 withdrawn by B. Kim" in account
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    answer_all(world, tmp_path / "run")
    assert "cannot be called back" in words(visitor.text(study))
