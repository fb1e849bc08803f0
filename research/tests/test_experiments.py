import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from confrere_research import (
    Record,
    commands,
    load_specs,
    read_records,
    records_path,
    run_item,
    summarise,
)
from confrere_research import report as reporting
from confrere_research import runner as running
from confrere_research.__main__ import app
from confrere_research.report import recorded, write_report
from confrere_research.spec import Cell, read_spec
from confrere_research.verdicts import judge
from research.tests.conftest import FACTS


def run(out, **settings):
    return run_item("X1", out=out, **{"n_jobs": 1, **settings})


def test_an_interrupted_run_goes_on_where_it_stopped(toy_spec, tmp_path, monkeypatch):
    expected = run(tmp_path / "whole")
    original, done = running._run_cell, []

    def interrupted(spec, cell):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(cell)
        return original(spec, cell)

    monkeypatch.setattr(running, "_run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut")
    kept = read_records(records_path(tmp_path / "cut", "X1"))
    assert 0 < len(kept) <= 7
    monkeypatch.setattr(running, "_run_cell", original)
    resumed = run(tmp_path / "cut")
    assert [r.values for r in resumed] == [r.values for r in expected]


def record(method, variant, epsilon, repeat, auc, setting=None):
    cell = Cell("X1", method, variant, epsilon, setting, repeat)
    return Record(cell, f"{cell}", 0, {"auc": auc}, 0.5, {})


def spec_with(claims=(), published=None):
    facts = {**FACTS, "claims": list(claims)}
    if published:
        facts["published"] = {"methods": {"PLR": {"values": published}}}
    return read_spec(facts)


def points(sound, printed=0.8):
    found = [record("PLR", "corrected", e, r, sound) for e in (1.0, 8.0) for r in range(2)]
    found += [record("PLR", "as published", e, r, printed) for e in (1.0, 8.0) for r in range(2)]
    return summarise(found)


SOUND_FIRST = {
    "kind": "above",
    "method": ["PLR", "corrected"],
    "than": ["PLR", "as published"],
    "at": [1.0, 8.0],
}
PRINTED_FIRST = {
    "kind": "above",
    "method": ["PLR", "as published"],
    "than": ["PLR", "corrected"],
    "at": [1.0],
}


@pytest.mark.parametrize(
    ("claims", "published", "outcome"),
    [
        ([SOUND_FIRST], None, "reproduced"),
        ([PRINTED_FIRST], None, "not reproduced"),
        ([SOUND_FIRST, PRINTED_FIRST], None, "partly reproduced"),
        ([SOUND_FIRST, {**PRINTED_FIRST, "ours": True}], None, "reproduced"),
        ([], [0.90, 0.90], "reproduced"),
        ([], [0.5, 0.6], "exceeded"),
        ([], [0.95, 0.99], "not reproduced"),
        ([], [0.5, 0.99], "partly reproduced"),
    ],
)
def test_verdicts(claims, published, outcome):
    assert judge(spec_with(claims, published), points(0.9)).outcome == outcome


# The papers' own command line.


def line(*words, code=0):
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def reported(toy_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "load_specs", lambda: {"X1": toy_spec})
    run_item("X1", out=tmp_path, n_jobs=1)
    return tmp_path


def test_the_page_stands_alone_and_says_every_number(reported, toy_spec):
    page = write_report(reported).read_text("utf-8")
    assert not re.search(r"""(?:src|href)=["']?https?:""", page)
    assert "<script" not in page
    assert "@media print" in page
    assert page.count("<svg") == 1
    for point in summarise(recorded(reported)["X1"]):
        assert f"{point.mean:.4f} ± {point.sd:.4f}" in page


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
