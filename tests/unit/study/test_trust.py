"""Whom a party has to trust is part of what it is shown, allows, grants, pays and signs."""

import hashlib
import json

import pytest

from confrere.cli.views import promise_line
from confrere.desk.clerk import study_facts
from confrere.errors import InvalidParameter, InvalidRelease, OperationRefused
from confrere.ledger import Ledger
from confrere.release import load_release
from confrere.study import make_grant, make_plan
from confrere.study.running import check_words
from confrere.study.study_file import trust_of
from confrere.trust import OWN_NOISE, Trust
from tests.unit.study.test_approving import approve
from tests.unit.study.test_sessions import NAMES, agreed, coordinator, locals_of, place, session

__all__ = ["place"]

WHOLE = {'protects = "record"': 'protects = "party"'}
ROWS = b"age\n1\n"
#: What a coordinator may write into a study, and whom the parties have to trust then.
STUDIES = {
    "average": ({}, "own noise"),
    "sums": ({'name = "average"': 'name = "sums"\ncolluding = 1'}, "1 of 3"),
    "weights": ({'name = "average"': 'name = "weights"\ncolluding = 1', **WHOLE}, "1 of 3"),
    "trusted weights": (
        {'name = "average"': 'name = "weights"\ntrust = "coordinator"', **WHOLE},
        "coordinator",
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
    assert f"Trust: {needed}; {words}." in promise_line(make_plan(study, own), "patient")
    assert make_plan(study, own).to_dict()["trust"] == needed
    facts = study_facts(str(place / "study.toml"))
    assert (facts["trust"], facts["trust_words"]) == (needed, words)


@pytest.mark.parametrize("kind", WEAKER)
def test_a_policy_that_says_nothing_refuses_what_is_weaker_than_own_noise(place, kind):
    changes, needed = STUDIES[kind]
    rewrite(place, changes)
    study, locals_ = locals_of(place)
    with pytest.raises(OperationRefused, match=f'trust = "{needed}"') as refused:
        make_grant(study, locals_["main"], approved_by="o", reason="r")
    assert refused.value.reason == "trust"
    assert not locals_["main"].ledger_path.exists()


def test_a_party_that_edits_its_policy_takes_part_and_it_stands_everywhere(place):
    rewrite(place, STUDIES["sums"][0], 'trust = "1 of 3"')
    for name in NAMES:
        assert approve(place, name).trust == "1 of 3"
    assert json.loads((place / "main.grant").read_bytes())["grant"]["trust"] == "1 of 3"
    finished = coordinator(place, {name: session(place, name) for name in NAMES}).run()
    (entry,) = Ledger(place / "local" / "main.ledger").entries()
    assert entry.detail["trust"] == "1 of 3"
    folder = finished.folders["diabetes-2026"]
    card = load_release(folder).card
    assert card.trust.kind == "1 of 3"
    assert "at most 1 of the 2 others work together" in card.trust.model


def test_a_grant_of_before_the_policy_was_made_stricter_is_not_served(place):
    rewrite(place, STUDIES["sums"][0], 'trust = "1 of 3"')
    approve(place)
    local = place / "local" / "main.toml"
    local.write_text(local.read_text().replace('trust = "1 of 3"', 'trust = "own noise"'))
    with pytest.raises(OperationRefused, match="own noise"):
        session(place, "main")


def test_facts_that_are_learned_by_a_sum_first_need_the_sum_s_trust(place):
    """The way in that 0.2 left open: any study, with [facts] added to it."""
    text = (place / "study.toml").read_text()
    study, _ = locals_of(place)
    assert trust_of(study) == OWN_NOISE
    (place / "study.toml").write_text(f"{text}\n[facts]\nepsilon = 0.5\ncolluding = 1\n")
    learned, locals_ = locals_of(place)
    assert str(trust_of(learned)) == "1 of 3"
    with pytest.raises(OperationRefused, match="trust"):
        make_grant(learned, locals_["main"], approved_by="o", reason="r")


def test_a_card_cannot_claim_more_than_its_study(place):
    finished = coordinator(place, agreed(place, approve)).run()
    release = load_release(finished.folders["diabetes-2026"])
    assert release.card.trust.kind == "own noise"
    study, _ = locals_of(place)
    check_words(study, release)
    rewrite(place, STUDIES["sums"][0])
    weaker, _ = locals_of(place)
    with pytest.raises(InvalidRelease, match=r"trust\.kind"):
        check_words(weaker, release)


ORDER = ["own noise", "2 of 3", "1 of 3", "coordinator"]


@pytest.mark.parametrize("policy", ORDER)
@pytest.mark.parametrize("needed", ORDER)
def test_a_policy_allows_what_is_as_good_or_better(policy, needed):
    allowed = ORDER.index(needed) <= ORDER.index(policy)
    assert Trust.parse(policy).allows(Trust.parse(needed)) is allowed


def test_made_up_parties_do_not_pass_for_a_small_sum():
    """One of twenty is no "1 of 3": seventeen others more would have to be honest."""
    assert not Trust.parse("1 of 3").allows(Trust.parse("1 of 20"))
    assert not Trust.parse("5 of 20").allows(Trust.parse("1 of 3"))
    assert Trust.parse("1 of 20").allows(Trust.parse(Trust.parse("1 of 3")))


@pytest.mark.parametrize("text", ["", "sum", "t of M", "3 of 3", "0 of 2", "1 of", 1, "1 of 3 "])
def test_nothing_else_is_a_trust(text):
    with pytest.raises(InvalidParameter, match="trust must be"):
        Trust.parse(text)
