"""The price of a study, said before any data are touched, and written down to be agreed to."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from confrere.catalogue import find_method
from confrere.errors import StudyError
from confrere.federation.messages import Payload
from confrere.federation.operation import PartyFacts
from confrere.federation.protocols import ERRORS
from confrere.federation.sums import ERRORS_OF_ALL, Hides, count_sum, fact_sum, settings_of_count
from confrere.guarantee import Guarantee, Unit, at_most, exact, in_sequence, minus
from confrere.ledger.accounts import shown, shown_down
from confrere.notebook import BAD, bar, grid, panel, word
from confrere.release import Spending
from confrere.release.spending import receipts_for_facts
from confrere.schema.fact_counts import FactCounts
from confrere.study.budget import Budget, budget_of
from confrere.study.home import FilePath
from confrere.study.local_file import Local
from confrere.study.parameters import NOMINAL_ROWS, estimator_for, price_for
from confrere.study.study_file import Study
from confrere.study.study_trust import trust_of
from confrere.study.typed_files import (
    Digest,
    Name,
    Positive,
    Table,
    parse_json,
    read_bytes,
)
from confrere.trust import Trust

SCHEMA = "confrere-plan/1"
_AGAIN = "price it again: confrere price STUDY --out NEW_PLAN"


@dataclass(frozen=True)
class Price:
    """What one party would spend.

    Attributes
    ----------
    party : str
    guarantee : Guarantee
        What is charged, per record.
    budget : Budget
        Its data before, over all studies.
    here : bool
        Whether the party lives here, so that its ledger was read.
    """

    party: str
    guarantee: Guarantee
    budget: Budget
    here: bool

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
class StudyPlan:
    """A priced study, to be carried out once.

    Attributes
    ----------
    plan_id : str
        In the ledger every charge has it: a plan pays once.
    created : str
    study_id, study_sha256, method, mode : str
    promised : float
        Epsilon of one unit, with all its rows and at all organisations it may be in.
    trust : Trust
        Whom every party has to trust for that.
    together : int
        How many organisations' tables one process would read; 0 where each reads its own.
    prices : tuple of Price
    """

    plan_id: str
    created: str
    study_id: str
    study_sha256: str
    method: str
    mode: str
    promised: float
    trust: Trust
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
        return f"Trust: {self.trust}; {self.trust.words}."

    def check(self) -> None:
        """Refuse what a budget that is known here does not cover.

        Raises
        ------
        BudgetExceeded
        """
        for price in self.prices:
            price.budget.check(price.guarantee)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts["trust"] = str(self.trust)
        return {"schema": SCHEMA, **facts, "prices": [price.to_dict() for price in self.prices]}

    def _repr_html_(self) -> str:
        rows = [
            (
                one.party,
                shown(one.guarantee.epsilon),
                "no limit" if one.budget.limit is None else _price_bar(one),
                word("refused", BAD) if one.left_after < 0 else _left_words(one.left_after),
                one.budget.limit_by or "nobody",
            )
            for one in self.prices
        ]
        names = ("party", "spends", "of its limit", "left after", "limit set by")
        note = (
            f"One unit pays epsilon {shown(self.promised)}. {self.trusted} Nothing was spent yet."
        )
        if self.mode == "simulation":
            note += " SIMULATION: seeded noise protects nobody."
        title = f"Plan: {self.study_id} by {self.method}"
        return panel(title, grid(names, rows, right=("spends", "left after")), note=note)

    def save(self, path: Path, study_path: Path) -> None:
        """Write the plan beside what it is about."""
        if path.exists():
            raise StudyError(f"out: {path.name} is there already.").hinting(
                f"give another name, or carry that one out: confrere fit --plan {path}"
            )
        study_file = os.path.relpath(study_path, path.parent)
        document = {**self.to_dict(), "study_file": study_file}
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _price_bar(price: Price) -> object:
    limit = price.budget.limit or 1.0
    after = (price.budget.spent + price.guarantee.epsilon) / limit
    return bar(after, mark=price.budget.spent / limit)


def _left_words(left: float) -> str:
    return "no limit" if math.isinf(left) else shown_down(left)


def make_plan(study: Study, locals_: Mapping[str, Local], plan_id: str | None = None) -> StudyPlan:
    """Price a study.

    Parameters
    ----------
    study : Study
    locals_ : mapping of party to Local
        The parties that live here: their ledgers say what is left.
    plan_id : str, optional
        Of a plan that was agreed to; a fresh one by default.
    """
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
        together=together,
        prices=prices,
    )


class _Epsilon(Table):
    model_config = ConfigDict(extra="ignore")

    epsilon: Positive


class _PartyPrice(Table):
    model_config = ConfigDict(extra="ignore")

    party: Name
    guarantee: _Epsilon


class Agreed(Table):
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
        price = in_sequence([_price_of_facts(study), price])
    if study.file.evaluation is None:
        return price
    if study.method.counting == ERRORS_OF_ALL.name:
        asked = {
            "epsilon": study.file.evaluation.epsilon,
            "n_parties": len(study.parties),
            "colluding": model.colluding,
            "reserve": model.reserve,
            "quorum": study.quorum,
            "largest": NOMINAL_ROWS,
        }
        return in_sequence([price, count_sum(asked, price.neighbours).guarantee()])
    counting = ERRORS.priced(
        Payload(
            {"epsilon": study.file.evaluation.epsilon, "intercept": 0.0},
            {"coef": np.zeros(len(study.columns))},
        ),
        PartyFacts(NOMINAL_ROWS, len(study.columns)),
    )
    assert counting is not None
    return in_sequence([price, counting])


def _with_earlier(price: Price, study: Study) -> Guarantee:
    """Return a party's price with what its own account paid before for facts of the schema."""
    earlier = [
        one.guarantee
        for one in receipts_for_facts(study.schema)
        if one.account == price.account or one.account.startswith(f"{price.party}/")
    ]
    return in_sequence([*earlier, price.guarantee]) if earlier else price.guarantee


def _price_of_facts(study: Study) -> Guarantee:
    facts = study.file.facts
    assert facts is not None
    asked = settings_of_count(
        facts.epsilon,
        len(study.payers),
        facts.colluding,
        facts.reserve,
        study.quorum_of_sums,
        NOMINAL_ROWS,
    )
    if study.promise.protects is Unit.PARTY:
        asked["largest"] = 1
    asked["hides"] = str(Hides.of(study.promise.protects, study.promise.relation))
    return fact_sum(asked, FactCounts(study.schema)).guarantee()


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number
