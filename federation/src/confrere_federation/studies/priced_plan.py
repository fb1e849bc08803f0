"""The price of a study, said before any data are touched, and the budget that it is paid from.

A study calls a party's data what it likes; what counts is the party's own word for them: the data
set of its home, or the ledger that its local file names. Every account of these data in that ledger
is counted, and one of them pays: the first that is open for the kind of promise, whatever a study's
data are called.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field
from typing_extensions import override

from confrere.catalogue import find_method
from confrere.errors import BudgetExceeded, StudyError
from confrere.kernel.guarantee import (
    Guarantee,
    Together,
    Unit,
    at_least,
    at_most,
    exact,
    minus,
    plus,
)
from confrere.ledger import Account, Ledger, LedgerReader, Limit
from confrere.ledger.witness import check_source, keep_source
from confrere.methods.sums import Hides
from confrere.release import Spending
from confrere.release.spending import receipts_for_facts
from confrere.trust import Trust
from confrere.views import Panel, Shown, Table, Word, amount, share, shown
from confrere.views import price as shown_price
from confrere_federation.parties.protocols import Errors
from confrere_federation.parties.sums import ErrorsOfAll, FactsOfAll, sent_schema
from confrere_federation.studies.local_file import FilePath, Local
from confrere_federation.studies.study_file import (
    NOMINAL_ROWS,
    Digest,
    FileTable,
    Name,
    Party,
    Positive,
    Study,
    estimator_for,
    parse_json,
    price_for,
    read_bytes,
    trust_of,
    trust_words,
)


@dataclass(frozen=True)
class Budget:
    """A party's data before a study spends."""

    account: str  #: The account that pays
    spent: float  #: What was charged so far for these data, by all studies
    limit: float | None  #: The strictest cap on all that is ever charged; None if nobody set one
    limit_by: str  #: Who set it: "study", "local policy" or "ledger"
    per_run: float | None  #: What one run may spend
    delta: float = 0.0  #: The cap on the sum of deltas, where epsilon has a limit
    #: What every charge looks at besides the account's own cap: another study may have been paid
    #: for between the look at the budget and the charge.
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
        for source in sources:
            keep_source(source, ledger.ledger_id, ledger.path)
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

    What tells them from others is returned: where they lie, and what they are.
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
        check_source(source, ledger_id, local.ledger_path.resolve())
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
    return reduce(plus, map(exact, amounts), Decimal(0))


SCHEMA = "confrere-plan/1"
_AGAIN = "price it again: confrere price STUDY --out NEW_PLAN"


@dataclass(frozen=True)
class Price:
    """What one party would spend."""

    party: str
    guarantee: Guarantee  #: What is charged, per record
    budget: Budget  #: Its data before, over all studies
    here: bool  #: Whether the party lives here, so that its ledger was read

    @property
    def account(self) -> str:
        """The account that pays; elsewhere, what the study calls it."""
        return self.budget.account

    @property
    def left_after(self) -> float:
        """What would be left; below zero where it is refused."""
        left = self.budget.left
        if math.isinf(left):
            return left
        return at_most(minus(exact(left), exact(self.guarantee.epsilon)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity."""
        return {
            "party": self.party,
            "account": self.account,
            "here": self.here,
            "guarantee": self.guarantee.to_dict(),
            "spent": self.budget.spent,
            "limit": self.budget.limit,
            "limit_by": self.budget.limit_by,
            "left": _finite(self.budget.left),
            "left_after": _finite(self.left_after),
        }


@dataclass(frozen=True)
class StudyPlan(Shown):
    """A priced study, to be carried out once."""

    plan_id: str  #: In the ledger every charge has it: a plan pays once
    created: str
    study_id: str
    study_sha256: str
    method: str
    mode: str
    promised: float  #: Epsilon of one unit, with all its rows and at all organisations it may be in
    trust: Trust  #: Whom every party has to trust for that
    trust_words: str  #: What it means, for an officer
    #: How many organisations' tables one process would read; 0 where each reads its own.
    together: int
    prices: tuple[Price, ...]

    @property
    def amount(self) -> float:
        """What every party that lives here is asked to spend."""
        here = [price.guarantee.epsilon for price in self.prices if price.here]
        return max(here or [price.guarantee.epsilon for price in self.prices])

    @property
    def trusted(self) -> str:
        """Whom every party has to trust, in one sentence."""
        if self.together > 1:
            return (
                f"Trust: one process reads the tables of {self.together} organisations; whoever "
                "runs it sees them."
            )
        return f"Trust: {self.trust}; {self.trust_words}."

    def check(self) -> None:
        """Refuse what a budget that is known here does not cover.

        Raises BudgetExceeded.
        """
        for price in self.prices:
            price.budget.check(price.guarantee)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts["trust"] = str(self.trust)
        return {"schema": SCHEMA, **facts, "prices": [price.to_dict() for price in self.prices]}

    @override
    def view(self, unit: str = "unit") -> Panel:
        numbers = ("spends", "spent so far", "left", "left after")
        rows = [
            (
                one.party,
                f"epsilon {shown_price(one.guarantee.epsilon, one.guarantee.delta)}",
                share(one.budget.spent + one.guarantee.epsilon, one.budget.limit, one.budget.spent),
                shown(one.budget.spent) if one.here else "not here",
                amount(one.budget.left),
                Word("refused", "bad") if one.left_after < 0 else amount(one.left_after),
                one.budget.limit_by or "nobody",
            )
            for one in self.prices
        ]
        columns = ("party", "spends", "of its limit", *numbers[1:], "limit set by")
        promise = f"Promise: {self.prices[0].guarantee}; one {unit} pays epsilon "
        note = f"{promise}{shown(self.promised)}. Nothing was spent yet."
        if self.mode == "simulation":
            note += " SIMULATION: seeded noise protects nobody, and its card can never be released."
        title = f"Price of {self.study_id} by {self.method}"
        return Panel(
            title,
            [Table(columns, rows, numbers, pictures=("of its limit",))],
            f"{note}\n{self.trusted}",
        )

    def save(self, path: Path, study_path: Path) -> None:
        """Write the plan beside what it is about."""
        if path.exists():
            raise StudyError(f"out: {path.name} is there already.").hinting(
                f"give another name, or carry that one out: confrere fit --plan {path}"
            )
        study_file = os.path.relpath(study_path, path.parent)
        document = {**self.to_dict(), "study_file": study_file}
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def make_plan(
    study: Study,
    # Mapping of party to Local. The parties that live here: their ledgers say what is left.
    locals_: Mapping[str, Local],
    plan_id: str | None = None,  # Of a plan that was agreed to; a fresh one by default
) -> StudyPlan:
    """Price a study."""
    guarantee = price_of(study)
    prices = tuple(
        Price(
            party.name,
            guarantee,
            budget_of(party, locals_.get(party.name), guarantee),
            party.name in locals_,
        )
        for party in study.payers
    )
    paid: dict[str, Any] = {price.party: _with_earlier(price, study) for price in prices}
    promised, _ = Spending(guarantee, parties=paid).price(
        study.promise.max_rows_per_unit, study.promise.parties_per_unit
    )
    together = sum(price.here for price in prices) if study.engine == "local" else 0
    return StudyPlan(
        plan_id=plan_id or uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        study_id=study.id,
        study_sha256=study.sha256,
        method=study.method.name,
        mode=study.mode,
        promised=promised,
        trust=trust_of(study, together),
        trust_words=trust_words(study),
        together=together,
        prices=prices,
    )


class _Epsilon(FileTable):
    model_config = ConfigDict(extra="ignore")

    epsilon: Positive


class _PartyPrice(FileTable):
    model_config = ConfigDict(extra="ignore")

    party: Name
    guarantee: _Epsilon


class Agreed(FileTable):
    """What a plan file says: which plan, of which study, at what price."""

    model_config = ConfigDict(extra="ignore")

    version: Literal["confrere-plan/1"] = Field(alias="schema")
    plan_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    study_sha256: Digest
    study_path: FilePath = Field(alias="study_file")
    prices: list[_PartyPrice]

    def check(self, study: Study, plan: StudyPlan) -> None:
        """Refuse a study that is not the one that was priced, or another price."""
        if study.sha256 != self.study_sha256:
            raise StudyError("the plan is for another version of the study.").hinting(_AGAIN)
        agreed = {price.party: price.guarantee.epsilon for price in self.prices}
        if agreed != {p.party: p.guarantee.epsilon for p in plan.prices}:
            raise StudyError("the plan says other prices than the study.").hinting(_AGAIN)


def read_plan(path: Path) -> Agreed:
    """Read a plan file that ``confrere price`` wrote."""
    document = parse_json(read_bytes(path, "the plan"), "the plan")
    return Agreed.read(document, "the plan", folder=path.parent)


def price_of(study: Study) -> Guarantee:
    """Return what a run costs one party: the study's method, or its source, which costs the same.

    And, where the study says so, learning facts of the schema first, and counting the errors of
    what was learned.
    """
    method = find_method(study.method.source) if study.method.source else study.method
    model = estimator_for(study, method)
    price = price_for(study, model)
    if study.file.facts is not None:
        price = Together([_price_of_facts(study), price]).guarantee()
    if study.file.evaluation is None:
        return price
    nothing = np.zeros(len(study.columns))
    if study.method.counting == ErrorsOfAll.operation:
        asked = ErrorsOfAll.among(
            len(study.parties),
            colluding=model.colluding,
            quorum=study.quorum,
            epsilon=study.file.evaluation.epsilon,
            reserve=model.reserve,
            largest=NOMINAL_ROWS,
            coef=nothing,
            intercept=0.0,
        )
        return Together([price, asked.mechanism]).guarantee()
    counted = Errors(epsilon=study.file.evaluation.epsilon, coef=nothing, intercept=0.0)
    return Together([price, counted.mechanism]).guarantee()


def _with_earlier(price: Price, study: Study) -> Guarantee:
    """Return a party's price with what its own account paid before for facts of the schema."""
    earlier = [
        one.guarantee
        for one in receipts_for_facts(study.schema)
        if one.account == price.account or one.account.startswith(f"{price.party}/")
    ]
    return Together([*earlier, price.guarantee]).guarantee()


def _price_of_facts(study: Study) -> Guarantee:
    facts = study.file.facts
    assert facts is not None
    asked = FactsOfAll.among(
        len(study.payers),
        colluding=facts.colluding,
        quorum=study.quorum_of_sums,
        epsilon=facts.epsilon,
        reserve=facts.reserve,
        largest=1 if study.promise.protects is Unit.PARTY else NOMINAL_ROWS,
        hides=str(Hides.of(study.promise.protects, study.promise.relation)),
        schema=sent_schema(study.schema),
    )
    return asked.mechanism.guarantee()


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number
