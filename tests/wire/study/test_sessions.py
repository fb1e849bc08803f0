"""A study between organisations in one process: approved, run, signed; and what is refused."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import replace

import pytest

from confrere.errors import (
    ApprovalRefused,
    BudgetExceeded,
    OperationRefused,
    QuorumMissed,
    SignatureError,
    StudyError,
    StudyRefused,
)
from confrere.ledger import ChargeApproval, Ledger
from confrere.release import Approval, Utility, read_private_key
from confrere.release.release import release_files
from confrere.trust import Trust
from confrere_federation.dashboard.state import study_facts
from confrere_federation.parties.federation import SignedFederation
from confrere_federation.parties.messages import PartyError
from confrere_federation.parties.party import SignedApproval
from confrere_federation.studies import running
from confrere_federation.studies.running import (
    CoordinatorSession,
    approve_study,
    make_approval,
    make_plan,
    party_session,
    refuse_study,
)
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.wire.signed_run import Loopback, name_keys
from tests.wire.study.conftest import OLD

NAMES = ("main", "branch-1", "branch-2")


@pytest.fixture
def place(folder):
    """Return a folder with a study between machines, keys and one local file per party."""
    path = folder / "study.toml"
    path.write_text(path.read_text().replace(OLD["engine"], 'engine = "line"'))
    name_keys(folder)
    return folder


def locals_of(place):
    study = read_study(place / "study.toml")
    return study, gather_locals(study, place / "study.toml")


def approved(place, name, **more):
    study, locals_ = locals_of(place)
    words = {"approved_by": "the officer", "reason": "screening"} | more
    approval = make_approval(study, locals_[name], **words)
    file = place / f"{name}.approval"
    file.write_bytes(approval.document(place / f"local/{name}.key"))
    return file


def session(place, name, **more):
    study, locals_ = locals_of(place)
    where = {"approval": place / f"{name}.approval", "out": place / "out" / name} | more
    return party_session(study, locals_[name], **where)


def agreed(place, approve):
    """Let every party approve; return who answers for each."""
    for name in NAMES:
        approve(place, name)
    return {name: session(place, name) for name in NAMES}


def coordinator(place, sessions, **more):
    where = {
        "key": place / "coordinator.key",
        "folder": place,
        "carrier": Loopback(sessions),
        "out": place / "out" / "coordinator",
    }
    return CoordinatorSession(read_study(place / "study.toml"), **(where | more))


def test_an_approval_is_for_these_bytes(place):
    approved(place, "main")
    path = place / "study.toml"
    path.write_text(path.read_text() + "\n# a word more\n")
    with pytest.raises(ApprovalRefused, match="other bytes"):
        session(place, "main")


def test_an_approval_is_the_party_s_own(place):
    file = approved(place, "main")
    shutil.copy(file, place / "branch-1.approval")
    with pytest.raises(SignatureError):
        session(place, "branch-1")
    with pytest.raises(ApprovalRefused, match="confrere approve"):
        session(place, "branch-2")
    study, locals_ = locals_of(place)
    approval = make_approval(study, locals_["main"], approved_by="o", reason="r")
    file.write_bytes(approval.document(place / "local/branch-1.key"))
    with pytest.raises(SignatureError):
        session(place, "main")
    # Signed by the right key, but it says more than the study asks for.
    more = approval.model_copy(update={"epsilon_per_run": 3.0})
    file.write_bytes(more.document(place / "local/main.key"))
    with pytest.raises(ApprovalRefused, match="what this study asks for"):
        session(place, "main")
    assert (
        SignedApproval.load(file, read_private_key(place / "local/main.key").public_key()) == more
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('neighbours = "replace-one"', 'neighbours = "add-remove"', OperationRefused),
        ('privacy_unit = "record"', 'privacy_unit = "party"', OperationRefused),
        ("lifetime_epsilon = 30.0", "lifetime_epsilon = 0.5", BudgetExceeded),
        ("lifetime_epsilon = 30.0", 'operations = ["size"]', OperationRefused),
        ("lifetime_epsilon = 30.0", "max_epsilon_per_run = 0.5", BudgetExceeded),
        ("coordinator =", "# coordinator =", StudyError),
        ("key_path =", "# key_path =", StudyError),
    ],
    ids=str,
)
def test_a_local_file_that_does_not_allow_it_refuses_before_anything(place, old, new, error):
    approved(place, "main")
    local = place / "local" / "main.toml"
    assert old in local.read_text()
    local.write_text(local.read_text().replace(old, new))
    with pytest.raises(error):
        session(place, "main")
    path = place / "local" / "main.ledger"
    assert not path.exists() or Ledger(path).entries() == []


def test_a_card_or_model_that_says_something_else_is_not_signed(place, monkeypatch):
    """Of the numbers that all have made a coordinator writes what it likes, and is alone with it.

    How many rows a patient has, and in how many places, decides about the price on the card.
    """
    path = place / "study.toml"
    text = path.read_text().replace(OLD["unit_rows"], "max_rows_per_unit = 3")
    path.write_text(text.replace(OLD["parties_per_unit"], "parties_per_unit = 2"))
    parties = agreed(place, approved)
    said, learned = running.CardNotes, []
    cards = [
        {"max_rows_per_unit": 1},
        {"parties_per_unit": 1},
        {"across_parties": "the organisations have compared their lists"},
        {"purpose": "whatever anybody likes"},
        {"unit_detail": "one ward"},
        {"utility": (Utility("accuracy", 0.99, "x", "public data"),)},
        {"approvals": (Approval("Dr No", "board", "2026-01-01"),)},
        {"trust": "nobody is trusted with anything"},
        {"unprotected": ("nothing else",)},
        {"replaces": "0" * 32},
    ]
    models = [
        lambda model: replace(model, coef=model.coef * 1.001),
        lambda model: replace(model, intercept=9.0),
        lambda model: replace(model, facts=replace(model.facts, n_samples=10**6)),
        lambda model: replace(model, facts=replace(model.facts, parties=300)),
    ]

    def result_of(study, found):
        learned.append((study, found))
        return described(study, found)

    def files_of(study, found, words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "CardNotes", lambda **facts: said(**facts | words))
            made = described(study, found)
        release = made.release
        inside = release_files(release.model, release.card, study=study.content)
        return {f"{made.name}/{name}": content for name, content in inside.items()}

    def hand_out(self, files, **more):
        ((study, found),) = learned
        forged = [files_of(study, found, words) for words in cards]
        forged += [files_of(study, replace(found, model=f(found.model)), {}) for f in models]
        cheaper = json.loads(forged[0]["diabetes-2026/card.json"])["guarantee"]["epsilon"]
        assert cheaper * 3 == json.loads(files["diabetes-2026/card.json"])["guarantee"]["epsilon"]
        for each in forged:
            assert set(honest(self, each, **more).values()) == {
                PartyError("OperationRefused:release")
            }
            assert not (place / "out" / "main").exists()
        return honest(self, files, **more)

    honest, described = SignedFederation.hand_out, running.result_of
    monkeypatch.setattr(running, "result_of", result_of)
    monkeypatch.setattr(SignedFederation, "hand_out", hand_out)
    assert coordinator(place, parties).run().unsigned == {}


def test_a_cap_for_life_holds_for_studies_that_wait_at_the_same_time(place):
    """Both are within it when they begin to wait; who is asked later is not any more."""
    for name in NAMES:
        local = place / "local" / f"{name}.toml"
        local.write_text(local.read_text().replace("epsilon = 30.0", "epsilon = 1.5"))
        # The owner of the ledger once allowed more than the local file does today.
        ledger = Ledger(place / "local" / f"{name}.ledger")
        ledger.open_account(f"{name}/checkups-2010", epsilon=10.0)
    path, runs = place / "study.toml", []
    for title in ("Diabetes, main", "Diabetes again, main"):
        path.write_text(path.read_text().replace("Diabetes, main", title))
        for name in NAMES:
            approved(place, name)
        parties = {name: session(place, name, out=place / title / name) for name in NAMES}
        (place / title).mkdir()
        runs.append(coordinator(place, parties, folder=place / title, out=place / title))
    runs[0].run()
    with pytest.raises(QuorumMissed, match="BudgetExceeded"):
        runs[1].run()
    for name in NAMES:
        assert Ledger(place / "local" / f"{name}.ledger").spent(f"{name}/checkups-2010") == 1.0


@pytest.mark.parametrize("name", ["../../escaped", "{tmp}/escaped", "signatures/escaped"])
def test_files_of_a_release_that_would_lie_elsewhere_are_not_written(
    place, tmp_path, monkeypatch, name
):
    """A coordinator names the files that a party is handed; none may leave the release's folder."""
    parties = agreed(place, approved)
    (tmp_path / "aside" / "inner").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside" / "inner"))
    honest = SignedFederation.hand_out

    def hand_out(self, files, **more):
        added = f"diabetes-2026/{name.format(tmp=tmp_path)}"
        return honest(self, {**files, added: b"import os"}, **more)

    monkeypatch.setattr(SignedFederation, "hand_out", hand_out)
    finished = coordinator(place, parties).run()
    assert set(finished.unsigned) == set(NAMES)
    assert not list(tmp_path.rglob("escaped*"))
    assert not (place / "out" / "main").exists()


def test_who_never_answered_is_on_the_card_that_the_others_sign(place):
    path = place / "study.toml"
    path.write_text(path.read_text().replace(OLD["quorum"], "quorum = 0.6"))
    there = agreed(place, approved)
    gone = {"branch-2": lambda *_: "Timeout"}
    finished = coordinator(place, there, carrier=Loopback(there, gone)).run()
    assert finished.left_out == {"branch-2": "Timeout"}
    folder = finished.folders["diabetes-2026"]
    assert "without branch-2: in the study" in (folder / "card.json").read_text()
    assert {p.stem for p in (folder / "signatures").iterdir()} == {"main", "branch-1"}


def test_a_signature_that_is_not_a_partys_own_is_not_kept(place):
    there = agreed(place, approved)
    finished = coordinator(place, there).run()
    study, folder = read_study(place / "study.toml"), finished.folders["diabetes-2026"]
    mine = (folder / "signatures" / "main.sig").read_text()
    had = place / "out" / "branch-1"
    kept = had / "diabetes-2026" / "signatures"
    (kept / "branch-2.sig").unlink()
    forged = json.dumps({"diabetes-2026": mine}).encode()
    for reply in (forged, b"", b"[]", b"[" * 100_000):
        running.share_signatures(study, {"branch-2": reply, "../evil": reply}, had)
    assert {p.stem for p in kept.iterdir()} == {"main", "branch-1"}


# Who agrees to a study, why, and why to this epsilon: from the approval to ledger and card.


WORDS = {
    "name": "A. Reuter, data protection",
    "reason": "board of 12 May",
    "justification": "the least at which the branches' model is better than none",
}


def approve(place, party="main", **more):
    study, locals_ = locals_of(place)
    files = {"key": place / f"local/{party}.key", "approval": place / f"{party}.approval"}
    return approve_study(study, locals_[party], **(files | WORDS | more))


def test_a_card_is_not_spoilt_by_a_hostile_party_s_words(place):
    sessions = agreed(place, approve)
    books = sessions["branch-2"]._local.books
    said = books.policy.approval
    object.__setattr__(said, "reason", "the data are anonymous")
    with pytest.raises(QuorumMissed, match="InvalidReply:receipt"):
        coordinator(place, sessions).run()


# A no stops: after an approval, between two questions, before a signature; until a new yes.


NO = {"name": "A. Reuter", "reason": "the board has changed its mind"}


def refuse(place, party="main", **more):
    study, locals_ = locals_of(place)
    return refuse_study(study, locals_[party], **NO, **more)


def spent(place, party="main"):
    return [one.guarantee.epsilon for one in Ledger(place / "local" / f"{party}.ledger").entries()]


class Interrupted(Loopback):
    """Carries messages; before one of them something happens at a party."""

    def __init__(self, sessions, at, act):
        super().__init__(sessions)
        self._at, self._act, self._count = at, act, 0

    def exchange(self, questions, timeout):
        if self._count == self._at:
            self._act()
        self._count += 1
        return super().exchange(questions, timeout)


def test_a_refusal_after_an_approval_is_never_charged(place):
    sessions = agreed(place, approve)
    refuse(place)
    with pytest.raises(QuorumMissed):
        coordinator(place, sessions).run()
    assert spent(place) == []
    assert sessions["main"].finished
    assert sessions["main"].state == "refused by A. Reuter"
    with pytest.raises(StudyRefused, match=r"refused by A\. Reuter"):
        session(place, "main")  # nor when it is started again


def test_who_has_withdrawn_signs_no_release(place):
    sessions = agreed(place, approve)
    carrier = Interrupted(sessions, 2, lambda: refuse(place))
    finished = coordinator(place, sessions, carrier=carrier).run()
    assert finished.unsigned == {"main": "StudyRefused"}
    assert sessions["main"].state == "withdrawn by A. Reuter"
    assert spent(place) == [1.0]  # what was charged stays charged


def test_only_a_new_approval_lifts_it_and_the_old_one_stays_dead(place):
    for name in NAMES:
        approve(place, name, approval=place / f"approval-{name}.json")
    old = (place / "approval-main.json").read_bytes()
    refuse(place, approval=place / "approval-main.json")
    (place / "approval-main.json").write_bytes(old)  # brought back by hand
    approvals = {name: {"approval": place / f"approval-{name}.json"} for name in NAMES}
    with pytest.raises(StudyRefused):
        session(place, "main", **approvals["main"])
    study, locals_ = locals_of(place)
    later = Ledger(locals_["main"].ledger_path)
    later.agree_again(
        (study.id, study.sha256), ChargeApproval("B. Kim", "asked again", "2999-01-01T00:00:00Z")
    )
    with pytest.raises(StudyRefused, match="use the new approval"):
        session(place, "main", **approvals["main"])
    (place / "approval-main.json").unlink()


# Whom a party has to trust is part of what it is shown, allows, approvals, pays and signs.


WHOLE = {'privacy_unit = "record"': 'privacy_unit = "party"'}
ROWS = b"age\n1\n"
#: What a coordinator may write into a study, and whom the parties have to trust then.
STUDIES = {
    "average": ({}, "own noise"),
    "sums": ({'name = "average"': 'name = "sums"\ncollusion_threshold = 1'}, "1 of 3"),
    "weights": (
        {'name = "average"': 'name = "weights"\ncollusion_threshold = 1', **WHOLE},
        "1 of 3",
    ),
    "trusted weights": (
        {'name = "average"': 'name = "weights"\ntrust = "coordinator"', **WHOLE},
        "coordinator",
    ),
    "table": (
        {'name = "average"': 'name = "table1"\ntrust = "sum"\ncollusion_threshold = 1'},
        "1 of 3",
    ),
    "vote": ({'name = "average"': 'name = "vote"', **WHOLE}, "coordinator"),
    "soft": ({'name = "average"': 'name = "soft"', **WHOLE}, "coordinator"),
}


WEAKER = [kind for kind, (_, needed) in STUDIES.items() if needed != "own noise"]


def rewrite(place, changes, policy=""):
    """Let the study, and every party's policy but for trust, be so."""
    text = (place / "study.toml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    if 'name = "vote"' in text or 'name = "soft"' in text:
        (place / "aux.csv").write_bytes(ROWS)
        text += f'\n[auxiliary]\nsha256 = "{hashlib.sha256(ROWS).hexdigest()}"\n'
    (place / "study.toml").write_text(text)
    for name in NAMES:
        local = place / "local" / f"{name}.toml"
        told = local.read_text().replace("[policy]", f"[policy]\n{policy}")
        for old, new in changes.items():
            told = told.replace(old, new)
        local.write_text(told)


@pytest.mark.parametrize("kind", STUDIES)
def test_what_an_approver_is_shown_says_who_must_be_trusted(place, kind):
    changes, needed = STUDIES[kind]
    rewrite(place, changes)
    study, locals_ = locals_of(place)
    own = {"main": locals_["main"]}
    words = Trust.parse(needed).words
    if " of " in needed:  # sqrt(10 M) times epsilon, rounded up
        words += "; if all of them do, epsilon is at most 5.48"
    assert f"Trust: {needed}; {words}." in make_plan(study, own).view().note
    assert make_plan(study, own).to_dict()["trust"] == needed
    facts = study_facts(place / "study.toml")
    assert (facts["trust"], facts["trust_words"]) == (needed, words)


@pytest.mark.parametrize("kind", WEAKER)
def test_a_policy_that_says_nothing_refuses_what_is_weaker_than_own_noise(place, kind):
    changes, needed = STUDIES[kind]
    rewrite(place, changes)
    study, locals_ = locals_of(place)
    with pytest.raises(OperationRefused, match=f'trust = "{needed}"') as refused:
        make_approval(study, locals_["main"], approved_by="o", reason="r")
    assert refused.value.reason == "trust"
    assert not locals_["main"].ledger_path.exists()


def test_made_up_parties_do_not_pass_for_a_small_sum():
    """One of twenty is no "1 of 3": seventeen others more would have to be honest."""
    assert not Trust.parse("1 of 3").allows(Trust.parse("1 of 20"))
    assert not Trust.parse("5 of 20").allows(Trust.parse("1 of 3"))
    assert Trust.parse("1 of 20").allows(Trust.parse(Trust.parse("1 of 3")))
