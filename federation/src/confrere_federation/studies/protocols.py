"""A study's protocol: the coordinator's side of its method, whatever carries the questions.

It is the study's and nobody's: whoever has the same bytes has the same questions. The local engine
and a deployment run it over a :class:`~confrere_federation.parties.Federation`; a party that is
asked runs it over what others have signed, to see which question is next and what comes out.

Where a party learns a model of its own, a request says which method of the catalogue, with which
settings, under which names, starting from which released models. Whoever has it has the plan: a
party derives it from its own study and compares; what it answers are the plan's noised numbers, and
anyone who has the plan makes the model of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.catalogue import Method, find_method
from confrere.data.encoding import SchemaEncoder
from confrere.data.schema import PublicSchema
from confrere.errors import ConfrereError, InvalidMessage, InvalidParameter, StudyError
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.methods import LabelledTable, PublicFacts
from confrere.methods.asking import (
    Arrays,
    Ask,
    Labels,
    Measured,
    Protocol,
    Reader,
    Receipts,
    Rows,
    Size,
    Sizes,
    known_sizes,
)
from confrere.methods.plan import ModelPlan, Names
from confrere.methods.sums import Sums
from confrere.model import Encoder, Model
from confrere.model.model_json import read_model
from confrere.model.strict_json import json_bytes, read_json
from confrere.release import Release, Simulated
from confrere.release.spending import seeded_facts, with_facts
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import (
    FederatedEvaluation,
    OnFaulty,
    Trusted,
    changed,
    evaluation,
    evaluation_together,
    facts_together,
    guarantee_of,
    joined,
    with_quorum,
    with_receipts,
)
from confrere_federation.parties.messages import Expected, Numbers, Payload
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.requests import (
    EPSILON,
    FLAG,
    SCHEMA,
    FieldKind,
    Operation,
    PartyFacts,
    Values,
    install,
    numbers,
    one_of,
    received_schema,
    sent_schema,
)
from confrere_federation.studies.study_file import (
    NOMINAL_ROWS,
    Study,
    estimator_for,
    settings_for,
)

_MADE = frozenset({"method", "settings", "n_samples"})
_GIVEN = frozenset({"kind"})
_PLAIN = (str, int, float, bool)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Start:
    """A released model that another is started from."""

    kind: str  #: The method that made it
    model: Model  #: What was released, with what encodes its rows
    #: What a request says about it: the method, settings and size behind the numbers, or, of a
    #: release that was made before, its kind.
    spec: Mapping[str, Any]
    #: What was released in this run; or the bytes of a model that was released before.
    numbers: Mapping[str, NDArray[Any]]
    guarantee: Guarantee  #: What was promised to those in it

    @classmethod
    def given(cls, release: Release) -> Start:
        """Start from a release that was made before."""
        sent = {"model": np.frombuffer(json_bytes(release.model.to_dict()), dtype=np.uint8)}
        return cls(release.kind, release.model, {"kind": release.kind}, sent, release.guarantee)


@dataclass(frozen=True, eq=False)
class Learning(Measured):
    """One organisation's model, as far as it is public: what an estimator in Python is given.

    An answer has the noised numbers that the method makes it of.
    """

    operation: ClassVar[str] = "learn"
    method: Method  #: Of the catalogue
    settings: Mapping[str, Any]  #: Its plain arguments
    classes: tuple[Any, ...]  #: The labels
    schema: PublicSchema | SchemaEncoder  #: An encoder, where a study says how rows are bounded
    starts: tuple[Start, ...] = ()  #: Released models that it starts from
    #: Ridges, one per column or group, where the settings have none for all.
    alpha: Floats | None = None

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return len(self.classes)

    @cached_property
    def _made(self) -> Any:
        given: Values = {"classes": list(self.classes), "schema": self.schema}
        if self.alpha is not None:
            given["alpha"] = self.alpha.tolist()
        if self.starts:
            given["source"] = [Release(s.kind, s.model, s.guarantee, None) for s in self.starts]
        return self.method.make(**self.settings, **given)

    @cached_property
    def _plans(self) -> dict[int, tuple[SchemaEncoder, ModelPlan]]:
        return {}

    def at(self, n_samples: int) -> tuple[SchemaEncoder, ModelPlan]:
        """Return how an organisation of so many records encodes and what it does; no data."""
        n_samples = self.settings.get("declared_samples", n_samples)  # where none is public
        if n_samples not in self._plans:
            encoder = self._made.encoder_for({self.method.name: n_samples})
            names = Names(self.classes, encoder.names)
            plan = self._made.plan(public_facts(names, n_samples))
            if not isinstance(plan, ModelPlan):
                raise InvalidParameter(f"method: {self.method.name} is not for one organisation.")
            self._plans[n_samples] = encoder, plan
        return self._plans[n_samples]

    def expected(self, n_samples: int) -> Expected:
        """Return what an organisation of that size may answer."""
        plan = self.at(n_samples)[1]
        bounds = {n: Numbers(shape, longest=far) for n, (shape, far) in plan.bounds().items()}
        return Expected(bounds, plan.guarantee())

    def start(self, n_samples: int, numbers: Mapping[str, Floats]) -> Start:
        """Return what was released, for others to start from."""
        encoder, plan = self.at(n_samples)
        spec = {
            "method": self.method.name,
            "settings": dict(self.settings),
            "n_samples": int(n_samples),
        }
        model = plan.assemble(numbers, Names(self.classes, encoder.names))
        model = replace(model, encoder=Encoder.of(encoder))
        return Start(self.method.name, model, spec, numbers, plan.guarantee())

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        encoder, plan = self.at(len(y))
        codes = np.asarray(y > 0 if self.n_classes == 2 else y, dtype=np.intp)
        table = LabelledTable(X, codes, np.unique(self.classes), encoder.names, engine=engine)
        return dict(plan.release(table, source))


def public_facts(names: Names, count: int, auxiliary: Floats | None = None) -> PublicFacts:
    """Return what everybody knows of so many records, or parties that vote."""
    return PublicFacts(
        n_samples=count,
        n_features=len(names.features),
        n_classes=len(names.classes),
        classes=np.unique(names.classes),
        features=names.features,
        auxiliary=auxiliary,
    )


@dataclass(frozen=True)
class _OfSources(FieldKind):
    """The numbers of released models, each under the name of its place among the sources."""

    @override
    def take(self, name: str, values: Values, arrays: Arrays) -> Any:
        return {n: arrays.pop(n) for n in [*arrays] if n.startswith("source")}

    @override
    def put(self, name: str, value: Any) -> tuple[Values, Arrays]:
        return {}, dict(value)


class _Learn(Operation):
    @override
    def told(self) -> Values:
        one: Learning = self.asked
        schema, bounded = one.schema, {"rows": "", "weighted": False}
        if isinstance(schema, SchemaEncoder):
            bounded = {"rows": schema.rows, "weighted": schema.weighted}
            schema = schema.schema
        released = {
            f"source{k}_{name}": array
            for k, start in enumerate(one.starts)
            for name, array in start.numbers.items()
        }
        return {
            "method": one.method.name,
            "settings": one.settings,
            "classes": one.classes,
            "schema": sent_schema(schema),
            "sources": [dict(start.spec) for start in one.starts],
            "released": released,
            "alpha": one.alpha,
            **bounded,
        }

    @classmethod
    @override
    def made(cls, told: Values) -> Learning:
        schema: PublicSchema | SchemaEncoder = received_schema(told["schema"])
        if told["rows"]:
            schema = schema.encoder(rows=told["rows"], weighted=told["weighted"])
        known = {"classes": tuple(told["classes"]), "schema": schema, "alpha": told["alpha"]}
        starts, left = [], dict(told["released"])
        for k, spec in enumerate(told["sources"]):
            prefix = f"source{k}_"
            own = {n.removeprefix(prefix): left.pop(n) for n in [*left] if n.startswith(prefix)}
            starts.append(_start(spec, own, known))
        if left:
            raise InvalidMessage("the request has unknown arrays.")
        return _learning(told["method"], told["settings"], **known, starts=tuple(starts))

    @override
    def check(self, facts: PartyFacts, told: Values) -> None:
        super().check(facts, told)
        try:
            self.asked.at(facts.n_samples)
        except ConfrereError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise InvalidMessage(f"the request makes no plan ({type(error).__name__}).") from error

    @override
    def expected(self, n_samples: int) -> Expected:
        found: Expected = self.asked.expected(n_samples)
        return found

    @override
    def encoded(self, party: LocalParty) -> LocalParty:
        return party.encoded_by(self.asked.at(len(party.y))[0])


def _learning(name: Any, settings: Any, **known: Any) -> Learning:
    try:
        method = find_method(str(name))
    except InvalidParameter:
        raise InvalidMessage("method must be one of the catalogue's.") from None
    if not isinstance(settings, dict) or not all(type(v) in _PLAIN for v in settings.values()):
        raise InvalidMessage("settings must be a table of plain values.")
    if not EPSILON.fits(settings.get("epsilon")):
        raise InvalidMessage(f"epsilon must be {EPSILON.words}.")
    return Learning(method, settings, **known)


def _start(spec: Any, numbers: Arrays, known: Mapping[str, Any]) -> Start:
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
    learning = _learning(spec["method"], spec["settings"], **known)
    if learning.expected(spec["n_samples"]).fault(Payload(arrays=numbers)) is not None:
        raise InvalidMessage("a source's numbers are not what its method releases.")
    return learning.start(spec["n_samples"], numbers)


_TABLE = FieldKind("a table", lambda told: type(told) is dict, cast=dict)
_LIST = FieldKind("a list", lambda told: type(told) is list, cast=list)

install(
    Learning,
    {
        "method": FieldKind("a text", lambda told: type(told) is str),
        "settings": _TABLE,
        "classes": _LIST,
        "schema": SCHEMA,
        "sources": _LIST,
        "released": _OfSources("numbers", bool),
        "alpha": numbers(1, default=None),
        # How a study says that rows are bounded: by this rule, weighted or not.
        "rows": one_of("clip", "unit", default=""),
        "weighted": replace(FLAG, default=False),
    },
    _Learn,
)


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
    model: Model  #: With what encodes its rows
    guarantee: Guarantee | None  #: What was promised; None where nobody was really asked
    receipts: Receipts  #: Mapping of party to tuple of Receipt. Who paid for it.
    #: What stands behind the models that it started from.
    starts: Mapping[str, Receipt | Guarantee] = field(default_factory=dict)
    #: How many records it gets wrong, counted with noise.
    evaluation: FederatedEvaluation | None = None
    seeded: bool = False  #: Whether a coordinator's noise was seeded
    #: Mapping of party to tuple of Receipt. Who paid, in the same run, for facts of the schema.
    facts: Receipts = field(default_factory=dict)

    @property
    def schema(self) -> PublicSchema:
        """What its columns mean."""
        assert self.model.encoder is not None
        return self.model.encoder.schema

    @property
    def release(self) -> Release:
        """What leaves, without the study's words."""
        if self.guarantee is None:
            raise InvalidParameter("nobody was asked: a rehearsal releases nothing.")
        paid: Values = dict(self.receipts)
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


#: A study's protocol: from whom to ask to its questions.
Run = Callable[[Sequence[str]], Protocol[tuple[Learned, ...]]]


def protocol_of(study: Study, given: Given | None = None) -> Run:
    """Return the coordinator's side of the study's method, for those who are asked."""
    have = given or Given()

    def steps(parties: Sequence[str]) -> Protocol[tuple[Learned, ...]]:
        facts, known = study.file.facts, study
        receipts: Receipts = {}
        if facts is not None:
            learning = facts_together(
                parties,
                study.schema,
                epsilon=facts.epsilon,
                unit=study.promise.protects,
                neighbours=study.promise.relation,
                colluding=facts.colluding,
                reserve=facts.reserve,
                quorum=study.quorum_of_sums,
            )
            schema = yield from with_quorum(learning, study.quorum_of_sums)
            known = replace(study, schema=schema)
            new = schema.paid[len(study.schema.paid) :]
            paid_for = [each for one in new for each in one.receipts.items()]
            receipts = {name: (Receipt.from_dict(one),) for name, one in paid_for}
        models = _MODELS.get(study.method.shape, _learned)(known, have, parties)
        learned = None if facts is None else known.encoder()

        def asked(ask: Ask) -> Ask:
            return replace(ask, quorum=study.quorum, encoder=ask.encoder or learned)

        found = yield from changed(models, asked)
        paid = [{n: each for n, each in receipts.items() if n in one.receipts} for one in found]
        return tuple(replace(one, facts=own) for one, own in zip(found, paid, strict=True))

    return steps


def _together(
    study: Study,
    given: Given,  # noqa: ARG001
    parties: Sequence[str],
) -> Protocol[tuple[Learned, ...]]:
    """Ask everyone; the average or the sum is post-processing."""
    if study.file.evaluation is not None and study.n_classes > 2:
        raise StudyError("evaluation: errors are counted of two classes; leave it out.")
    delta, hidden = float(study.parameters.get("delta", 0.0)), study.declared_records
    names = sorted(parties)  # as parties of one table are
    told = names if hidden is None else Sizes.declared(names, hidden)
    sizes = yield from known_sizes(told, delta)
    # How columns are encoded follows from the sizes, as it does where all rows are in one table.
    more: Values = {"n_features": 0, "n_classes": study.n_classes, "sizes": sizes.counts}
    facts = PublicFacts(n_samples=sizes.total, **more)
    planned = estimator_for(study, study.method).plan(facts)
    encoder, plan = planned.encoder, planned.protocol
    if isinstance(plan, Sums):
        plan = replace(plan, quorum=study.quorum).among(parties)
    combined, receipts = yield from with_receipts(in_rows(plan.steps(sizes), encoder))
    model = planned.model(combined, Names(tuple(study.classes), encoder.names))
    counted = None
    if study.file.evaluation is not None:
        public: Values = {
            "coef": model.coef,
            "intercept": float(model.intercept[0]),
            "sizes": combined.sizes,
            "epsilon": study.file.evaluation.epsilon,
        }
        counting = evaluation(**public)
        if isinstance(plan, Sums):
            public |= {"colluding": plan.colluding, "reserve": plan.reserve}
            counting = evaluation_together(**public, quorum=study.quorum)
        counted = yield from in_rows(counting, encoder)
        receipts = joined(receipts, counted.receipts)
    guarantee = guarantee_of(receipts) if any(receipts.values()) else None
    model = replace(model, encoder=Encoder.of(encoder))
    return (Learned(study.id, "collaborative", model, guarantee, receipts, evaluation=counted),)


def in_rows(protocol: Protocol[T], encoder: SchemaEncoder | None) -> Protocol[T]:
    """Run a protocol as part of another, about rows that are encoded so."""
    return changed(protocol, lambda ask: replace(ask, encoder=encoder))


def _voted(study: Study, given: Given, parties: Sequence[str]) -> Protocol[tuple[Learned, ...]]:
    """Have everyone vote, or upload; the coordinator adds the noise, or everyone a share of it."""
    encoder = study.encoder()
    names = Names(tuple(study.classes), encoder.names)
    facts = public_facts(names, len(parties), given.rows(study))
    plan = estimator_for(study, study.method).plan(facts)
    voting = replace(plan.voting, quorum=study.quorum)
    voting.check(len(parties))
    released, receipts = yield from with_receipts(voting.steps(parties))
    model = replace(plan.model(released, names), encoder=Encoder.of(encoder))
    guarantee, seeded = voting.guarantee(len(parties)), study.simulated
    return (Learned(study.id, "multiparty", model, guarantee, receipts, seeded=seeded),)


def trusted_by(study: Study, given: Given) -> Trusted | None:
    """Return how a coordinator whom parties trust with their answers adds the noise."""
    if study.method.shape != "votes":
        return None
    on_faulty: OnFaulty = "refuse"
    if study.quorum < 1:
        on_faulty = estimator_for(study, study.method).on_faulty
    return Trusted(given.kept, on_faulty, study.seed)


def _learned(study: Study, given: Given, parties: Sequence[str]) -> Protocol[tuple[Learned, ...]]:
    """Have everyone learn by itself; in a transfer sources first, and the others from them."""
    there = {one.name: study.promise.records or 0 for one in study.payers if one.name in parties}
    sizes = there
    if study.promise.records is None:
        told = yield Ask(Size(), there)
        sizes = dict(zip(told.names, told.arrays["size"].tolist(), strict=True))
        if told.made_up:  # it must be enough for a plan, and not always the same
            sizes = {name: NOMINAL_ROWS + min(size, 97) for name, size in sizes.items()}
    sources = [party.name for party in study.sources if party.name in sizes]
    made: list[Learned] = []
    starts: dict[str, Start] = {n: Start.given(release) for n, release in given.releases.items()}
    behind: dict[str, Receipt | Guarantee] = {
        name: release.receipt or release.guarantee for name, release in given.releases.items()
    }

    def ask(method: Method, to: Sequence[str], step: int) -> Protocol[None]:
        ordered = [party.name for party in study.parties if party.name in starts]
        learning = learning_of(study, method, tuple(starts[name] for name in ordered))
        told = yield Ask(learning, {name: sizes[name] for name in to}, step)
        every = [f"source {k + 1}" for k in range(len(ordered))]
        named = every if every[1:] else ["source"]
        paid = dict(zip(named, map(behind.__getitem__, ordered), strict=False))
        for k, name in enumerate(told.names):
            receipts = told.receipts.get(name, ())
            start = learning.start(
                sizes[name], {each: arrays[k] for each, arrays in told.arrays.items()}
            )
            promised = start.guarantee if receipts else None
            own: Receipts = {name: receipts}
            encoder = start.model.encoder and replace(start.model.encoder, schema=study.schema)
            model = replace(start.model, encoder=encoder)
            made.append(Learned(name, method.name, model, promised, own, paid))
            if name in sources:
                starts[name] = start
                behind[name] = receipts[0] if receipts else start.guarantee

    if sources:
        yield from ask(find_method(study.method.source), sources, 0)
    others = [name for name in sizes if name not in sources]
    if others and study.method.shape != "as-is":
        yield from ask(study.method, others, 1 if study.sources else 0)
    return tuple(made)


_MODELS = {"together": _together, "votes": _voted}


def learning_of(study: Study, method: Method, starts: tuple[Start, ...] = ()) -> Learning:
    """Return what one organisation does by itself, as the study wants it."""
    settings = settings_for(study, method)
    ridges = settings.get("alpha")
    ridges = ridges if isinstance(ridges, list) else None  # one for all is a plain setting
    told = {"classes"} if ridges is None else {"classes", "alpha"}
    known = replace(study, schema=replace(study.schema, paid=()))  # whoever paid for its facts
    return Learning(
        method,
        {name: value for name, value in settings.items() if name not in told},
        tuple(study.classes),
        known.declared,
        starts if method.shape == "transfer" else (),
        None if ridges is None else np.asarray(ridges, dtype=np.float64),
    )
