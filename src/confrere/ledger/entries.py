"""What a ledger hands out: receipts and entries, and the shapes that people take away."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, at_least, minus
from confrere.ledger.accounts import Account
from confrere.ledger.chain import FORMAT, Kind, Row, canonical
from confrere.ledger.decisions import Decision
from confrere.ledger.facts import ChargeApproval

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "row",
    "time",
    "account",
    "purpose",
    "epsilon",
    "delta",
    "unit",
    "neighbours",
    "theorem",
    "spent",
    "state",
    "ended",
    "simulated",
    "key",
    "digest",
    "code",
    "study",
    "study_sha256",
    "uncapped",
    "approved_by",
    "reason",
    "justification",
    "detail",
    "hash",
)
#: Columns that may be without any text.
_TEXTS = (
    "key",
    "digest",
    "code",
    "study",
    "study_sha256",
    "approved_by",
    "reason",
    "justification",
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a price was paid before the noise was drawn.

    Attributes
    ----------
    ledger_id : str
        Which ledger was charged.
    row : int
        The charge's row in it.
    account : str
        Who paid.
    guarantee : Guarantee
        What was paid for.
    purpose : str
        What it was paid for, in words.
    time : str
        When, in UTC, as ISO 8601.
    hash : str
        The row's hash: the ledger's head at that moment.
    simulated : bool
        Whether the noise is seeded, so that the result must not leave.
    study, study_sha256 : str or None
        The study that it was paid for, and what the study's text hashes to.
    uncapped : bool
        Whether nothing limits what is spent on the same data: the account had no cap, or the
        ledger does not last.
    approval : ChargeApproval or None
        Who agreed to it, and why.
    """

    ledger_id: str
    row: int
    account: str
    guarantee: Guarantee
    purpose: str
    time: str
    hash: str
    simulated: bool
    study: str | None = None
    study_sha256: str | None = None
    uncapped: bool = False
    approval: ChargeApproval | None = None

    @classmethod
    def of(cls, row: Row, ledger_id: str) -> Self:
        """Make the receipt of a charge's row."""
        facts = row.facts
        return cls(
            ledger_id=ledger_id,
            row=row.seq,
            account=facts["account"],
            guarantee=Guarantee.from_dict(facts["guarantee"]),
            purpose=facts["purpose"],
            time=row.time,
            hash=row.hash,
            simulated=facts["simulated"],
            uncapped=bool(facts.get("uncapped")),
            approval=_approval(facts),
            **_study(facts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what need not be there only where it is."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.study is None:
            del values["study"], values["study_sha256"]
        if not self.uncapped:
            del values["uncapped"]
        if self.approval is None:
            del values["approval"]
        else:
            values["approval"] = self.approval.to_dict()
        return values | {"guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        names = set(cls.__dataclass_fields__)
        missing = sorted(names - values.keys() - {"study", "study_sha256", "uncapped", "approval"})
        if missing:
            raise InvalidParameter(f"the receipt lacks {', '.join(missing)}.")
        known = {name: values[name] for name in names & values.keys()}
        known["approval"] = _approval(values)
        return cls(**known | {"guarantee": Guarantee.from_dict(values["guarantee"])})


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge and how it ended.

    Attributes
    ----------
    row, time, hash
        As on the receipt.
    account, guarantee, purpose, detail, simulated, key
        As charged.
    spent : float
        Epsilon that the account has spent in all once this charge is paid.
    counted : float
        The part of it that counts against the cap: all, or that of the year.
    year : int or None
        Which year's, where the cap is on a year.
    state : {"open", "released", "failed"}
        "open": charged, and nobody said how it ended; it counts like the others.
    ended : str or None
        When it was marked, in UTC.
    digest : str or None
        What the released thing hashes to, if told.
    code : str or None
        Why it failed.
    study, study_sha256 : str or None
        The study that it was paid for, and what the study's text hashes to.
    uncapped : bool
        As on the receipt.
    models : tuple of str
        What the models hash to that were made of it together with other parties' answers.
    approval : ChargeApproval or None
        As on the receipt.
    """

    row: int
    time: str
    account: str
    guarantee: Guarantee
    purpose: str
    detail: dict[str, Any]
    simulated: bool
    key: str | None
    spent: float
    counted: float
    year: int | None
    state: Literal["open", "released", "failed"]
    ended: str | None
    digest: str | None
    code: str | None
    study: str | None
    study_sha256: str | None
    uncapped: bool
    models: tuple[str, ...]
    approval: ChargeApproval | None
    hash: str

    @classmethod
    def of(cls, charge: Row, mark: Row | None, models: Iterable[Row] = ()) -> Self:
        """Join a charge's row with the rows that say how it ended and what came of it."""
        facts = charge.facts
        end = mark.facts if mark else {}
        spent = facts["spent"]
        total = Decimal(spent["epsilon"])
        earlier = Decimal(spent["earlier"]["epsilon"]) if "earlier" in spent else Decimal(0)
        state: Literal["open", "released", "failed"] = "open"
        if mark is not None:
            state = "released" if mark.kind is Kind.RELEASED else "failed"
        return cls(
            row=charge.seq,
            time=charge.time,
            account=facts["account"],
            guarantee=Guarantee.from_dict(facts["guarantee"]),
            purpose=facts["purpose"],
            detail=facts["detail"],
            simulated=facts["simulated"],
            key=facts["key"],
            spent=at_least(total),
            counted=at_least(minus(total, earlier)),
            year=spent.get("year"),
            state=state,
            ended=mark.time if mark else None,
            digest=end.get("digest"),
            code=end.get("code"),
            uncapped=bool(facts.get("uncapped")),
            models=tuple(row.facts["digest"] for row in models),
            approval=_approval(facts),
            hash=charge.hash,
            **_study(facts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {
            "guarantee": self.guarantee.to_dict(),
            "models": list(self.models),
            "approval": None if self.approval is None else self.approval.to_dict(),
        }


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


def to_json(
    *,
    ledger_id: str,
    head: str,
    accounts: Iterable[Account],
    decisions: Iterable[Decision],
    entries: Iterable[Entry],
) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": ledger_id,
        "head": head,
        "accounts": [account.to_dict() for account in accounts],
        "decisions": [one.to_dict() for one in decisions],
        "entries": [entry.to_dict() for entry in entries],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _flat(entry: Entry) -> dict[str, Any]:
    values = entry.to_dict()
    values |= values.pop("guarantee")
    approval = values.pop("approval") or {}
    values |= {name: approval.get(name) for name in ("reason", "justification")}
    values["approved_by"] = approval.get("name")
    return {column: values[column] for column in _COLUMNS}


def _approval(facts: Mapping[str, Any]) -> ChargeApproval | None:
    told = facts.get("approval")
    return None if told is None else ChargeApproval.from_dict(told)


def _study(facts: Mapping[str, Any]) -> dict[str, str | None]:
    study = facts.get("study") or {}
    return {"study": study.get("id"), "study_sha256": study.get("sha256")}
