"""Charges and decisions as people see them, and the shapes that people take away."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from typing_extensions import override

from confrere.errors import StudyRefused
from confrere.kernel.guarantee import at_least, minus
from confrere.kernel.ledger import FORMAT, Pages, Receipt, refused
from confrere.kernel.log import Kind, Row, canonical
from confrere.ledger.accounts import Account

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *("row", "time", "account", "purpose", "epsilon", "delta", "unit", "neighbours", "theorem"),
    *("spent", "state", "ended", "simulated", "key", "digest", "code", "study", "study_sha256"),
    *("uncapped", "approved_by", "reason", "justification", "detail", "hash"),
)
#: Columns that may be without any text.
_TEXTS = (*("key", "digest", "code", "study", "study_sha256"), *_COLUMNS[-5:-2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Receipt):
    """One charge and how it ended: what is on its receipt, and what became of it."""

    detail: dict[str, Any]
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
        facts = row.facts
        ended = None if mark is None else log.row(mark)
        end = {} if ended is None else ended.facts
        spent = facts["spent"]
        total = Decimal(spent["epsilon"])
        earlier = Decimal(spent["earlier"]["epsilon"]) if "earlier" in spent else Decimal(0)
        state: Literal["open", "released", "failed"] = "open"
        if ended is not None:
            state = "released" if ended.kind is Kind.RELEASED else "failed"
        receipt = Receipt.of(row, facts, log.ledger_id)
        return cls(
            **{name: getattr(receipt, name) for name in Receipt.__dataclass_fields__},
            detail=facts["detail"],
            key=facts["key"],
            spent=at_least(total),
            counted=at_least(minus(total, earlier)),
            year=spent.get("year"),
            state=state,
            ended=None if ended is None else ended.time,
            digest=end.get("digest"),
            code=end.get("code"),
            models=tuple(log.facts(model)["digest"] for model in log.models.get(charge, ())),
        )

    @override
    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "guarantee": self.guarantee.to_dict(),
            "models": list(self.models),
            "approval": None if self.approval is None else self.approval.to_dict(),
        }


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
        facts = row.facts
        said: Literal["refused", "withdrawn", "agreed"] = "agreed"
        if row.kind is Kind.REFUSED:
            said = "withdrawn" if facts.get("withdrawn") else "refused"
        study, told = facts["study"], (facts["name"], facts["reason"], facts.get("since"))
        return cls(row.seq, row.time, said, study["id"], study["sha256"], *told)

    @property
    def stops(self) -> bool:
        """Whether nothing may be charged for the study as long as this is the last word."""
        return self.said != "agreed"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def error(self) -> StudyRefused:
        """Return what is raised as long as this is the last word."""
        return refused(self.study, str(self), self.time, self.row)

    def __str__(self) -> str:
        return f"{self.said} by {self.name}"


def to_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """Make one row per charge; times are in UTC, details stay dicts."""
    import pandas as pd

    frame = pd.DataFrame([_flat(entry) for entry in entries], columns=list(_COLUMNS))
    # Columns may be all None, or without any row: their types must not depend on it.
    for column in ("time", "ended"):
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601")
    texts = dict.fromkeys(_TEXTS, "string")
    return frame.astype(texts).set_index("row")


def to_csv(entries: Iterable[Entry], decisions: Iterable[Decision] = ()) -> str:
    """Make one line per charge after a header; details are JSON.

    A decision about a study is a line that costs nothing, after the charges: its state says which,
    and its detail who.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow(_flat(entry) | {"detail": canonical(entry.detail)})
    for one in decisions:
        told = {name: getattr(one, name) for name in ("row", "time", "study", "study_sha256")}
        told |= {"epsilon": 0.0, "delta": 0.0, "state": one.said, "reason": one.reason}
        writer.writerow(told | {"detail": canonical({"name": one.name})})
    return text.getvalue()


def to_json(log: Pages) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": log.ledger_id,
        "head": log.tail.hash,
        "accounts": [Account.of(log, name).to_dict() for name in log.accounts],
        "decisions": [Decision.of(row).to_dict() for row in log.decisions()],
        "entries": [Entry.read(log, charge).to_dict() for charge in log.charges()],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _flat(entry: Entry) -> dict[str, Any]:
    values = entry.to_dict()
    values |= values.pop("guarantee")
    approval = values.pop("approval") or {}
    values |= {name: approval.get(name) for name in ("reason", "justification")}
    values["approved_by"] = approval.get("name")
    return {column: values[column] for column in _COLUMNS}
