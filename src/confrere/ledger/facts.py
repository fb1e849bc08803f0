"""The facts that rows hold, built from arguments and checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, Unit, check_epsilon
from confrere.ledger.plain import check_code, check_json, check_text


def account_facts(
    name: str,
    epsilon: float | None = None,
    delta: float = 0.0,
    unit: Unit | None = None,
    neighbours: Neighbours | None = None,
) -> dict[str, Any]:
    """Say what an account is opened with."""
    if isinstance(delta, bool) or not isinstance(delta, float | int) or not 0 <= delta < 1:
        raise InvalidParameter("delta must be a number in [0, 1).")
    if epsilon is None and delta != 0:
        raise InvalidParameter("delta is a cap beside the one on epsilon: give epsilon as well.")
    try:
        counted = (
            None if unit is None else str(Unit(unit)),
            None if neighbours is None else str(Neighbours(neighbours)),
        )
    except ValueError as error:
        raise InvalidParameter(
            "unit and neighbours must be a confrere.guarantee.Unit and Neighbours, or None."
        ) from error
    return {
        "name": check_text(name, "name"),
        "epsilon": None if epsilon is None else check_epsilon(epsilon),
        "delta": float(delta),
        "unit": counted[0],
        "neighbours": counted[1],
    }


def charge_facts(
    guarantee: Guarantee,
    purpose: str,
    detail: Mapping[str, Any] | None,
    simulated: bool,
    key: str | None,
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
    return {
        "guarantee": check_json(guarantee.to_dict(), "guarantee"),
        "purpose": check_text(purpose, "purpose"),
        "detail": check_json(dict(detail or {}), "detail"),
        "simulated": simulated,
        "key": None if key is None else check_text(key, "key"),
    }


def released_facts(charge: int, digest: str | None) -> dict[str, Any]:
    """Say that what was paid for was made."""
    return {"charge": charge, "digest": None if digest is None else check_text(digest, "digest")}


def failed_facts(charge: int, code: str) -> dict[str, Any]:
    """Say that what was paid for was not made."""
    return {"charge": charge, "code": check_code(code, "code")}
