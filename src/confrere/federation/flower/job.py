"""What a coordinator is to do, as a payload that it can be handed in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from confrere.errors import InvalidMessage, InvalidParameter
from confrere.federation import (
    Averaging,
    Expansion,
    Federation,
    Outcome,
    Payload,
    average,
    expand,
)
from confrere.federation.operation import frame_of, framed

_PLANS: dict[str, type[Averaging] | type[Expansion]] = {"average": Averaging, "expand": Expansion}
_ARRAYS = frozenset({"frame", "prior"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One protocol with its settings.

    Parameters
    ----------
    plan : Averaging or Expansion
        What parties are asked.
    parties : tuple of str
        Who must be connected before the first question.
    quorum : float, default=1.0
        Share of the parties that must answer.
    timeout : float, default=600.0
        Seconds to wait for the parties, and for a round.
    schema : str, optional
        Fingerprint of the schema that questions are about.
    """

    plan: Averaging | Expansion
    parties: tuple[str, ...]
    quorum: float = 1.0
    timeout: float = 600.0
    schema: str | None = None

    def run(self, federation: Federation) -> Outcome:
        """Run the protocol."""
        act: Callable[..., Outcome] = average if isinstance(self.plan, Averaging) else expand
        return act(federation, self.plan, quorum=self.quorum, timeout=self.timeout)

    def to_payload(self) -> Payload:
        """Return the message."""
        protocol = next(name for name, kind in _PLANS.items() if isinstance(self.plan, kind))
        settings = {name: getattr(self.plan, name) for name in _settings(type(self.plan))}
        values = {
            "protocol": protocol,
            "settings": settings,
            "parties": list(self.parties),
            "quorum": self.quorum,
            "timeout": self.timeout,
            "schema": self.schema,
        }
        return framed(self.plan.frame, values, prior=self.plan.prior)

    @classmethod
    def from_payload(cls, payload: Payload) -> Job:
        """Read what :meth:`to_payload` wrote."""
        values: dict[str, Any] = dict(payload.values)
        try:
            kind = _PLANS[values.pop("protocol")]
            settings = values.pop("settings")
            values.pop("frame")
            plan = kind(frame=frame_of(payload), prior=payload.arrays.get("prior"), **settings)
            return cls(plan=plan, parties=tuple(values.pop("parties")), **values)
        except (KeyError, TypeError, InvalidParameter) as error:
            raise InvalidMessage("the job is not one of this version.") from error


def _settings(kind: type[Averaging] | type[Expansion]) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in _ARRAYS]
