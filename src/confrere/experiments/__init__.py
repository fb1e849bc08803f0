"""Reproduce the papers: specifications, a runner, records, and what they say."""

from confrere.experiments.records import Record, read_records, records_path
from confrere.experiments.report import markdown_summary, summary_table, write_report
from confrere.experiments.runner import run_all, run_item, run_items
from confrere.experiments.spec import Spec, load_spec, load_specs
from confrere.experiments.summary import Point, summarise

__all__ = [
    "Point",
    "Record",
    "Spec",
    "load_spec",
    "load_specs",
    "markdown_summary",
    "read_records",
    "records_path",
    "run_all",
    "run_item",
    "run_items",
    "summarise",
    "summary_table",
    "write_report",
]
