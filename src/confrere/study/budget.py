"""What a party's data have paid, over all studies, and what they may still pay.

A study calls a party's data what it likes; what counts is the party's own word for them: the data
set of its home, or the ledger that its local file names. Every account of these data in that ledger
is counted, and one of them pays: the first that is open for the kind of promise, whatever a study's
data are called.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from confrere.errors import BudgetExceeded, StudyError
from confrere.guarantee import Guarantee, at_least, at_most, exact, minus, plus
from confrere.kernel.ledger import Witness, witness_folder
from confrere.ledger import Account, Ledger, LedgerReader, Limit
from confrere.study.local_file import Local
from confrere.study.study_tables import Party


@dataclass(frozen=True)
class Budget:
    """A party's data before a study spends.

    Attributes
    ----------
    account : str
        The account that pays.
    spent : float
        What was charged so far for these data, by all studies.
    limit : float or None
        The strictest cap on all that is ever charged; None if nobody set one.
    limit_by : str
        Who set it: "study", "local policy" or "ledger".
    per_run : float or None
        What one run may spend.
    delta : float
        The cap on the sum of deltas, where epsilon has a limit.
    for_life : Limit or None
        What every charge looks at besides the account's own cap: another study may have been paid
        for between the look at the budget and the charge.
    """

    account: str
    spent: float
    limit: float | None
    limit_by: str
    per_run: float | None
    delta: float = 0.0
    for_life: Limit | None = None

    @property
    def left(self) -> float:
        """What can still be charged; infinite without a limit."""
        if self.limit is None:
            return math.inf
        return max(0.0, at_most(minus(exact(self.limit), exact(self.spent))))

    def check(self, price: Guarantee) -> None:
        """Refuse a price that a limit does not cover; nothing is spent."""
        asked = price.epsilon
        if self.per_run is not None and asked > self.per_run:
            raise BudgetExceeded(self.account, asked, self.per_run, bound="local policy, one run")
        if asked > self.left:
            raise BudgetExceeded(self.account, asked, self.left, bound=self.limit_by)
        if self.limit is not None and price.delta > self.delta:
            raise BudgetExceeded(self.account, price.delta, self.delta, "delta")


def budget_of(party: Party, local: Local | None, price: Guarantee) -> Budget:
    """Return a party's budget: the strictest limit wins; no ledger is made."""
    policy = None if local is None else local.policy
    caps = {
        "study": party.cap.epsilon,
        "local policy": None if policy is None else policy.lifetime_epsilon,
    }
    deltas = [] if party.cap.epsilon is None else [party.cap.delta]
    accounts = [] if local is None else _accounts(local)
    paying = _paying(accounts, price)
    if paying is not None and paying.epsilon is not None:
        # Where the cap is on a year, what earlier ones spent does not count.
        earlier = minus(_sum([one.spent for one in accounts]), _sum([c.counted for c in accounts]))
        by = "ledger" if paying.period is None else "ledger, this year"
        caps[by] = at_most(plus(exact(paying.epsilon), earlier))
        deltas.append(paying.delta)
    names = tuple(one.name for one in accounts)
    # The cap of an account that stands alone is looked at by the ledger, as it is at that moment.
    told = {
        by: cap for by, cap in caps.items() if len(names) > 1 or by in ("study", "local policy")
    }
    limit, limit_by = _strictest(caps)
    most, most_by = _strictest(told)
    return Budget(
        account=_new_account(party, local) if paying is None else paying.name,
        spent=at_least(_sum([one.spent for one in accounts])),
        limit=limit,
        limit_by=limit_by,
        per_run=None if policy is None else policy.max_epsilon_per_run,
        delta=min(deltas, default=party.cap.delta),
        for_life=None if most is None else Limit(most, most_by, names),
    )


def open_account(party: Party, local: Local, price: Guarantee) -> Ledger:
    """Return the ledger with the account open that pays, once every limit covers the price.

    The organisation's own limit becomes the account's cap: a study's cap is for that study.
    """
    budget = budget_of(party, local, price)
    budget.check(price)
    sources = check_data(local)
    ledger = Ledger(local.ledger_path)
    if local.dataset is not None:
        witness = Witness(witness_folder())
        for source in sources:
            witness.keep_source(source, ledger.ledger_id, ledger.path)
    if budget.account not in {account.name for account in ledger.accounts()}:
        policy = local.policy
        own = None if policy is None else policy.lifetime_epsilon
        ledger.open_account(
            budget.account,
            epsilon=budget.limit if own is None else own,
            delta=0.0 if budget.limit is None else budget.delta,
            unit=price.unit,
            neighbours=price.neighbours,
        )
    ledger.account_for(budget.account, price)  # frozen, or of another kind: found before a charge
    return ledger


def check_data(local: Local) -> list[str]:
    """Refuse data that are counted in another ledger, or are not what the home says.

    Returns
    -------
    list of str
        What tells them from others: where they lie, and what they are.
    """
    sources = []
    if local.data is not None:
        sources.append(f"query {local.data.connection}\n{local.data.sql}")
    elif local.data_path is not None:
        sources.append(f"path {local.data_path.resolve()}")
        digest = _digest(local.data_path)
        if digest is not None:
            sources.append(f"sha256 {digest}")
        if local.sha256 not in (None, digest):
            raise StudyError(
                "sha256: the table is not the one that datasets.toml names; correct it there, if "
                "the organisation knows why. Nothing was spent."
            )
    there = local.ledger_path.is_file()
    ledger_id = LedgerReader.look(local.ledger_path).ledger_id if there else None
    for source in sources:
        Witness(witness_folder()).check_source(source, ledger_id, local.ledger_path.resolve())
    return sources


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a table's file, or of a folder's files together; None of nothing."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    digests = []
    for file in files:
        if file.is_file():
            with file.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    together = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    return digests[0] if len(digests) == 1 else together if digests else None


def _accounts(local: Local) -> list[Account]:
    """Return every account that was charged for a party's data, by whatever name."""
    if not local.ledger_path.exists():
        return []
    found = Ledger(local.ledger_path).accounts()
    # The ledger of a data set is about nothing else; others may be several parties'.
    named = f"{local.party}/"
    return [one for one in found if local.dataset is not None or one.name.startswith(named)]


def _new_account(party: Party, local: Local | None) -> str:
    if local is None or local.dataset is None:
        return party.account
    return f"{party.name}/{local.dataset}"


def _paying(accounts: Sequence[Account], price: Guarantee) -> Account | None:
    """Return the account that pays; one that cannot says so when it is charged."""
    kind = (price.unit, price.neighbours)
    alike = [one for one in accounts if (one.unit, one.neighbours) == kind] or accounts
    return next((one for one in alike if one.frozen is None), next(iter(alike), None))


def _strictest(caps: Mapping[str, float | None]) -> tuple[float | None, str]:
    """Return the smallest cap, and who set it."""
    set_ = [(cap, by) for by, cap in caps.items() if cap is not None]
    return min(set_, key=lambda one: one[0], default=(None, ""))


def _sum(amounts: Sequence[float]) -> Decimal:
    total = Decimal(0)
    for amount in amounts:
        total = plus(total, exact(amount))
    return total
