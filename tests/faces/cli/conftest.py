"""The command line in this process, its two streams apart."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from confrere.cli import app
from tests.examples import write_plain_example

FIELDS = {"schema_version", "status", "exit_code", "error_code", "message", "hint", "data"}


class Line:
    """Run command lines; with ``--json`` the one document is read and checked."""

    def __init__(self):
        self.runner = CliRunner()

    def __call__(self, *arguments, code=0, typed=None):
        result = self.runner.invoke(app, [str(a) for a in arguments], input=typed)
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        assert "Traceback" not in result.stdout + result.stderr
        return result

    def json(self, *arguments, code=0, typed=None):
        result = self(*arguments, "--json", code=code, typed=typed)
        assert result.stdout.count("\n") == 1
        document = json.loads(result.stdout)
        assert set(document) == FIELDS
        assert document["exit_code"] == code
        assert document["status"] == ("ok" if code == 0 else "error")
        assert (document["error_code"] is None) == (code == 0)
        return document


@pytest.fixture
def line():
    return Line()


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    place = tmp_path_factory.mktemp("example")
    write_plain_example(place)
    return place


@pytest.fixture
def folder(example, tmp_path, monkeypatch):
    """A copy of the example, as the current directory."""
    place = shutil.copytree(example, tmp_path / "here")
    monkeypatch.chdir(place)
    for name in ("CONFRERE_LEDGER", "CONFRERE_LOCAL", "CONFRERE_OUT", "CONFRERE_DATA"):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def fitted(line, folder):
    """The example, with its release."""
    line("fit", "study.toml", "--yes", "--out", "out")
    return folder / "out" / "diabetes-2026"
