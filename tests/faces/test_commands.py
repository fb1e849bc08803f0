"""The command line as people start it: processes, signals, and whatever is typed."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.main import get_group
from typer.testing import CliRunner

from confrere.cli import app
from confrere.cli.app import load_command
from confrere.ledger import Ledger
from confrere.release import load_release
from tests.examples import write_plain_example
from tests.world import SLOW

SLOW_FIT = """
import signal, sys
from confrere.kernel.measurements import Objective

def fit(self, *args, **kwargs):
    print("learning", flush=True)
    signal.pause()

Objective.sample = fit
from confrere.cli import main
main()
"""


@pytest.fixture
def folder(tmp_path):
    write_plain_example(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")}


def test_control_c_while_learning_leaves_a_ledger_that_verifies(folder, environment):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_FIT, "fit", "study.toml", "--yes"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that put the tests into the background has told its children to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout.readline() == "learning\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in told
    assert "Traceback" not in told
    ledger = Ledger(folder / "local" / "branch-1.ledger")  # by name the first
    assert ledger.verify() == 3
    assert [(e.state, e.code) for e in ledger.entries()] == [("open", None)]
    for name in ("branch-2", "main"):  # nobody pays for what it was not asked
        assert Ledger(folder / "local" / f"{name}.ledger").entries() == []


#: As after ``pip install confrere``: what is between organisations, and what an extra brings,
#: cannot be imported.
LIBRARY_ALONE = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name in ("confrere_federation", "pandas"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from confrere.cli import main
main()
"""


def test_the_demonstration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONFRERE_DATA", raising=False)
    began = os.times().children_user
    words = [sys.executable, "-c", LIBRARY_ALONE, "demo"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert os.times().children_user - began < 60
    assert result.returncode == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "SIMULATED PATIENTS" in told
    assert "asked for epsilon 3, 1 left under the account's cap" in told
    out = tmp_path / "confrere-out" / "demo"
    assert (out / "branches.png").stat().st_size > 20_000
    ledger = Ledger(out / "demo.ledger")
    assert {e.state for e in ledger.entries()} == {"released"}
    assert {a.name: a.left for a in ledger.accounts()} == {
        "main": 1.0,
        **{f"branch {k}": 0.0 for k in range(1, 17)},
    }
    for name in ("main", "branch-1", "branch-16", "together"):
        card = load_release(out / "releases" / name).card
        assert card.status == "released"
        assert any("SIMULATED PATIENTS" in line for line in card.unprotected)
        assert "SIMULATED PATIENTS" in (out / "releases" / f"{name}.html").read_text()
    patients = str(out / "patients.csv")
    found = CliRunner().invoke(app, ["predict", str(out / "releases" / "branch-1"), patients])
    assert len(found.stdout.splitlines()) == 21
    row = next(line for line in result.stdout.splitlines() if line.startswith("  mean"))
    experts, alone, stack, transfer, together, ceiling = map(float, row.split()[1:])
    # Wide enough for any noise: sixteen branches, one release of the main hospital.
    assert 0.5 < stack < ceiling
    assert 0.65 < min(alone, transfer) < ceiling
    assert experts < together < ceiling


CODES = {0, 1, 2, 3, 4, 5, 6, 7}
STUDY = files("confrere_federation.studies").joinpath("templates", "study.toml").read_text()

#: Commands that are quick whatever follows, those that spend among them.
COMMANDS = [
    *(["init"], ["check"], ["cost"], ["fit"], ["predict"], ["verify"], ["version"], ["plan"]),
    *(["ledger", "show"], ["ledger", "verify"], ["ledger", "export"], ["keys", "new"]),
    *(["schema", "show"], ["schema", "diff"]),
    *(["release", "show"], ["release", "page"], ["release", "onnx"], []),
    *(["release", "sign"], ["keys", "show"]),
    *(["audit", "none"], ["status"], ["nonsense"]),
]
TOKENS = [
    *("study.toml", "local", "local/main.toml", "local/main.csv", "nowhere", ""),
    *("--json", "--debug", "--help", "--out", "--local", "--data", "--key", "--ledger"),
    *("main=local/main.csv", "main=", "=", "main=nowhere", "--source", "--format", "csv", "--head"),
    *("--party", "--records", "--features", "5", "-1", "1e400", "nan", "--epsilon", "--label"),
    *("--this-table-is-public", "--account", "--example", "brfss2022", "--"),
]
# No path leads out of the folder: a slash comes only in the names above.
words = st.text(st.characters(exclude_characters="/\\"), max_size=8)
command_lines = st.tuples(
    st.sampled_from(COMMANDS), st.lists(st.sampled_from(TOKENS) | words, max_size=6)
).map(lambda parts: parts[0] + parts[1])

LINES = STUDY.splitlines()
VALUES = ["0", "-1", "1e400", "nan", "true", '""', '"x"', "[]", "{}", "[[1]]", '"\\u0000"', "1e-9"]


@st.composite
def studies(draw):
    """Return the template with a few lines dropped, doubled, swapped or given another value."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["drop", "double", "value", "swap", "text"]))
        if kind == "drop":
            lines[place] = ""
        elif kind == "double":
            lines.insert(place, lines[place])
        elif kind == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == "text":
            cut = draw(st.integers(0, len(lines[place])))
            lines[place] = lines[place][:cut] + draw(words) + lines[place][cut + 1 :]
        elif "=" in lines[place]:
            key = lines[place].partition("=")[0]
            lines[place] = f"{key}= {draw(st.sampled_from(VALUES))}"
    return "\n".join(lines)


@pytest.fixture(scope="module")
def first_study(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz") / "deep" / "deeper"
    write_plain_example(place)
    return place


@pytest.fixture
def here(first_study, tmp_path, monkeypatch):
    place = shutil.copytree(first_study, tmp_path / "deep" / "deeper")
    monkeypatch.chdir(place)
    for name in [name for name in os.environ if name.startswith("CONFRERE_")]:
        monkeypatch.delenv(name)
    return place


def run(arguments, codes=CODES):
    result = CliRunner().invoke(app, arguments, input="")
    told = result.stdout + result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert result.exit_code in codes, (arguments, told)
    assert "run it again with --debug" not in told, (arguments, told)
    assert "Traceback" not in told or "--debug" in arguments, (arguments, told)
    if "--json" in arguments and result.stdout.startswith("{"):
        assert json.loads(result.stdout)["exit_code"] == result.exit_code
    return result


def spent(folder):
    found = 0.0
    for path in folder.rglob("*.ledger"):
        found += sum(account.spent for account in Ledger(path).accounts())
    return found


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(arguments=command_lines)
@example(arguments=["keys", "new", ""])
@example(arguments=["keys", "new", "/"])
def test_any_command_line_ends_well_and_spends_nothing(here, arguments):
    run(arguments)
    assert spent(here) == 0


#: What names nothing, and what cannot be a file's name.
NOTHING = ["", "\0", "\udc80"]
NO_NAMES = [".", "..", " ", "~", "=", "x\ny", "a" * 300, "a" * 5000]
#: Something valid for arguments that must be there besides.
VALID = {
    "study": "study.toml",
    "local": "local/main.toml",
    "table": "local/main.csv",
    "data": "local/main.csv",
    "account": "main",
    "party": "main",
    "name": "main",
    "epsilon": "0.5",
}


def told(parameter, value):
    return [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]


@pytest.mark.parametrize("each", [1, pytest.param(len(NO_NAMES), marks=SLOW)])
@pytest.mark.parametrize(
    "name", sorted({*get_group(app).list_commands(None)} - {"demo", "dashboard"})
)
def test_what_names_nothing_is_refused_by_every_argument(here, name, each):
    """Each argument has one of the names that name nothing, in turn, or all of them."""
    found, turn = load_command(name), itertools.cycle(NO_NAMES)
    for word, leaf in getattr(found, "commands", {"": found}).items():
        needed = {
            one.name: told(one, VALID.get(one.name, "nowhere"))
            for one in leaf.params
            if one.required
        }
        taking = [one for one in leaf.params if not getattr(one, "is_flag", False)]
        tried = [(one, [*NOTHING, *itertools.islice(turn, each)]) for one in taking]
        for parameter, value in ((one, value) for one, values in tried for value in values):
            given = needed | {parameter.name: told(parameter, value)}
            line = [name, *([word] if word else []), *itertools.chain(*given.values())]
            result = run(line, CODES | {130})  # nobody answers what `schema new` asks
            if value in NOTHING:
                assert result.exit_code == 2
                assert "an argument" in result.stderr
    assert spent(here) == 0


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=studies())
def test_any_study_file_ends_well_and_spends_nothing(here, text):
    (here / "mutated.toml").write_text(text, encoding="utf-8")
    checked = run(["check", "mutated.toml"])
    priced = run(["cost", "mutated.toml", "--json"])
    fitted = run(["fit", "mutated.toml"])
    if checked.exit_code:
        assert priced.exit_code == fitted.exit_code == checked.exit_code
    else:
        assert priced.exit_code in (0, 4)
        assert fitted.exit_code in (3, 4, 6, 7)
    assert spent(here) == 0
