from __future__ import annotations

import dataclasses
import re

import pytest

from confrere.errors import InvalidParameter
from confrere_research import Record, run_item, summarise
from confrere_research import report as reporting
from confrere_research.figures import save_figure
from confrere_research.report import markdown_summary, markdown_table, recorded, write_report
from confrere_research.spec import Cell, read_spec
from confrere_research.verdicts import judge
from research.tests.conftest import FACTS


def record(method, variant, epsilon, repeat, auc, setting=None):
    cell = Cell("X1", method, variant, epsilon, setting, repeat)
    return Record(cell, f"{cell}", 0, {"auc": auc}, 0.5, {})


def test_flips_and_spread_are_counted():
    (point,) = summarise([record("PLR", "sound", 1.0, r, a) for r, a in enumerate((0.9, 0.3, 0.9))])
    assert point.flips == 1
    assert point.mean == pytest.approx(0.7)
    assert point.sd == pytest.approx(0.34641, abs=1e-5)
    assert (point.median, point.lowest, point.n) == (0.9, 0.3, 3)


def test_branches_are_kept_beside_their_mean():
    (point,) = summarise([record("H", "sound", 1.0, r, [0.6, 0.8 + 0.1 * r]) for r in range(2)])
    assert point.mean == pytest.approx(0.725)
    assert point.branches == pytest.approx((0.6, 0.85))


def spec_with(claims=(), published=None):
    facts = {**FACTS, "claims": list(claims)}
    if published:
        facts["published"] = {"methods": {"PLR": {"values": published}}}
    return read_spec(facts)


def points(sound, printed=0.8):
    found = [record("PLR", "sound", e, r, sound) for e in (1.0, 8.0) for r in range(2)]
    found += [record("PLR", "printed", e, r, printed) for e in (1.0, 8.0) for r in range(2)]
    return summarise(found)


SOUND_FIRST = {
    "kind": "above",
    "method": ["PLR", "sound"],
    "than": ["PLR", "printed"],
    "at": [1.0, 8.0],
}
PRINTED_FIRST = {
    "kind": "above",
    "method": ["PLR", "printed"],
    "than": ["PLR", "sound"],
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


def apart(difference, spread, repeats):
    """Two methods whose difference varies over repeats; what they share varies far more."""
    found = []
    for r in range(repeats):
        split = 0.5 + 0.1 * r
        wobble = difference + spread * (-1) ** r
        found.append(record("PLR", "sound", 1.0, r, split + wobble))
        found.append(record("PLR", "printed", 1.0, r, split))
    return summarise(found)


@pytest.mark.parametrize(
    ("difference", "repeats", "outcome"),
    [
        (0.01, 4, "reproduced"),
        (-0.01, 4, "not reproduced"),
        (0.001, 4, "undecided"),
        (-0.001, 4, "undecided"),
        (0.01, 2, "undecided"),
        (0.01, 1, "undecided"),
    ],
)
def test_few_repeats_decide_nothing_that_they_cannot_tell(difference, repeats, outcome):
    claim = {**SOUND_FIRST, "at": [1.0]}
    verdict = judge(spec_with([claim]), apart(difference, 0.002, repeats))
    assert verdict.outcome == outcome
    assert ("Too few repeats to tell" in verdict.why) == (outcome == "undecided")


@pytest.mark.parametrize(("margin", "holds"), [(0.1, True), (0.01, None), (0.001, False)])
def test_a_margin_is_judged_with_the_spread_of_the_repeats(margin, holds):
    claim = {**SOUND_FIRST, "kind": "within", "at": [1.0], "margin": margin}
    (finding,) = judge(spec_with([claim]), apart(-0.011, 0.002, 4)).findings
    assert finding.holds is holds


def test_no_records_are_no_verdict():
    assert judge(spec_with(), []).outcome == "no data"


def test_unknown_claims_are_refused():
    with pytest.raises(InvalidParameter, match="kind"):
        judge(spec_with([{"kind": "nicer", "method": ["PLR", "sound"]}]), points(0.9))


@pytest.mark.parametrize(
    ("values", "holds"),
    [((0.7, 0.9, 0.8), True), ((0.9, 0.8, 0.7), False), ((0.8, 0.8, 0.7), None)],
)
def test_a_peak_lies_between_the_ends(values, holds):
    spec = spec_with([{"kind": "peak", "method": ["PLR", "sound"]}])
    found = [
        record("PLR", "sound", 1.0, repeat, v, setting=k)
        for k, v in zip((1, 2, 5), values, strict=True)
        for repeat in range(2)
    ]
    (finding,) = judge(spec, summarise(found)).findings
    assert finding.holds is holds


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


def test_titles_are_escaped_and_records_of_another_specification_left_out(
    reported, toy_spec, monkeypatch
):
    hostile = dataclasses.replace(toy_spec, title="<b>bold</b>")
    monkeypatch.setattr(reporting, "load_specs", lambda: {"X1": hostile})
    assert "<b>bold</b>" not in write_report(reported).read_text("utf-8")
    facts = {**FACTS, "data": {"n": 401}}
    monkeypatch.setattr(reporting, "load_specs", lambda: {"X1": read_spec(facts)})
    assert recorded(reported) == {}


def test_markdown_has_a_line_per_item_and_per_method(reported, toy_spec):
    records = recorded(reported)
    summary = markdown_summary(records).splitlines()
    assert len(summary) == 3
    assert summary[-1].startswith("| X1 | a toy |")
    table = markdown_table(toy_spec, summarise(records["X1"])).splitlines()
    assert len(table) == 2 + len(toy_spec.methods)
    assert len({line.count("|") for line in table}) == 1


def test_figures_come_from_records_and_are_the_same_each_time(reported, toy_spec, tmp_path):
    records = recorded(reported)["X1"]
    first = save_figure(toy_spec, records, tmp_path / "a").read_bytes()
    second = save_figure(toy_spec, records, tmp_path / "b").read_bytes()
    assert first == second
    changed = [dataclasses.replace(r, values={"auc": 0.6}) for r in records]
    assert save_figure(toy_spec, changed, tmp_path / "c").read_bytes() != first
