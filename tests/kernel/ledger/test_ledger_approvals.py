"""Who agreed to a charge, and why; and who did not agree to a study."""

import pytest

from confrere.errors import InvalidParameter, LedgerError, StudyRefused
from confrere.ledger import ChargeApproval, Ledger
from confrere.ledger.witness import store_at
from tests.world import each

SAID = ChargeApproval(
    name="A. Reuter",
    reason="board of 12 May",
    time="2026-05-12T09:00:00+00:00",
    justification="one in a hundred false alarms finds 2.7 of a hundred",
)
STUDY = ("diabetes", "ab" * 32)


def test_who_approves_again_in_other_words_does_not_pay_again(ledger, tenth):
    first = ledger.charge("study", tenth, purpose="fit", key="k", approval=SAID)
    again = ChargeApproval("B. Kim", "again", "2026-06-01T00:00:00Z")
    assert ledger.charge("study", tenth, purpose="fit", key="k", approval=again) == first
    assert ledger.charge("study", tenth, purpose="fit", key="k") == first
    with pytest.raises(LedgerError, match="another charge"):
        ledger.charge("study", tenth, purpose="other", key="k", approval=SAID)


@pytest.mark.parametrize(
    "wrong",
    [
        *each(name=("", "two\nlines"), reason=("x" * 201,), justification=("x" * 1001, 1.0)),
        *each(time=("yesterday", "2026-05-12T09:00:00+02:00"), more=("facts",)),
    ],
)
def test_words_are_checked_wherever_they_come_from(wrong):
    with pytest.raises(InvalidParameter, match=r"approval"):
        ChargeApproval.from_dict(SAID.to_dict() | wrong)


def test_a_refusal_is_in_the_chain_and_spends_nothing(ledger, path):
    ledger.refuse(STUDY, name="A. Reuter", reason="no purpose of ours")
    (told,) = Ledger(path).decisions()
    assert (told.said, told.study, told.study_sha256) == ("refused", "diabetes", "ab" * 32)
    assert (told.name, told.reason, told.row) == ("A. Reuter", "no purpose of ours", 3)
    assert ledger.spent("study") == 0.0
    assert ledger.verify() == 3


def test_a_no_holds_whoever_charges(ledger, path, tenth):
    """Attack: a store that nobody had told to look for a no charged all the same."""
    ledger.refuse(STUDY, name="A. Reuter", reason="no purpose of ours")
    with pytest.raises(StudyRefused):
        store_at(path).charge("study", tenth, purpose="fit", study=STUDY)
