"""A study's protocol and price, said before any data are touched; and its run in one process.

**What is asked.** The protocol is the coordinator's side of a study's method, whatever carries the
questions. It is the study's and nobody's: whoever has the same bytes has the same questions. The
local engine and a deployment run it over a :class:`~confrere_federation.parties.Federation`; a
party that is asked runs it over what others have signed, to see which question is next and what
comes out. Where a party learns a model of its own, a request says which method of the catalogue,
with which settings, under which names, starting from which released models. Whoever has it has the
plan: a party derives it from its own study and compares; what it answers are the plan's noised
numbers, and anyone who has the plan makes the model of them.

**What pays.** A study calls a party's data what it likes; what counts is the party's own word for
them: the data set of its home, or the ledger that its local file names. Every account of these data
in that ledger is counted, and one of them pays: the first that is open for the kind of promise,
whatever a study's data are called.

**What runs.** The local engine is asked like any other. Every party here has its own ledger, answer
file and policy, and pays inside :func:`~confrere_federation.parties.serve`. The study's hash names
the run: carried out again, after a crash or later, it sends what it had answered, and pays nothing
more.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from confrere.arrays import Floats
from confrere.catalogue import Method, find_method
from confrere.data.cells import UnitCounts, encode_labels
from confrere.data.codes import Coded, PackedCodes
from confrere.data.encoding import SchemaEncoder
from confrere.data.fact_counts import FactCounts
from confrere.data.report import DataReport, data_report
from confrere.data.schema import PublicSchema
from confrere.data.tables import RowTable, gathered_codes, open_table
from confrere.errors import (
    BudgetExceeded,
    ConfrereError,
    InvalidMessage,
    InvalidParameter,
    InvalidRelease,
    QuorumMissed,
    StudyError,
)
from confrere.files import write_whole
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
from confrere.kernel.streams import RandomSource
from confrere.ledger import Account, ChargeApproval, Ledger, LedgerReader, Limit, Receipt
from confrere.ledger.witness import check_source, keep_source
from confrere.methods import LabelledTable, PublicFacts
from confrere.methods.asking import (
    Arrays,
    Ask,
    Labels,
    Measured,
    Protocol,
    Reader,
    Receipts,
    Size,
    Sizes,
    known_sizes,
)
from confrere.methods.asking import Rows as AnyRows
from confrere.methods.plan import ModelPlan, Names
from confrere.methods.priors import check_same_meaning, encoded_by
from confrere.methods.sums import Hides, Sums
from confrere.model import Encoder, Model
from confrere.model.model_json import read_model
from confrere.model.strict_json import json_bytes, read_json
from confrere.release import (
    Adversary,
    CardNotes,
    Release,
    Simulated,
    Spending,
    Utility,
    card_page,
    load_rehearsal,
    load_release,
    read_private_key,
    sign_release,
)
from confrere.release.card import Text as CardText
from confrere.release.spending import receipts_for_facts, seeded_facts, with_facts
from confrere.trust import Trust, TrustKind
from confrere.views import Panel, Shown, Table, Word, amount, share, shown
from confrere.views import price as shown_price
from confrere_federation.engines.carrier import MAX_MESSAGE
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import (
    FederatedEvaluation,
    LocalFederation,
    OnFaulty,
    Trusted,
    changed,
    evaluation,
    evaluation_together,
    facts_together,
    guarantee_of,
    joined,
    rehearse,
    with_quorum,
    with_receipts,
)
from confrere_federation.parties.messages import Expected, Numbers, Payload
from confrere_federation.parties.party import Books, LocalParty, Policy, Request, run_name
from confrere_federation.parties.requests import (
    EPSILON,
    FLAG,
    SCHEMA,
    Errors,
    ErrorsOfAll,
    FactsOfAll,
    FieldKind,
    Operation,
    PartyFacts,
    RawRows,
    Values,
    install,
    numbers,
    one_of,
    received_schema,
    sent_schema,
)
from confrere_federation.studies.study_file import (
    NOMINAL_ROWS,
    Local,
    Party,
    Study,
    estimator_for,
    price_for,
    read_bytes,
    settings_for,
    standing_refusal,
    trust_of,
    trust_words,
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
            plan = self._made.plan(public_facts(Names(self.classes, encoder.names), n_samples))
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
        model = encoded_by(model, Encoder.of(encoder))
        return Start(self.method.name, model, spec, numbers, plan.guarantee())

    @override
    def release(self, X: AnyRows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
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
    called = Names(tuple(study.classes), encoder.names)
    model = encoded_by(planned.model(combined, called), Encoder.of(encoder))
    counted = None
    if study.file.evaluation is not None:
        public: Values = {
            "coef": model.coef,
            "intercept": float(model.intercept[0] + model.link.shift / model.link.slope),
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
    model = encoded_by(plan.model(released, names), Encoder.of(encoder))
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


_CARD_TEXT: TypeAdapter[str] = TypeAdapter(CardText)


@dataclass(frozen=True)
class Price:
    """What one party would spend, and its data before that."""

    party: str
    guarantee: Guarantee  #: What is charged, per record
    account: str  #: The account that pays; elsewhere, what the study calls it
    spent: float  #: What was charged so far for these data, by all studies
    limit: float | None  #: The strictest cap on all that is ever charged; None if nobody set one
    limit_by: str  #: Who set it: "study", "local policy" or "ledger"
    per_run: float | None  #: What one run may spend
    here: bool  #: Whether the party lives here, so that its ledger was read
    delta: float = 0.0  #: The cap on the sum of deltas, where epsilon has a limit
    #: What every charge looks at besides the account's own cap: another study may have been paid
    #: for between the look at the budget and the charge.
    for_life: Limit | None = None

    @cached_property
    def left(self) -> float:
        """What can still be charged; infinite without a limit."""
        if self.limit is None:
            return math.inf
        return max(0.0, at_most(minus(exact(self.limit), exact(self.spent))))

    @cached_property
    def left_after(self) -> float:
        """What would be left; below zero where it is refused."""
        if math.isinf(self.left):
            return self.left
        return at_most(minus(exact(self.left), exact(self.guarantee.epsilon)))

    def check(self) -> None:
        """Refuse a price that a limit does not cover; nothing is spent."""
        asked, delta = self.guarantee.epsilon, self.guarantee.delta
        if self.per_run is not None and asked > self.per_run:
            raise BudgetExceeded(self.account, asked, self.per_run, bound="local policy, one run")
        if asked > self.left:
            raise BudgetExceeded(self.account, asked, self.left, bound=self.limit_by)
        if self.limit is not None and delta > self.delta:
            raise BudgetExceeded(self.account, delta, self.delta, "delta")

    def to_dict(self) -> Values:
        """Return plain values, for JSON, which has no infinity."""
        names = ("party", "account", "here", "spent", "limit", "limit_by", "left", "left_after")
        told = {name: getattr(self, name) for name in names}
        known = {name: None if one == math.inf else one for name, one in told.items()}
        return known | {"guarantee": self.guarantee.to_dict()}


def budget_of(party: Party, local: Local | None, price: Guarantee) -> Price:
    """Return a party's price and budget: the strictest limit wins; no ledger is made."""
    policy = None if local is None else local.policy
    caps = {
        "study": party.cap.epsilon,
        "local policy": None if policy is None else policy.lifetime_epsilon,
    }
    deltas = [] if party.cap.epsilon is None else [party.cap.delta]
    accounts = [] if local is None else _accounts(local)
    paying = _paying(accounts, price)
    spent = reduce(plus, (exact(one.spent) for one in accounts), Decimal(0))
    if paying is not None and paying.epsilon is not None:
        # Where the cap is on a year, what earlier ones spent does not count.
        counted = reduce(plus, (exact(one.counted) for one in accounts), Decimal(0))
        by = "ledger" if paying.period is None else "ledger, this year"
        caps[by] = at_most(plus(exact(paying.epsilon), minus(spent, counted)))
        deltas.append(paying.delta)
    names = tuple(one.name for one in accounts)
    # The cap of an account that stands alone is looked at by the ledger, as it is at that moment.
    told = {
        by: cap for by, cap in caps.items() if len(names) > 1 or by in ("study", "local policy")
    }
    limit, limit_by = _strictest(caps)
    most, most_by = _strictest(told)
    own = None if local is None else local.dataset
    return Price(
        party=party.name,
        guarantee=price,
        account=f"{party.name}/{own or party.dataset}" if paying is None else paying.name,
        spent=at_least(spent),
        limit=limit,
        limit_by=limit_by,
        per_run=None if policy is None else policy.max_epsilon_per_run,
        here=local is not None,
        delta=min(deltas, default=party.cap.delta),
        for_life=None if most is None else Limit(most, most_by, names),
    )


def open_account(party: Party, local: Local, price: Guarantee) -> Ledger:
    """Return the ledger with the account open that pays, once every limit covers the price.

    The organisation's own limit becomes the account's cap: a study's cap is for that study.
    """
    budget = budget_of(party, local, price)
    budget.check()
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


def _paying(accounts: Sequence[Account], price: Guarantee) -> Account | None:
    """Return the account that pays; one that cannot says so when it is charged."""
    kind = (price.unit, price.neighbours)
    alike = [one for one in accounts if (one.unit, one.neighbours) == kind] or accounts
    return next((one for one in alike if one.frozen is None), next(iter(alike), None))


def _strictest(caps: Mapping[str, float | None]) -> tuple[float | None, str]:
    """Return the smallest cap, and who set it."""
    set_ = [(cap, by) for by, cap in caps.items() if cap is not None]
    return min(set_, key=lambda one: one[0], default=(None, ""))


@dataclass(frozen=True)
class StudyPlan(Shown):
    """A priced study, to be carried out once."""

    run: str  #: In the ledger every charge has it: a run pays once
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
        """Refuse what a budget that is known here does not cover."""
        for price in self.prices:
            price.check()

    def to_dict(self) -> Values:
        """Return plain values, for JSON."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts |= {"trust": str(self.trust), "prices": [one.to_dict() for one in self.prices]}
        return facts

    @override
    def view(self, unit: str = "unit") -> Panel:
        numbers = ("spends", "spent so far", "left", "left after")
        rows = [
            (
                one.party,
                f"epsilon {shown_price(one.guarantee.epsilon, one.guarantee.delta)}",
                share(one.spent + one.guarantee.epsilon, one.limit, one.spent),
                shown(one.spent) if one.here else "not here",
                amount(one.left),
                Word("refused", "bad") if one.left_after < 0 else amount(one.left_after),
                one.limit_by or "nobody",
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


def make_plan(
    study: Study,
    # Mapping of party to Local. The parties that live here: their ledgers say what is left.
    locals_: Mapping[str, Local],
    attempt: int = 1,  # Which run of the study: each is paid for anew
) -> StudyPlan:
    """Price a study."""
    guarantee = price_of(study)
    prices = tuple(budget_of(one, locals_.get(one.name), guarantee) for one in study.payers)
    paid: Values = {price.party: _with_earlier(price, study) for price in prices}
    promised, _ = Spending(guarantee, parties=paid).price(
        study.promise.max_rows_per_unit, study.promise.parties_per_unit
    )
    together = sum(price.here for price in prices) if study.engine == "local" else 0
    return StudyPlan(
        run=run_name(study.sha256, attempt),
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


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Codes that are many lie in a private file, which the system reads when they are touched.
    ``sums`` are those of the raw rows, where the study learns facts of its schema first.
    """

    X: Coded
    y: NDArray[Any]
    sums: NDArray[np.int64] | None = None

    def coded(self, study: Study) -> tuple[Coded, NDArray[np.float64]]:
        """Return rows, and labels as parties hold them: -1 and +1, or codes of more classes."""
        codes = encode_labels(self.y, np.array(study.classes))
        return self.X, codes.astype(np.float64) if study.n_classes > 2 else 2.0 * (codes == 1) - 1.0


def read_rows(study: Study, table: RowTable, encoder: SchemaEncoder | None = None) -> Rows:
    """Return what a study learns from one party's table, read and encoded batch by batch."""
    schema, unit = study.schema, study.promise.unit_column
    assert schema.outcome is not None
    columns = dict.fromkeys([*schema.columns, schema.outcome.column, *([unit] if unit else [])])
    counts = FactCounts(schema) if encoder is None and study.file.facts is not None else None
    encoder, seen = encoder or study.encoder(), UnitCounts(unit, study.promise.max_rows_per_unit)
    sums = np.zeros(0 if counts is None else counts.size, dtype=np.int64)

    def blocks() -> Iterator[tuple[list[PackedCodes], NDArray[Any]]]:
        for batch in table.read(list(columns)):
            kept = seen.bounded(batch)
            if len(kept):
                if counts is not None:
                    sums[:] += counts.sums(kept)
                yield encoder.codes(kept), schema.label(kept)

    codes, labels = gathered_codes(blocks(), table.rows)
    assert labels is not None
    return Rows(encoder.coded(codes), labels, None if counts is None else sums)


def check_table(study: Study, table: RowTable) -> DataReport:
    """Return how a party's table fits a study; for the party alone.

    Counts are without noise: they must not leave the organisation.
    """
    promise = study.promise
    return data_report(
        study.schema,
        table,
        unit_column=promise.unit_column,
        max_rows_per_unit=promise.max_rows_per_unit,
    )


def save_report(report: DataReport, path: Path, *, title: str = "") -> Path:
    """Write a report that its owner alone can read; replaces what is there."""
    text = f"{title}\n{report}" if title else str(report)
    try:
        write_whole(path, text.encode())  # a new file: what is there may be open to others
    except OSError as error:
        raise StudyError(
            f"report: {path.name} cannot be written ({error.strerror}); give --report."
        ) from None
    return path


def described(
    study: Study,
    learned: Learned,
    *,
    # The one that was charged, where one party paid: the card shows the budget.
    ledger: Ledger | None = None,
    n_here: int = 1,  # How many organisations' data were read by one process
) -> Release:
    """Return the release of a model with the study's encoding, words and hash."""
    release, promise, counted = learned.release, study.promise, learned.evaluation
    bounded = f"rows of a {promise.unit} beyond {promise.max_rows_per_unit} were dropped"
    if promise.unit_column is None:
        bounded = f"that a {promise.unit} has {promise.max_rows_per_unit} row at most is assumed"
    # Which organisations of the study have no part in what all made together.
    together = study.method.shape in ("together", "votes")
    away = [one.name for one in study.payers if together and one.name not in learned.receipts]
    without = f"without {', '.join(away)}: in the study, and no answer of theirs was used"
    operator = Adversary(
        who="whoever ran the study on one machine",
        sees="the data of all organisations, and each one's own release",
        protected=False,
    )
    notes = CardNotes(
        title=study.title,
        purpose=study.purpose,
        unit_detail=f"one {promise.unit}",
        max_rows_per_unit=promise.max_rows_per_unit,
        parties_per_unit=_places(study, len(release.parties)),
        adversaries=(operator,) if n_here > 1 else (),
        trust=_trust(study, n_here),
        trust_kind=trust_of(study, n_here),
        preprocessing=(bounded, without) if away else (bounded,),
        tuning="none on the data: every parameter stands in the study file",
        utility=() if counted is None else (_counted(counted.error_rate),),
        justification=promise.justification,
        study_sha256=study.sha256,
    )
    return release.describe(notes, ledger=ledger)


def _counted(error_rate: float) -> Utility:
    return Utility(
        metric="share of records that it gets wrong, counted with noise",
        value=error_rate,
        measured_on="the rows that it was learned from, at every party",
        basis="charged to the ledger",
    )


def _trust(study: Study, n_here: int) -> str:
    if n_here > 1:
        return f"one process read the data of {n_here} organisations; its operator is trusted"
    needed = trust_of(study)
    if needed.kind is TrustKind.COORDINATOR:
        return "the coordinator saw what parties sent, without noise, and is trusted to add it"
    if needed.kind is TrustKind.SUM:
        return (
            "each organisation added a share of the noise to sums that nobody could see into; "
            f"for each of them that is {trust_words(study)}"
        )
    return "each organisation computed on its own data; nobody else saw them"


def check_words(study: Study, release: Release) -> None:
    """Refuse a card of a study that says something else about whom it protects, and what for.

    Whoever saves a release writes its card; how many rows a unit has decides about the price.

    Raises InvalidRelease.
    """
    promise, card = study.promise, release.card
    said = card.guarantee
    told: dict[str, tuple[Any, Any]] = {
        "product.title": (card.product.title, study.title),
        "product.purpose": (card.product.purpose, study.purpose),
        "guarantee.unit_detail": (said.unit_detail, f"one {promise.unit}"),
        "guarantee.max_rows_per_unit": (said.max_rows_per_unit, promise.max_rows_per_unit),
        "guarantee.across_parties": (
            said.across_parties.parties_per_unit,
            _places(study, len(release.parties)),
        ),
    }
    kind = card.trust.kind
    if kind is not None and not Trust.parse(kind).allows(trust_of(study)):
        told["trust.kind"] = (kind, str(trust_of(study)))
    differing = [place for place, (given, agreed) in told.items() if given != agreed]
    if differing:
        raise InvalidRelease(
            f"card.json does not say what the study says: {', '.join(differing)}; do not use it."
        )


def _places(study: Study, n_parties: int) -> int:
    """Return in how many organisations' data a unit may be, of those that paid."""
    return min(study.promise.parties_per_unit, max(1, n_parties))


@dataclass(frozen=True)
class Made:
    """What a study gave: a release, and who paid for it."""

    name: str  #: Of its folder: the party's, or the study's if all made it together
    release: Release
    #: Mapping of party to tuple of Receipt. One for each of its answers.
    receipts: Mapping[str, tuple[Receipt, ...]]


def made_of(
    study: Study, learned: Learned, *, ledger: Ledger | None = None, n_here: int = 1
) -> Made:
    """Return a model of a run as a release with the study's words."""
    release = described(study, learned, ledger=ledger, n_here=n_here)
    return Made(learned.name, release, joined(learned.facts, learned.receipts))


@dataclass(frozen=True)
class Runner:
    """A study that is ready to run: everything is checked, nothing is spent.

    Use :func:`prepare`.
    """

    study: Study
    plan: StudyPlan
    locals_: Mapping[str, Local]
    rows: Mapping[str, Rows]
    given: Given
    requests: Mapping[str, tuple[Request, ...]]

    def run(self, approval: ChargeApproval | None = None) -> list[Made]:
        """Ask every party here, and describe what comes of it; each pays before it answers.

        ``approval`` says who agreed to the price, and why.
        """
        study, run, given = self.study, self.plan.run, self.given
        names = list(self.locals_)
        if study.method.shape == "votes" and study.trust == "coordinator":
            beside = self.locals_[names[0]].ledger_path
            given = replace(given, kept=Answers(f"{beside}.releases"))
        price = self.plan.prices[0].guarantee
        parties = [
            local_party(study, price, local, self.rows[name], self._policy(name, approval))
            for name, local in self.locals_.items()
        ]
        federation = LocalFederation(parties, run=run, study=study.sha256, on_error="raise")
        steps = protocol_of(study, given)(federation.parties())
        found = federation.run_protocol(steps, trusted=trusted_by(study, given))
        return [self._made(learned) for learned in found]

    def _policy(self, name: str, approval: ChargeApproval | None) -> Policy:
        """Return what a party answers: its own study's questions, in this run, at the price."""
        requests, price = self.requests[name], self.plan.prices[0].guarantee
        return Policy(
            operations=frozenset(request.operation for request in requests),
            unit=price.unit,
            neighbours=price.neighbours,
            epsilon_per_run=price.epsilon,
            delta_per_answer=price.delta,
            study=self.study.sha256,
            study_id=self.study.id,
            approval=approval,
            trust=str(trust_of(self.study, len(self.locals_))),
            runs=frozenset([self.plan.run]),
            requests=requests,
        )

    def _made(self, learned: Learned) -> Made:
        ledgers = {name: Ledger(self.locals_[name].ledger_path) for name in learned.receipts}
        alone = next(iter(ledgers.values())) if len(ledgers) == 1 else None
        made = made_of(self.study, learned, ledger=alone, n_here=len(ledgers))
        for name, receipts in learned.receipts.items():
            for receipt in receipts:
                ledgers[name].note_model(receipt, digest=made.release.model.digest())
        return made


def prepare(
    study: Study,
    plan: StudyPlan,  # Its price, agreed to; it names the run
    locals_: Mapping[str, Local],  # Mapping of party to Local. The parties that live here.
    # Mapping of party to Release. In a transfer, what source parties elsewhere have released.
    sources: Mapping[str, Release] | None = None,
    *,
    # The rows that parties vote on; by default a local file says where they are.
    auxiliary: Path | None = None,
    # Go ahead where neither study, policy nor ledger caps what a party may ever spend; the card
    # says so then.
    allow_uncapped: bool = False,
) -> Runner:
    """Check everything that can be checked before a price is paid, and read the data."""
    if study.engine != "local":
        raise StudyError(f"federation.engine: {study.engine!r} runs between machines.").hinting(
            "confrere coordinator STUDY at one of them and confrere party STUDY at every party; "
            'to learn in one process, declare engine = "local"'
        )
    payers = {party.name for party in study.payers}
    here = {n: one for n, one in locals_.items() if one.has_table and n in payers}
    if not here:
        raise StudyError(
            "no party lives here: give its local file with --local, or its table with "
            "--data PARTY=FILE."
        )
    _check_parties(study, here, sources or {})
    for price in plan.prices:
        if price.party not in here:
            continue
        local = here[price.party]
        if local.policy is not None:
            local.policy.check(study, price.party)
        refusal = standing_refusal(study, local)
        if refusal is not None:
            raise refusal.error()
        if not has_answered(local, (plan.run,)):
            price.check()
        if price.limit is None and not (allow_uncapped or study.simulated):
            raise StudyError(
                f"party.cap: nothing caps what {price.party} may ever spend; give it one in the "
                "study (cap = { epsilon = 3 }), in its policy or by confrere ledger open, or say "
                "--allow-uncapped. Nothing was spent."
            )
    given = Given(sources or {}, auxiliary_rows(study, auxiliary, here))
    requests = requests_of(study, given, list(here))  # what cannot be asked is found before data
    rows = {name: read_rows(study, local.table()) for name, local in here.items()}
    return Runner(study, plan, here, rows, given, requests)


def requests_of(
    study: Study, given: Given, among: Sequence[str] | None = None
) -> Mapping[str, tuple[Request, ...]]:
    """Return every question that a run of the study may ask each party."""
    return rehearse(
        protocol_of(study, given),
        [each.name for each in study.payers] if among is None else among,
        study.sha256,
        len(study.columns),
        n_classes=study.n_classes,
        most=MAX_MESSAGE if study.engine != "local" else None,
    )


def local_party(
    study: Study,
    price: Guarantee,
    local: Local,
    rows: Rows,
    policy: Policy,
    until: datetime | None = None,
) -> LocalParty:
    """Return a party with its rows and books; its account is open once a limit covers the price.

    Between machines, where an approval lasts ``until``, what is paid for is kept until then.
    """
    party = study.party(local.party)
    assert policy.runs is not None
    X, y = rows.coded(study)
    sums = rows.sums
    if has_answered(local, policy.runs):
        ledger = Ledger(local.ledger_path)  # who goes on need not afford all of it again
    else:
        ledger = open_account(party, local, price)
    budget = budget_of(party, local, price)
    books = Books(
        ledger=ledger,
        account=budget.account,
        policy=policy,
        answers=Answers(_answer_file(local)),
        limit=budget.for_life,
        snapshots=None if until is None or study.simulated else local.snapshots(until),
    )
    return LocalParty(
        party.name,
        X,
        y,
        books,
        study.seed,
        n_classes=study.n_classes,
        engine=local.engine,
        raw=None if sums is None else RawRows(FactCounts(study.schema), sums, len(y)),
        encode=lambda encoder: read_rows(study, local.table(), encoder).coded(study),
        encoding=study.encoder().told(),
    )


def has_answered(local: Local, runs: Iterable[str]) -> bool:
    """Whether a party has answered in one of the runs: then part of the price is paid."""
    path = _answer_file(local)
    if not (local.ledger_path.exists() and path.exists()):
        return False
    answers = Answers(path)
    return any(answers.kept(run) for run in runs)


def _answer_file(local: Local) -> Path:
    # Parties that share a ledger do not share their answers.
    return local.ledger_path.with_name(f"{local.ledger_path.name}.{local.party}.answers")


def auxiliary_rows(
    study: Study, path: Path | None, locals_: Mapping[str, Local]
) -> Callable[[Study], NDArray[np.float64]] | None:
    """Return what encodes the public rows that the study names by their hash, if it does."""
    if study.file.auxiliary is None:
        return None
    own = [local.auxiliary_path for local in locals_.values() if local.auxiliary_path is not None]
    place = path if path is not None else own[0] if own else None
    if place is None:
        raise StudyError(
            "auxiliary_path: the study learns from public rows; say where they lie, in the local "
            "file or with --auxiliary FILE."
        )
    content = read_bytes(place, "the auxiliary file", largest=1 << 28)
    if hashlib.sha256(content).hexdigest() != study.file.auxiliary.sha256:
        raise StudyError("auxiliary.sha256: the file is not the one that the study names.")
    table = open_table(place).whole(study.schema.columns)
    return lambda known: known.encoder().transform(table)


def _check_parties(study: Study, here: Mapping[str, Local], given: Mapping[str, Release]) -> None:
    """Refuse to begin without those who are needed."""
    together = study.method.shape in ("together", "votes")
    if together and len(here) < study.quorum * len(study.parties):
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
        check_same_meaning(
            [release],
            features=list(study.columns),
            classes=np.array(study.classes),
            encoder=Encoder.of(study.encoder()),
        )
    lacking = [name for name in sorted(names) if name not in here and name not in given]
    if lacking:
        raise StudyError(
            f"source: {', '.join(lacking)} is not here; give its release: --source "
            f"{lacking[0]}=FOLDER."
        )


def refuse_taken(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse a place where a release is already."""
    names = [study.id] if study.method.shape in ("together", "votes") else parties
    taken = [name for name in names if (folder / name).exists()]
    if taken:
        raise StudyError(f"out: {folder.name} holds {', '.join(taken)} already.").hinting(
            f"see what is there: confrere verify {folder / taken[0]}; a study that was carried out "
            "gives the same again, into another folder: --out FOLDER"
        )


def check_destination(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse, before anything is spent, a place where releases could not be written."""
    refuse_taken(study, folder, parties)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StudyError(f"out: {folder.name} cannot be written ({error.strerror}).") from None


def check_keys(locals_: Mapping[str, Local]) -> None:
    """Refuse, before anything is spent, a key that cannot sign."""
    for local in locals_.values():
        if local.key_path is not None:
            read_private_key(local.key_path)


def reader_for(study: Study) -> Callable[..., Release]:
    """Return what reads this study's releases: those of a simulation are rehearsals."""
    return load_rehearsal if study.simulated else load_release


def save_made(study: Study, made: Made, folder: Path, locals_: Mapping[str, Local]) -> Path:
    """Write a release with its study, signed by every party here that has a key, and its page.

    Returns the release's folder; the card as a page lies beside it.
    """
    # The study's bytes that were read, whatever became of the file.
    if isinstance(made.release, Simulated):
        place = made.release.rehearse(folder / made.name, study=study.content)
    else:
        # Who goes without a cap has said so before anything was spent, and the card says it.
        place = made.release.save(folder / made.name, study=study.content, allow_uncapped=True)
    for name in made.receipts:
        local = locals_.get(name)
        if local is not None and local.key_path is not None:
            sign_release(place, local.key_path, name)
    page = folder / f"{made.name}.html"
    page.write_text(card_page(made.release), encoding="utf-8")
    return place


def approval_of(
    *, name: str, reason: str, justification: str | None = None, now: datetime | None = None
) -> ChargeApproval:
    """Return who agrees and why, in words that a card can hold.

    Raises StudyError if a text cannot stand on a card. That is found before anything is spent.
    """
    for key, text in {"name": name, "reason": reason, "justification": justification}.items():
        try:
            if text is not None:
                _CARD_TEXT.validate_python(text)
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise StudyError(f"{key}: {why}.") from None
    when = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
    return ChargeApproval(name=name, reason=reason, time=when, justification=justification)
