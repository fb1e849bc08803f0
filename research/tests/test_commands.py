"""The papers' own command line."""

import json
from pathlib import Path

from typer.testing import CliRunner

from confrere_research import commands, load_specs
from confrere_research.__main__ import app


def line(*words, code=0):
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_reproduce_lists_and_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "S1" in line("reproduce")["data"]["items"]
    assert line("reproduce", "S99", code=2)["error_code"] == "UsageError"
    asked = {}

    def run_items(items, **options):
        asked.update(options, items=items)
        return {item: [] for item in items}

    monkeypatch.setattr(commands, "run_items", run_items)
    line("reproduce", "S1", "--quick", "--out", "here")
    assert asked == {
        "items": ["S1"],
        "quick": True,
        "out": Path("here"),
        "n_jobs": 2,
        "fresh": False,
    }
    assert Path("here", "report.html").exists()
    data = line("reproduce", "all", "--out", "here")["data"]
    assert list(data["verdicts"]) == asked["items"] == list(load_specs())
    assert set(data["verdicts"].values()) == {"no data"}
