"""A study's protocol: the coordinator's side of its method, whatever carries the questions.

It is the study's and nobody's: whoever has the same bytes has the same questions. The local engine
and a deployment run it over a :class:`~confrere.federation.Federation`; a party that is asked runs
it over what others have signed, to see which question is next and what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.catalogue import Method, find_method
from confrere.errors import InvalidParameter, StudyError
from confrere.federation import (
    Answers,
    Averaging,
    Expansion,
    FederatedEvaluation,
    Federation,
    VotingOutcome,
    add_up,
    average,
    evaluate,
    evaluate_together,
    expand,
    poll,
)
from confrere.federation.protocols import ask_sizes, joined, receipts_in
from confrere.federation.sums import learn_together
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.model import Facts, Linear, Model
from confrere.plans import PublicFacts
from confrere.plans.base_plan import Names
from confrere.plans.checked_average import CheckedAveraging
from confrere.plans.linear_plan import coefficients
from confrere.plans.shaped_average import ShapedAveraging
from confrere.plans.sums_plan import GradientRounds, OneMessage
from confrere.release import Release
from confrere.release.spending import seeded_facts, with_facts
from confrere.schema import PublicSchema
from confrere.study.learning import LEARN, Learning, Start
from confrere.study.parameters import NOMINAL_ROWS, estimator_for, ridges_for, settings_for
from confrere.study.study_file import Study

Receipts = Mapping[str, tuple[Receipt, ...]]


@dataclass(frozen=True)
class Given:
    """What a run needs besides the study and the parties' own data: all of it is public.

    Attributes
    ----------
    releases : mapping of party to Release
        In a transfer, what sources elsewhere have released.
    auxiliary : callable or None
        From a study to the rows that parties vote on, encoded by its schema: facts of it may be
        learned first.
    kept : Answers or None
        Where a coordinator that adds noise keeps what it released, once and for all.
    """

    releases: Mapping[str, Release] = field(default_factory=dict)
    auxiliary: Callable[[Study], Floats] | None = None
    kept: Answers | None = None

    def rows(self, study: Study) -> Floats | None:
        """Return the rows that parties vote on, encoded; None if there are none."""
        return None if self.auxiliary is None else self.auxiliary(study)


@dataclass(frozen=True, eq=False)
class Learned:
    """One model of a run, and what stands behind it.

    Attributes
    ----------
    name : str
        Of its release: the party's, or the study's if all made it together.
    kind : str
        The method that made it.
    model : Model
    guarantee : Guarantee or None
        What was promised; None where nobody was really asked.
    receipts : mapping of party to tuple of Receipt
        Who paid for it.
    starts : mapping of str to (Receipt or Guarantee)
        What stands behind the models that it started from.
    evaluation : FederatedEvaluation or None
        How many records it gets wrong, counted with noise.
    seeded : bool
        Whether a coordinator's noise was seeded.
    schema : PublicSchema or None
        What its rows were encoded by.
    facts : mapping of party to tuple of Receipt
        Who paid, in the same run, for facts of the schema.
    """

    name: str
    kind: str
    model: Model
    guarantee: Guarantee | None
    receipts: Receipts
    starts: Mapping[str, Receipt | Guarantee] = field(default_factory=dict)
    evaluation: FederatedEvaluation | None = None
    seeded: bool = False
    schema: PublicSchema | None = None
    facts: Receipts = field(default_factory=dict)

    @property
    def release(self) -> Release:
        """What leaves, without the study's words."""
        if self.guarantee is None:
            raise InvalidParameter("nobody was asked: a rehearsal releases nothing.")
        paid: dict[str, Any] = dict(self.receipts)
        (first, *others) = self.receipts.values()
        alone = self.kind not in ("collaborative", "multiparty") and not others
        if alone:
            paid = {"target": first[0], **self.starts} if self.starts else {}
        receipt = first[0] if alone else None
        seeded = any(one.simulated for paid in self.receipts.values() for one in paid)
        return Release(
            kind=self.kind,
            model=self.model,
            guarantee=self.guarantee,
            receipt=receipt,
            simulated=self.seeded or seeded or seeded_facts(self.schema),
            parties=with_facts(paid, receipt, self.schema),
        )


#: What a protocol ends with.
Run = Callable[[Federation], tuple[Learned, ...]]


def protocol_of(study: Study, given: Given | None = None, timeout: float | None = None) -> Run:
    """Return the coordinator's side of the study's method, as a function of whom to ask."""
    have = given or Given()

    def run(federation: Federation) -> tuple[Learned, ...]:
        facts, known = study.file.facts, study
        receipts: Receipts = {}
        if facts is not None:
            schema = learn_together(
                federation,
                study.schema,
                epsilon=facts.epsilon,
                unit=study.promise.protects,
                neighbours=study.promise.relation,
                colluding=facts.colluding,
                reserve=facts.reserve,
                quorum=study.quorum_of_sums,
                timeout=timeout,
            )
            known = study.with_schema(schema)
            receipts = _facts_of(study.schema, schema)
        found = _models(known, have, federation, timeout)
        return tuple(
            replace(
                one,
                schema=known.schema,
                facts={name: paid for name, paid in receipts.items() if name in one.receipts},
            )
            for one in found
        )

    return run


def _facts_of(before: PublicSchema, after: PublicSchema) -> Receipts:
    """Return what every party paid for the facts that a run has learned."""
    new = after.paid[len(before.paid) :]
    return {name: (Receipt.from_dict(one),) for paid in new for name, one in paid.receipts.items()}


def _models(
    study: Study, given: Given, federation: Federation, timeout: float | None
) -> tuple[Learned, ...]:
    if study.method.shape == "together":
        return (_together(study, federation, timeout),)
    if study.method.shape == "votes":
        return (_voted(study, given, federation, timeout),)
    return _learned(study, given, federation, timeout)


def _together(study: Study, federation: Federation, timeout: float | None) -> Learned:
    """Ask everyone; the average or the sum is post-processing."""
    if study.file.evaluation is not None and study.n_classes > 2:
        raise StudyError("evaluation: errors are counted of two classes; leave it out.")
    plan = estimator_for(study, study.method).protocol(len(study.columns), study.n_classes)
    if isinstance(plan, Expansion):
        outcome = expand(federation, plan, quorum=study.quorum, timeout=timeout)
    elif isinstance(plan, Averaging | CheckedAveraging | ShapedAveraging):
        outcome = average(federation, plan, quorum=study.quorum, timeout=timeout)
    elif isinstance(plan, OneMessage | GradientRounds):
        outcome = add_up(federation, plan, quorum=study.quorum, timeout=timeout)
    else:
        raise StudyError(f"method.name: {study.method.name} does not run by study file yet.")
    facts = Facts(
        method=study.method.name,
        parties=len(outcome.sizes),
        rounds=plan.rounds,
        n_samples=sum(outcome.sizes.values()),
        prior=outcome.prior,
        **outcome.frame.learned_with(),
    )
    model = _linear(study, *coefficients(outcome.frame, outcome.weights), facts)
    receipts, counted = outcome.receipts, None
    if study.file.evaluation is not None:
        settings: dict[str, Any] = {
            "epsilon": study.file.evaluation.epsilon,
            "sizes": outcome.sizes,
            "quorum": study.quorum,
            "timeout": timeout,
        }
        if isinstance(plan, OneMessage | GradientRounds):
            settings |= {"colluding": plan.colluding, "reserve": plan.reserve}
            counted = evaluate_together(federation, outcome.coef, outcome.intercept, **settings)
        else:
            counted = evaluate(federation, outcome.coef, outcome.intercept, **settings)
        receipts = joined(receipts, counted.receipts)
    paid = any(receipts.values())
    guarantee = replace(outcome, receipts=receipts).guarantee if paid else None
    return Learned(study.id, "collaborative", model, guarantee, receipts, evaluation=counted)


def _voted(study: Study, given: Given, federation: Federation, timeout: float | None) -> Learned:
    """Have everyone vote, or upload; the coordinator adds the noise, or everyone a share of it."""
    auxiliary = given.rows(study)
    facts = PublicFacts(
        n_samples=len(federation.parties()),
        n_features=len(study.columns),
        n_classes=study.n_classes,
        auxiliary=auxiliary,
    )
    estimator = estimator_for(study, study.method)
    voting = replace(estimator.plan(facts).voting, quorum=study.quorum)
    voting.check(facts.n_samples)
    elected: VotingOutcome = poll(
        federation,
        voting,
        releases=given.kept,
        on_faulty="refuse" if study.quorum == 1 else estimator.on_faulty,
        timeout=timeout,
        random_state=study.seed_for("coordinator"),
    )
    coef, intercept = voting.coefficients(elected.released.weights)
    model = _linear(
        study,
        coef,
        intercept,
        Facts(
            method=voting.method,
            parties=facts.n_samples,
            alpha=float(elected.released.alpha),
            n_auxiliary=None if auxiliary is None else len(auxiliary),
            **voting.frame.learned_with(),
        ),
    )
    guarantee, seeded = voting.guarantee(facts.n_samples), elected.simulated
    return Learned(study.id, "multiparty", model, guarantee, elected.receipts, seeded=seeded)


def _learned(
    study: Study, given: Given, federation: Federation, timeout: float | None
) -> tuple[Learned, ...]:
    """Have everyone learn by itself; in a transfer sources first, and the others from them."""
    asked = [party.name for party in study.payers if party.name in federation.parties()]
    sizes = ask_sizes(federation, to=asked, quorum=study.quorum, timeout=timeout).counts
    if federation.rehearses:  # what is made up must be enough for a plan, and not always the same
        sizes = {name: NOMINAL_ROWS + min(size, 97) for name, size in sizes.items()}
    sources = [party.name for party in study.sources if party.name in sizes]
    made: list[Learned] = []
    starts: dict[str, Start] = {n: Start.given(release) for n, release in given.releases.items()}
    behind: dict[str, Receipt | Guarantee] = {
        name: release.receipt or release.guarantee for name, release in given.releases.items()
    }

    def ask(method: Method, to: Sequence[str], step: int) -> None:
        ordered = [party.name for party in study.parties if party.name in starts]
        learning = learning_of(study, method, tuple(starts[name] for name in ordered))
        answers = federation.gather(
            LEARN.name,
            learning.to_payload(),
            to=to,
            step=step,
            quorum=study.quorum,
            timeout=timeout,
            expect=lambda name: learning.expected(sizes[name]),
        )
        paid = {_source(k, len(ordered)): behind[name] for k, name in enumerate(ordered)}
        receipts = receipts_in(answers)
        for name, answer in answers.items():
            start = learning.start(sizes[name], answer.arrays)
            promised = start.guarantee if receipts[name] else None
            own = {name: receipts[name]}
            made.append(Learned(name, method.name, start.model, promised, own, paid))
            if name in sources:
                starts[name] = start
                behind[name] = receipts[name][0] if receipts[name] else start.guarantee

    if sources:
        ask(find_method(study.method.source), sources, 0)
    others = [name for name in sizes if name not in sources]
    if others and study.method.shape != "as-is":
        ask(study.method, others, 1 if study.sources else 0)
    return tuple(made)


def _source(k: int, count: int) -> str:
    return "source" if count == 1 else f"source {k + 1}"


def learning_of(study: Study, method: Method, starts: tuple[Start, ...] = ()) -> Learning:
    """Return what one organisation does by itself, as the study wants it."""
    settings = settings_for(study, method)
    importance = settings.pop("importance", None)
    told = ["classes", "schema", "prior"]
    ridges = ridges_for(study, settings.get("alpha"))
    if ridges is not None:
        told.append("alpha")
    plain = {name: value for name, value in settings.items() if name not in told}
    encoder, near = study.encoder(), "prior" in study.parameters
    return Learning(
        method,
        plain,
        Names(tuple(study.classes), tuple(study.columns)),
        None if importance is None else np.asarray(importance, dtype=np.float64),
        starts if method.shape == "transfer" else (),
        encoder.expert_prior() if near else None,
        None if ridges is None else np.asarray(ridges, dtype=np.float64),
        encoder.multipliers() if near and encoder.weighted else None,
        study.schema if study.shaped else None,
    )


def _linear(study: Study, coef: Floats, intercept: Floats, facts: Facts) -> Linear:
    return Linear(
        coef=coef,
        intercept=intercept,
        classes=tuple(study.classes),
        features=tuple(study.columns),
        facts=facts,
    )
