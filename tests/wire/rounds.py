"""One protocol over a federation, with what stands behind its outcome."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confrere.methods.average import Combined
from confrere_federation.parties.federation import Trusted, guarantee_of, with_quorum, with_receipts


@dataclass(frozen=True, eq=False)
class Outcome(Combined):
    receipts: Any = field(default_factory=dict)

    @property
    def guarantee(self):
        return guarantee_of(self.receipts)


def collaborate(federation, plan, *, sizes=None, quorum=1.0):
    """Run the protocol of a plan."""
    steps = with_receipts(plan.steps(federation.parties() if sizes is None else sizes))
    made, paid = federation.run_protocol(with_quorum(steps, quorum))
    return Outcome(made.frame, made.weights, made.sizes, made.prior, paid)


def poll(federation, plan, quorum=0.01, **trusted):
    names = federation.parties()
    steps = with_quorum(with_receipts(plan.steps(names)), quorum)
    released, receipts = federation.run_protocol(steps, trusted=Trusted(**trusted))
    away = [name for name in names if name not in receipts]
    left_out = {name: federation.left_out.get(name, "NotReady") for name in away}
    return SimpleNamespace(released=released, receipts=receipts, left_out=left_out)
