"""Carry out a priced study in one process, for the parties that live here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from confrere.catalogue import Method, find_method
from confrere.errors import QuorumMissed, SchemaMismatch, StudyError
from confrere.estimators.starting_points import check_same_meaning
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.release import Release
from confrere.study.describing import described
from confrere.study.encoded_rows import Rows, read_rows
from confrere.study.local_file import Local
from confrere.study.parameters import estimator_for
from confrere.study.party_payment import paid, require_unused
from confrere.study.priced_plan import Plan
from confrere.study.study_file import Party, Study

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """What a study gave: a release, and who paid for it.

    Attributes
    ----------
    name : str
        Of its folder: the party's, or the study's if all made it together.
    release : Release
    receipts : mapping of party to tuple of Receipt
        One for each of its answers.
    """

    name: str
    release: Release
    receipts: Mapping[str, tuple[Receipt, ...]]


@dataclass(frozen=True)
class Runner:
    """A study that is ready to run: everything is checked, nothing is spent.

    Use :func:`prepare`.
    """

    study: Study
    plan: Plan
    locals_: Mapping[str, Local]
    rows: Mapping[str, Rows]
    sources: Mapping[str, Release]

    def run(self, tell: Tell = lambda _: None) -> list[Made]:
        """Charge, learn and describe; ``tell`` hears what happens."""
        if self.study.method.shape == "together":
            tell(f"{len(self.rows)} parties release")
            return [self._together()]
        made = []
        sources = dict(self.sources)
        source_names = {party.name for party in self.study.sources}
        for party in sorted(self._here(), key=lambda party: party.name not in source_names):
            tell(party.name)
            if party.name in source_names:
                one = self._alone(party, find_method(self.study.method.source))
                sources[party.name] = one.release
            elif source_names:
                one = self._alone(party, self.study.method, source=list(sources.values()))
            else:
                one = self._alone(party, self.study.method)
            made.append(one)
        return made

    def check_prices(self) -> None:
        """Ask every price that does not need a source made on the way; spends nothing."""
        study = self.study
        method = find_method(study.method.source) if study.method.source else study.method
        known = set(self.sources) == {party.name for party in study.sources}
        for name, rows in self.rows.items():
            if not study.sources or study.party(name).role == "source":
                model = self._estimator(method, name)
            elif known:
                model = self._estimator(study.method, name, source=list(self.sources.values()))
            else:
                continue
            self._price(model, len(rows.y))

    def _here(self) -> list[Party]:
        return [self.study.party(name) for name in self.rows]

    def _alone(self, party: Party, method: Method, **more: Any) -> Made:
        rows, local = self.rows[party.name], self.locals_[party.name]
        model = self._estimator(method, party.name, **more)
        price = self._price(model, len(rows.y))
        with paid(self.study, self.plan, party, local, price) as receipt:
            model.fit(rows.X, rows.y)
            model.receipt_ = receipt
            release = model.to_release(self.study.schema)
            ledger = Ledger(local.ledger_path)
            ledger.mark_released(receipt, digest=release.model.digest())
        release = described(self.study, release, ledger=ledger, n_here=1)
        return Made(party.name, release, {party.name: (receipt,)})

    def _together(self) -> Made:
        names = list(self.rows)
        sizes = [len(self.rows[name].y) for name in names]
        X = pd.concat([self.rows[name].X for name in names], ignore_index=True)
        y = np.concatenate([self.rows[name].y for name in names])
        model = self._estimator(self.study.method, "all")
        price = self._price(model, min(sizes))
        receipts: dict[str, Receipt] = {}
        with ExitStack() as stack:
            for party in self._here():
                local = self.locals_[party.name]
                receipts[party.name] = stack.enter_context(
                    paid(self.study, self.plan, party, local, price)
                )
            model.fit(X, y, party=np.repeat(names, sizes))
            release = model.to_release(self.study.schema)
            for name, receipt in receipts.items():
                ledger = Ledger(self.locals_[name].ledger_path)
                ledger.mark_released(receipt, digest=release.model.digest())
        release = replace(release, receipt=None, parties=receipts)
        release = described(self.study, release, n_here=len(names))
        return Made(self.study.id, release, {name: (one,) for name, one in receipts.items()})

    def _estimator(self, method: Method, name: str, **more: Any) -> Any:
        """Return the estimator with a ledger aside: the party's own has been charged already."""
        seed = self.study.seed_for(name)
        return estimator_for(self.study, method, ledger=Ledger(), random_state=seed, **more)

    def _price(self, model: Any, n_samples: int) -> Guarantee:
        """Return the price for the data at hand; it must be the one that was agreed to."""
        price: Guarantee = model.price(n_samples, len(self.study.schema.feature_names))
        agreed = self.plan.prices[0].guarantee
        kinds = [(g.epsilon, g.delta, g.unit, g.neighbours) for g in (price, agreed)]
        if kinds[0] != kinds[1]:
            raise StudyError("the price is not the planned one; nothing was spent on this.")
        return price


def prepare(
    study: Study,
    plan: Plan,
    locals_: Mapping[str, Local],
    sources: Mapping[str, Release] | None = None,
) -> Runner:
    """Check everything that can be checked before a price is paid, and read the data.

    Parameters
    ----------
    study : Study
    plan : Plan
        Its price, agreed to.
    locals_ : mapping of party to Local
        The parties that live here.
    sources : mapping of party to Release, optional
        In a transfer, what source parties elsewhere have released.
    """
    if study.engine != "local":
        raise StudyError(
            "federation.engine: 'flower' runs between machines: use confrere coordinator and "
            "confrere party."
        )
    here = {name: local for name, local in locals_.items() if local.data_path is not None}
    if not here:
        raise StudyError(
            "no party lives here: give its local file with --local, or its table with "
            "--data PARTY=FILE."
        )
    _check_parties(study, here, sources or {})
    for name, local in here.items():
        if local.policy is not None:
            local.policy.check(study, name)
        require_unused(plan, study.party(name), local)
    for price in plan.prices:
        if price.party in here:
            price.budget.check(price.account, price.guarantee)
    rows = {
        name: read_rows(study, local.data_path)
        for name, local in here.items()
        if local.data_path is not None
    }
    runner = Runner(study, plan, here, rows, sources or {})
    runner.check_prices()
    return runner


def _check_parties(study: Study, here: Mapping[str, Local], given: Mapping[str, Release]) -> None:
    """Refuse to begin without those who are needed."""
    if study.method.shape == "together" and len(here) < study.quorum * len(study.parties):
        away = [party.name for party in study.parties if party.name not in here]
        raise QuorumMissed(
            f"{len(here)} of {len(study.parties)} parties are here, the quorum is "
            f"{study.quorum:g}; give the local files of {', '.join(away)}."
        )
    names = {party.name for party in study.sources}
    for name, release in given.items():
        study.party(name)
        if name not in names:
            raise StudyError(f"source: {name!r} is not a source in the study.")
        _check_source(study, name, release)
    lacking = [name for name in sorted(names) if name not in here and name not in given]
    if lacking:
        raise StudyError(
            f"source: {', '.join(lacking)} is not here; give its release: --source "
            f"{lacking[0]}=FOLDER."
        )


def _check_source(study: Study, name: str, release: Release) -> None:
    classes = np.asarray(estimator_for(study, study.method).classes)
    check_same_meaning(
        [release],
        features=list(study.schema.feature_names),
        classes=np.unique(classes),
        schema=study.schema,
    )
    encoder = release.model.encoder
    if encoder is None or (encoder.rows, encoder.weighted) != (
        study.file.encoding.rows,
        study.weighted,
    ):
        raise SchemaMismatch(f"source {name!r}: its rows are encoded in another way.")
