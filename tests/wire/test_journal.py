"""A coordinator that is killed goes on where it was."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.errors import FederationError, QuorumMissed
from confrere.methods.average import Averaging
from confrere_federation.parties.messages import Question, split_parts
from tests.wire.signed_run import COLUMNS, Loopback, Organisations

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
    with pytest.raises(FederationError, match="another question before"):
        there.learn(there.federation())
