"""Optional parts: what is missing is named, with how to install it."""

import sys

import pytest

from confrere.cli.envelope import ExitCode, ending_of
from confrere.errors import NotInstalled
from confrere.extras import extra, installed
from confrere.planning import plan


@pytest.fixture
def without(monkeypatch):
    """Make modules look as if they had never been installed."""

    def hide(name):
        for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_a_picture_says_which_extra_it_needs(without):
    without("matplotlib")
    assert not installed("matplotlib")
    with pytest.raises(NotInstalled, match=r"needs matplotlib.*pip install 'confrere\[plot\]'"):
        plan(n=1000, d=5, epsilon=1.0).plot()


def test_what_is_there_is_given():
    assert extra("plot", "json").dumps([1]) == "[1]"
    assert installed("json")


def test_the_command_line_calls_it_invalid():
    code, message, hint = ending_of(NotInstalled("it needs x: pip install x."))
    assert (code, message, hint) == (
        ExitCode.INVALID,
        "it needs x: pip install x.",
        "then run it again",
    )
