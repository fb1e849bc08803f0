"""table1: describe a cohort at one cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from confrere.assurance.cohort import CohortSummary
from confrere.cli.app import Answer, Option, command, tell, wrote
from confrere.cli.commands.ledgers import agreed_payer, existing_ledger
from confrere.cli.commands.schemas import read_schema
from confrere.data.tables import open_table


@command("table1")
def table1(
    table: Annotated[Path, Option("PRIVATE records: CSV or Parquet.", metavar="TABLE")],
    *,
    schema: Annotated[str, "A study or schema file: bounds, values and the outcome."],
    epsilon: Annotated[float, "The privacy cost of the whole table, per record."],
    ledger: Annotated[Path, Option("The ledger of the table's owner.", envvar="CONFRERE_LEDGER")],
    account: str | None = None,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"], "Which change is hidden: replace-one or add-remove."
    ] = "replace-one",
    site: Annotated[list[str] | None, "A site; once for each of them."] = None,
    site_column: Annotated[str | None, "The column that names the site."] = None,
    out: Annotated[Path, "The page; a .csv and a .toml go beside it."] = Path("table1.html"),
    yes: bool = False,
) -> Answer:
    """Describe who the records are about: Table 1 by site and outcome, with error bars.

    The .toml is the schema with what it did not declare, and the receipt: for the next study.
    """
    book = existing_ledger(ledger)
    made = CohortSummary(
        epsilon,
        read_schema(schema),
        sites=tuple(site or ()),
        site_column=site_column,
        neighbours=neighbours,
    )
    cost, rows = made.privacy_cost(), open_table(table).whole()
    made.check(rows)  # what is wrong with the table is said before the cost is
    told = {"from then on": "in the total of every release that is made with its schema"}
    made.budget = book[agreed_payer(book, account, cost, told, what="table", yes=yes)]
    made.fit(rows)
    files = made.files()
    data = {"table": made.table(), "schema": files[".toml"]}
    try:
        for suffix, text in files.items():
            out.with_suffix(suffix).write_text(text, encoding="utf-8")
    except OSError as error:
        # What was paid for is not lost, whatever became of the folder.
        tell(f"out: {out.name} cannot be written ({error.strerror}); here it is instead.")
        return Answer("", data, [made.view()], text=files[".toml"])
    return Answer("", data, [made.view(), *wrote(*map(out.with_suffix, files))])
