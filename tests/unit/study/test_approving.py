"""Who agrees to a study, why, and why to this epsilon: from the grant to ledger and card."""

import json

import pytest

from confrere.errors import (
    GrantRefused,
    QuorumMissed,
    StudyError,
)
from confrere.ledger import Ledger
from confrere.release import generate_key, load_release, verify_release
from confrere.study import approve_study, changed_facts, earlier_grants
from tests.unit.study.test_sessions import NAMES, agreed, coordinator, locals_of, place

__all__ = ["place"]

WORDS = {
    "name": "A. Reuter, data protection",
    "reason": "board of 12 May",
    "justification": "the least at which the branches' model is better than none",
}


def approve(place, party="main", **more):
    study, locals_ = locals_of(place)
    facts = {"key": place / f"local/{party}.key", "grant": place / f"{party}.grant"} | WORDS | more
    return approve_study(study, locals_[party], **facts)


def test_words_reach_ledger_and_card_and_are_verified(place):
    finished = coordinator(place, agreed(place, approve)).run()
    folder = finished.folders["diabetes-2026"]
    card = load_release(folder).card
    assert card.justification == WORDS["justification"]
    assert {(one.name, one.reason) for one in card.approvals} == {(WORDS["name"], WORDS["reason"])}
    assert sorted(one.role.split()[-1] for one in card.approvals) == sorted(
        f"{name}/checkups-2010" for name in NAMES
    )
    ledger = Ledger(place / "local" / "main.ledger")
    (entry,) = ledger.entries()
    assert entry.approval is not None
    assert (entry.approval.name, entry.approval.justification) == (
        WORDS["name"],
        WORDS["justification"],
    )
    verify_release(folder, ledgers=[ledger])


def test_a_card_is_not_spoilt_by_a_hostile_party_s_words(place):
    sessions = agreed(place, approve)
    books = sessions["branch-2"]._local.books
    said = books.policy.approval
    object.__setattr__(said, "reason", "the data are anonymous")
    with pytest.raises(QuorumMissed, match="InvalidReply:receipt"):
        coordinator(place, sessions).run()


def test_the_study_itself_may_justify_its_epsilon(place):
    path = place / "study.toml"
    path.write_text(
        path.read_text().replace("[data]\n", 'justification = "as last year"\n\n[data]\n')
    )
    assert approve(place, justification=None).justification == "as last year"
    assert approve(place, "branch-1").justification == WORDS["justification"]


def test_one_study_is_approved_once_and_the_next_version_puts_it_aside(place):
    first = approve(place, grant=place / "grant.json")
    before = (place / "study.toml").read_bytes()
    with pytest.raises(StudyError, match="there already"):
        approve(place, grant=place / "grant.json")
    (place / "study.toml").write_bytes(
        before.replace(b"epsilon = 1.0   ", b"epsilon = 0.5   ").replace(b'"bmi', b'"BMI')
    )
    second = approve(place, grant=place / "grant.json", reason="the second version")
    key = (place / "local/main.key.pub").read_text()
    found = list(earlier_grants(place, key))
    assert [one.grant for one in found] == [second, first]
    assert found[1].study == before
    assert changed_facts(before, (place / "study.toml").read_bytes()) == [
        ("method.epsilon", 1.0, 0.5)
    ]


def test_a_text_that_was_not_agreed_to_is_not_compared_with(place):
    """The key signs the grant; beside it anybody may write another study's text."""
    approve(place, grant=place / "grant.json")
    document = json.loads((place / "grant.json").read_text())
    document["study"] = document["study"].replace("epsilon = 1.0   ", "epsilon = 0.1   ")
    (place / "grant.json").write_text(json.dumps(document))
    (found,) = earlier_grants(place, (place / "local/main.key.pub").read_text())
    assert found.study is None


def test_what_was_added_and_removed_is_shown_too():
    old = b'a = 1\n[b]\nc = [1, 2]\n[[party]]\nname = "x"\ncap = 1\n'
    new = b'[b]\nc = [1, 3]\nd = "e"\n[[party]]\nname = "x"\ncap = 2\n[[party]]\nname = "y"\n'
    assert changed_facts(old, new) == [
        ("b.c", [1, 2], [1, 3]),
        ("b.d", None, "e"),
        ("party.x.cap", 1, 2),
        ("party.y.name", None, "y"),
        ("a", 1, None),
    ]


def test_a_foreign_grant_is_no_earlier_one(place):
    approve(place, "branch-1", grant=place / "grant.json")
    assert list(earlier_grants(place, (place / "local/main.key.pub").read_text())) == []
    (place / "grant-x.json").write_text("[]")
    assert len(list(earlier_grants(place, (place / "local/branch-1.key.pub").read_text()))) == 1


@pytest.mark.parametrize("word", ["name", "reason", "justification"])
@pytest.mark.parametrize("text", ["", "two\nlines", "all is anonymous"])
def test_words_that_a_card_cannot_hold_are_refused_before_anything_is_spent(place, word, text):
    if (word, text) == ("justification", ""):
        return  # nothing said: the study's own
    with pytest.raises(StudyError, match=f"^{word}: "):
        approve(place, **{word: text})
    assert not (place / "main.grant").exists()


def test_a_key_that_is_not_the_party_s_signs_nothing(place):
    generate_key(place / "local/other.key")
    with pytest.raises(StudyError, match="not the key that the study names"):
        approve(place, key=place / "local/other.key")


def test_a_file_that_is_no_grant_is_left_alone(place):
    (place / "main.grant").write_text("{}")
    with pytest.raises(GrantRefused):
        approve(place)
    assert (place / "main.grant").read_text() == "{}"
