"""Accounts, charges and decisions as people see them, and the shapes that they take away."""

from __future__ import annotations

import csv
import io
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Self

from confrere.errors import BudgetExceeded, StudyRefused
from confrere.kernel.guarantee import (
    Guarantee,
    Line,
    Neighbours,
    PrivacyEvent,
    Record,
    Time,
    Unit,
    at_least,
    at_most,
    check_epsilon,
    exact,
    minus,
)
from confrere.kernel.ledger import (
    FORMAT,
    Balance,
    Charge,
    ChargeApproval,
    End,
    Origin,
    Pages,
    Receipt,
    Row,
    StudyName,
    Total,
    canonical,
    said_by,
)
from confrere.views import Table, Word, amount, cost, moment, share, shown, shown_down


@dataclass(frozen=True, slots=True)
class Change:
    """What the owner did to an account, for ever in the chain."""

    row: int
    time: str  #: When, in UTC
    kind: str
    epsilon: float | None  #: With ``delta``: the caps from then on, where they were set
    delta: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Account:
    """One budget and what became of it."""

    name: str
    epsilon: float | None  #: The cap, as last raised; None without one
    delta: float  #: The cap on the sum of deltas; means nothing without a cap on epsilon
    unit: Unit  #: With ``neighbours``: what the account counts
    neighbours: Neighbours
    spent: float  #: Epsilon, in all
    left: float  #: Epsilon that can still be charged; infinite without a cap
    opened: str  #: When, in UTC
    frozen: str | None  #: Why nothing more may be charged
    history: tuple[Change, ...]  #: How it was opened, and every raise since
    #: Whether the caps are on a calendar year (in UTC), and ``left`` is what is left of this one.
    period: Literal["year"] | None = None
    counted: float = 0.0  #: Epsilon that counts against the cap: all that was spent, or this year's
    #: Mapping of int to float. Epsilon spent in each year in which something was.
    years: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Pages, name: str) -> Self:
        """Read the rows about an account."""
        balance = log.balance(name)
        rows, terms = list(map(log.row, log.changes[name])), balance.terms
        kept = ("name", "epsilon", "delta", "unit", "neighbours", "period")
        kinds = ("opened" if row.kind == "account" else row.kind for row in rows)
        history = tuple(
            Change(row.seq, row.time, kind, said.epsilon, said.delta, said.reason)
            for row, kind, said in zip(rows, kinds, map(said_by, rows), strict=True)
        )
        return cls(
            **{one: getattr(terms, one) for one in kept},
            spent=at_least(balance.paid.epsilon),
            left=left_of(balance),
            opened=rows[0].time,
            frozen=balance.frozen,
            history=history,
            counted=at_least(balance.counted.epsilon),
            years=_years(log, name),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity: ``left`` is then None."""
        values = asdict(self) | {"left": None if math.isinf(self.left) else self.left}
        return values | {"history": [asdict(change) for change in self.history]}


def left_of(balance: Balance) -> float:
    """Return the epsilon that can be charged; infinite without a cap, nothing once frozen."""
    if balance.frozen is not None or balance.caps is None:
        return math.inf if balance.frozen is None else 0.0
    return max(0.0, at_most(balance.caps.minus(balance.counted).epsilon))


def _years(log: Pages, account: str) -> dict[int, float]:
    """Return the epsilon spent in every year in which something was."""

    def year(row: int) -> int:
        return int(log.said(row).spent.year or log.row(row).time[:4])

    rows, found, start, last, before = log.charges[account], {}, 0, 0, Decimal(0)
    while start < len(rows):
        # As caps count them: a clock that is set back does not bring a year back.
        last = max(last, year(rows[start]))
        start = bisect_right(rows, last, lo=start, key=year)
        total = log.said(rows[start - 1]).spent.epsilon
        found[last], before = at_least(minus(total, before)), total
    return found


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap on all that was ever spent on the same data, besides the account's own.

    ``by`` is one of :data:`confrere.errors.LIMITS`. ``over`` are other accounts of these data: a
    ledger of an older version has one for every name that studies gave them.
    """

    epsilon: float
    by: str
    over: tuple[str, ...] = ()

    def __call__(self, log: Pages, charge: Charge) -> None:
        """Refuse a price that does not fit beside what was spent."""
        left, price = exact(check_epsilon(self.epsilon)), charge.guarantee.epsilon
        for one in {charge.account, *self.over} & log.balances.keys():
            left = minus(left, log.balance(one).paid.epsilon)
        if exact(price) > left:
            raise BudgetExceeded(charge.account, price, max(0.0, at_most(left)), bound=self.by)


class Entry(Receipt, kw_only=True):
    """One charge and how it ended: what is on its receipt, and what became of it."""

    whole = True

    event: PrivacyEvent | None  #: What was drawn, where the guarantee does not say it all
    origin: Origin
    key: str | None
    spent: float  #: Epsilon that the account has spent in all once this charge is paid
    counted: float  #: The part of it that counts against the cap: all, or that of the year
    year: int | None  #: Which year's, where the cap is on a year
    #: "open": charged, and nobody said how it ended; it counts like the others.
    state: Literal["open", "released", "failed"]
    ended: str | None  #: When it was marked, in UTC
    digest: str | None  #: What the released thing hashes to, if told
    code: str | None  #: Why it failed
    #: What the models hash to that were made of it together with other parties' answers.
    models: tuple[str, ...]

    @classmethod
    def read(cls, log: Pages, charge: int) -> Self:
        """Join a charge's row with the rows that say how it ended and what came of it."""
        row, mark = log.row(charge), log.marks.get(charge)
        said: Charge = said_by(row)
        ended = None if mark is None else log.row(mark)
        end = End(charge) if ended is None else said_by(ended)
        spent = said.spent or Total()
        earlier = spent.earlier or Total()
        state: Any = "open" if ended is None else ended.kind
        receipt = Receipt.of(row, said, log.ledger_id)
        return cls(
            **{name: getattr(receipt, name) for name in Receipt.__dataclass_fields__},
            event=said.event,
            origin=said.origin or Origin(),
            key=said.key,
            spent=at_least(spent.epsilon),
            counted=at_least(minus(spent.epsilon, earlier.epsilon)),
            year=spent.year,
            state=state,
            ended=None if ended is None else ended.time,
            digest=end.digest,
            code=end.code,
            models=tuple(log.said(model).digest for model in log.models.get(charge, ())),
        )


class Verdict(Record):
    """No to a study; or a no is lifted, for what is approved from ``since`` on."""

    study: StudyName
    name: Line
    reason: Line
    withdrawn: bool = False  #: Whether it had been agreed to before
    since: Time | None = None


@dataclass(frozen=True)
class Decision:
    """One row that says no to a study, or takes that back. The last word stands.

    "withdrawn": it had been agreed to before. "agreed": the no before it is lifted, and what was
    approved before ``since`` does not count.
    """

    row: int
    time: str
    said: Literal["refused", "withdrawn", "agreed"]
    study: str
    study_sha256: str
    name: str
    reason: str
    since: str | None = None

    @classmethod
    def of(cls, row: Row) -> Self:
        """Read the row."""
        told = Verdict.from_dict(row.facts)
        said: Any = "withdrawn" if told.withdrawn else row.kind
        study = (told.study.id or "", told.study.sha256)
        return cls(row.seq, row.time, said, *study, told.name, told.reason, told.since)

    @property
    def stops(self) -> bool:
        """Whether nothing may be charged for the study as long as this is the last word."""
        return self.said != "agreed"

    def error(self) -> StudyRefused:
        """Return what is raised as long as this is the last word."""
        return StudyRefused(
            f"study {self.study} was {self} on {self.time[:16]}Z (row {self.row}): nothing more is "
            "charged or answered for it. A new approval lifts that: confrere approve."
        )

    def __str__(self) -> str:
        return f"{self.said} by {self.name}"


def decisions(log: Pages, study_sha256: str | None = None) -> list[Decision]:
    """Return who said no to a study, or took that back; of all studies by default."""
    rows = (row for row in map(log.row, log.notes) if row.kind != "witness")
    every = map(Decision.of, rows)
    return [one for one in every if study_sha256 in (None, one.study_sha256)]


def agreed(log: Pages, charge: Charge) -> None:
    """Refuse a charge for a study that its owner has said no to."""
    assert charge.study is not None
    check_agreed(log, charge.study.sha256, charge.approval)


def check_agreed(log: Pages, study_sha256: str, approval: ChargeApproval | None) -> None:
    """Refuse a study whose last word is no, or what was approved before a no was lifted."""
    for last in decisions(log, study_sha256)[-1:]:
        if last.stops or last.since is None:
            raise last.error()
        instant = datetime.fromisoformat
        if approval is None or instant(approval.time) < instant(last.since):
            raise StudyRefused(
                f"study {last.study} was refused, and agreed to again by {last.name} (row "
                f"{last.row}); what was approved before that does not count any more: use the "
                "new approval."
            )


_COLUMNS = (
    *("row", "time", "account", "purpose", "epsilon", "delta", "unit", "neighbours", "theorem"),
    *("spent", "state", "ended", "simulated", "key", "digest", "code", "study", "study_sha256"),
    *("uncapped", "approved_by", "reason", "justification", "event", "origin", "hash"),
)


def to_csv(entries: Iterable[Entry], decisions: Iterable[Decision] = ()) -> str:
    """Make one line per charge after a header; events are JSON.

    A decision about a study is a line that costs nothing, after the charges: its state says which,
    and its origin who. No text is what a spreadsheet computes: who asks for a study chooses words.
    """

    def write(told: Mapping[str, object]) -> None:
        inert = {k: f"'{v}" if str(v)[:1] in ("=", "+", "-", "@") else v for k, v in told.items()}
        writer.writerow(inert)

    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        approval = {} if entry.approval is None else entry.approval.to_dict()
        told = entry.to_dict() | entry.guarantee.to_dict()
        told |= {"approved_by": approval.get("name")}
        told |= {name: approval.get(name) for name in ("reason", "justification")}
        write(told | {name: canonical(told[name]) for name in ("event", "origin")})
    for one in decisions:
        told = {name: getattr(one, name) for name in ("row", "time", "study", "study_sha256")}
        told |= {"epsilon": 0.0, "delta": 0.0, "state": one.said, "reason": one.reason}
        write(told | {"origin": canonical({"name": one.name})})
    return text.getvalue()


def to_json(log: Pages) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": log.ledger_id,
        "head": log.tail.hash,
        "accounts": [Account.of(log, name).to_dict() for name in log.balances],
        "decisions": [asdict(one) for one in decisions(log)],
        "entries": [Entry.read(log, charge).to_dict() for charge in log.paid],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def account_table(accounts: Iterable[Account], title: str = "") -> Table:
    """Show every budget."""
    numbers = ("cap", "spent", "left")
    rows = [
        (
            one.name,
            f"{one.unit} ({one.neighbours})",
            share(one.counted, one.epsilon),
            amount(one.epsilon) + ("" if one.period is None else f" a {one.period}"),
            shown(one.spent) if one.spent else "0",
            amount(one.left) if one.frozen is None else Word("frozen", "bad"),
            ", ".join(f"{year}: {shown(spent)}" for year, spent in one.years.items()),
        )
        for one in accounts
    ]
    columns = ("account", "per", "of its cap", *numbers, "by year")
    return Table(columns, rows, numbers, title, pictures=("of its cap",))


def charge_table(entries: Iterable[Entry], title: str = "") -> Table:
    """Show every charge; delta only where there is one."""
    rows = [
        (
            one.row,
            moment(one.time),
            one.account,
            cost(one.guarantee.epsilon, one.guarantee.delta),
            one.purpose,
            one.state if one.code is None else f"{one.state} ({one.code})",
            "seeded" if one.simulated else "system",
        )
        for one in entries
    ]
    columns = ("row", "when", "account", "epsilon", "what for", "ended", "noise")
    return Table(columns, rows, ("row", "epsilon"), title)


def together_table(accounts: Iterable[Account], together: Mapping[str, Guarantee | None]) -> Table:
    """Show what all charges of an account promise together, beside their sum."""
    numbers = ("sum", "together", "delta")
    rows = [
        (one.name, shown(one.spent))
        + (("nothing", "") if found is None else (shown(found.epsilon), shown(found.delta)))
        for one in accounts
        for found in [together[one.name]]
    ]
    title = "Together, if each price was fixed without looking at earlier releases"
    return Table(("account", *numbers), rows, numbers, title)


def owner_table(
    accounts: Iterable[Account],
    resets: Iterable[Mapping[str, object]] = (),
    decisions: Iterable[Decision] = (),
) -> Table:
    """Show what owners did: to accounts, about studies, and to the witness."""
    rows: list[tuple[object, ...]] = [
        (
            change.row,
            moment(change.time),
            one.name,
            change.kind,
            "" if change.epsilon is None else f"epsilon {shown_down(change.epsilon)}",
            change.reason or "",
        )
        for one in accounts
        for change in one.history
    ]
    rows += [(d.row, moment(d.time), "", f"{d.study} {d}", "", d.reason) for d in decisions]
    rows += [
        (one["since"], moment(str(one["time"])), "", "witness reset", "", one["reason"])
        for one in resets
    ]
    columns = ("row", "when", "account", "what", "cap", "why")
    return Table(columns, rows, ("row",), "Owners' acts")
