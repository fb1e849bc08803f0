from __future__ import annotations

import pytest

from confrere.errors import InvalidData
from confrere_research import read_records, records_path, run_item
from confrere_research import runner as running
from confrere_research.cell_records import append_records


def run(out, **settings):
    return run_item("X1", out=out, **{"n_jobs": 1, **settings})


def test_every_cell_gives_one_record(toy_spec, tmp_path):
    records = run(tmp_path)
    assert [r.key for r in records] == [toy_spec.key(c) for c in toy_spec.cells()]
    assert all(0 <= r.values["auc"] <= 1 for r in records)
    assert {"confrere", "numpy", "python"} <= set(records[0].versions)
    assert read_records(records_path(tmp_path, "X1")) == records


def test_nothing_is_run_twice(toy_spec, tmp_path, monkeypatch):
    quick = run(tmp_path, quick=True)
    whole = run(tmp_path)
    assert len(quick) < len(whole)
    assert [r for r in whole if r.key in {q.key for q in quick}] == quick

    def refuse(*args):
        raise AssertionError("a cell with a record was run again")

    monkeypatch.setattr(running, "_run_cell", refuse)
    assert run(tmp_path) == whole


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


def test_a_torn_line_is_skipped_and_closed(toy_spec, tmp_path):
    records = run(tmp_path, quick=True)
    path = records_path(tmp_path, "X1")
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert read_records(path) == records[:-1]
    append_records(path, records[-1:])
    assert read_records(path) == records


def test_a_line_that_is_no_record_is_refused(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"key": "a"}\n')
    with pytest.raises(InvalidData, match="no record"):
        read_records(path)


def test_fresh_appends_the_same_numbers_and_the_newest_counts(toy_spec, tmp_path):
    first = run(tmp_path, quick=True)
    path = records_path(tmp_path, "X1")
    before = path.read_bytes()
    second = run(tmp_path, quick=True, fresh=True)
    assert [r.values for r in first] == [r.values for r in second]
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes()) > len(before)
    assert len(read_records(path)) == len(list(toy_spec.cells(quick=True)))
