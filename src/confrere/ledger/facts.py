"""The facts that rows hold: short texts and small plain JSON values, never data.

They are built from arguments, and checked, before anything is opened.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, Unit, check_epsilon
from confrere.ledger.chain import canonical

_LONGEST_TEXT = 200
_LONGEST_JUSTIFICATION = 1000
_LONGEST_JSON = 16_384
_DEEPEST_JSON = 16
_FIRST_TOO_LARGE_INT = 2**63
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?([+]00:00|Z)", re.ASCII)


def account_facts(
    name: str,
    epsilon: float | None,
    delta: float,
    unit: Unit | str,
    neighbours: Neighbours | str,
    reason: str | None = None,
    period: str | None = None,
) -> dict[str, Any]:
    """Say what an account is opened with."""
    if period not in (None, "year") or (period is not None and epsilon is None):
        raise InvalidParameter(
            "period must be 'year', for caps on what a calendar year may spend, or None; and it "
            "needs a cap: give epsilon as well."
        )
    if epsilon is None and check_delta(delta) != 0:
        raise InvalidParameter("delta is a cap beside the one on epsilon: give epsilon as well.")
    facts = {
        "name": check_text(name, "name"),
        "epsilon": None if epsilon is None else check_epsilon(epsilon),
        "delta": check_delta(delta),
        **counted_facts(unit, neighbours),
    }
    if period is not None:
        facts["period"] = period
    return facts if reason is None else facts | {"reason": check_text(reason, "reason")}


def counted_facts(unit: Unit | str, neighbours: Neighbours | str) -> dict[str, str]:
    """Say what an account counts."""
    try:
        return {"unit": str(Unit(unit)), "neighbours": str(Neighbours(neighbours))}
    except ValueError as error:
        raise InvalidParameter(
            f"unit must be one of {_listed(Unit)}, and neighbours one of {_listed(Neighbours)}: an "
            "account adds up guarantees of one kind."
        ) from error


def change_facts(account: str, reason: str, **facts: Any) -> dict[str, Any]:
    """Say what the owner does to an account, and why."""
    return {"account": check_text(account, "account"), "reason": check_text(reason, "reason")} | {
        name: value for name, value in facts.items() if value is not None
    }


def charge_facts(
    guarantee: Guarantee,
    purpose: str,
    detail: Mapping[str, Any] | None,
    simulated: bool,
    key: str | None,
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
        "guarantee": check_json(guarantee.to_dict(), "guarantee"),
        "purpose": check_text(purpose, "purpose"),
        "detail": check_json(dict(detail or {}), "detail"),
        "simulated": simulated,
        "key": None if key is None else check_text(key, "key"),
    }
    if approval is not None:
        if not isinstance(approval, ChargeApproval):
            raise InvalidParameter("approval must be a confrere.ledger.ChargeApproval.")
        facts["approval"] = approval.to_dict()
    return facts if study is None else facts | {"study": study_facts(study)}


def study_facts(study: tuple[str, str]) -> dict[str, str]:
    """Say which study it is about."""
    if not isinstance(study, tuple) or len(study) != 2:
        raise InvalidParameter("study must be a pair: the study's id and its sha256.")
    name, sha256 = study
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidParameter("study must name the study's sha256: 64 hex digits.")
    return {"id": check_text(name, "study"), "sha256": sha256}


def decision_facts(study: tuple[str, str], name: str, reason: str) -> dict[str, Any]:
    """Say who decides about which study, and why."""
    return {
        "study": study_facts(study),
        "name": check_text(name, "name"),
        "reason": check_text(reason, "reason"),
    }


@dataclass(frozen=True, slots=True)
class ChargeApproval:
    """Who agreed that something is paid for, and why.

    Attributes
    ----------
    name : str
        Who agreed.
    reason : str
        Why, in one line.
    time : str
        When, in UTC, as ISO 8601.
    justification : str or None
        Why this epsilon.
    """

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
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(values, Mapping) or not values.keys() <= set(cls.__dataclass_fields__):
            raise InvalidParameter("approval must have name, reason, time and justification.")
        told: dict[str, Any] = {name: values.get(name) for name in cls.__dataclass_fields__}
        return cls(**told)


def ended_facts(charge: int, *, digest: str | None) -> dict[str, Any]:
    """Say that what was paid for was made, and what it hashes to."""
    return {"charge": charge, "digest": None if digest is None else check_text(digest, "digest")}


def failed_facts(charge: int, code: str) -> dict[str, Any]:
    """Say that what was paid for was not made."""
    return {"charge": charge, "code": check_code(code, "code")}


def check_delta(value: object) -> float:
    """Return ``value`` as a float, if it can cap a sum of deltas."""
    if isinstance(value, bool) or not isinstance(value, float | int) or not 0 <= value < 1:
        raise InvalidParameter("delta must be a number in [0, 1).")
    return float(value)


def check_text(value: object, name: str, longest: int = _LONGEST_TEXT) -> str:
    """Return ``value`` if it is one printable, not too long line."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a str, got a {type(value).__name__}.")
    if not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidParameter(f"{name} must be one line of 1 to {longest} printable characters.")
    return str(value)


def check_code(value: object, name: str) -> str:
    """Return ``value`` if it is a code like ``"SolverFailed"``, which cannot quote the data."""
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        raise InvalidParameter(
            f"{name} must be a code such as 'CalibrationError': a letter, then letters, digits, "
            "'_', '.', ':' or '-', 64 at most. An error's message may quote data; its class's "
            "name does not."
        )
    return str(value)


def check_json(value: Any, name: str) -> Any:
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


def _listed(kinds: type[Unit] | type[Neighbours]) -> str:
    return ", ".join(repr(str(kind)) for kind in kinds)
