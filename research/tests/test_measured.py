"""Tables of measurements in the documentation are those of their records."""

from benchmarks import (
    bench_audits,
    bench_averages,
    bench_base_rate,
    bench_cells,
    bench_choices,
    bench_classes,
    bench_demo,
    bench_forms,
    bench_intervals,
    bench_mutations,
    bench_planning,
    bench_priors,
    bench_rivals,
    bench_scale,
    bench_transfers,
    bench_trees,
    bench_versions,
    reproduced,
)
from benchmarks.measured import DOCS, read_record, with_table
from confrere.assurance.audited import AUDITED, IN_TABLE
from confrere.assurance.table import ROWS, AuditCase
from confrere_research import load_specs
from confrere_research.as_printed.faults import FAULTS
from tests.kernel.mutations import MUTATIONS

DIMENSIONS = ("method", "relation", "law", "classes", "geometry", "delta", "option")


def tables():
    audits, whole, moved = map(read_record, ("audits", "reproduced", "transfers"))
    scale = bench_scale.tables(read_record("scale"))
    return {
        "audits": ("audit.md", bench_audits.table_of(audits, sound=True)),
        "audit rows": ("audit.md", bench_audits.rows_of(audits)),
        "faults": ("audit.md", bench_audits.table_of(audits, sound=False)),
        "mutations": ("audit.md", bench_mutations.table_of(read_record("mutations"))),
        "classes": ("classes.md", bench_classes.table_of(read_record("classes"))),
        "trees": ("algorithms/papers.md", bench_trees.table_of(read_record("trees"))),
        "cells": ("algorithms/multiparty.md", bench_cells.table_of(read_record("cells"))),
        "the rule for cells": (
            "algorithms/multiparty.md",
            bench_cells.rule_of(read_record("cells")),
        ),
        "transfers": ("algorithms/transfer.md", bench_transfers.table_of(moved)),
        "demo": ("algorithms/transfer.md", bench_demo.table_of(read_record("demo"))),
        "planning": ("planning.md", bench_planning.table_of(read_record("planning"))),
        "priors": ("priors.md", bench_priors.tables_of(read_record("priors"))),
        "branches near a prior": ("priors.md", bench_priors.branches_of(read_record("priors"))),
        "base rate": ("priors.md", bench_base_rate.table_of(read_record("base_rate"))),
        "reproduced": (reproduced.PAGE, reproduced.chapters_of(whole)),
        "reproduced, in short": (reproduced.README, reproduced.summary_of(whole)),
        "choices": ("choose.md", reproduced.choices_of(whole)),
        "within": ("choose.md", bench_choices.table_of(read_record("choices"))),
        "forms": ("geometry.md", bench_forms.table_of(read_record("forms"))),
        "intervals": ("proofs/intervals.md", bench_intervals.table_of(read_record("intervals"))),
        "averages": ("geometry.md", bench_averages.table_of(read_record("averages"))),
        "rivals": ("peers.md", bench_rivals.table_of(read_record("rivals"))),
        "rivals' times": ("peers.md", bench_rivals.times_of(read_record("rivals"))),
        "versions": (bench_versions.PAGE, bench_versions.table_of(read_record("versions"))),
        **{name: ("scale.md", table) for name, table in scale.items()},
    }


def test_tables_are_made_from_records():
    for name, (page, table) in tables().items():
        place = name.partition(",")[0]
        text = (DOCS / page).read_text(encoding="utf-8")
        assert with_table(text, place, table) == text, name
        assert with_table(text, place, "another") != text


def test_recorded_audits_are_of_everything_and_as_they_should_be():
    found = {one["name"]: one for one in read_record("audits")["results"]}
    assert set(found) == {*IN_TABLE, *FAULTS}
    rows = {(row.method, str(row)) for row in ROWS}
    for name in set(IN_TABLE) & set(found):
        told = [AuditCase(**{f: row[f] for f in DIMENSIONS}) for row in found[name]["rows"]]
        assert {(name, str(row)) for row in told} == {one for one in rows if one[0] == name}
    for name in AUDITED:
        assert found[name]["found"] <= found[name]["exact"] <= 1.0 + 1e-9
        assert found[name]["claimed"] == 1.0
    for name, fault in FAULTS.items():
        assert found[name]["found"] >= fault.at_least
    assert all(one["cpu_seconds"] < 2 * max(len(one["rows"]), 10) for one in found.values())


def test_recorded_mutations_are_found_and_sound_code_is_not():
    sound, *broken = read_record("mutations")["results"]
    assert not any(sound["found"].values())
    names = [one["name"] for one in broken]
    assert set(names) == set(MUTATIONS)
    for one in broken:
        wanted = MUTATIONS[one["name"]].found_by
        assert all(one["found"][tool] for tool in wanted)
    by_the_command = [
        one["name"]
        for one in broken
        if any(found for tool, found in one["found"].items() if tool != "charging contract")
    ]
    assert set(names) - set(by_the_command) == {"draw before paying"}


def test_every_item_was_reproduced_at_length():
    found = read_record("reproduced")["items"]
    assert list(found) == list(load_specs())
    assert all(found[item]["repeats"] == spec.repeats for item, spec in load_specs().items())


def test_the_rule_for_cells_is_about_data_that_no_item_uses_and_hardly_costs():
    record = read_record("cells")
    used = {str(spec.data.get("table")) for spec in load_specs().values()}
    assert used.isdisjoint(one["data"] for one in record["others"])
    lost = []
    for one in record["others"]:
        for epsilon, chosen in one["chosen"].items():
            means = {m: sum(by[epsilon]) / len(by[epsilon]) for m, by in one["found"].items()}
            lost.append(max(means.values()) - means[chosen])
    assert sum(lost) / len(lost) < 0.02
    assert all(
        len(by) == 10 for one in record["items"] for m in one["found"].values() for by in m.values()
    )
