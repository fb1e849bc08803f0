"""Reproduce the papers: specifications, a runner, records, and what they say."""

from confrere_research.cell_records import Record, read_records, records_path
from confrere_research.report import markdown_summary, summary_table, write_report
from confrere_research.results import Point, summarise
from confrere_research.runner import run_all, run_item, run_items
from confrere_research.spec import Spec, load_spec, load_specs

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
