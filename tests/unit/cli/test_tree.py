"""The tree of commands: what its help says, and what it loads to say it."""

import importlib
import subprocess
import sys
from importlib.metadata import version

import pytest

import confrere
from confrere.cli.envelope import COMMANDS

tree = importlib.import_module("confrere.cli.app")

#: What makes a start slow.
HEAVY = ("sklearn", "scipy", "pandas", "numpy", "cryptography", "matplotlib", "numba", "flwr")


@pytest.mark.parametrize("name", tree._MODULES)
def test_the_help_of_all_commands_is_that_of_each(name):
    loaded = " ".join(tree.load_command(name).help.partition("\n\n")[0].split())
    assert loaded
    assert loaded == tree.help_of(name)


@pytest.mark.parametrize("module", sorted({*tree._MODULES.values()}))
def test_every_command_of_a_module_is_in_the_tree(module):
    importlib.import_module(f"confrere.cli.commands.{module}")
    of_module = {words for words, f in COMMANDS.items() if f.__module__.endswith(f".{module}")}
    assert {words.split()[0] for words in of_module} == {
        name for name, where in tree._MODULES.items() if where == module
    }
    assert {words.split()[0] for words in of_module if " " in words} <= tree._GROUPS.keys()


def test_every_command_is_in_the_help(line):
    text = line("--help").stdout
    assert all(f" {name} " in text for name in tree._MODULES)


@pytest.mark.parametrize("words", [["ledger"], ["schema"], ["keys"], ["release"], []])
def test_without_a_verb_there_is_help_and_nothing_else(line, words):
    result = line(*words, code=2)
    assert "Usage: " in result.stdout + result.stderr
    assert "--help)" not in result.stderr


def test_the_version_is_that_of_the_distribution(line):
    assert line("--version").stdout == f"confrere {version('confrere')}\n"


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


def test_public_names_come_when_asked_for():
    assert set(confrere.__all__) <= set(dir(confrere))
    assert confrere.Guarantee is importlib.import_module("confrere.kernel.guarantee").Guarantee
    with pytest.raises(AttributeError, match="Nobody"):
        _ = confrere.Nobody


def test_names_that_moved_say_where_they_went():
    with pytest.raises(ImportError, match=r"confrere_research\.loaders import load_mnist"):
        from confrere.schema import load_mnist  # noqa: F401
    with pytest.raises(ImportError, match=r"confrere\.demo import ruijin_like"):
        from confrere.schema import ruijin_like  # noqa: F401
