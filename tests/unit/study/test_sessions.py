"""A study between organisations in one process: approved, run, signed; and what is refused."""

import json
import re
import shutil
import tempfile
from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import (
    BudgetExceeded,
    GrantRefused,
    OperationRefused,
    QuorumMissed,
    SignatureError,
    StudyError,
)
from confrere.federation.grant import Grant
from confrere.federation.messages import PartyError
from confrere.federation.signed import SignedFederation
from confrere.ledger import Ledger
from confrere.model.models import Clip
from confrere.release import (
    Approval,
    Utility,
    load_release,
    read_folder,
    read_private_key,
)
from confrere.release.folder import sums_of
from confrere.release.release import release_files
from confrere.study import (
    CoordinatorSession,
    gather_locals,
    make_grant,
    party_session,
    read_study,
    running,
    study_from_bytes,
)
from confrere.study import sessions as module
from tests.unit.federation.signed_run import Loopback, name_keys
from tests.unit.study.conftest import OLD

NAMES = ("main", "branch-1", "branch-2")


@pytest.fixture
def place(folder):
    """Return a folder with a study between machines, keys and one local file per party."""
    path = folder / "study.toml"
    path.write_text(path.read_text().replace(OLD["engine"], 'engine = "flower"'))
    name_keys(folder)
    return folder


def content_with(place, trust):
    """Let every party's policy be edited: this much may be trusted."""
    for name in NAMES:
        local = place / "local" / f"{name}.toml"
        local.write_text(local.read_text().replace("[policy]", f'[policy]\ntrust = "{trust}"'))


def locals_of(place):
    study = read_study(place / "study.toml")
    return study, gather_locals(study, place / "study.toml")


def approve(place, name, **more):
    study, locals_ = locals_of(place)
    words = {"approved_by": "the officer", "reason": "screening"} | more
    grant = make_grant(study, locals_[name], **words)
    file = place / f"{name}.grant"
    file.write_bytes(grant.document(place / f"local/{name}.key"))
    return file


def session(place, name, **more):
    study, locals_ = locals_of(place)
    where = {"grant": place / f"{name}.grant", "out": place / "out" / name} | more
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


def test_a_study_ends_in_a_release_that_everyone_signed(place):
    sessions = agreed(place, approve)
    finished = coordinator(place, sessions).run()
    assert finished.left_out == finished.unsigned == {}
    keys = {name: place / f"local/{name}.key.pub" for name in NAMES}
    there = load_release(finished.folders["diabetes-2026"], require_signature_from=keys)
    for name in NAMES:
        assert sessions[name].finished
        # What the others signed has come to everyone.
        load_release(place / "out" / name / "diabetes-2026", require_signature_from=keys)
        here = place / "out" / name / "diabetes-2026"
        own = load_release(here, require_signature_from={name: keys[name]})
        np.testing.assert_array_equal(own.model.coef, there.model.coef)
        assert sums_of(read_folder(here).files) == sums_of(
            read_folder(finished.folders["diabetes-2026"]).files
        )
        ledger = Ledger(place / "local" / f"{name}.ledger")
        (entry,) = ledger.entries()
        assert entry.state == "released"
        assert entry.study_sha256 == read_study(place / "study.toml").sha256
    # Started again, it finds everything done and asks nobody.
    carrier = Loopback({})
    again = coordinator(place, {}, carrier=carrier).run()
    assert carrier.sent == []
    assert again.folders["diabetes-2026"].resolve() == finished.folders["diabetes-2026"].resolve()


def test_a_grant_says_the_price_and_what_will_be_asked(place):
    study, locals_ = locals_of(place)
    grant = make_grant(study, locals_["main"], approved_by="o", reason="r", attempts=2)
    assert (grant.epsilon_per_run, grant.epsilon, grant.attempts) == (1.0, 2.0, 2)
    assert (grant.unit, grant.relation) == ("record", "replace-one")
    assert [(r.operation, r.epsilon) for r in grant.requests] == [("size", 0.0), ("objective", 1.0)]
    assert grant.study_sha256 == study.sha256
    told = json.loads(approve(place, "main").read_bytes())["grant"]
    assert told["approved_by"] == "the officer"


def test_a_grant_is_for_these_bytes(place):
    approve(place, "main")
    path = place / "study.toml"
    path.write_text(path.read_text() + "\n# a word more\n")
    with pytest.raises(GrantRefused, match="other bytes"):
        session(place, "main")
    path.write_text(path.read_text().replace("epsilon = 1.0   ", "epsilon = 0.5   "))
    with pytest.raises(GrantRefused):
        session(place, "main")


def test_a_grant_is_the_party_s_own(place):
    file = approve(place, "main")
    shutil.copy(file, place / "branch-1.grant")
    with pytest.raises(SignatureError):
        session(place, "branch-1")
    with pytest.raises(GrantRefused, match="confrere approve"):
        session(place, "branch-2")
    study, locals_ = locals_of(place)
    grant = make_grant(study, locals_["main"], approved_by="o", reason="r")
    file.write_bytes(grant.document(place / "local/branch-1.key"))
    with pytest.raises(SignatureError):
        session(place, "main")
    # Signed by the right key, but it says more than the study asks for.
    more = grant.model_copy(update={"epsilon_per_run": 3.0, "epsilon": 3.0})
    file.write_bytes(more.document(place / "local/main.key"))
    with pytest.raises(GrantRefused, match="what this study asks for"):
        session(place, "main")
    assert Grant.load(file, read_private_key(place / "local/main.key").public_key()) == more


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('relation = "replace-one"', 'relation = "add-remove"', OperationRefused),
        ('protects = "record"', 'protects = "party"', OperationRefused),
        ("lifetime_epsilon = 30.0", "lifetime_epsilon = 0.5", BudgetExceeded),
        ("lifetime_epsilon = 30.0", 'operations = ["size"]', OperationRefused),
        ("lifetime_epsilon = 30.0", "max_epsilon_per_run = 0.5", BudgetExceeded),
        ("coordinator =", "# coordinator =", StudyError),
        ("key_path =", "# key_path =", StudyError),
    ],
    ids=str,
)
def test_a_local_file_that_does_not_allow_it_refuses_before_anything(place, old, new, error):
    approve(place, "main")
    local = place / "local" / "main.toml"
    assert old in local.read_text()
    local.write_text(local.read_text().replace(old, new))
    with pytest.raises(error):
        session(place, "main")
    path = place / "local" / "main.ledger"
    assert not path.exists() or Ledger(path).entries() == []


def test_everyone_has_a_key(place):
    path = place / "study.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("key = ")]
    study = study_from_bytes("\n".join(lines).encode())
    with pytest.raises(StudyError, match=r"party\.key: main has none"):
        make_grant(study, locals_of(place)[1]["main"], approved_by="o", reason="r")


def test_a_release_that_is_not_theirs_is_not_signed(place, monkeypatch):
    """A coordinator that writes another model than the answers give gets no signature."""
    parties = agreed(place, approve)
    honest = module.made_of

    def forged(study, learned):
        model = replace(learned.model, coef=learned.model.coef * 1.001)
        return honest(study, replace(learned, model=model))

    monkeypatch.setattr(module, "made_of", forged)
    finished = coordinator(place, parties).run()
    assert set(finished.unsigned.values()) == {"OperationRefused:release"}
    assert not any(parties[name].finished for name in NAMES)
    assert not (place / "out" / "main").exists()


def test_a_card_or_model_that_says_something_else_is_not_signed(place, monkeypatch):
    """Of the numbers that all have made a coordinator writes what it likes, and is alone with it.

    How many rows a patient has, and in how many places, decides about the price on the card.
    """
    path = place / "study.toml"
    text = path.read_text().replace(OLD["unit_rows"], "max_rows_per_unit = 3")
    path.write_text(text.replace(OLD["parties_per_unit"], "parties_per_unit = 2"))
    parties = agreed(place, approve)
    said, learned = running._notes, []
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
        lambda model: replace(model, clip=Clip(bound=1e-3)),
        lambda model: replace(model, facts=replace(model.facts, n_samples=10**6)),
        lambda model: replace(model, facts=replace(model.facts, parties=300)),
    ]

    def made_of(study, found):
        learned.append((study, found))
        return running.made_of(study, found)

    def files_of(study, found, words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "_notes", lambda *facts: replace(said(*facts), **words))
            made = running.made_of(study, found)
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
        return honest(self, files, **more)

    honest = SignedFederation.hand_out
    monkeypatch.setattr(module, "made_of", made_of)
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
            approve(place, name)
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
    parties = agreed(place, approve)
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


def test_a_party_that_signs_nonsense_keeps_no_other_signature_away(place):
    parties = agreed(place, approve)
    parties["main"]._accept = lambda files, outcome: b"[" * 100_000
    finished = coordinator(place, parties).run()
    assert finished.unsigned == {"main": "InvalidReply:signature"}
    signed = finished.folders["diabetes-2026"] / "signatures"
    assert sorted(path.stem for path in signed.iterdir()) == ["branch-1", "branch-2"]


def test_who_never_answered_is_on_the_card_that_the_others_sign(place):
    path = place / "study.toml"
    path.write_text(path.read_text().replace(OLD["quorum"], "quorum = 0.6"))
    there = agreed(place, approve)
    gone = {"branch-2": lambda *_: PartyError("Timeout")}
    finished = coordinator(place, there, carrier=Loopback(there, gone)).run()
    assert finished.left_out == {"branch-2": "Timeout"}
    folder = finished.folders["diabetes-2026"]
    assert "without branch-2: in the study" in (folder / "card.json").read_text()
    assert {p.stem for p in (folder / "signatures").iterdir()} == {"main", "branch-1"}


def test_a_signature_that_is_not_a_partys_own_is_not_kept(place):
    there = agreed(place, approve)
    finished = coordinator(place, there).run()
    study, folder = read_study(place / "study.toml"), finished.folders["diabetes-2026"]
    mine = (folder / "signatures" / "main.sig").read_text()
    had = place / "out" / "branch-1"
    kept = had / "diabetes-2026" / "signatures"
    (kept / "branch-2.sig").unlink()
    forged = json.dumps({"diabetes-2026": mine}).encode()
    for reply in (forged, b"", b"[]", b"[" * 100_000):
        module.share_signatures(study, {"branch-2": reply, "../evil": reply}, had)
    assert {p.stem for p in kept.iterdir()} == {"main", "branch-1"}


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ('name = "sums"', [("size", 1), ("ready", 2), ("minimiser", 2)]),
        (
            'name = "sums"\ndelta = 1e-6\nrounds = 3\nreserve = 1',
            [("size", 1), ("ready", 4), ("gradient", 4)],
        ),
    ],
)
def test_a_study_of_sums_ends_in_a_release_that_says_who_would_have_to_collude(
    place, settings, asked
):
    path = place / "study.toml"
    text = path.read_text().replace(OLD["name"], settings)
    path.write_text(
        re.sub(r"cap = \{ epsilon = ([0-9.]+) \}", r"cap = { epsilon = \1, delta = 1e-3 }", text)
    )
    content_with(place, "1 of 3")
    study, locals_ = locals_of(place)
    grant = make_grant(study, locals_["main"], approved_by="o", reason="r")
    assert [(request.operation, request.steps) for request in grant.requests] == asked
    sessions = agreed(place, approve)
    finished = coordinator(place, sessions).run()
    assert finished.left_out == finished.unsigned == {}
    for name in NAMES:
        (entry,) = Ledger(place / "local" / f"{name}.ledger").entries()
        assert entry.state == "released"
        assert entry.guarantee.epsilon == 1.0
    card = (finished.folders["diabetes-2026"] / "card.json").read_text()
    assert "at most 1 of 3 parties pool what they know" in card
    assert "X25519" in card


def test_a_study_of_sums_needs_more_parties_than_may_collude(place):
    path = place / "study.toml"
    path.write_text(path.read_text().replace(OLD["name"], 'name = "sums"\ncolluding = 3'))
    with pytest.raises(StudyError, match="at least 4 parties"):
        read_study(path)
