"""Reproduce the papers: specifications, a runner, records, and what they say."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Loaded when first asked for: who wants a data set need not wait for figures.
_MODULES = {
    "cell_records": ("Record", "read_records", "records_path"),
    "report": ("markdown_summary", "summary_table", "write_report"),
    "results": ("Point", "summarise"),
    "runner": ("run_all", "run_item", "run_items"),
    "spec": ("Spec", "load_spec", "load_specs"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            home = importlib.import_module(f"confrere_research.{module}")
            value = globals()[name] = getattr(home, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
