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
from confrere.guarantee import Guarantee
from confrere.ledger.accounts import Account, at_least
from confrere.ledger.chain import FORMAT, Kind, Row, canonical

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
    "detail",
    "hash",
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
            **_study(facts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; study and lack of a cap only where there are any."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.study is None:
            del values["study"], values["study_sha256"]
        if not self.uncapped:
            del values["uncapped"]
        return values | {"guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        names = set(cls.__dataclass_fields__)
        missing = sorted(names - values.keys() - {"study", "study_sha256", "uncapped"})
        if missing:
            raise InvalidParameter(f"the receipt lacks {', '.join(missing)}.")
        known = {name: values[name] for name in names & values.keys()}
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
        Epsilon that the account has spent once this charge is paid.
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
    state: Literal["open", "released", "failed"]
    ended: str | None
    digest: str | None
    code: str | None
    study: str | None
    study_sha256: str | None
    uncapped: bool
    models: tuple[str, ...]
    hash: str

    @classmethod
    def of(cls, charge: Row, mark: Row | None, models: Iterable[Row] = ()) -> Self:
        """Join a charge's row with the rows that say how it ended and what came of it."""
        facts = charge.facts
        end = mark.facts if mark else {}
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
            spent=at_least(Decimal(facts["spent"]["epsilon"])),
            state=state,
            ended=mark.time if mark else None,
            digest=end.get("digest"),
            code=end.get("code"),
            uncapped=bool(facts.get("uncapped")),
            models=tuple(row.facts["digest"] for row in models),
            hash=charge.hash,
            **_study(facts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"guarantee": self.guarantee.to_dict(), "models": list(self.models)}


def to_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """Make one row per charge; times are in UTC, details stay dicts."""
    import pandas as pd

    frame = pd.DataFrame([_flat(entry) for entry in entries], columns=list(_COLUMNS))
    # Columns may be all None, or without any row: their types must not depend on it.
    for column in ("time", "ended"):
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601")
    texts = dict.fromkeys(("key", "digest", "code", "study", "study_sha256"), "string")
    return frame.astype(texts).set_index("row")


def to_csv(entries: Iterable[Entry]) -> str:
    """Make one line per charge after a header; details are JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow(_flat(entry) | {"detail": canonical(entry.detail)})
    return text.getvalue()


def to_json(
    *, ledger_id: str, head: str, accounts: Iterable[Account], entries: Iterable[Entry]
) -> str:
    """Make one document of everything, with the head that it was taken at."""
    document = {
        "format": FORMAT,
        "ledger_id": ledger_id,
        "head": head,
        "accounts": [account.to_dict() for account in accounts],
        "entries": [entry.to_dict() for entry in entries],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _flat(entry: Entry) -> dict[str, Any]:
    values = entry.to_dict()
    values |= values.pop("guarantee")
    return {column: values[column] for column in _COLUMNS}


def _study(facts: Mapping[str, Any]) -> dict[str, str | None]:
    study = facts.get("study") or {}
    return {"study": study.get("id"), "study_sha256": study.get("sha256")}
