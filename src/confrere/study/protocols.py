"""A study's protocol: the coordinator's side of its method, whatever carries the questions.

It is the study's and nobody's: whoever has the same bytes has the same questions. The local engine
and a deployment run it over a :class:`~confrere.federation.Federation`; a party that is asked runs
it over what others have signed, to see which question is next and what comes out.

Where a party learns a model of its own, a request says which method of the catalogue, with which
settings, under which names, starting from which released models. Whoever has it has the plan: a
party derives it from its own study and compares; what it answers are the plan's noised numbers, and
anyone who has the plan makes the model of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.catalogue import Method, find_method
from confrere.errors import ConfrereError, InvalidMessage, InvalidParameter, StudyError
from confrere.estimators.base import Opinion
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
from confrere.federation.messages import Expected, Numbers, Payload
from confrere.federation.operation import Operation, PartyFacts, check_price, install
from confrere.federation.party import LocalParty
from confrere.federation.protocols import ask_sizes, joined, receipts_in
from confrere.federation.sums import learn_together, received_schema, sent_schema
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.model import Encoder, Facts, Linear, Model
from confrere.model.model_json import read_model
from confrere.model.strict_json import json_bytes, read_json
from confrere.plans import LabelledTable, PublicFacts
from confrere.plans.base_plan import ModelPlan, Names
from confrere.plans.linear_plan import coefficients
from confrere.plans.sums_plan import GradientRounds, OneMessage
from confrere.release import Release, Simulated
from confrere.release.spending import seeded_facts, with_facts
from confrere.rows.engines import opened_engine
from confrere.rows.frame import LARGEST
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.study.study_file import NOMINAL_ROWS, Study, body_encoder, estimator_for, settings_for

_VALUES = frozenset({"method", "settings", "classes", "features", "sources"})
_MADE = frozenset({"method", "settings", "n_samples"})
_GIVEN = frozenset({"kind"})
_PLAIN = (str, int, float, bool)


@dataclass(frozen=True, eq=False)
class Start:
    """A released model that another is started from."""

    kind: str  #: The method that made it
    model: Model  #: What was released
    #: What a request says about it: the method, settings and size behind the numbers, or, of a
    #: release that was made before, its kind.
    spec: Mapping[str, Any]
    #: What was released in this run; or the bytes of a model that was released before.
    numbers: Mapping[str, NDArray[Any]]
    guarantee: Guarantee  #: What was promised to those in it

    @classmethod
    def given(cls, release: Release) -> Start:
        """Start from a release that was made before."""
        written = json_bytes(replace(release.model, encoder=None).to_dict())
        sent = {"model": np.frombuffer(written, dtype=np.uint8)}
        return cls(release.kind, release.model, {"kind": release.kind}, sent, release.guarantee)

    def release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return the model as estimators take it; sources of a study encode as the study does."""
        model = replace(self.model, encoder=None if encoder is None else Encoder.of(encoder))
        return Release(self.kind, model, self.guarantee, None)


@dataclass(frozen=True, eq=False)
class Learning:
    """One organisation's model, as far as it is public."""

    method: Method  #: Of the catalogue
    settings: Mapping[str, Any]  #: Its plain arguments
    names: Names  #: Labels and columns
    importance: Floats | None = None  #: Public importances of the columns
    starts: tuple[Start, ...] = field(default=())  #: Released models that it starts from
    #: The experts' log odds per unit of each column, for methods that take a prior; a target's
    #: sources may.
    prior: Floats | None = None
    #: Ridges, one per column or group, where the settings have none for all.
    alpha: Floats | None = None
    #: Importances that rows come weighted by: taken back as far as the prior is not believed.
    weights: Floats | None = None
    #: By which rows were encoded, where noise is shaped like them.
    schema: PublicSchema | None = None

    def plan(self, n_samples: int) -> ModelPlan:
        """Return what an organisation of so many records carries out; touches no data."""
        given: dict[str, Any] = {"classes": list(self.names.classes)}
        if self.importance is not None:
            given["importance"] = self.importance
        if self.prior is not None and "prior" in signature(self.method.estimator).parameters:
            given["prior"] = Opinion(self.prior, 0.0, self.weights)
        if self.alpha is not None:
            given["alpha"] = self.alpha.tolist()
        encoder = None if self.schema is None else body_encoder(self.schema)
        if encoder is not None:
            given["schema"] = encoder
        if self.starts:
            given["source"] = [start.release(encoder) for start in self.starts]
        facts = PublicFacts(
            n_samples=n_samples,
            n_features=len(self.names.features),
            n_classes=len(self.names.classes),
            classes=np.unique(self.names.classes),
            features=self.names.features,
        )
        plan = self.method.make(**self.settings, **given).plan(facts)
        if not isinstance(plan, ModelPlan):
            raise InvalidParameter(f"method: {self.method.name} is not for one organisation.")
        return plan

    def expected(self, n_samples: int) -> Expected:
        """Return what an organisation of that size may answer."""
        plan = self.plan(n_samples)
        bounds = {n: Numbers(shape, longest=far) for n, (shape, far) in plan.bounds().items()}
        return Expected(bounds, plan.guarantee())

    def start(self, n_samples: int, numbers: Mapping[str, Floats]) -> Start:
        """Return what was released, for others to start from."""
        plan = self.plan(n_samples)
        spec = {
            "method": self.method.name,
            "settings": dict(self.settings),
            "n_samples": int(n_samples),
        }
        model = plan.assemble(numbers, self.names)
        return Start(self.method.name, model, spec, numbers, plan.guarantee())

    def to_payload(self) -> Payload:
        """Return the request."""
        values = {
            "method": self.method.name,
            "settings": dict(self.settings),
            "classes": list(self.names.classes),
            "features": list(self.names.features),
            "sources": [dict(start.spec) for start in self.starts],
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self.importance is not None:
            arrays["importance"] = self.importance
        if self.prior is not None:
            arrays["prior"] = self.prior
        if self.alpha is not None:
            arrays["alpha"] = self.alpha
        if self.weights is not None:
            arrays["weights"] = self.weights
        if self.schema is not None:
            arrays["schema"] = sent_schema(self.schema)
        for k, start in enumerate(self.starts):
            arrays |= {f"source{k}_{name}": array for name, array in start.numbers.items()}
        return Payload(values, arrays)

    @classmethod
    def from_payload(cls, request: Payload) -> Learning:
        """Read a request; what does not fit is refused."""
        values, arrays = request.values, dict(request.arrays)
        if values.keys() != _VALUES:
            raise InvalidMessage("the request has missing or unknown fields.")
        for name in ("classes", "features", "sources"):
            if not isinstance(values[name], list):
                raise InvalidMessage(f"{name} must be a list.")
        names = Names(tuple(values["classes"]), tuple(values["features"]))
        told: dict[str, Any] = {
            name: arrays.pop(name, None) for name in ("importance", "prior", "alpha", "weights")
        }
        for name, known in told.items():
            if known is not None and (known.dtype != np.float64 or known.ndim != 1):
                raise InvalidMessage(f"{name} must be one float64 per column.")
        weights = told["weights"]
        if weights is not None and (told["prior"] is None or len(weights) != len(names.features)):
            raise InvalidMessage("weights must be one number per column, of a prior.")
        if weights is not None and not np.all((weights >= 0) & (weights <= LARGEST)):
            raise InvalidMessage(f"weights must be numbers from 0 to {LARGEST:g}.")
        if "schema" in arrays:
            told["schema"] = received_schema(arrays.pop("schema"))
        starts = []
        for k, spec in enumerate(values["sources"]):
            prefix = f"source{k}_"
            own = {n.removeprefix(prefix): arrays.pop(n) for n in [*arrays] if n.startswith(prefix)}
            starts.append(_start(spec, own, names, told))
        if arrays:
            raise InvalidMessage("the request has unknown arrays.")
        return cls(_method(values), _settings(values), names, starts=tuple(starts), **told)


def _method(values: Mapping[str, Any]) -> Method:
    try:
        return find_method(values["method"])
    except InvalidParameter:
        raise InvalidMessage("method must be one of the catalogue's.") from None


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    settings = values["settings"]
    if not isinstance(settings, dict) or not all(type(v) in _PLAIN for v in settings.values()):
        raise InvalidMessage("settings must be a table of plain values.")
    check_price(settings.get("epsilon"))
    return dict(settings)


def _start(spec: Any, numbers: dict[str, Any], names: Names, told: Mapping[str, Any]) -> Start:
    if not isinstance(spec, dict) or spec.keys() not in (_MADE, _GIVEN):
        raise InvalidMessage("a source is a method with its settings and size, or a model.")
    if spec.keys() == _GIVEN:
        if numbers.keys() != {"model"} or type(spec["kind"]) is not str:
            raise InvalidMessage("a source that is given is a model.")
        model = read_model(read_json(numbers["model"].tobytes(), "source"))
        # What it promised its own records is on its card, and not the target's business.
        return Start(spec["kind"], model, spec, numbers, Guarantee(1.0))
    if type(spec["n_samples"]) is not int:
        raise InvalidMessage("a source has a number of records.")
    learning = Learning(_method(spec), _settings(spec), names, starts=(), **told)
    wanted = learning.expected(spec["n_samples"])
    if wanted.fault(Payload(arrays=numbers)) is not None:
        raise InvalidMessage("a source's numbers are not what its method releases.")
    return learning.start(spec["n_samples"], numbers)


def _planned(request: Payload, facts: PartyFacts) -> tuple[Learning, ModelPlan]:
    try:
        learning = Learning.from_payload(request)
        names = learning.names
        if (len(names.features), len(names.classes)) != (facts.n_features, facts.n_classes):
            raise InvalidMessage("the request is for another number of columns or classes.")
        return learning, learning.plan(facts.n_samples)
    except ConfrereError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InvalidMessage(f"the request makes no plan ({type(error).__name__}).") from error


def _price(request: Payload, facts: PartyFacts) -> Guarantee:
    return _planned(request, facts)[1].guarantee()


def _run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    learning, plan = _planned(request, party.facts)
    codes = (party.y > 0) if party.n_classes == 2 else party.y
    classes = np.unique(learning.names.classes)
    with opened_engine(party.engine) as engine:
        table = LabelledTable(
            party.X, codes.astype(np.intp), classes, learning.names.features, engine=engine
        )
        return Payload(arrays=plan.release(table, source))


LEARN = install(Operation("learn", _price, _run, many_classes=True))


Receipts = Mapping[str, tuple[Receipt, ...]]


@dataclass(frozen=True)
class Given:
    """What a run needs besides the study and the parties' own data: all of it is public."""

    #: Mapping of party to Release. In a transfer, what sources elsewhere have released.
    releases: Mapping[str, Release] = field(default_factory=dict)
    #: From a study to the rows that parties vote on, encoded by its schema: facts of it may be
    #: learned first.
    auxiliary: Callable[[Study], Floats] | None = None
    #: Where a coordinator that adds noise keeps what it released, once and for all.
    kept: Answers | None = None

    def rows(self, study: Study) -> Floats | None:
        """Return the rows that parties vote on, encoded; None if there are none."""
        return None if self.auxiliary is None else self.auxiliary(study)


@dataclass(frozen=True, eq=False)
class Learned:
    """One model of a run, and what stands behind it."""

    name: str  #: Of its release: the party's, or the study's if all made it together
    kind: str  #: The method that made it
    model: Model
    guarantee: Guarantee | None  #: What was promised; None where nobody was really asked
    receipts: Receipts  #: Mapping of party to tuple of Receipt. Who paid for it.
    #: What stands behind the models that it started from.
    starts: Mapping[str, Receipt | Guarantee] = field(default_factory=dict)
    #: How many records it gets wrong, counted with noise.
    evaluation: FederatedEvaluation | None = None
    seeded: bool = False  #: Whether a coordinator's noise was seeded
    schema: PublicSchema | None = None  #: What its rows were encoded by
    #: Mapping of party to tuple of Receipt. Who paid, in the same run, for facts of the schema.
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
        made = Simulated if seeded or self.seeded or seeded_facts(self.schema) else Release
        return made(
            kind=self.kind,
            model=self.model,
            guarantee=self.guarantee,
            receipt=receipt,
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
    elif isinstance(plan, Averaging):
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
    ridges = settings.get("alpha")
    ridges = ridges if isinstance(ridges, list) else None  # one for all is a plain setting
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
