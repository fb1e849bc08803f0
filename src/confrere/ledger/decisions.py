"""What an owner says about a study: no, and later perhaps yes again. The last word stands.

Nobody has to say yes in a ledger: a grant does, or who types the amount. A no is a row, looked at
before every question and within every charge, so that it holds whoever has a grant already, and
against a party that is running. Only a row that says yes again lifts it, and what was agreed to
before that row stays without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, Self

from confrere.errors import StudyRefused
from confrere.ledger.chain import Kind, Row
from confrere.ledger.facts import ChargeApproval


@dataclass(frozen=True, slots=True)
class Decision:
    """One row that says no to a study, or takes that back.

    Attributes
    ----------
    row : int
    time : str
        When, in UTC.
    said : {"refused", "withdrawn", "agreed"}
        "withdrawn": it had been agreed to before. "agreed": the no before it is lifted.
    study, study_sha256 : str
    name, reason : str
        Who, and why.
    since : str or None
        Of "agreed": what was approved earlier than this does not count.
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
        return cls(
            row=row.seq,
            time=row.time,
            said=said,
            study=facts["study"]["id"],
            study_sha256=facts["study"]["sha256"],
            name=facts["name"],
            reason=facts["reason"],
            since=facts.get("since"),
        )

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


def check_agreed(decisions: Sequence[Decision], approval: ChargeApproval | None) -> None:
    """Refuse a study whose last word is no, or what was approved before a no that was lifted.

    Parameters
    ----------
    decisions : sequence of Decision
        All about one study, in order.
    approval : ChargeApproval or None
        Whose word a charge, or an answer, rests on.
    """
    if not decisions:
        return
    last = decisions[-1]
    if last.stops:
        raise last.error()
    if approval is None or _moment(approval.time) < _moment(str(last.since)):
        raise StudyRefused(
            f"study {last.study} was refused, and agreed to again by {last.name} (row {last.row}); "
            "what was approved before that does not count any more: use the new grant."
        )


def _moment(time: str) -> datetime:
    return datetime.fromisoformat(time)
