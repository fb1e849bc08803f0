"""Pay before acting, once per plan."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confrere.errors import StudyError
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt, paying
from confrere.study.local_file import Local, open_account
from confrere.study.priced_plan import Plan
from confrere.study.study_file import Party, Study


def require_unused(plan: Plan, party: Party, local: Local) -> None:
    """Refuse a plan that a party has paid for: a second run would draw noise again."""
    if not local.ledger_path.exists():
        return
    key = _key(plan, party)
    for entry in Ledger(local.ledger_path).entries():
        if entry.key == key:
            raise StudyError(
                f"plan: {party.name} has carried it out already (row {entry.row}, "
                f"{entry.state}); price the study again for another run."
            )


@contextmanager
def paid(
    study: Study, plan: Plan, party: Party, local: Local, price: Guarantee
) -> Iterator[Receipt]:
    """Charge a party, and note how what was paid for ended; a failure stays charged.

    The charge's key is the plan's and its content this attempt's own: of two processes that carry
    out one plan at once, the ledger lets one pay, and the other stops before any noise.
    """
    ledger = open_account(party, local, price)
    with paying(
        ledger,
        party.account,
        price,
        purpose=f"{study.method.name} in study {study.id}",
        detail={"plan": plan.plan_id, "attempt": uuid.uuid4().hex},
        study=(study.id, study.sha256),
        simulated=study.simulated,
        key=_key(plan, party),
    ) as receipt:
        yield receipt


def _key(plan: Plan, party: Party) -> str:
    return f"{plan.plan_id}/{party.name}"
