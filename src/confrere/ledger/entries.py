"""What a ledger hands out: receipts, entries and accounts, all frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal, Self

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger.amounts import at_least
from confrere.ledger.balance import Balance
from confrere.ledger.chain import Kind, Row


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
    """

    ledger_id: str
    row: int
    account: str
    guarantee: Guarantee
    purpose: str
    time: str
    hash: str
    simulated: bool

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
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        missing = [name for name in cls.__dataclass_fields__ if name not in values]
        if missing:
            raise InvalidParameter(f"the receipt lacks {', '.join(missing)}.")
        known = {name: values[name] for name in cls.__dataclass_fields__}
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
    hash: str

    @classmethod
    def of(cls, charge: Row, mark: Row | None) -> Self:
        """Join a charge's row with the row that says how it ended, if there is one."""
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
            hash=charge.hash,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"guarantee": self.guarantee.to_dict()}


@dataclass(frozen=True, slots=True)
class Account:
    """One budget and what became of it.

    Attributes
    ----------
    name : str
    epsilon : float or None
        The cap; None without one.
    delta : float
        The cap on the sum of deltas; means nothing without a cap on epsilon.
    unit, neighbours
        What the account counts; None until its first charge, if not declared.
    spent, left : float
        Epsilon spent and epsilon that can still be charged (infinite without a cap).
    opened : str
        When, in UTC.
    """

    name: str
    epsilon: float | None
    delta: float
    unit: Unit | None
    neighbours: Neighbours | None
    spent: float
    left: float
    opened: str

    @classmethod
    def of(cls, row: Row, balance: Balance) -> Self:
        """Join an account's own row with what it has spent."""
        facts = row.facts
        return cls(
            name=facts["name"],
            epsilon=facts["epsilon"],
            delta=facts["delta"],
            unit=balance.unit,
            neighbours=balance.neighbours,
            spent=balance.spent,
            left=balance.left,
            opened=row.time,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity: ``left`` is then None."""
        return asdict(self) | {"left": None if math.isinf(self.left) else self.left}
