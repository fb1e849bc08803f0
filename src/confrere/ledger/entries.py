"""Charges and decisions as people see them, and the shapes that people take away."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, Self

from confrere.errors import StudyRefused
from confrere.kernel.guarantee import Line, PrivacyEvent, Record, Time, at_least, minus
from confrere.kernel.ledger import (
    FORMAT,
    Charge,
    ChargeApproval,
    End,
    Origin,
    Pages,
    Receipt,
    StudyName,
    Total,
    said_by,
)
from confrere.kernel.log import Row, canonical
from confrere.ledger.accounts import Account

_COLUMNS = (
    *("row", "time", "account", "purpose", "epsilon", "delta", "unit", "neighbours", "theorem"),
    *("spent", "state", "ended", "simulated", "key", "digest", "code", "study", "study_sha256"),
    *("uncapped", "approved_by", "reason", "justification", "event", "origin", "hash"),
)


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
    withdrawn: bool = False
    since: Time | None = None


@dataclass(frozen=True, slots=True)
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

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
    rows = sorted(log.notes["refused"] + log.notes["agreed"])
    every = [Decision.of(log.row(row)) for row in rows]
    return [one for one in every if study_sha256 in (None, one.study_sha256)]


def check_agreed(log: Pages, study_sha256: str, approval: ChargeApproval | None) -> None:
    """Refuse a study whose last word is no, or what was approved before a no was lifted."""
    for last in decisions(log, study_sha256)[-1:]:
        if last.since is None:
            raise last.error()
        instant = datetime.fromisoformat
        if approval is None or instant(approval.time) < instant(last.since):
            raise StudyRefused(
                f"study {last.study} was refused, and agreed to again by {last.name} (row "
                f"{last.row}); what was approved before that does not count any more: use the new "
                "grant."
            )


def agreed(log: Pages, charge: Charge) -> None:
    """Look at it within every charge, so that a no holds whoever has a grant already."""
    if charge.study is not None:
        check_agreed(log, charge.study.sha256, charge.approval)


def to_csv(entries: Iterable[Entry], decisions: Iterable[Decision] = ()) -> str:
    """Make one line per charge after a header; events are JSON.

    A decision about a study is a line that costs nothing, after the charges: its state says which,
    and its origin who.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        told = _flat(entry)
        writer.writerow(told | {name: canonical(told[name]) for name in ("event", "origin")})
    for one in decisions:
        told = {name: getattr(one, name) for name in ("row", "time", "study", "study_sha256")}
        told |= {"epsilon": 0.0, "delta": 0.0, "state": one.said, "reason": one.reason}
        writer.writerow(told | {"origin": canonical({"name": one.name})})
    return text.getvalue()


def to_json(log: Pages) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": log.ledger_id,
        "head": log.tail.hash,
        "accounts": [Account.of(log, name).to_dict() for name in log.balances],
        "decisions": [one.to_dict() for one in decisions(log)],
        "entries": [Entry.read(log, charge).to_dict() for charge in log.charged()],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _flat(entry: Entry) -> dict[str, Any]:
    values = entry.to_dict()
    values |= values.pop("guarantee")
    approval = values.pop("approval") or {}
    values |= {name: approval.get(name) for name in ("reason", "justification")}
    values["approved_by"] = approval.get("name")
    return {column: values[column] for column in _COLUMNS}
