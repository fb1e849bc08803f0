"""A coordinator that is killed goes on where it was."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.errors import FederationError, QuorumMissed
from confrere.methods.average import Averaging
from confrere_federation.parties.answers import Journal
from confrere_federation.parties.messages import Question, split_parts
from tests.wire.signed_run import COLUMNS, STUDY, Loopback, Organisations

PLAN = Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=3)


class Flaky(Loopback):
    """Loses party c in the first round, and is killed in the last."""

    def exchange(self, questions, timeout):
        question = Question.decode(split_parts(next(iter(questions.values())))[0])
        replies = dict(super().exchange(questions, timeout))
        if (question.operation, question.step) == ("objective", 0):
            replies["c"] = "Timeout"
        if question.step == 2:
            raise KeyboardInterrupt
        return replies


def test_it_resumes_under_the_same_run_and_nobody_pays_twice(tmp_path):
    there = Organisations(tmp_path, plan=PLAN)
    with pytest.raises(KeyboardInterrupt):
        there.learn(there.federation(carrier=Flaky(there.sessions)))
    spent = [there.spent(name) for name in there.names]
    # Without what was gathered, party c would now be in the first average and change the second
    # question, which the others would refuse.
    with pytest.raises(QuorumMissed, match="OperationRefused:changed"):
        there.learn(there.federation(journal="new"))
    outcome = there.learn(there.federation())
    again = there.learn(there.federation(carrier=Loopback({})))
    np.testing.assert_array_equal(outcome.weights, again.weights)
    assert spent == pytest.approx([1.0, 1.0, 1.0])
    assert [there.spent(name) for name in there.names] == spent


def test_the_same_journal_with_other_settings_is_refused(tmp_path):
    there = Organisations(tmp_path, plan=PLAN)
    there.learn(there.federation())
    there.plan = replace(PLAN, epsilon=0.5)
    with pytest.raises(FederationError, match="another journal"):
        there.learn(there.federation())


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "noise").write_bytes(b"x" * 5000)
    with pytest.raises(FederationError, match="not a file of journal"):
        Journal(tmp_path / "noise")
    with pytest.raises(FederationError, match="cannot be created"):
        Journal(tmp_path / "nowhere" / "journal")


def test_it_is_its_owner_s_alone_and_knows_its_run(tmp_path):
    journal = Journal(tmp_path / "journal")
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600
    assert Journal(tmp_path / "journal").run == journal.run
    with pytest.raises(FederationError, match="another run"):
        Journal(tmp_path / "journal", STUDY[:8])


def test_a_step_is_kept_whole_or_not_at_all(tmp_path):
    journal = Journal(tmp_path / "journal", "run")
    assert journal.kept("objective", 0, "q") == {}
    journal.keep("objective", 0, "q", {"b": b"2", "a": b"1"})
    assert list(journal.kept("objective", 0, "q").items()) == [("b", b"2"), ("a", b"1")]
    with pytest.raises(FederationError):
        journal.keep("objective", 0, "q", {"c": b"3", "a": b"other"})
    assert list(journal.kept("objective", 0, "q")) == ["b", "a"]
