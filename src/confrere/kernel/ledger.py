"""What may be spent, what was spent, and who said no: the rows that a release rests on.

Money of privacy is counted in exact decimals. A float stands for the decimal it prints as: ten
charges of ``0.1`` are ``1``, and fit a cap of 1. Sums are never rounded; only what is shown as a
float is, always to the careful side.

The head of the chain is also kept in a second place, the witness. That rows were cut from its end,
that an older copy was put back, that it was rebuilt, or deleted and made anew, does not show in a
chain of hashes. So the last row's number and hash, and what every account had spent, lie in a
folder that a backup of the ledger does not touch, and are compared at every opening and before
every charge.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
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
from confrere.files import write_new
from confrere.kernel.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    at_least,
    at_most,
    check_epsilon,
    check_relation,
    exact,
    minus,
    plus,
)
from confrere.kernel.log import (
    Kind,
    LogFile,
    Row,
    canonical,
    now,
    read,
    rolled_back,
    transaction,
    write_all,
)

FORMAT = 2

#: What the owner does to an account after opening it.
CHANGES = frozenset({Kind.RAISED, Kind.FROZEN, Kind.DECLARED})
#: How a charge ended.
ENDS = frozenset({Kind.RELEASED, Kind.FAILED})
#: What a receipt need not have.
_OPTIONAL = frozenset({"study", "study_sha256", "uncapped", "approval"})
#: The account of an ephemeral ledger that names none, opened by its first charge.
_DEFAULT = "default"

_LONGEST_TEXT = 200
_LONGEST_JUSTIFICATION = 1000
_LONGEST_JSON = 16_384
_DEEPEST_JSON = 16
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?([+]00:00|Z)", re.ASCII)


# -- the facts that rows hold: short texts and small plain JSON values, never data ---------------
def charge_facts(
    guarantee: Guarantee,
    purpose: str,
    detail: Mapping[str, Any] | None = None,
    simulated: bool = False,
    key: str | None = None,
    study: tuple[str, str] | None = None,
    approval: ChargeApproval | None = None,
) -> dict[str, Any]:
    """Say what is charged, but for the account and its running totals."""
    if type(guarantee) is not Guarantee:  # A subclass could tell the row another price.
        raise InvalidParameter(
            f"guarantee must be a confrere.Guarantee, got a {type(guarantee).__name__}."
        )
    if not isinstance(simulated, bool):
        raise InvalidParameter(f"simulated must be a bool, got a {type(simulated).__name__}.")
    if detail is not None and not isinstance(detail, Mapping):
        raise InvalidParameter(f"detail must be a mapping, got a {type(detail).__name__}.")
    facts = {
        "guarantee": _check_json(guarantee.to_dict(), "guarantee"),
        "purpose": check_text(purpose, "purpose"),
        "detail": _check_json(dict(detail or {}), "detail"),
        "simulated": simulated,
        "key": None if key is None else check_text(key, "key"),
    }
    if approval is not None:
        if not isinstance(approval, ChargeApproval):
            raise InvalidParameter("approval must be a confrere.ledger.ChargeApproval.")
        facts["approval"] = approval.to_dict()
    return facts if study is None else facts | {"study": study_facts(study)}


def study_facts(study: tuple[str, str]) -> dict[str, str]:
    """Say which study, by its id and the sha256 of its text."""
    if not isinstance(study, tuple) or len(study) != 2:
        raise InvalidParameter("study must be a pair: the study's id and its sha256.")
    name, sha256 = study
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidParameter("study must name the study's sha256: 64 hex digits.")
    return {"id": check_text(name, "study"), "sha256": sha256}


def check_text(value: object, name: str, longest: int = _LONGEST_TEXT) -> str:
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
    """Return ``value`` if it is small, and JSON that comes back as it is."""
    try:
        text = canonical(value)
        plain = read(text) == value and _depth(value) <= _DEEPEST_JSON
    except (TypeError, ValueError, RecursionError):
        text, plain = "", False
    if not plain or len(text) > _LONGEST_JSON:
        raise InvalidParameter(
            f"{name} must be plain JSON values (finite numbers, str, bool, None, list, dict with "
            f"str keys), {_DEEPEST_JSON} levels and {_LONGEST_JSON} characters at most: a ledger "
            "holds facts about a release, not data."
        )
    return value


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


# -- approvals, refusals, receipts -----------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ChargeApproval:
    """Who agreed that something is paid for, when (in UTC, as ISO 8601), and why this epsilon."""

    name: str
    reason: str
    time: str
    justification: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "approval.name")
        check_text(self.reason, "approval.reason")
        if not isinstance(self.time, str) or not _TIME.fullmatch(self.time):
            raise InvalidParameter("approval.time must be a time in UTC, as ISO 8601.")
        if self.justification is not None:
            check_text(self.justification, "approval.justification", _LONGEST_JUSTIFICATION)

    def to_dict(self) -> dict[str, str]:
        """Return plain values; a justification only where there is one."""
        facts = {"name": self.name, "reason": self.reason, "time": self.time}
        return facts | ({} if self.justification is None else {"justification": self.justification})

    @classmethod
    def within(cls, facts: Mapping[str, Any]) -> Self | None:
        """Read the approval that a charge or a receipt names, if it does."""
        told = facts.get("approval")
        if told is None:
            return None
        if not isinstance(told, Mapping) or not told.keys() <= set(cls.__dataclass_fields__):
            raise InvalidParameter("approval must have name, reason, time and justification.")
        return cls(**dict.fromkeys(cls.__dataclass_fields__) | dict(told))


def refused(study: str, by: str, time: str, row: int) -> StudyRefused:
    """Return what is raised as long as a row that says no is the last word about a study."""
    return StudyRefused(
        f"study {study} was {by} on {time[:16]}Z (row {row}): nothing more is charged or answered "
        "for it. A new approval lifts that: confrere approve."
    )


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a price was paid before the noise was drawn.

    It names the ledger and the row, whose ``hash`` was the ledger's head at that moment. What is
    ``simulated`` must not leave. ``study_sha256`` is what the study's text hashes to. ``uncapped``:
    nothing limits what is spent on the same data, since the account had no cap, or the ledger does
    not last.
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
        values["guarantee"] = self.guarantee.to_dict()
        values["approval"] = None if self.approval is None else self.approval.to_dict()
        return {name: value for name, value in values.items() if value or name not in _OPTIONAL}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        names = set(cls.__dataclass_fields__)
        missing = sorted(names - values.keys() - _OPTIONAL)
        if missing:
            raise InvalidParameter(f"the receipt lacks {', '.join(missing)}.")
        known = {name: values[name] for name in names & values.keys()}
        known["approval"] = ChargeApproval.within(values)
        return cls(**known | {"guarantee": Guarantee.from_dict(values["guarantee"])})


class Payment(NamedTuple):
    """What a receipt paid for; the mechanism of several ``sums``, and how many have left."""

    guarantee: Guarantee
    open: bool
    sums: str | None
    models: int


# -- what an account allows ------------------------------------------------------------------------
class Amount(NamedTuple):
    """Epsilon and delta, exactly."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    @classmethod
    def of(cls, price: Guarantee | Spent) -> Self:
        """Read floats as the decimals that they print as."""
        return cls(exact(price.epsilon), exact(price.delta))

    @classmethod
    def told(cls, totals: Mapping[str, str]) -> Self:
        """Read what :attr:`text` wrote."""
        return cls(Decimal(totals["epsilon"]), Decimal(totals["delta"]))

    @property
    def text(self) -> dict[str, Any]:
        """The amount, as rows keep it."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    def plus(self, more: Amount) -> Amount:
        """Add without rounding."""
        return Amount(plus(self.epsilon, more.epsilon), plus(self.delta, more.delta))

    def minus(self, less: Amount) -> Amount:
        """Subtract without rounding."""
        return Amount(minus(self.epsilon, less.epsilon), minus(self.delta, less.delta))


_NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows and what it has paid so far.

    Where the caps are on a year, what was paid in earlier years does not count against them. A year
    is the calendar's, in UTC, and never an earlier one than that of the last charge: a clock that
    is set back gives nothing back.
    """

    account: str
    caps: Amount | None
    unit: Unit | None
    neighbours: Neighbours | None
    period: Literal["year"] | None = None
    frozen: str | None = None
    paid: Amount = _NOTHING
    year: int = 0
    earlier: Amount = _NOTHING

    @classmethod
    def opened(cls, facts: Mapping[str, Any]) -> Self:
        """Read the facts of an account's own row: nothing is spent yet."""
        cap, unit, neighbours = facts["epsilon"], facts["unit"], facts["neighbours"]
        return cls(
            account=facts["name"],
            caps=None if cap is None else Amount(exact(cap), exact(facts["delta"])),
            unit=None if unit is None else Unit(unit),
            neighbours=None if neighbours is None else Neighbours(neighbours),
            period=facts.get("period"),
        )

    def changed(self, kind: Kind, facts: Mapping[str, Any]) -> Self:
        """Take over what the owner's row says: another cap, no more charges, or what is counted."""
        if kind is Kind.FROZEN:
            return replace(self, frozen=str(facts["reason"]))
        if kind is Kind.RAISED:
            return self.raised(facts["epsilon"], facts["delta"])
        if self.unit is not None:
            raise InvalidParameter(
                f"account {self.account!r} counts per {self.unit} ({self.neighbours}) already; "
                "that does not change."
            )
        return replace(self, unit=Unit(facts["unit"]), neighbours=Neighbours(facts["neighbours"]))

    def raised(self, epsilon: float | None, delta: float | None) -> Self:
        """Let more be spent, where a cap is given."""
        if self.caps is None:
            raise InvalidParameter(f"account {self.account!r} has no cap to raise.")
        caps = Amount(
            self.caps.epsilon if epsilon is None else exact(epsilon),
            self.caps.delta if delta is None else exact(delta),
        )
        if min(caps.minus(self.caps)) < 0 or caps == self.caps:
            raise InvalidParameter(
                f"account {self.account!r} has the caps epsilon {at_most(self.caps.epsilon):g} and "
                f"delta {at_most(self.caps.delta):g}; a raise makes one of them larger and neither "
                "smaller. To spend less, freeze the account when it is enough."
            )
        return replace(self, caps=caps)

    def resumed(self, charge: Mapping[str, Any]) -> Self:
        """Take over the running totals from the facts of the account's last charge."""
        spent = charge["spent"]
        resumed = replace(self, paid=Amount.told(spent))
        if self.period is None:
            return resumed
        return replace(resumed, year=int(spent["year"]), earlier=Amount.told(spent["earlier"]))

    def at(self, time: str) -> Self:
        """Begin the year of a time, if it is a later one."""
        year = int(time[:4])
        if self.period is None or year <= self.year:
            return self
        return replace(self, year=year, earlier=self.paid)

    def booked(self, guarantee: Guarantee, time: str) -> Self:
        """Add what was spent at a time, whatever the caps."""
        begun = self.at(time)
        return replace(begun, paid=begun.paid.plus(Amount.of(guarantee)))

    def after(self, guarantee: Guarantee, time: str) -> Self:
        """Pay for one more release at a time, composed in sequence, or say why not."""
        if self.frozen is not None:
            raise AccountFrozen(
                f"account {self.account!r} is frozen ({self.frozen}); nothing was spent."
            )
        self._check_composable(guarantee)
        rest = self.at(time).rest
        if rest is not None:
            bound = "ledger" if self.period is None else "ledger, this year"
            for name, price, left in zip(rest._fields, Amount.of(guarantee), rest, strict=True):
                if price > left:
                    asked = (float(price), max(0.0, at_most(left)))
                    raise BudgetExceeded(self.account, *asked, name, bound)
        return self.booked(guarantee, time)

    def _check_composable(self, guarantee: Guarantee) -> None:
        if self.unit is None or self.neighbours is None:
            raise CompositionError(
                f"account {self.account!r} is of an older file and does not say what it counts: "
                "its owner says it with `confrere ledger open LEDGER "
                f"{self.account!r} --unit record --neighbours replace-one --reason ...`. Nothing "
                "was spent."
            )
        if (self.unit, self.neighbours) != (guarantee.unit, guarantee.neighbours):
            raise CompositionError(
                f"account {self.account!r} counts per {self.unit} ({self.neighbours}), the "
                f"guarantee is per {guarantee.unit} ({guarantee.neighbours}): the two do not add "
                "up. Nothing was spent."
            )

    @property
    def rest(self) -> Amount | None:
        """What the caps still cover: less than nothing, if more was booked; None without them."""
        return None if self.caps is None else self.caps.minus(self.paid.minus(self.earlier))

    @property
    def left(self) -> float:
        """Epsilon that can still be charged; infinite without a cap, nothing once frozen."""
        if self.frozen is not None:
            return 0.0
        rest = self.rest
        return math.inf if rest is None else max(0.0, at_most(rest.epsilon))

    @property
    def spent(self) -> float:
        """Epsilon spent in all, never shown as less than it is."""
        return at_least(self.paid.epsilon)

    @property
    def facts(self) -> dict[str, float | str | None]:
        """What the account allows now, as the row that opens it says it."""
        return {
            "epsilon": None if self.caps is None else float(self.caps.epsilon),
            "delta": 0.0 if self.caps is None else float(self.caps.delta),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "period": self.period,
        }

    @property
    def totals(self) -> dict[str, Any]:
        """The running totals, as a charge's row keeps them."""
        year = {} if self.period is None else {"year": self.year, "earlier": self.earlier.text}
        return self.paid.text | year


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap on all that was ever spent on the same data, besides the account's own.

    ``by`` is one of :data:`confrere.errors.LIMITS`. ``over`` are other accounts of these data: a
    ledger of an older version has one for every name that studies gave them.
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
        if check_text(account, "account") not in self.accounts:
            raise UnknownAccount(f"there is no account {account!r}; there is: {self._listed()}.")
        return account

    def only(self) -> str | None:
        """Return the name of the only account, or None if there is no account at all."""
        if len(self.accounts) > 1:
            raise UnknownAccount(f"there are several accounts, say which: {self._listed()}.")
        return next(iter(self.accounts), None)

    def _listed(self) -> str:
        return ", ".join(map(repr, self.accounts)) or "none, open one with open_account"

    def balance(self, account: str) -> Balance:
        """Return what an account allows and has spent now, by its own rows and its last charge."""
        opened, *changes = self.accounts[self.known(account)]
        balance = Balance.opened(self.facts(opened))
        for change in changes:
            balance = balance.changed(self.row(change).kind, self.facts(change))
        for last in self._charges[account][-1:]:
            balance = balance.resumed(self.facts(last))
        return balance.at(now())

    def charges(self, account: str | None = None) -> Sequence[int]:
        """Return the rows of the charges of one account, or of all."""
        return self._all_charges if account is None else self._charges[self.known(account)]

    def charge_of(self, receipt: Receipt) -> int:
        """Return the row of the charge that a receipt was given for, if by this ledger."""
        row = self.at(receipt.row)
        if row is not None and row.kind is Kind.CHARGE:
            given = Receipt.of(row, self.facts(row.seq), self.ledger_id)
            if given == receipt:
                return row.seq
        raise LedgerError(f"the receipt for row {receipt.row} is not of this ledger.")

    def decisions(self, study_sha256: str | None = None) -> list[Row]:
        """Return the rows that say no to a study, or take that back; of all studies by default."""
        asked = list(self._decisions) if study_sha256 is None else [study_sha256]
        rows = sorted(row for study in asked for row in self._decisions.get(study, ()))
        return [self.row(row) for row in rows]

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study whose last word is no, or what was approved before a no was lifted.

        Nobody has to say yes in a ledger: a grant does, or who types the amount. A no is a row,
        looked at before every question and within every charge, so that it holds whoever has a
        grant already, and against a party that is running. Only a row that says yes again lifts
        it, and what was agreed to before that row stays without effect.
        """
        for last in self.decisions(study_sha256)[-1:]:
            facts, moment = last.facts, datetime.fromisoformat
            study, name = facts["study"]["id"], facts["name"]
            if last.kind is Kind.REFUSED:
                said = "withdrawn" if facts.get("withdrawn") else "refused"
                raise refused(study, f"{said} by {name}", last.time, last.seq)
            if approval is None or moment(approval.time) < moment(facts["since"]):
                raise StudyRefused(
                    f"study {study} was refused, and agreed to again by {name} (row {last.seq}); "
                    "what was approved before that does not count any more: use the new grant."
                )


# -- the witness -----------------------------------------------------------------------------------

#: A head fits a sector, so that it is written whole or not at all; an account's name may be long.
_SIZES = {"head": 512, "path": 512, "spent": 2048, "data": 2048}


@dataclass(frozen=True, slots=True)
class Head:
    """The last row that was seen, and when, in UTC."""

    ledger_id: str
    row: int
    hash: str
    time: str


class Spent(NamedTuple):
    """All that was charged to an account, never less; ``facts`` opens it again, if it is gone."""

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
def record_file(folder: Path, ending: str, *names: str) -> Path:
    """Return where a record lies: names may be long, or no names of files."""
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
        values = self.told("head", ledger_id)
        return None if values is None else Head(**values)

    def ledger_at(self, path: Path) -> str | None:
        """Return which ledger a path held when it was last opened."""
        values = self.told("path", str(path))
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
        self.tell(head, "head", log.ledger_id)
        for account in accounts:
            balance = log.balance(account)
            told = (balance.spent, at_least(balance.paid.delta), balance.facts)
            spent = Spent(log.ledger_id, account, *told)._asdict()
            self.tell(spent, "spent", log.ledger_id, account)

    def complete(self, log: Pages) -> bool:
        """Whether the head is kept, and what every account has spent: older versions kept less."""
        files = (record_file(self.folder, "spent", log.ledger_id, one) for one in log.accounts)
        return self.head_of(log.ledger_id) is not None and all(file.exists() for file in files)

    def keep_place(self, ledger_id: str, path: Path) -> None:
        """Keep which ledger a path holds."""
        if self.ledger_at(path) != ledger_id:
            self.tell({"ledger_id": ledger_id, "time": now()}, "path", str(path))

    def told(self, ending: str, *names: str) -> dict[str, Any] | None:
        """Return what is kept under names, if anything."""
        return self.read(record_file(self.folder, ending, *names))

    def read(self, file: Path) -> dict[str, Any] | None:
        """Return what a record holds, if it is there."""
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

    def tell(self, values: Mapping[str, Any], ending: str, *names: str) -> None:
        """Keep values under names, in place of what was."""
        file, size = record_file(self.folder, ending, *names), _SIZES[ending]
        record = json.dumps(values, ensure_ascii=False).encode().ljust(size - 1) + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                descriptor = os.open(file, flags, 0o600)
            except FileNotFoundError:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(file, flags, 0o600)
            try:
                write_all(descriptor, record, 0)
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

    ``ledger_id`` says which ledger the file must be; by default the one found first.
    """

    __slots__ = ("_accounts", "_seen", "lasts", "ledger_id", "path", "witness")

    def __init__(
        self, path: Path, witness: Witness | None, ledger_id: str | None = None, lasts: bool = True
    ) -> None:
        self.path, self.witness, self.ledger_id, self.lasts = path, witness, ledger_id, lasts
        self._seen: Row | None = None
        self._accounts: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        # Nothing is opened: what was pickled with its ledger can be read where that is not.
        return Store, (self.path, self.witness, self.ledger_id, self.lasts)

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], witness: str | os.PathLike[str] | None = None
    ) -> tuple[Self, Witness]:
        """Return the store of a file that lasts, and its witness; nothing is opened."""
        try:
            kept = Witness(witness_folder(witness))
            return cls(Path(path).resolve(), kept), kept
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"path must be a file's name or None: {error}.") from error

    def create(self) -> None:
        """Make the file, readable by its owner only, unless it is there."""
        facts = {"format": FORMAT, "ledger_id": uuid.uuid4().hex}
        try:
            with suppress(FileExistsError):  # Another process was quicker: its ledger it is.
                write_new(self.path, Row.sealed(Kind.GENESIS, facts, after=None).line)
        except OSError as error:
            raise NotALedger(
                f"cannot be created ({error}); its folder must exist and be writable."
            ) from error

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
                if not kept.complete(log):
                    kept.keep(log, log.accounts)

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
        return log.append(kind, facts, durable=self.lasts, time=time)

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

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        witness: str | os.PathLike[str] | None = None,
    ) -> None:
        self._store = (
            Store(_ephemeral_path(), None, lasts=False)
            if path is None
            else Store.at(path, witness)[0]
        )
        self._store.open()

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def ephemeral(self) -> bool:
        """Whether the file goes when the process that made it exits."""
        return not self._store.lasts

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

    def payment(self, receipt: Receipt) -> Payment:
        """Return what a receipt paid for, and what became of it so far."""
        with self._store.reading() as log:
            row = log.charge_of(receipt)
            facts = log.facts(row)
            return Payment(
                Guarantee.from_dict(facts["guarantee"]),
                row not in log.marks,
                facts["detail"].get("sums"),
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
    """Charges, and how they ended."""

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
            Whether noise will be seeded. It is charged all the same: who will see it, nobody knows.
        key : str, optional
            Charging again under a key, with the same content, returns the first receipt and
            spends nothing: so that a party asked twice answers twice and pays once.
        study, approval
            The id and the sha256 of the study that asks for it; who agreed to it, and why.
        limit : Limit, optional
            A cap besides the account's own, whoever else charges at the same moment.

        Raises
        ------
        BudgetExceeded, CompositionError, AccountFrozen, StudyRefused, UnknownAccount, LedgerError
            The last also if ``key`` was used for other content. Nothing was spent then.
        """
        facts = charge_facts(guarantee, purpose, detail, simulated, key, study, approval)
        check_relation(guarantee.neighbours)
        with self._store.writing() as log:
            if study is not None:
                log.check_agreed(study[1], approval)
            name = facts["account"] = self._resolve(log, account)
            if name not in log.accounts:
                opened = {"name": name, "epsilon": None, "delta": 0.0}
                opened |= {"unit": guarantee.unit, "neighbours": guarantee.neighbours}
                self._store.append(log, Kind.ACCOUNT, opened)
            if key is None or key not in log.keys:
                time = now()
                balance = log.balance(name).after(guarantee, time)
                if limit is not None:
                    same = {name, *(one for one in limit.over if one in log.accounts)}
                    spent = [log.balance(one).paid.epsilon for one in sorted(same)]
                    limit.check(name, spent, guarantee)
                if self.ephemeral or balance.caps is None:
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
        told = None if digest is None else check_text(digest, "digest")
        self._mark(receipt, Kind.RELEASED, {"digest": told})

    def mark_failed(self, receipt: Receipt, *, code: str) -> None:
        """Note that what was paid for was not made; it stays charged."""
        self._mark(receipt, Kind.FAILED, {"code": _check_code(code, "code")})

    def _mark(self, receipt: Receipt, kind: Kind, facts: Mapping[str, Any]) -> None:
        facts = {"charge": receipt.row, **facts}
        with self._store.writing() as log:
            if log.charge_of(receipt) not in log.marks:
                self._store.append(log, kind, facts)
                return
            earlier = log.row(log.marks[receipt.row])
            if (earlier.kind, earlier.body) != (kind, canonical(facts)):
                raise LedgerError(
                    f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                    f"{earlier.seq}; how it ended does not change."
                )

    def note_model(self, receipt: Receipt, *, digest: str) -> None:
        """Note a model that was made of what was paid for, together with others' answers.

        By it :func:`verify_release` tells the model of a run from one put under its receipts.
        """
        facts = {"charge": receipt.row, "digest": check_text(digest, "digest")}
        with self._store.writing() as log:
            noted = log.models.get(log.charge_of(receipt), ())
            if facts not in [log.facts(row) for row in noted]:
                self._store.append(log, Kind.MODEL, facts)


def _paid_for(facts: Mapping[str, Any]) -> str:
    of_the_moment = ("spent", "uncapped", "approval")
    return canonical({name: fact for name, fact in facts.items() if name not in of_the_moment})


def _ephemeral_path() -> Path:
    folder = tempfile.mkdtemp(prefix="confrere-")
    # Unlike atexit this runs where workers of a pool end, too, and not in children of a fork.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return Path(folder).resolve() / "ephemeral.ledger"
