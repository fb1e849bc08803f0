"""Charge, act, mark: in that order, whatever happens in between."""

import pytest

from confrere.errors import ConfrereError
from confrere.kernel.release import paying


def _stop(words, first):
    first()
    raise ValueError(words)


class _Odd(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError, "ValueError"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (SystemExit, "SystemExit"),
        (_Odd, "Error"),
    ],
)
def test_what_raised_failed_and_stays_charged(ledger, tenth, error, code):
    with pytest.raises(error), paying(ledger, "study", tenth, purpose="fit"):
        raise error
    (entry,) = ledger.entries()
    assert (entry.state, entry.code, ledger.spent()) == ("failed", code, 0.1)


def test_what_resumes_stays_open_when_interrupted(ledger, tenth):
    facts = {"purpose": "fit", "key": "k", "resumes": True}
    with pytest.raises(KeyboardInterrupt), paying(ledger, None, tenth, **facts) as first:
        raise KeyboardInterrupt
    assert ledger.entry(first.receipt).state == "open"
    with paying(ledger, None, tenth, **facts) as again:
        pass
    assert again.receipt == first.receipt
    assert (ledger.entry(first.receipt).state, ledger.spent()) == ("released", 0.1)
    with pytest.raises(ConfrereError), paying(ledger, None, tenth, purpose="y", resumes=True) as e:
        raise ConfrereError
    assert ledger.entry(e.receipt).state == "failed"


def test_the_error_is_heard_even_if_the_ledger_is_gone(ledger, tenth, path):
    with (
        pytest.raises(ValueError, match="what went wrong") as caught,
        paying(ledger, "study", tenth, purpose="fit"),
    ):
        _stop("what went wrong", path.unlink)
    assert "could not be told" in caught.value.__notes__[0]
