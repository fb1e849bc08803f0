"""One protocol over a federation, with what stands behind its outcome."""

from dataclasses import dataclass
from typing import Any

from confrere_federation.parties.federation import Trusted, with_receipts


@dataclass(frozen=True, eq=False)
class Polled:
    plan: Any
    released: Any
    receipts: Any
    left_out: Any


def poll(federation, plan, **trusted):
    names = federation.parties()
    steps = with_receipts(plan.steps(names))
    released, receipts = federation.run_protocol(steps, trusted=Trusted(**trusted))
    away = [name for name in names if name not in receipts]
    left_out = {name: federation.left_out.get(name, "NotReady") for name in away}
    return Polled(plan, released, receipts, left_out)
