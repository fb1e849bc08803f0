"""A no stops: after a grant, between two questions, before a signature; until a new yes."""

import csv
import io
import json

import pytest

from confrere.errors import QuorumMissed, StudyRefused
from confrere.ledger import ChargeApproval, Ledger
from confrere.study import approve_study, refuse_study
from tests.unit.federation.signed_run import Loopback
from tests.unit.study.test_approving import WORDS, approve
from tests.unit.study.test_sessions import NAMES, agreed, coordinator, locals_of, place, session

__all__ = ["place"]

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


def test_a_refusal_after_a_grant_is_never_charged(place):
    sessions = agreed(place, approve)
    refuse(place)
    with pytest.raises(QuorumMissed):
        coordinator(place, sessions).run()
    assert spent(place) == []
    assert sessions["main"].finished
    assert sessions["main"].state == "refused by A. Reuter"
    with pytest.raises(StudyRefused, match=r"refused by A\. Reuter"):
        session(place, "main")  # nor when it is started again


def test_a_withdrawal_between_two_questions_ends_the_party(place):
    for name in NAMES:
        approve(place, name, grant=place / f"grant-{name}.json")
    grants = {name: {"grant": place / f"grant-{name}.json"} for name in NAMES}
    sessions = {name: session(place, name, **grants[name]) for name in NAMES}

    def withdraw():
        told = refuse(place, grant=place / "grant-main.json")
        assert told.said == "withdrawn"

    carrier = Interrupted(sessions, 1, withdraw)  # sizes have left; the objective is next
    with pytest.raises(QuorumMissed, match="StudyRefused"):
        coordinator(place, sessions, carrier=carrier).run()
    assert spent(place) == []
    assert sessions["main"].finished
    assert sessions["main"].state == "withdrawn by A. Reuter"
    assert not (place / "grant-main.json").exists()
    (aside,) = place.glob("grant-main-*-withdrawn.json")
    assert json.loads(aside.read_text())["grant"]["party"] == "main"


def test_who_has_withdrawn_signs_no_release(place):
    sessions = agreed(place, approve)
    carrier = Interrupted(sessions, 2, lambda: refuse(place))
    finished = coordinator(place, sessions, carrier=carrier).run()
    assert finished.unsigned == {"main": "StudyRefused"}
    assert sessions["main"].state == "withdrawn by A. Reuter"
    assert spent(place) == [1.0]  # what was charged stays charged


def test_only_a_new_approval_lifts_it_and_the_old_grant_stays_dead(place):
    for name in NAMES:
        approve(place, name, grant=place / f"grant-{name}.json")
    old = (place / "grant-main.json").read_bytes()
    refuse(place, grant=place / "grant-main.json")
    (place / "grant-main.json").write_bytes(old)  # brought back by hand
    grants = {name: {"grant": place / f"grant-{name}.json"} for name in NAMES}
    with pytest.raises(StudyRefused):
        session(place, "main", **grants["main"])
    study, locals_ = locals_of(place)
    later = Ledger(locals_["main"].ledger_path)
    later.agree_again(
        (study.id, study.sha256), ChargeApproval("B. Kim", "asked again", "2999-01-01T00:00:00Z")
    )
    with pytest.raises(StudyRefused, match="use the new grant"):
        session(place, "main", **grants["main"])
    (place / "grant-main.json").unlink()


def test_a_new_approval_is_answered(place):
    for name in NAMES:
        approve(place, name)
    refuse(place, grant=place / "main.grant")
    assert not (place / "main.grant").exists()
    approve(place, reason="the second board")
    finished = coordinator(place, {name: session(place, name) for name in NAMES}).run()
    assert finished.left_out == finished.unsigned == {}
    assert spent(place) == [1.0]
    told = Ledger(place / "local" / "main.ledger").decisions()
    assert [one.said for one in told] == ["withdrawn", "agreed"]
    refuse(place)
    assert Ledger(place / "local" / "main.ledger").decisions()[-1].said == "withdrawn"


def test_decisions_are_exported(place):
    refuse(place)
    ledger = Ledger(place / "local" / "main.ledger")
    (told,) = json.loads(ledger.to_json())["decisions"]
    assert (told["said"], told["name"], told["reason"]) == ("refused", NO["name"], NO["reason"])
    (line,) = csv.DictReader(io.StringIO(ledger.to_csv()))
    assert (line["state"], line["reason"], line["epsilon"]) == ("refused", NO["reason"], "0.0")
    assert json.loads(line["detail"]) == {"name": NO["name"]}


def test_a_refusal_of_one_study_is_none_of_another(place):
    refuse(place)
    path = place / "study.toml"
    path.write_text(path.read_text() + "\n# the second version\n")
    study, locals_ = locals_of(place)
    approve_study(
        study, locals_["main"], key=place / "local/main.key", grant=place / "main.grant", **WORDS
    )
    assert session(place, "main").state == "waiting"
