"""The answer file: claimed once, answered once, never changed."""

from base64 import b64encode

import pytest

from confrere.errors import FederationError, OperationRefused
from confrere_federation.parties.answers import Answers, Key

KEY = Key("run", "objective", 0)


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path / "clinic.answers")


def claim(answers, key=KEY, *, question="q", epsilon=1.0, cap=None):
    return answers.claim(key, question=question, epsilon=epsilon, cap=cap)


def test_the_first_answer_stays(answers):
    assert claim(answers).answer is None
    assert answers.keep(KEY, b"first") == b"first"
    assert answers.keep(KEY, b"second") == b"first"
    assert claim(answers).answer == b"first"
    assert answers.fail(KEY, "Late") == b"first"
    assert claim(answers).failure is None


def test_a_failure_stays(answers):
    claim(answers)
    assert answers.fail(KEY, "Broken") is None
    assert claim(answers).failure == "Broken"
    with pytest.raises(FederationError):
        answers.keep(KEY, b"late")


def test_a_claim_can_be_withdrawn_until_it_is_answered(answers):
    claim(answers)
    answers.withdraw(KEY)
    assert answers.asked() == set()
    claim(answers, question="other")
    answers.keep(KEY, b"x")
    answers.withdraw(KEY)
    assert claim(answers, question="other").answer == b"x"
    with pytest.raises(OperationRefused):
        claim(answers)


def test_who_asks_for_ever_fills_no_disk(answers):
    for _ in range(100):
        claim(answers)
        answers.withdraw(KEY)
    size = answers.path.stat().st_size
    with pytest.raises(OperationRefused):
        claim(answers)
    assert answers.path.stat().st_size == size
    claim(answers, KEY._replace(step=7))


def test_the_cap_adds_decimals(answers):
    for step in range(10):
        claim(answers, Key("run", "objective", step), epsilon=0.1, cap=1.0)
    with pytest.raises(OperationRefused):
        claim(answers, Key("run", "objective", 10), epsilon=1e-9, cap=1.0)
    claim(answers, Key("other", "objective", 0), epsilon=1.0, cap=1.0)


def test_a_file_that_was_changed_or_put_back_is_refused(answers, tmp_path):
    claim(answers)
    before = answers.path.read_bytes()
    answers.keep(KEY, b"first")
    whole = answers.path.read_bytes()
    changed = whole.replace(b64encode(b"first"), b64encode(b"other"))
    assert changed != whole
    (tmp_path / "changed").write_bytes(changed)
    with pytest.raises(FederationError, match="was changed"):
        Answers(tmp_path / "changed")
    answers.path.write_bytes(before)
    with pytest.raises(FederationError, match="rolled back"):
        claim(answers)


def test_what_a_kill_left_of_a_row_is_no_row(answers, tmp_path):
    claim(answers)
    answers.keep(KEY, b"first")
    for cut in range(1, 60, 7):
        (tmp_path / f"cut{cut}").write_bytes(answers.path.read_bytes()[:-cut])
        left = Answers(tmp_path / f"cut{cut}")
        assert claim(left).answer is None
        assert left.keep(KEY, b"second") == b"second"
