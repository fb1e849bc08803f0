"""What may be spent, what was spent, and who said no: the rows that a release rests on.

Money of privacy is counted in exact decimals. A float stands for the decimal it prints as: ten
charges of ``0.1`` are ``1``, and fit a cap of 1. Sums are never rounded; only what is shown as a
float is, always to the careful side.

The head of the chain is also kept in a second place, the witness. A hash chain shows changes inside
it. It does not show that rows were cut from its end, that an older copy was put back, that it was
rebuilt, or that the file was deleted and made anew: all these are whole chains. So the last row's
number and hash, and what every account had spent, lie in a folder that a backup of the ledger does
not touch, and are compared at every opening and before every charge.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from typing_extensions import override

from confrere.errors import (
    AccountFrozen,
    BudgetExceeded,
    CompositionError,
    InvalidParameter,
    LedgerError,
    LedgerTampered,
    NotALedger,
    StudyRefused,
    UnknownAccount,
    WitnessMismatch,
)
from confrere.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    at_least,
    at_most,
    check_epsilon,
    exact,
    minus,
    plus,
)
from confrere.kernel.log import (
    Kind,
    LogFile,
    Row,
    canonical,
    create,
    now,
    rolled_back,
    transaction,
)

FORMAT = 2

#: What the owner does to an account after opening it.
CHANGES = frozenset({Kind.RAISED, Kind.FROZEN, Kind.DECLARED})
#: How a charge ended.
ENDS = frozenset({Kind.RELEASED, Kind.FAILED})
#: What a charge's row says about its moment, not about what is paid for.
_OF_THE_MOMENT = ("spent", "uncapped", "approval")
#: The account of an ephemeral ledger that names none, opened by its first charge.
_DEFAULT = "default"

_LONGEST_TEXT = 200
_LONGEST_JUSTIFICATION = 1000
_LONGEST_JSON = 16_384
_DEEPEST_JSON = 16
_FIRST_TOO_LARGE_INT = 2**63
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?([+]00:00|Z)", re.ASCII)


# -- the facts that rows hold: short texts and small plain JSON values, never data ---------------


def _account_facts(
    name: str,
    epsilon: float | None,
    delta: float,
    unit: Unit | str,
    neighbours: Neighbours | str,
    reason: str | None = None,
    period: str | None = None,
) -> dict[str, Any]:
    if period not in (None, "year") or (period is not None and epsilon is None):
        raise InvalidParameter(
            "period must be 'year', for caps on what a calendar year may spend, or None; and it "
            "needs a cap: give epsilon as well."
        )
    if epsilon is None and _check_delta(delta) != 0:
        raise InvalidParameter("delta is a cap beside the one on epsilon: give epsilon as well.")
    facts = {
        "name": _check_text(name, "name"),
        "epsilon": None if epsilon is None else check_epsilon(epsilon),
        "delta": _check_delta(delta),
        **_counted_facts(unit, neighbours),
    }
    if period is not None:
        facts["period"] = period
    return facts if reason is None else facts | {"reason": _check_text(reason, "reason")}


def _counted_facts(unit: Unit | str, neighbours: Neighbours | str) -> dict[str, str]:
    try:
        return {"unit": str(Unit(unit)), "neighbours": str(Neighbours(neighbours))}
    except ValueError as error:
        units, relations = (", ".join(repr(str(k)) for k in kinds) for kinds in (Unit, Neighbours))
        raise InvalidParameter(
            f"unit must be one of {units}, and neighbours one of {relations}: an account adds up "
            "guarantees of one kind."
        ) from error


def _change_facts(account: str, reason: str) -> dict[str, Any]:
    return {"account": _check_text(account, "account"), "reason": _check_text(reason, "reason")}


def _charge_facts(
    guarantee: Guarantee,
    purpose: str,
    detail: Mapping[str, Any] | None = None,
    simulated: bool = False,
    key: str | None = None,
    study: tuple[str, str] | None = None,
    approval: ChargeApproval | None = None,
) -> dict[str, Any]:
    """Say what is charged, but for the account and its running totals."""
    if not isinstance(guarantee, Guarantee):
        raise InvalidParameter(
            f"guarantee must be a confrere.guarantee.Guarantee, got a {type(guarantee).__name__}."
        )
    if not isinstance(simulated, bool):
        raise InvalidParameter(f"simulated must be a bool, got a {type(simulated).__name__}.")
    if detail is not None and not isinstance(detail, Mapping):
        raise InvalidParameter(f"detail must be a mapping, got a {type(detail).__name__}.")
    facts = {
        "guarantee": _check_json(guarantee.to_dict(), "guarantee"),
        "purpose": _check_text(purpose, "purpose"),
        "detail": _check_json(dict(detail or {}), "detail"),
        "simulated": simulated,
        "key": None if key is None else _check_text(key, "key"),
    }
    if approval is not None:
        if not isinstance(approval, ChargeApproval):
            raise InvalidParameter("approval must be a confrere.ledger.ChargeApproval.")
        facts["approval"] = approval.to_dict()
    return facts if study is None else facts | {"study": _study_facts(study)}


def _study_facts(study: tuple[str, str]) -> dict[str, str]:
    if not isinstance(study, tuple) or len(study) != 2:
        raise InvalidParameter("study must be a pair: the study's id and its sha256.")
    name, sha256 = study
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidParameter("study must name the study's sha256: 64 hex digits.")
    return {"id": _check_text(name, "study"), "sha256": sha256}


def _decision_facts(study: tuple[str, str], name: str, reason: str) -> dict[str, Any]:
    return {
        "study": _study_facts(study),
        "name": _check_text(name, "name"),
        "reason": _check_text(reason, "reason"),
    }


def _check_delta(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int) or not 0 <= value < 1:
        raise InvalidParameter("delta must be a number in [0, 1).")
    return float(value)


def _check_text(value: object, name: str, longest: int = _LONGEST_TEXT) -> str:
    """Return ``value`` if it is one printable, not too long line."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a str, got a {type(value).__name__}.")
    if not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidParameter(f"{name} must be one line of 1 to {longest} printable characters.")
    return str(value)


def _check_code(value: object, name: str) -> str:
    """Return ``value`` if it is a code like ``"SolverFailed"``, which cannot quote the data."""
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        raise InvalidParameter(
            f"{name} must be a code such as 'CalibrationError': a letter, then letters, digits, "
            "'_', '.', ':' or '-', 64 at most. An error's message may quote data; its class's "
            "name does not."
        )
    return str(value)


def _check_json(value: Any, name: str) -> Any:
    """Return ``value`` if it is made of plain JSON values and small."""
    _check_plain(value, name, depth=0)
    if len(canonical(value)) > _LONGEST_JSON:
        raise InvalidParameter(
            f"{name} is longer than {_LONGEST_JSON} characters of JSON: a ledger holds facts "
            "about a release, not data."
        )
    return value


def _check_plain(value: object, name: str, *, depth: int) -> None:
    if depth > _DEEPEST_JSON:
        raise InvalidParameter(f"{name} is nested deeper than {_DEEPEST_JSON} levels.")
    if value is None or isinstance(value, str):
        return
    if isinstance(value, int):
        if abs(value) >= _FIRST_TOO_LARGE_INT:
            raise InvalidParameter(f"{name} must be an int of 64 bits at most.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameter(f"{name} must be finite to be written as JSON.")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_plain(item, f"{name}[{position}]", depth=depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidParameter(f"{name} must have str keys, got a {type(key).__name__}.")
            _check_plain(item, f"{name}[{key!r}]", depth=depth + 1)
    else:
        raise InvalidParameter(
            f"{name} must be a plain JSON value (number, str, bool, None, list, dict), "
            f"got a {type(value).__name__}."
        )


# -- approvals, refusals, receipts -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChargeApproval:
    """Who agreed that something is paid for, and why.

    ``time`` is in UTC, as ISO 8601; ``justification`` says why this epsilon.
    """

    name: str
    reason: str
    time: str
    justification: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.name, "approval.name")
        _check_text(self.reason, "approval.reason")
        if not isinstance(self.time, str) or not _TIME.fullmatch(self.time):
            raise InvalidParameter("approval.time must be a time in UTC, as ISO 8601.")
        if self.justification is not None:
            _check_text(self.justification, "approval.justification", _LONGEST_JUSTIFICATION)

    def to_dict(self) -> dict[str, str]:
        """Return plain values; a justification only where there is one."""
        facts = {"name": self.name, "reason": self.reason, "time": self.time}
        return facts | ({} if self.justification is None else {"justification": self.justification})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(values, Mapping) or not values.keys() <= set(cls.__dataclass_fields__):
            raise InvalidParameter("approval must have name, reason, time and justification.")
        told: dict[str, Any] = {name: values.get(name) for name in cls.__dataclass_fields__}
        return cls(**told)

    @classmethod
    def within(cls, facts: Mapping[str, Any]) -> Self | None:
        """Read the approval that a charge or a receipt names, if it does."""
        told = facts.get("approval")
        return None if told is None else cls.from_dict(told)


@dataclass(frozen=True, slots=True)
class Decision:
    """One row that says no to a study, or takes that back. The last word stands.

    Nobody has to say yes in a ledger: a grant does, or who types the amount. A no is a row, looked
    at before every question and within every charge, so that it holds whoever has a grant already,
    and against a party that is running. Only a row that says yes again lifts it, and what was
    agreed to before that row stays without effect.

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
        return StudyRefused(
            f"study {self.study} was {self} on {self.time[:16]}Z (row {self.row}): nothing more is "
            "charged or answered for it. A new approval lifts that: confrere approve."
        )

    def check(self, approval: ChargeApproval | None) -> None:
        """Refuse a study of which this is the last word, or what was approved before it."""
        if self.stops:
            raise self.error()
        moment = datetime.fromisoformat
        if approval is None or moment(approval.time) < moment(str(self.since)):
            raise StudyRefused(
                f"study {self.study} was refused, and agreed to again by {self.name} (row "
                f"{self.row}); what was approved before that does not count any more: use the new "
                "grant."
            )

    def __str__(self) -> str:
        return f"{self.said} by {self.name}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a price was paid before the noise was drawn.

    Attributes
    ----------
    ledger_id, row, account
        Which ledger was charged, in which row, and who paid.
    guarantee, purpose
        What was paid for; in words.
    time, hash
        When, in UTC, as ISO 8601; and the row's hash: the ledger's head at that moment.
    simulated : bool
        Whether the noise is seeded, so that the result must not leave.
    study, study_sha256 : str or None
        The study that it was paid for, and what the study's text hashes to.
    uncapped : bool
        Whether nothing limits what is spent on the same data: the account had no cap, or the
        ledger does not last.
    approval : ChargeApproval or None
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
    def of(cls, row: Row, facts: Mapping[str, Any], ledger_id: str) -> Self:
        """Make the receipt of a charge's row."""
        study = facts.get("study") or {}
        return cls(
            ledger_id=ledger_id,
            row=row.seq,
            account=facts["account"],
            guarantee=Guarantee.from_dict(facts["guarantee"]),
            purpose=facts["purpose"],
            time=row.time,
            hash=row.hash,
            simulated=facts["simulated"],
            study=study.get("id"),
            study_sha256=study.get("sha256"),
            uncapped=bool(facts.get("uncapped")),
            approval=ChargeApproval.within(facts),
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
        known["approval"] = ChargeApproval.within(values)
        return cls(**known | {"guarantee": Guarantee.from_dict(values["guarantee"])})


class Payment(NamedTuple):
    """What a receipt paid for, as the rows say it now.

    ``sums``: for how many draws at once, where it is for several; ``models``: how many of them
    were noted to have left.
    """

    guarantee: Guarantee
    open: bool
    sums: bool
    models: int


# -- what an account allows ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows and what it has spent so far.

    Where the cap is on a year, what was spent in earlier years does not count against it. A year
    is the calendar's, in UTC, and never an earlier one than that of the last charge: a clock that
    is set back gives nothing back.
    """

    account: str
    epsilon_cap: Decimal | None
    delta_cap: Decimal
    unit: Unit | None
    neighbours: Neighbours | None
    frozen: str | None = None
    epsilon_spent: Decimal = Decimal(0)
    delta_spent: Decimal = Decimal(0)
    period: Literal["year"] | None = None
    year: int = 0
    epsilon_earlier: Decimal = Decimal(0)
    delta_earlier: Decimal = Decimal(0)

    @classmethod
    def opened(cls, facts: Mapping[str, Any]) -> Self:
        """Read the facts of an account's own row: nothing is spent yet."""
        cap, unit, neighbours = facts["epsilon"], facts["unit"], facts["neighbours"]
        return cls(
            account=facts["name"],
            epsilon_cap=None if cap is None else exact(cap),
            delta_cap=exact(facts["delta"]),
            unit=None if unit is None else Unit(unit),
            neighbours=None if neighbours is None else Neighbours(neighbours),
            period=facts.get("period"),
        )

    def changed(self, kind: str, facts: Mapping[str, Any]) -> Self:
        """Take over what the owner's row says: another cap, no more charges, or what is counted."""
        if kind == Kind.FROZEN:
            return replace(self, frozen=str(facts["reason"]))
        if kind == Kind.RAISED:
            return self.raised(facts["epsilon"], facts["delta"])
        if self.unit is not None:
            raise InvalidParameter(
                f"account {self.account!r} counts per {self.unit} ({self.neighbours}) already; "
                "that does not change."
            )
        return replace(self, unit=Unit(facts["unit"]), neighbours=Neighbours(facts["neighbours"]))

    def raised(self, epsilon: float | None, delta: float | None) -> Self:
        """Let more be spent, where a cap is given."""
        if self.epsilon_cap is None:
            raise InvalidParameter(f"account {self.account!r} has no cap to raise.")
        caps = (
            self.epsilon_cap if epsilon is None else exact(epsilon),
            self.delta_cap if delta is None else exact(delta),
        )
        falls = caps[0] < self.epsilon_cap or caps[1] < self.delta_cap
        if falls or caps == (self.epsilon_cap, self.delta_cap):
            raise InvalidParameter(
                f"account {self.account!r} has the caps epsilon {at_most(self.epsilon_cap):g} and "
                f"delta {at_most(self.delta_cap):g}; a raise makes one of them larger and neither "
                "smaller. To spend less, freeze the account when it is enough."
            )
        return replace(self, epsilon_cap=caps[0], delta_cap=caps[1])

    def resumed(self, charge: Mapping[str, Any]) -> Self:
        """Take over the running totals from the facts of the account's last charge."""
        spent = charge["spent"]
        totals: dict[str, Any] = {
            "epsilon_spent": Decimal(spent["epsilon"]),
            "delta_spent": Decimal(spent["delta"]),
        }
        if self.period is not None:
            totals["year"] = int(spent["year"])
            totals["epsilon_earlier"] = Decimal(spent["earlier"]["epsilon"])
            totals["delta_earlier"] = Decimal(spent["earlier"]["delta"])
        return replace(self, **totals)

    def at(self, time: str) -> Self:
        """Begin the year of a time, if it is a later one."""
        year = int(time[:4])
        if self.period is None or year <= self.year:
            return self
        return replace(
            self, year=year, epsilon_earlier=self.epsilon_spent, delta_earlier=self.delta_spent
        )

    def booked(self, guarantee: Guarantee, time: str) -> Self:
        """Add what was spent at a time, whatever the caps."""
        begun = self.at(time)
        return replace(
            begun,
            epsilon_spent=plus(begun.epsilon_spent, exact(guarantee.epsilon)),
            delta_spent=plus(begun.delta_spent, exact(guarantee.delta)),
        )

    def after(self, guarantee: Guarantee, time: str) -> Self:
        """Pay for one more release at a time, composed in sequence, or say why not."""
        if self.frozen is not None:
            raise AccountFrozen(
                f"account {self.account!r} is frozen ({self.frozen}); nothing was spent."
            )
        self._check_composable(guarantee)
        paid = self.booked(guarantee, time)
        if paid.epsilon_cap is not None:
            before = self.at(time)
            bound = "ledger" if self.period is None else "ledger, this year"
            if minus(paid.epsilon_spent, paid.epsilon_earlier) > paid.epsilon_cap:
                raise BudgetExceeded(self.account, guarantee.epsilon, before.left, bound=bound)
            if minus(paid.delta_spent, paid.delta_earlier) > paid.delta_cap:
                spent = minus(before.delta_spent, before.delta_earlier)
                left = max(0.0, at_most(minus(self.delta_cap, spent)))
                raise BudgetExceeded(self.account, guarantee.delta, left, "delta", bound)
        return paid

    def _check_composable(self, guarantee: Guarantee) -> None:
        if self.unit is None or self.neighbours is None:
            raise CompositionError(
                f"account {self.account!r} is of an older file and does not say what it counts: "
                "its owner says it with `confrere ledger open LEDGER "
                f"{self.account!r} --unit record --neighbours replace-one --reason ...`. Nothing "
                "was spent."
            )
        if self.unit is not guarantee.unit:
            raise CompositionError(
                f"account {self.account!r} counts per {self.unit}, the guarantee is per "
                f"{guarantee.unit}: the two do not add up. Nothing was spent."
            )
        if self.neighbours is not guarantee.neighbours:
            raise CompositionError(
                f"account {self.account!r} counts {self.neighbours} neighbours, the guarantee is "
                f"for {guarantee.neighbours}: the two do not add up. Nothing was spent."
            )

    def covers(self, guarantee: Guarantee) -> bool:
        """Whether the caps cover a price now; raises where none ever would."""
        try:
            self.after(guarantee, now())
        except BudgetExceeded:
            return False
        return True

    @property
    def facts(self) -> dict[str, float | str | None]:
        """What the account allows now, as the row that opens it says it."""
        return {
            "epsilon": None if self.epsilon_cap is None else float(self.epsilon_cap),
            "delta": float(self.delta_cap),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "period": self.period,
        }

    @property
    def totals(self) -> dict[str, Any]:
        """The running totals, as a charge's row keeps them."""
        totals: dict[str, Any] = {
            "epsilon": str(self.epsilon_spent),
            "delta": str(self.delta_spent),
        }
        if self.period is None:
            return totals
        earlier = {"epsilon": str(self.epsilon_earlier), "delta": str(self.delta_earlier)}
        return totals | {"year": self.year, "earlier": earlier}

    @property
    def spent(self) -> float:
        """Epsilon spent in all, never shown as less than it is."""
        return at_least(self.epsilon_spent)

    @property
    def counted(self) -> float:
        """Epsilon that counts against the cap: all of it, or this year's."""
        return at_least(minus(self.epsilon_spent, self.epsilon_earlier))

    @property
    def left(self) -> float:
        """Epsilon that can still be charged; infinite without a cap, nothing once frozen."""
        if self.frozen is not None:
            return 0.0
        if self.epsilon_cap is None:
            return math.inf
        spent = minus(self.epsilon_spent, self.epsilon_earlier)
        # What was booked may be more than the cap.
        return max(0.0, at_most(minus(self.epsilon_cap, spent)))


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap on all that was ever spent on the same data, besides the account's own.

    ``by`` says who set it: one of :data:`confrere.errors.LIMITS`. ``over`` are the accounts of
    these data, where there are others than the one that pays: a ledger of an older version has one
    for every name that studies gave them.
    """

    epsilon: float
    by: str
    over: tuple[str, ...] = ()

    def check(self, account: str, spent: Sequence[Decimal], price: Guarantee) -> None:
        """Refuse a price that does not fit beside what was spent."""
        left = exact(check_epsilon(self.epsilon))
        for one in spent:
            left = minus(left, one)
        if exact(price.epsilon) > left:
            raise BudgetExceeded(account, price.epsilon, max(0.0, at_most(left)), bound=self.by)


# -- what the rows say -----------------------------------------------------------------------------


class Pages(LogFile):
    """A ledger's file, with where its rows stand; what they say is read from the disk again.

    Kept are numbers of rows: about every account in the order of opening, of charges by idempotency
    key, of the ``marks`` that say how charges ended, of the ``models`` that were made of them, and
    of ``resets``, by which the owner went on from a file that was not as it was left.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.ledger_id = ""
        self.accounts: dict[str, list[int]] = {}
        self.keys: dict[str, int] = {}
        self.marks: dict[int, int] = {}
        self.models: dict[int, list[int]] = {}
        self.resets: list[int] = []
        self._charges: dict[str, list[int]] = {}
        self._all_charges: list[int] = []
        self._decisions: dict[str, list[int]] = {}

    @override
    def enter(self, row: Row, facts: Mapping[str, Any]) -> None:
        if row.kind is Kind.CHARGE:
            self._charges[facts["account"]].append(row.seq)
            self._all_charges.append(row.seq)
            if facts["key"] is not None:
                self.keys[facts["key"]] = row.seq
        elif row.kind in ENDS:
            self.marks[facts["charge"]] = row.seq
        elif row.kind is Kind.ACCOUNT:
            self.accounts.setdefault(facts["name"], []).append(row.seq)
            self._charges.setdefault(facts["name"], [])
        elif row.kind in CHANGES:
            self.accounts[facts["account"]].append(row.seq)
        elif row.kind is Kind.MODEL:
            self.models.setdefault(facts["charge"], []).append(row.seq)
        elif row.kind is Kind.WITNESS:
            self.resets.append(row.seq)
        elif row.kind is not Kind.GENESIS:
            self._decisions.setdefault(facts["study"]["sha256"], []).append(row.seq)
        else:
            if facts["format"] not in (1, FORMAT):
                raise NotALedger(
                    f"it has format {facts['format']}; this version of confrere reads {FORMAT}."
                )
            self.ledger_id = str(facts["ledger_id"])

    def known(self, account: str) -> str:
        """Return the name of an account, if there is one."""
        if _check_text(account, "account") not in self.accounts:
            raise UnknownAccount(f"there is no account {account!r}; there is: {self._listed()}.")
        return account

    def only(self) -> str | None:
        """Return the name of the only account, or None if there is no account at all."""
        if len(self.accounts) > 1:
            raise UnknownAccount(f"there are several accounts, say which: {self._listed()}.")
        return next(iter(self.accounts), None)

    def _listed(self) -> str:
        return ", ".join(map(repr, self.accounts)) or "none, open one with open_account"

    def allowance(self, account: str) -> Balance:
        """Return what an account allows, by its own rows, before anything is charged."""
        opened, *changes = self.accounts[self.known(account)]
        balance = Balance.opened(self.facts(opened))
        for change in changes:
            balance = balance.changed(self.row(change).kind, self.facts(change))
        return balance

    def balance(self, account: str) -> Balance:
        """Return what an account allows and has spent now, by its own rows and its last charge."""
        balance = self.allowance(account)
        for last in self._charges[account][-1:]:
            balance = balance.resumed(self.facts(last))
        return balance.at(now())

    def charges(self, account: str | None = None) -> Sequence[int]:
        """Return the rows of the charges of one account, or of all."""
        return self._all_charges if account is None else self._charges[self.known(account)]

    def charge_of(self, receipt: Receipt) -> int:
        """Return the row of the charge that a receipt was given for, if by this ledger."""
        position = bisect_left(self._all_charges, receipt.row)
        if self._all_charges[position : position + 1] == [receipt.row]:
            row, facts = self.row(receipt.row), self.facts(receipt.row)
            if Receipt.of(row, facts, self.ledger_id) == receipt:
                return receipt.row
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")

    def decisions(self, study_sha256: str | None = None) -> list[Decision]:
        """Return who said no to a study, or took that back; about all studies by default."""
        asked = list(self._decisions) if study_sha256 is None else [study_sha256]
        rows = sorted(row for study in asked for row in self._decisions.get(study, ()))
        return [Decision.of(self.row(row)) for row in rows]

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study whose last word is no, or what was approved before a no was lifted."""
        for last in self.decisions(study_sha256)[-1:]:
            last.check(approval)


# -- the witness -----------------------------------------------------------------------------------

#: A head fits a sector, so that it is written whole or not at all.
_RECORD = 512
#: An account's name may be long.
_LONG_RECORD = 2048


@dataclass(frozen=True, slots=True)
class Head:
    """The last row that was seen, and when, in UTC."""

    ledger_id: str
    row: int
    hash: str
    time: str


class Spent(NamedTuple):
    """All that was charged to an account, never less; ``facts`` opens it again, should it be gone.

    They are what :attr:`Balance.facts` says: caps, unit, neighbours and period.
    """

    ledger_id: str
    account: str
    epsilon: float
    delta: float
    facts: Mapping[str, Any]


def witness_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return where heads are kept.

    ``folder`` if given; else what the environment variable ``CONFRERE_WITNESS`` names; else
    ``confrere/witness`` in the user's state folder (``XDG_STATE_HOME``, or ``~/.local/state``).
    """
    chosen = os.fspath(folder) if folder is not None else os.environ.get("CONFRERE_WITNESS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "confrere" / "witness"


@lru_cache
def _file(folder: Path, ending: str, *names: str) -> Path:
    hashed = (hashlib.sha256(os.fsencode(name)).hexdigest()[:32] for name in names)
    return folder / f"{'.'.join(hashed)}.{ending}"


class Witness:
    """Heads of ledgers, one small file each, and which ledger a path held.

    It may be behind, if a kill came before it was told: a head that is in the chain is fine. A head
    that is not in the chain means that rows which were there are gone.
    The folder is made, for its owner only, when there is something to keep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head_of(self, ledger_id: str) -> Head | None:
        """Return the last head that was kept, if any."""
        values = self._read(_file(self.folder, "head", ledger_id))
        return None if values is None else Head(**values)

    def ledger_at(self, path: Path) -> str | None:
        """Return which ledger a path held when it was last opened."""
        values = self._read(_file(self.folder, "path", str(path)))
        return None if values is None else str(values["ledger_id"])

    def check(self, log: Pages, path: Path) -> None:
        """Refuse a ledger of which rows that were there, as is remembered, are gone."""
        head = self.head_of(log.ledger_id)
        if head is None:
            return
        row = log.at(head.row)
        if row is None:
            found = f"now it has {log.tail.seq}: an older copy was put back, or rows were cut from "
            raise self._mismatch(path, head, f"{found}its end")
        if row.hash != head.hash:
            raise self._mismatch(path, head, "now that row is another one: the chain was rebuilt")

    def check_place(self, ledger_id: str | None, path: Path) -> None:
        """Refuse a path that held another ledger; ``ledger_id`` is None for one not made yet."""
        before = self.ledger_at(path)
        if before is not None and before != ledger_id:
            now = "now there is none" if ledger_id is None else "now there is another one"
            found = f"{now}: the file was deleted, moved or replaced"
            raise self._mismatch(path, self.head_of(before), found)

    def keep(self, log: Pages, accounts: Iterable[str]) -> None:
        """Keep the last row of a ledger, and what accounts have spent."""
        row = log.tail
        head = {"ledger_id": log.ledger_id, "row": row.seq, "hash": row.hash, "time": row.time}
        self._write(_file(self.folder, "head", log.ledger_id), head)
        self.keep_spent(log, accounts)

    def keep_spent(self, log: Pages, accounts: Iterable[str]) -> None:
        """Keep what accounts of a ledger have spent."""
        for account in accounts:
            balance = log.balance(account)
            told = (balance.spent, at_least(balance.delta_spent), balance.facts)
            spent = Spent(log.ledger_id, account, *told)._asdict()
            self._write(self._spent_file(log.ledger_id, account), spent, _LONG_RECORD)

    def lacks_spent(self, log: Pages) -> list[str]:
        """Return accounts of which nothing is kept: an older version kept heads only."""
        return [one for one in log.accounts if not self._spent_file(log.ledger_id, one).exists()]

    def lost(self, log: Pages, path: Path) -> list[Spent]:
        """Return what accounts had spent that the file does not show, as far as is known.

        Of a file that is shorter than it was, the difference. Of a chain that was rebuilt, or a
        ledger that another one was put in the place of, all of it: nothing says that what the file
        shows is the same.
        """
        own, before = log.ledger_id, self.ledger_at(path)
        found = [] if before is None or before == own else self._spent_of(before)
        head = self.head_of(own)
        row = None if head is None else log.at(head.row)
        if head is None or (row is not None and row.hash == head.hash):
            return found
        for kept in self._spent_of(own):
            shown = (Decimal(0), Decimal(0))
            if row is None and kept.account in log.accounts:
                balance = log.balance(kept.account)
                shown = (exact(balance.spent), exact(at_least(balance.delta_spent)))
            epsilon = at_least(minus(exact(kept.epsilon), shown[0]))
            delta = at_least(minus(exact(kept.delta), shown[1]))
            if epsilon > 0:
                found.append(kept._replace(epsilon=epsilon, delta=max(0.0, delta)))
        return found

    def keep_place(self, ledger_id: str, path: Path) -> None:
        """Keep which ledger a path holds."""
        if self.ledger_at(path) != ledger_id:
            told = {"ledger_id": ledger_id, "time": now()}
            self._write(_file(self.folder, "path", str(path)), told)

    def check_source(self, source: str, ledger_id: str | None, path: Path) -> None:
        """Refuse data that are counted in another ledger; ``source`` tells them from others."""
        known = self._read(_file(self.folder, "data", source))
        if known is not None and known["ledger_id"] != ledger_id and known["path"] != str(path):
            raise WitnessMismatch(
                f"these data are counted in another ledger already, {known['path']}: a second one "
                "would forget what was spent there. Nothing was spent."
            ).hinting("name the home that they are in: CONFRERE_HOME=FOLDER, and see confrere home")

    def keep_source(self, source: str, ledger_id: str, path: Path) -> None:
        """Keep in which ledger data are counted."""
        told = {"ledger_id": ledger_id, "path": str(path)}
        self._write(_file(self.folder, "data", source), told, _LONG_RECORD)

    def _spent_file(self, ledger_id: str, account: str) -> Path:
        return _file(self.folder, "spent", ledger_id, account)

    def _spent_of(self, ledger_id: str) -> list[Spent]:
        files = sorted(self.folder.glob(_file(self.folder, "*.spent", ledger_id).name))
        return [Spent(**values) for values in map(self._read, files) if values is not None]

    def _read(self, file: Path) -> dict[str, Any] | None:
        try:
            text = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None  # What cannot be there is refused when it is to be kept.
        except OSError as error:
            raise LedgerError(f"the witness {file} cannot be read ({error.strerror}).") from error
        if not text:
            return None  # Killed between making the file and writing it.
        try:
            values: dict[str, Any] = json.loads(text)
            if not isinstance(values["ledger_id"], str):
                raise TypeError
        except (ValueError, TypeError, LookupError) as error:
            raise LedgerError(
                f"the witness {file} is damaged. Remove it if you know why; the next opening of "
                "its ledger keeps what it finds."
            ) from error
        return values

    def _write(self, file: Path, values: Mapping[str, Any], size: int = _RECORD) -> None:
        record = json.dumps(values, ensure_ascii=False).encode().ljust(size - 1) + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                descriptor = os.open(file, flags, 0o600)
            except FileNotFoundError:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(file, flags, 0o600)
            try:
                os.pwrite(descriptor, record, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise LedgerError(
                f"the head cannot be kept in {self.folder} ({error.strerror}): name another "
                "folder, outside backups of the ledger, in the environment variable "
                "CONFRERE_WITNESS."
            ) from error

    def _mismatch(self, path: Path, head: Head | None, found: str) -> WitnessMismatch:
        had = "it held a ledger"
        if head is not None:
            had = f"the ledger had row {head.row} ({head.hash[:12]}) on {head.time[:19]}"
        return WitnessMismatch(
            f"{had}, as {self.folder} remembers; {found}. What was charged in between would be "
            "forgotten. Put the newest copy back. Only if its owner knows why: `confrere ledger "
            f"witness {path.name} --reset --reason ...` goes on from here, writes that down in "
            "the chain, and books what is missing as spent."
        )


# -- the ledger ------------------------------------------------------------------------------------


class Store:
    """One ledger file by its name: recognised, and compared with its witness.

    An append waits until the disk has it if ``durable``. ``ledger_id`` says which ledger the file
    must be; by default the one found first.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool,
        witness: Witness | None = None,
        ledger_id: str | None = None,
    ) -> None:
        self.path = path
        self.durable = durable
        self.witness = witness
        self.ledger_id = ledger_id
        self._seen: Row | None = None
        self._accounts: set[str] = set()

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], witness: str | os.PathLike[str] | None = None
    ) -> tuple[Self, Witness]:
        """Return the store of a file that lasts, and its witness; nothing is opened."""
        try:
            kept = Witness(witness_folder(witness))
            return cls(Path(path).resolve(), durable=True, witness=kept), kept
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"path must be a file's name or None: {error}.") from error

    def create(self) -> None:
        """Make the file, unless it is there."""
        create(self.path, {"format": FORMAT, "ledger_id": uuid.uuid4().hex})

    def open(self) -> None:
        """Make the file unless it is or was there; refuse what is not as it was left."""
        kept = self.witness
        with self.named():
            if not self.path.exists():
                if kept is not None:
                    kept.check_place(None, self.path)
                self.create()
        with self.reading() as log:
            if kept is not None:
                kept.check(log, self.path)
                kept.check_place(log.ledger_id, self.path)
                kept.keep_place(log.ledger_id, self.path)
                lacking = kept.lacks_spent(log)
                if kept.head_of(log.ledger_id) is None:
                    kept.keep(log, lacking)
                else:
                    kept.keep_spent(log, lacking)

    def reading(self) -> AbstractContextManager[Pages]:
        """Show one consistent state of the rows."""
        return self._transaction(exclusive=False)

    def writing(self) -> AbstractContextManager[Pages]:
        """Be the only writer."""
        return self._transaction(exclusive=True)

    @contextmanager
    def _transaction(self, *, exclusive: bool) -> Iterator[Pages]:
        with self.named(), transaction(self.path, Pages, exclusive=exclusive) as log:
            if self.ledger_id not in (None, log.ledger_id):
                raise LedgerTampered("another ledger was put in its place.")
            self.ledger_id = log.ledger_id
            seen = self._seen
            if seen is not None and log.tail != seen and log.at(seen.seq) != seen:
                raise rolled_back(seen.seq)
            if exclusive and self.witness is not None:
                self.witness.check(log, self.path)
            before = log.tail.seq
            self._accounts = set()
            yield log
            self._seen = log.tail
            if log.tail.seq > before and self.witness is not None:
                self.witness.keep(log, self._accounts)

    def append(
        self, log: Pages, kind: Kind, facts: Mapping[str, Any], *, time: str | None = None
    ) -> Row:
        """Add a row; when this returns it is on disk, if this file is one to last."""
        if kind in (Kind.CHARGE, Kind.ACCOUNT) or kind in CHANGES:
            self._accounts.add(facts["name" if kind is Kind.ACCOUNT else "account"])
        return log.append(kind, facts, durable=self.durable, time=time)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the file's name into every complaint about it."""
        try:
            yield
        except (NotALedger, LedgerTampered) as error:
            if str(error).startswith(f"{self.path}: "):
                raise
            raise type(error)(f"{self.path}: {error}") from error


class LedgerFile:
    """Which file, and what a payer asks of it; nothing here writes a row.

    A handle knows which file and nothing about what is in it: a copy, clone or pickle of it is the
    same ledger.
    """

    #: The row of the last charge whose end was noted by this handle.
    marked_last: int | None = None

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        witness: str | os.PathLike[str] | None = None,
    ) -> None:
        if path is None:
            self._store = Store(_ephemeral_path(), durable=False)
        else:
            self._store, _ = Store.at(path, witness)
        self._store.open()

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def ephemeral(self) -> bool:
        """Whether the file goes when the process that made it exits."""
        return not self._store.durable

    @property
    def ledger_id(self) -> str:
        """Which ledger this is: a random name, given when the file was made."""
        with self._store.reading() as log:
            return log.ledger_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.ephemeral else repr(str(self.path))})"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, LedgerFile) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        store = self._store
        return {
            "path": str(store.path),
            "durable": store.durable,
            "ledger_id": store.ledger_id,
            "witness": None if store.witness is None else str(store.witness.folder),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        folder = state["witness"]
        self._store = Store(
            Path(state["path"]),
            durable=state["durable"],
            witness=None if folder is None else Witness(Path(folder)),
            ledger_id=state["ledger_id"],
        )

    def payment(self, receipt: Receipt) -> Payment:
        """Return what a receipt paid for, and what became of it so far."""
        with self._store.reading() as log:
            row = log.charge_of(receipt)
            facts = log.facts(row)
            return Payment(
                Guarantee.from_dict(facts["guarantee"]),
                row not in log.marks,
                "sums" in facts["detail"],
                len(log.models.get(row, ())),
            )

    def _resolve(self, log: Pages, account: str | None) -> str:
        """Return who pays; in an ephemeral ledger without accounts one that is opened then."""
        name = log.only() if account is None else account
        if self.ephemeral and name in (None, _DEFAULT):
            return _DEFAULT
        if name is None:
            raise UnknownAccount("there is no account yet; open one with open_account.")
        return log.known(name)


class LedgerWriter(LedgerFile):
    """The rows that a ledger takes: budgets, charges, how they ended, and who said no."""

    def open_account(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit | str = Unit.RECORD,
        neighbours: Neighbours | str = Neighbours.REPLACE_ONE,
        reason: str | None = None,
        period: Literal["year"] | None = None,
    ) -> None:
        """Open a budget; opening it again with the same facts changes nothing.

        Parameters
        ----------
        name : str
        epsilon, delta : float, optional
            The caps on the sums of epsilons and deltas; without them the account only counts.
        unit : {"record", "party"}, default="record"
            Whose presence the account counts.
        neighbours : {"replace-one", "add-remove", "label-only"}, default="replace-one"
            Which change of the data. A charge for another unit or other neighbours is refused.
        reason : str, optional
            Why, in one line.
        period : "year", optional
            The caps are on what each calendar year (in UTC) may spend, not on all that is ever
            spent: what is not spent in a year is gone, and what a unit pays over years adds up.
        """
        facts = _account_facts(name, epsilon, delta, unit, neighbours, reason, period)
        with self._store.writing() as log:
            if name not in log.accounts:
                self._store.append(log, Kind.ACCOUNT, facts)
                return
            known = (log.facts(log.accounts[name][0]), log.balance(name).facts)
            differing = [
                fact
                for fact in ("epsilon", "delta", "unit", "neighbours", "period")
                if facts.get(fact) not in [each.get(fact) for each in known]
            ]
        if differing:
            raise InvalidParameter(
                f"account {name!r} is already open with another {', '.join(differing)}; what an "
                "account was opened with does not change. Its owner raises a cap with `confrere "
                "ledger raise`."
            )

    def raise_cap(
        self, account: str, *, epsilon: float | None = None, delta: float | None = None, reason: str
    ) -> None:
        """Let an account spend more, on its owner's word, which stays in the chain.

        The caps from now on, on everything that is ever charged, or on every year's charges where
        the account's period is a year; by default as they are.
        """
        epsilon = None if epsilon is None else check_epsilon(epsilon)
        delta = None if delta is None else _check_delta(delta)
        facts = _change_facts(account, reason)
        with self._store.writing() as log:
            caps = log.balance(account).raised(epsilon, delta).facts
            facts |= {"epsilon": caps["epsilon"], "delta": caps["delta"]}
            self._store.append(log, Kind.RAISED, facts)

    def freeze(self, account: str, *, reason: str) -> None:
        """Let nothing more be charged to an account, for good."""
        facts = _change_facts(account, reason)
        with self._store.writing() as log:
            if log.balance(account).frozen is None:
                self._store.append(log, Kind.FROZEN, facts)

    def declare(
        self, account: str, *, unit: Unit | str, neighbours: Neighbours | str, reason: str
    ) -> None:
        """Say what an account of an older file counts: until then nothing can be charged to it."""
        facts = _change_facts(account, reason) | _counted_facts(unit, neighbours)
        with self._store.writing() as log:
            log.balance(account).changed(Kind.DECLARED, facts)
            for last in log.charges(account)[-1:]:
                charged = log.facts(last)["guarantee"]
                if any(charged[name] != facts[name] for name in ("unit", "neighbours")):
                    raise InvalidParameter(
                        f"account {account!r} was charged per {charged['unit']} "
                        f"({charged['neighbours']}) before; unit and neighbours must be these."
                    )
            self._store.append(log, Kind.DECLARED, facts)

    def refuse(
        self, study: tuple[str, str], *, name: str, reason: str, withdrawn: bool = False
    ) -> None:
        """Say no to a study: from now on nothing is charged for it, until :meth:`agree_again`.

        ``study`` is the study's id, and the sha256 of its text; ``name`` says who refuses, and
        ``withdrawn`` whether it had been agreed to before.
        """
        facts = _decision_facts(study, name, reason) | ({"withdrawn": True} if withdrawn else {})
        with self._store.writing() as log:
            self._store.append(log, Kind.REFUSED, facts)

    def agree_again(self, study: tuple[str, str], approval: ChargeApproval) -> None:
        """Lift the no to a study, if one stands, for what is approved from this approval on."""
        facts = _decision_facts(study, approval.name, approval.reason) | {"since": approval.time}
        with self._store.writing() as log:
            for last in log.decisions(study[1])[-1:]:
                if last.stops:
                    self._store.append(log, Kind.AGREED, facts)

    def charge(
        self,
        account: str | None,
        guarantee: Guarantee,
        *,
        purpose: str,
        detail: Mapping[str, Any] | None = None,
        simulated: bool = False,
        key: str | None = None,
        study: tuple[str, str] | None = None,
        approval: ChargeApproval | None = None,
        limit: Limit | None = None,
    ) -> Receipt:
        """Pay for a release; when this returns, the price is on disk.

        Parameters
        ----------
        account : str or None
            Who pays. None: the only account there is; in an ephemeral ledger without accounts,
            "default", opened without a cap.
        guarantee, purpose, detail
            What is promised about the release; what for, in one line; and more facts, as plain
            JSON values; never data.
        simulated : bool, default=False
            Whether the noise will be seeded. It is charged all the same: the ledger cannot know
            who will see the result.
        key : str, optional
            Charging again under a key, with the same content, returns the first receipt and
            spends nothing: so that a party asked twice answers twice and pays once.
        study, approval
            The id and the sha256 of the study that asks for it; who agreed to it, and why.
        limit : Limit, optional
            A cap besides the account's own: whoever else charges at the same moment, both together
            keep to it.

        Raises
        ------
        BudgetExceeded, CompositionError, AccountFrozen, StudyRefused, UnknownAccount
            If a cap does not cover the price; the account counts another unit or other neighbours;
            its owner lets nothing more be charged; somebody said no to the study since it was
            approved; there is no such account, or None does not say which.
        LedgerError
            If ``key`` was used for a charge of other content.
        """
        facts = _charge_facts(guarantee, purpose, detail, simulated, key, study, approval)
        with self._store.writing() as log:
            if study is not None:
                log.check_agreed(study[1], approval)
            name = facts["account"] = self._resolve(log, account)
            if name not in log.accounts:
                told = (guarantee.unit, guarantee.neighbours)
                self._store.append(log, Kind.ACCOUNT, _account_facts(name, None, 0.0, *told))
            if key is None or key not in log.keys:
                time = now()
                balance = log.balance(name).after(guarantee, time)
                if limit is not None:
                    same = {name, *(one for one in limit.over if one in log.accounts)}
                    spent = [log.balance(one).epsilon_spent for one in sorted(same)]
                    limit.check(name, spent, guarantee)
                if self.ephemeral or balance.epsilon_cap is None:
                    facts["uncapped"] = True
                facts["spent"] = balance.totals
                row = self._store.append(log, Kind.CHARGE, facts, time=time)
            else:
                row = log.row(log.keys[key])
                if _paid_for(facts) != _paid_for(log.facts(row.seq)):
                    raise LedgerError(
                        f"key {key!r} was used for another charge (row {row.seq}); nothing was "
                        "spent."
                    )
                if not self.ephemeral:
                    log.sync()  # Whoever charged may have been killed before the disk had it.
            return Receipt.of(row, log.facts(row.seq), log.ledger_id)

    def mark_released(self, receipt: Receipt, *, digest: str | None = None) -> None:
        """Note that what was paid for was made, and optionally what it hashes to."""
        told = None if digest is None else _check_text(digest, "digest")
        self._mark(receipt, Kind.RELEASED, {"digest": told})

    def mark_failed(self, receipt: Receipt, *, code: str) -> None:
        """Note that what was paid for was not made; it stays charged."""
        self._mark(receipt, Kind.FAILED, {"code": _check_code(code, "code")})

    def _mark(self, receipt: Receipt, kind: Kind, facts: Mapping[str, Any]) -> None:
        facts = {"charge": receipt.row, **facts}
        with self._store.writing() as log:
            if log.charge_of(receipt) not in log.marks:
                self._store.append(log, kind, facts)
                self.marked_last = receipt.row
                return
            earlier = log.row(log.marks[receipt.row])
            if (earlier.kind, earlier.body) != (kind, canonical(facts)):
                raise LedgerError(
                    f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                    f"{earlier.seq}; how it ended does not change."
                )

    def note_model(self, receipt: Receipt, *, digest: str) -> None:
        """Note a model that was made of what was paid for, together with others' answers.

        The charge's own mark names the party's answer. With this row :func:`verify_release` can
        tell the model of a run from another one that its receipts are put under.
        """
        facts = {"charge": receipt.row, "digest": _check_text(digest, "digest")}
        with self._store.writing() as log:
            noted = log.models.get(log.charge_of(receipt), ())
            if facts not in [log.facts(row) for row in noted]:
                self._store.append(log, Kind.MODEL, facts)


def reset_witness(
    path: str | os.PathLike[str],
    *,
    reason: str,
    witness: str | os.PathLike[str] | None = None,
) -> dict[str, float]:
    """Go on from the file as it is, on the owner's word, which stays in the chain.

    What the witness knows as spent and the file does not show is booked as spent, whatever the cap:
    what it paid for has left. A ledger that is not there is made anew. Returned is the epsilon that
    was booked, by account.
    """
    store, kept = Store.at(path, witness)
    facts: dict[str, Any] = {"reason": _check_text(reason, "reason")}
    store.create()
    with store.named(), transaction(store.path, Pages, exclusive=True) as log:
        for ledger_id in {log.ledger_id, kept.ledger_at(store.path) or log.ledger_id}:
            head = kept.head_of(ledger_id)
            if head is not None:
                facts |= {"ledger_id": head.ledger_id, "row": head.row, "hash": head.hash}
        lost = kept.lost(log, store.path)
        store.append(log, Kind.WITNESS, facts)
        for one in lost:
            _book(store, log, one)
        kept.keep(log, log.accounts)
        kept.keep_place(log.ledger_id, store.path)
    return {one.account: one.epsilon for one in lost}


def _book(store: Store, log: Pages, lost: Spent) -> None:
    """Charge an account, above its cap too, with what it had spent in rows that are gone."""
    if lost.account not in log.accounts:
        store.append(log, Kind.ACCOUNT, {"name": lost.account, **lost.facts})
    before = log.balance(lost.account)
    guarantee = Guarantee(
        lost.epsilon,
        lost.delta,
        unit=before.unit or Unit.RECORD,
        neighbours=before.neighbours or Neighbours.REPLACE_ONE,
    )
    time = now()
    facts = _charge_facts(guarantee, "spent in rows that are gone")
    facts |= {"account": lost.account, "booked": True}
    facts["spent"] = before.booked(guarantee, time).totals
    row = store.append(log, Kind.CHARGE, facts, time=time)
    store.append(log, Kind.FAILED, {"charge": row.seq, "code": "LostRows"})


def _paid_for(facts: Mapping[str, Any]) -> str:
    return canonical({name: fact for name, fact in facts.items() if name not in _OF_THE_MOMENT})


def _ephemeral_path() -> Path:
    folder = tempfile.mkdtemp(prefix="confrere-")
    # Unlike atexit this runs where workers of a pool end, too, and not in children of a fork.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return Path(folder).resolve() / "ephemeral.ledger"
