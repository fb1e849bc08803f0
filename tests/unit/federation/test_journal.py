"""A coordinator that is killed goes on where it was."""

import numpy as np
import pytest

from confrere.errors import FederationError, OperationRefused, QuorumMissed
from confrere.federation import Averaging, Frame, Journalled, LocalFederation, Payload, average

PLAN = Averaging(frame=Frame(3), epsilon=1.0, rounds=3)


def connected(parties, path, **options):
    return Journalled(lambda run: LocalFederation(parties, run=run, **options), path)


class Flaky(LocalFederation):
    """Loses party c until it comes back."""

    lost = True

    def ask(self, operation, payload, *, to=None, step=0, timeout=None):
        answers = super().ask(operation, payload, to=to, step=step, timeout=timeout)
        if self.lost and step == 0 and operation == "objective":
            from confrere.federation import PartyError

            answers["c"] = PartyError("Timeout")
        if step == 2:
            raise KeyboardInterrupt
        return answers


def test_it_resumes_under_the_same_run_and_nobody_pays_twice(make_party, tmp_path):
    parties = [make_party(name, seed=k) for k, name in enumerate("abc")]
    path = tmp_path / "journal"
    stopped = Journalled(lambda run: Flaky(parties, run=run), path)
    with pytest.raises(KeyboardInterrupt):
        average(stopped, PLAN, quorum=0.6)
    spent = [party.books.ledger.spent("study") for party in parties]
    # Without what was gathered, party c would now be in the first average and change the second
    # question, which the others would refuse.
    with pytest.raises(QuorumMissed, match="OperationRefused:changed"):
        average(LocalFederation(parties, run=stopped.run), PLAN)
    resumed = connected(parties, path)
    assert resumed.run == stopped.run
    outcome = average(resumed, PLAN, quorum=0.6)
    again = average(connected(parties, path), PLAN, quorum=0.6)
    np.testing.assert_array_equal(outcome.weights, again.weights)
    assert spent == pytest.approx([1.0, 1.0, 1.0])
    assert [party.books.ledger.spent("study") for party in parties] == spent


def test_the_same_journal_with_other_settings_is_refused(make_party, tmp_path):
    parties = [make_party("a")]
    average(connected(parties, tmp_path / "journal"), PLAN)
    other = Averaging(frame=Frame(3), epsilon=0.5)
    with pytest.raises(FederationError, match="another journal"):
        average(connected(parties, tmp_path / "journal"), other)


def test_it_is_a_federation(make_party, tmp_path):
    federation = connected([make_party("a")], tmp_path / "journal")
    assert federation.parties() == ["a"]
    assert isinstance(federation.ask("size", Payload())["a"], Payload)
    with pytest.raises(FederationError):
        Journalled(lambda run: LocalFederation([make_party("b")]), tmp_path / "journal")
    (tmp_path / "noise").write_bytes(b"x" * 5000)
    with pytest.raises(FederationError):
        connected([make_party("c")], tmp_path / "noise")


def test_refusals_reach_whoever_owns_the_data(make_party, tmp_path):
    party = make_party("a", operations={"size"})
    federation = connected([party], tmp_path / "journal", on_error="raise")
    with pytest.raises(OperationRefused):
        average(federation, PLAN)
