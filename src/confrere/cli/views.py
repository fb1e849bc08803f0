"""Tables for people: prices, receipts, accounts and entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Account, Decision, Entry, Receipt
from confrere.ledger.accounts import amount, shown, shown_down

if TYPE_CHECKING:
    from pathlib import Path

    from confrere.schema import DataReport
    from confrere.study import Made, StudyPlan


def listing(
    title: str, *columns: str, right: Iterable[str] = (), rows: Iterable[Iterable[object]] = ()
) -> Table:
    """Return a table with a title, named columns and rows; numbers stand to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table


def facts(title: str, values: Mapping[str, object]) -> Table:
    """Return a table of names and values."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, str(value))
    return table


def paid_text(guarantee: Guarantee) -> str:
    """Return what is paid, rounded up; delta only where there is one."""
    text = shown(guarantee.epsilon)
    return text if guarantee.pure else f"{text}, delta {shown(guarantee.delta)}"


def price_table(plan: StudyPlan) -> Table:
    """Say what would be spent by whom, and what would be left."""
    numbers = ("spends", "spent so far", "left", "left after")
    title = f"Price of {plan.study_id} by {plan.method}"
    rows = [
        (
            one.party,
            f"epsilon {paid_text(one.guarantee)}",
            shown(one.budget.spent) if one.here else "not here",
            amount(one.budget.left),
            Text("refused", style="red") if one.left_after < 0 else amount(one.left_after),
            one.budget.limit_by or "nobody",
        )
        for one in plan.prices
    ]
    return listing(title, "party", *numbers, "limit set by", right=numbers, rows=rows)


def promise_line(plan: StudyPlan, unit: str) -> str:
    """Say what a unit is promised, and who must be trusted for it."""
    text = f"Promise: {plan.prices[0].guarantee}; one {unit} pays epsilon {shown(plan.promised)}."
    if plan.mode == "simulation":
        text += " SIMULATION: seeded noise protects nobody, and its card can never be released."
    return f"{text}\n{plan.trusted}"


def receipt_table(made: Iterable[Made]) -> Table:
    """Show what was paid."""
    rows = [
        (party, paid_text(paid.guarantee), paid.account, paid.row, paid.hash[:12])
        for one in made
        for party, receipts in one.receipts.items()
        for paid in receipts
    ]
    columns = ("party", "epsilon", "account", "ledger row", "hash")
    return listing("Receipts", *columns, rows=rows)


def receipt_facts(party: str, receipt: Receipt) -> dict[str, object]:
    """Return a receipt for programs."""
    return {"party": party, **receipt.to_dict()}


def account_table(accounts: Iterable[Account]) -> Table:
    """Show every budget."""
    numbers = ("cap", "spent", "left")
    rows = [
        (
            one.name if one.frozen is None else f"{one.name} (frozen)",
            "not said" if one.unit is None else f"{one.unit} ({one.neighbours})",
            amount(one.epsilon) + ("" if one.period is None else f" a {one.period}"),
            shown(one.spent),
            amount(one.left),
            ", ".join(f"{year}: {shown(spent)}" for year, spent in one.years.items()),
        )
        for one in accounts
    ]
    return listing("Accounts", "account", "per", *numbers, "by year", right=numbers, rows=rows)


def together_table(accounts: Iterable[Account], together: Mapping[str, Guarantee | None]) -> Table:
    """Show what all charges of an account promise together, beside their sum."""
    numbers = ("sum", "together", "delta")
    title = "Together, if each price was fixed without looking at earlier releases"
    table = listing(title, "account", *numbers, right=numbers)
    for one in accounts:
        found = together[one.name]
        known = ("nothing", "") if found is None else (shown(found.epsilon), shown(found.delta))
        table.add_row(one.name, shown(one.spent), *known)
    return table


def owner_table(
    accounts: Iterable[Account],
    resets: Iterable[Mapping[str, object]] = (),
    decisions: Iterable[Decision] = (),
) -> Table:
    """Show what owners did: to accounts, about studies, and to the witness."""
    columns = ("row", "when", "account", "what", "cap", "why")
    table = listing("Owners' acts", *columns, right=("row",))
    for one in accounts:
        for change in one.history:
            cap = "" if change.epsilon is None else f"epsilon {shown_down(change.epsilon)}"
            table.add_row(
                str(change.row), _moment(change.time), one.name, change.kind, cap, change.reason
            )
    for said in decisions:
        what = f"{said.study} {said}"
        table.add_row(str(said.row), _moment(said.time), "", what, "", said.reason)
    for reset in resets:
        told = (str(reset["since"]), _moment(str(reset["time"])), "", "witness reset", "")
        table.add_row(*told, str(reset["reason"]))
    return table


def report_parts(party: str, report: DataReport, file: Path) -> list[Table | Text]:
    """Show how a table fits its schema: counts per column, then one line per finding."""
    title = f"{party}'s table: {report.rows} rows read, {report.used} used"
    kept = Text(f"kept for {party} alone: {file}", style="dim")
    if report.plain:
        return [Text(f"{title}, none missing, outside bounds or undeclared", style="bold"), kept]
    names, rows = report.counts()
    table = listing(title, *names, right=names[2:5], rows=rows)
    lines = [
        Text.assemble(
            (one.severity, "red" if one.severity == "refused" else "yellow"), f" {party}: {one}"
        )
        for one in report.findings
    ]
    return [table, *lines, kept]


def _moment(time: str) -> str:
    return time[:19].replace("T", " ")


def entry_table(entries: Iterable[Entry]) -> Table:
    """Show every charge."""
    columns = ("row", "when", "account", "epsilon", "what for", "ended", "noise")
    rows = [
        (
            one.row,
            _moment(one.time),
            one.account,
            paid_text(one.guarantee),
            one.purpose,
            one.state if one.code is None else f"{one.state} ({one.code})",
            "seeded" if one.simulated else "system",
        )
        for one in entries
    ]
    return listing("Charges", *columns, right=("row", "epsilon"), rows=rows)
