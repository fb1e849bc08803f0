"""Every error has a code, one line and a next step; the two streams stay apart."""

import pytest

from confrere import errors
from confrere.cli.envelope import ExitCode, NotConfirmed, ending_of


def every_error(kind=errors.ConfrereError):
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("kind", sorted(set(every_error()), key=lambda kind: kind.__name__))
def test_every_error_of_ours_has_a_code_a_line_and_a_next_step(kind):
    error = kind("a", 1.0, 0.5) if kind is errors.BudgetExceeded else kind("two\nlines.")
    code, message, hint = ending_of(error)
    assert code in ExitCode
    assert code not in (ExitCode.OK, ExitCode.USAGE, ExitCode.INTERRUPTED)
    assert "\n" not in message
    assert hint


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidData("x"), 3),
        (errors.StudyError("x"), 3),
        (errors.SchemaMismatch("x"), 3),
        (errors.DataSetMissing("x"), 3),
        (errors.BudgetExceeded("a", 1, 0), 4),
        (errors.InvalidRelease("x"), 5),
        (errors.SignatureError("x"), 5),
        (errors.LedgerTampered("x"), 5),
        (errors.QuorumMissed("x"), 6),
        (errors.OperationRefused("x"), 6),
        (NotConfirmed("x"), 7),
        (KeyboardInterrupt(), 130),
        (FileNotFoundError(2, "No such file", "f"), 1),
        (ZeroDivisionError("S3CRET"), 1),
    ],
)
def test_the_codes_are_the_documented_ones(error, code):
    found, message, _ = ending_of(error)
    assert found == code
    assert "S3CRET" not in message


def test_usage_errors_have_code_2_in_both_forms(line):
    result = line("no-such-command", code=2)
    assert result.stdout == ""
    assert "No such command" in result.stderr
    assert line.json("no-such-command", code=2)["error_code"] == "UsageError"
    assert "chek" in line("chek", code=2).stderr
    line("price", code=2)
    line("fit", code=2)
    line("verify", "x", "--key", "nonsense", code=2)
    line("verify", "x", "--key", "a=1", "--key", "a=2", code=2)
    line("audit", "source-d", code=2)
