"""The command line as people start it: real processes, real signals, the whole demonstration."""

import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from confrere.cli import app
from confrere.ledger import Ledger
from confrere.release import load_release
from tests.examples import write_plain_example

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
