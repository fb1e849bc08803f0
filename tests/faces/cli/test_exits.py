"""Every error has a code, one line and a next step; the two streams stay apart."""

import importlib
import subprocess
import sys

import pytest

from confrere import errors
from confrere.cli.app import ExitCode, ending_of


def every_error(kind=errors.ConfrereError):
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("kind", sorted(set(every_error()), key=lambda kind: kind.__name__))
def test_every_error_of_ours_has_a_code_a_line_and_a_next_step(kind):
    error = kind("a", 1.0, 0.5) if kind is errors.BudgetExceeded else kind("two\nlines.")
    found = ending_of(error)
    assert found.exit_code in ExitCode
    assert found.exit_code not in (ExitCode.OK, ExitCode.USAGE, ExitCode.INTERRUPTED)
    assert "\n" not in found.message
    assert found.hint


def test_usage_errors_have_code_2_in_both_forms(line):
    assert line("no-such-command", code=2).stdout == ""
    assert line.json("no-such-command", code=2)["error_code"] == "UsageError"
    line("verify", "x", "--key", "a=1", "--key", "a=2", code=2)
    line("audit", "source-d", code=2)


# The tree of commands: what its help says, and what it loads to say it.


tree = importlib.import_module("confrere.cli.app")

#: What makes a start slow.
HEAVY = ("sklearn", "scipy", "pandas", "numpy", "cryptography", "matplotlib", "numba", "grpc")


@pytest.mark.parametrize("name", tree._MODULES)
def test_the_help_of_all_commands_is_that_of_each(name):
    loaded = " ".join(tree.load_command(name).help.partition("\n\n")[0].split())
    assert loaded
    assert loaded == tree.help_of(name)


def test_a_command_of_a_wheel_that_is_not_installed_says_how_to_get_it(line, monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert "pip install 'confrere[federation]'" in line("fit", "study.toml", code=3).stderr
    assert "confrere-federation" in line("--help").stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["nosuch"]])
def test_nothing_heavy_is_loaded_for_help(words):
    program = (
        "import sys\nfrom confrere.cli import main\n"
        f"sys.argv = ['confrere', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
