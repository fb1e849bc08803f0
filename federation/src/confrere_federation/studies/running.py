"""A study's protocol and cost, said before any data are touched; its approval; and its run.

The protocol is the coordinator's side of the method, and nobody's: whoever has the same bytes has
the same questions. In one process and between machines it is run over a federation; a party that is
asked runs it over what others have signed, to see which question is next and what comes out. The
study's hash names the run: carried out again, it sends what was answered and pays nothing more.

What pays is the party's own word for its data, whatever a study calls them: every account of them
in its ledger is counted, and the first that is open for the kind of guarantee pays.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property, reduce
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from confrere.arrays import Floats
from confrere.assurance.cohort import CohortCounts, CohortSummary
from confrere.assurance.inference import intervals, shared
from confrere.catalogue import Method, find_method
from confrere.data.cells import Coded, UnitCounts, encode_labels
from confrere.data.encoding import SchemaEncoder
from confrere.data.tables import RowTable, gathered, open_table
from confrere.errors import (
    ApprovalRefused,
    BudgetExceeded,
    ConfrereError,
    InvalidParameter,
    InvalidRelease,
    OperationRefused,
    QuorumMissed,
    StudyError,
)
from confrere.files import write_new
from confrere.kernel.guarantee import Guarantee, at_least, at_most, exact, minus, plus
from confrere.kernel.noise import RandomSource
from confrere.ledger import Account, ChargeApproval, Decision, Ledger, LedgerReader, Limit, Receipt
from confrere.ledger.compose import Together
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
from confrere.methods.priors import check_sources, encoded_by
from confrere.methods.sums import Sums
from confrere.model import Encoder, Linear, Model
from confrere.model.strict_json import json_bytes
from confrere.release import (
    Adversary,
    Card,
    CardNotes,
    Release,
    Simulated,
    Spending,
    card_page,
    load_rehearsal,
    load_release,
    read_private_key,
    sign_release,
    sign_sums,
    verify_signature,
)
from confrere.release.card import Quality
from confrere.release.card import Text as CardText
from confrere.release.folder import (
    REHEARSED,
    SIGNATURES,
    SUMS,
    TABLE,
    add_file,
    read_folder,
    sums_of,
    write_folder,
)
from confrere.release.signing import PrivateKey, PublicKey, public_line, read_public_key
from confrere.release.spending import receipts_for_facts, schema_of, seeded_facts, with_facts
from confrere.trust import Trust
from confrere.views import Panel, Shown, Table, Word, amount, share, shown
from confrere.views import cost as shown_cost
from confrere_federation.engines.carrier import MAX_MESSAGE, Carrier
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import (
    LocalFederation,
    PartySession,
    RunSteps,
    SignedFederation,
    Trusted,
    dry_run,
    guarantee_of,
    with_quorum,
    with_receipts,
)
from confrere_federation.parties.messages import (
    Numbers,
    PartyError,
    Payload,
    ResponseSpec,
    Values,
    alike,
    terms,
)
from confrere_federation.parties.party import (
    LocalParty,
    PartyAccounts,
    Policy,
    Request,
    SignedApproval,
    run_name,
)
from confrere_federation.parties.requests import Operation, RawRows, install, plain
from confrere_federation.progress import OPERATION_WORDS
from confrere_federation.studies.study_file import (
    NOMINAL_ROWS,
    Local,
    Party,
    Study,
    check_peers,
    cost_for,
    estimator_for,
    read_bytes,
    settings_for,
    standing_refusal,
    trust_of,
    trust_words,
)

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Start:
    """A released model that another is started from."""

    kind: str  #: The method that made it
    model: Model  #: What was released, with what encodes its rows
    #: What a request says about it: a digest of the numbers that were released in this run, and of
    #: the method, settings and size behind them; or of a model that was released before.
    digest: str
    guarantee: Guarantee  #: The guarantee of those in it
    receipt: Receipt | None = None  #: Of who paid for it, where somebody did

    @classmethod
    def given(cls, release: Release) -> Start:
        """Start from a release that was made before."""
        digest = hashlib.sha256(json_bytes(release.model.to_dict())).hexdigest()
        return cls(release.kind, release.model, digest, release.guarantee, release.receipt)


@dataclass(frozen=True, eq=False)
class Learning(Measured):
    """One organisation's model, as far as it is public: what an estimator in Python is given.

    An answer has the noised numbers that the method makes it of.
    """

    operation: ClassVar[str] = "learn"
    study: Study
    method: Method  #: The study's own, or the one that makes its source
    starts: tuple[Start, ...] = ()  #: Released models that it starts from

    #: By number of records, how an organisation encodes and what it does.
    plans: dict[int, tuple[SchemaEncoder, ModelPlan]] = field(default_factory=dict, repr=False)

    @property
    def n_classes(self) -> int:
        return self.study.n_classes

    @cached_property
    def settings(self) -> Values:
        """Plain arguments of the method; of AddRemove the number."""
        settings = settings_for(self.study, self.method)
        return {name: getattr(one, "n_samples", one) for name, one in settings.items()}

    @cached_property
    def _made(self) -> Any:
        starts = [Release(s.kind, s.model, s.guarantee, None) for s in self.starts]
        return estimator_for(self.study, self.method, **({"source": starts} if starts else {}))

    def at(self, n_samples: int) -> tuple[SchemaEncoder, ModelPlan]:
        """Return how an organisation of so many records encodes and what it does; no data."""
        hidden = self.settings.get("neighbours")  # where the number is not public
        n_samples = hidden if type(hidden) is int else n_samples
        if n_samples not in self.plans:
            encoder = self._made.encoder_for({self.method.name: n_samples})
            plan = self._made.plan(public_facts(self.study.names(encoder), n_samples))
            if not isinstance(plan, ModelPlan):
                raise InvalidParameter(f"method: {self.method.name} is not for one organisation.")
            self.plans[n_samples] = encoder, plan
        return self.plans[n_samples]

    def response(self, n_samples: int) -> ResponseSpec:
        plan = self.at(n_samples)[1]
        bounds = {n: Numbers(shape, longest=far) for n, (shape, far) in plan.bounds().items()}
        return ResponseSpec(bounds, plan.guarantee())

    def start(self, n_samples: int, numbers: Mapping[str, Floats]) -> Start:
        """Return what was released, for others to start from."""
        encoder, plan = self.at(n_samples)
        behind = [self.method.name, dict(self.settings), int(n_samples)]
        digest = Payload({"behind": plain(behind)}, numbers).digest
        model = plan.assemble(numbers, self.study.names(encoder))
        model = encoded_by(model, Encoder.of(encoder))
        return Start(self.method.name, model, digest, plan.guarantee())

    @override
    def release(self, X: AnyRows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        encoder, plan = self.at(len(y))
        codes = np.asarray(
            y > 0 if self.n_classes == 2 else y, np.intp if self.n_classes else float
        )
        table = LabelledTable(
            X, codes, np.unique(np.array(self.study.classes)), encoder.names, engine=engine
        )
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


class _Learn(Operation):
    @override
    def told(self) -> Values:
        one: Learning = self.asked
        return {
            "method": one.method.name,
            "settings": one.settings,
            "schema": one.study.schema,
            "sources": [start.digest for start in one.starts],
        }

    @override
    def response(self, n_samples: int) -> ResponseSpec:
        found: ResponseSpec = self.asked.response(n_samples)
        return found

    @override
    def encoder(self, n_samples: int) -> SchemaEncoder:
        found: SchemaEncoder = self.asked.at(n_samples)[0]
        return found


install(Learning, _Learn)


@dataclass(frozen=True)
class Given:
    """What a run needs besides the study and the parties' own data: all of it is public."""

    #: Mapping of party to Release. In a transfer, what sources elsewhere have released.
    releases: Mapping[str, Release] = field(default_factory=dict)
    auxiliary: Floats | None = None  #: The rows that parties vote on, encoded by the schema


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """One model of a run, and what stands behind it."""

    name: str  #: Of its release: the party's, or the study's if all made it together
    kind: str  #: The method that made it
    model: Model  #: With what encodes its rows
    guarantee: Guarantee | None  #: What it guarantees; None where nobody was really asked
    receipts: Receipts  #: Mapping of party to tuple of Receipt. Who paid for it.
    #: What stands behind the models that it started from.
    starts: Mapping[str, Receipt | Guarantee] = field(default_factory=dict)
    quality: Quality | None = None  #: What was asked of the same records, with the fit
    seeded: bool = False  #: Whether a coordinator's noise was seeded

    @property
    def release(self) -> Release:
        """What leaves, without the study's words."""
        schema = schema_of(self.model.encoder)
        if self.guarantee is None:
            raise InvalidParameter("nobody was asked: a dry run releases nothing.")
        paid: Values = dict(self.receipts)
        (first, *others) = self.receipts.values()
        alone = self.kind not in ("collaborative", "multiparty") and not others
        if alone and self.quality is None:
            paid = {"target": first[0], **self.starts} if self.starts else {}
        receipt = first[0] if alone else None
        seeded = any(one.simulated for paid in self.receipts.values() for one in paid)
        made = Simulated if seeded or self.seeded or seeded_facts(schema) else Release
        return made(
            kind=self.kind,
            model=self.model,
            guarantee=self.guarantee,
            receipt=receipt,
            parties=with_facts(paid, receipt, schema),
            quality=self.quality,
        )


@dataclass(frozen=True, eq=False)
class CountedTable:
    """Table 1 of all organisations, and who paid for it."""

    name: str  #: The study's
    table: CohortSummary
    receipts: Receipts

    def told(self) -> Values:
        status = "simulated" if self.table.schema_.paid[-1].simulated else "released"
        return {"release_id": self.name, "status": status, "epsilon": self.table.epsilon}

    def page(self) -> str:
        return self.table.files()[".html"]

    def files(self, study: Study) -> dict[str, bytes]:
        made, name = self.table.files(), REHEARSED if study.simulated else TABLE
        texts = {f"{name}{end}": made[end].encode() for end in (".csv", ".toml")}
        return texts | {"study.toml": study.content}

    def write(self, study: Study, place: Path) -> Path:
        return write_folder(place, self.files(study), {})

    def is_in(self, study: Study, place: Path) -> bool:
        return read_folder(place).files == self.files(study)


Models = tuple[TrainedModel | CountedTable, ...]
#: A study's protocol: from whom to ask to its questions.
Run = Callable[[Sequence[str]], Protocol[Models]]


def protocol_of(study: Study, given: Given | None = None) -> Run:
    """Return the coordinator's side of the study's method, for those who are asked."""
    asked, have = _MODELS.get(study.method.shape, _learned), given or Given()
    return lambda parties: with_quorum(asked(study, have, parties), study.quorum)


def _together(study: Study, _: Given, parties: Sequence[str]) -> Protocol[Models]:
    """Ask everyone; the average or the sum is post-processing."""
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
    combined, receipts = yield from with_receipts(plan.steps(sizes), encoder=encoder)
    called = study.names(encoder)
    model = encoded_by(planned.model(combined, called), Encoder.of(encoder))
    guarantee = guarantee_of(receipts) if any(receipts.values()) else None
    return (TrainedModel(study.id, "collaborative", model, guarantee, receipts),)


def _voted(study: Study, given: Given, parties: Sequence[str]) -> Protocol[Models]:
    """Have everyone vote, or upload; the coordinator adds the noise, or everyone a share of it."""
    encoder = study.encoder
    names = study.names(encoder)
    facts = public_facts(names, len(parties), given.auxiliary)
    plan = estimator_for(study, study.method).plan(facts)
    voting = replace(plan.voting, quorum=study.quorum)
    voting.check()
    released, receipts = yield from with_receipts(voting.steps(parties))
    model = encoded_by(plan.model(released, names), Encoder.of(encoder))
    guarantee, seeded = voting.guarantee(), study.simulated
    return (TrainedModel(study.id, "multiparty", model, guarantee, receipts, seeded=seeded),)


def trusted_by(study: Study, file: Path) -> Trusted | None:
    """Return how a coordinator whom parties trust adds the noise: once, and kept in a file."""
    if study.method.shape != "votes" or study.trust != "coordinator":
        return None
    return Trusted(Answers(file), study.seed)


def _learned(study: Study, given: Given, parties: Sequence[str]) -> Protocol[Models]:
    """Have everyone learn by itself; in a transfer sources first, and the others from them."""
    there = {one.name: study.privacy.records or 0 for one in study.payers if one.name in parties}
    sizes, made_up = there, False
    if study.privacy.records is None:
        told = yield Ask(Size(), there)
        sizes = dict(zip(told.names, told.arrays["size"].tolist(), strict=True))
        made_up = told.made_up
        if made_up:  # it must be enough for a plan, and not always the same
            sizes = {name: NOMINAL_ROWS + min(size, 97) for name, size in sizes.items()}
    sources = [party.name for party in study.sources if party.name in sizes]
    made: list[TrainedModel] = []
    starts: dict[str, Start] = {n: Start.given(release) for n, release in given.releases.items()}

    def ask(method: Method, to: Sequence[str], step: int) -> Protocol[None]:
        nonlocal made_up
        ordered = tuple(starts[party.name] for party in study.parties if party.name in starts)
        learning = Learning(study, method, ordered if method.shape == "transfer" else ())
        # Whose records are expected to add nothing to a source has that, and is not asked.
        paying = {n: sizes[n] for n in to if made_up or not learning.at(sizes[n])[1].instead}
        if not paying:
            return
        told = yield Ask(learning, paying, step)
        made_up = made_up or told.made_up
        named = [f"source {k}" for k, _ in enumerate(ordered, 1)] if ordered[1:] else ["source"]
        pairs = zip(named, ordered, strict=False)
        paid = {each: one.receipt or one.guarantee for each, one in pairs}
        for k, name in enumerate(told.names):
            n, receipts, quality = sizes[name], told.receipts.get(name, ()), None
            start = learning.start(n, {each: every[k] for each, every in told.arrays.items()})
            if study.has_intervals and isinstance(start.model, Linear):
                part, encoder = shared(study.epsilon)[1], learning.at(n)[0]
                asked = intervals(start.model, start.digest, name, n, part, step=2 * k)
                found, more = yield from with_receipts(asked, encoder=encoder)
                receipts += more.get(name, ())
                quality = None if found is None else Quality.of(found.quality())
            guarantee = start.guarantee if receipts else None
            own: Receipts = {name: receipts}
            made.append(TrainedModel(name, method.name, start.model, guarantee, own, paid, quality))
            if name in sources:
                starts[name] = replace(start, receipt=receipts[0] if receipts else None)

    if sources:
        yield from ask(find_method(study.method.source), sources, 0)
    others = [name for name in sizes if name not in sources]
    if others and study.method.shape != "as-is":
        yield from ask(study.method, others, 1 if study.sources else 0)
    return tuple(made)


def _counted(study: Study, _: Given, parties: Sequence[str]) -> Protocol[Models]:
    """Have everyone count its records for one table."""
    asked = replace(estimator_for(study, study.method), quorum=study.quorum_of_sums)
    table, receipts = yield from with_receipts(asked.steps(parties))
    return () if table is None else (CountedTable(study.id, table, receipts),)


_MODELS = {"together": _together, "votes": _voted, "table": _counted}


_CARD_TEXT: TypeAdapter[str] = TypeAdapter(CardText)


@dataclass(frozen=True)
class PartyCost:
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
        if math.isinf(self.left):
            return self.left
        return at_most(minus(exact(self.left), exact(self.guarantee.epsilon)))

    def check(self) -> None:
        """Refuse a cost that a limit does not cover; nothing is spent."""
        asked, delta = self.guarantee.epsilon, self.guarantee.delta
        if self.per_run is not None and asked > self.per_run:
            raise BudgetExceeded(self.account, asked, self.per_run, bound="local policy, one run")
        if asked > self.left:
            raise BudgetExceeded(self.account, asked, self.left, bound=self.limit_by)
        if self.limit is not None and delta > self.delta:
            raise BudgetExceeded(self.account, delta, self.delta, "delta")

    def to_dict(self) -> Values:
        names = ("party", "account", "here", "spent", "limit", "limit_by", "left", "left_after")
        told = {name: getattr(self, name) for name in names}
        known = {name: None if one == math.inf else one for name, one in told.items()}
        return known | {"guarantee": self.guarantee.to_dict()}


def budget_of(party: Party, local: Local | None, cost: Guarantee) -> PartyCost:
    """Return a party's cost and budget: the strictest limit wins; no ledger is made."""
    policy = None if local is None else local.policy
    caps = {
        "study": party.cap.epsilon,
        "local policy": None if policy is None else policy.lifetime_epsilon,
    }
    deltas = [] if party.cap.epsilon is None else [party.cap.delta]
    accounts = [] if local is None else _accounts(local)
    paying = _paying(accounts, cost)
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
    return PartyCost(
        party=party.name,
        guarantee=cost,
        account=f"{party.name}/{own or party.dataset}" if paying is None else paying.name,
        spent=at_least(spent),
        limit=limit,
        limit_by=limit_by,
        per_run=None if policy is None else policy.max_epsilon_per_run,
        here=local is not None,
        delta=min(deltas, default=party.cap.delta),
        for_life=None if most is None else Limit(most, most_by, names),
    )


def open_account(party: Party, local: Local, cost: Guarantee) -> Ledger:
    """Return the ledger with the account open that pays, once every limit covers the cost.

    The organisation's own limit becomes the account's cap: a study's cap is for that study.
    """
    budget = budget_of(party, local, cost)
    budget.check()
    sources = check_data(local)
    ledger = Ledger(local.ledger_path)
    if local.dataset is not None:
        for source in sources:
            keep_source(source, ledger.ledger_id, ledger.path)
    if budget.account not in {account.name for account in ledger.accounts()}:
        own = local.policy.lifetime_epsilon
        ledger.open_account(
            budget.account,
            epsilon=budget.limit if own is None else own,
            delta=0.0 if budget.limit is None else budget.delta,
            unit=cost.unit,
            neighbours=cost.neighbours,
        )
    ledger.account_for(budget.account, cost)  # frozen, or of another kind: found before a charge
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
    if not local.ledger_path.exists():
        return []
    found = Ledger(local.ledger_path).accounts()
    # The ledger of a data set is about nothing else; others may be several parties'.
    named = f"{local.party}/"
    return [one for one in found if local.dataset is not None or one.name.startswith(named)]


def _paying(accounts: Sequence[Account], cost: Guarantee) -> Account | None:
    kind = (cost.unit, cost.neighbours)
    alike = [one for one in accounts if (one.unit, one.neighbours) == kind] or accounts
    return next((one for one in alike if one.frozen is None), next(iter(alike), None))


def _strictest(caps: Mapping[str, float | None]) -> tuple[float | None, str]:
    set_ = [(cap, by) for by, cap in caps.items() if cap is not None]
    return min(set_, key=lambda one: one[0], default=(None, ""))


@dataclass(frozen=True)
class StudyPlan(Shown):
    """What a study costs, to be carried out once."""

    run: str  #: In the ledger every charge has it: a run pays once
    study: Study
    #: Epsilon of one unit, with all its rows and at all organisations it may be in.
    epsilon_per_unit: float
    #: How many organisations' tables one process would read; 0 where each reads its own.
    together: int
    costs: tuple[PartyCost, ...]

    @property
    def amount(self) -> float:
        here = [cost.guarantee.epsilon for cost in self.costs if cost.here]
        return max(here or [cost.guarantee.epsilon for cost in self.costs])

    @property
    def trusted(self) -> str:
        """Whom every party has to trust, in one sentence."""
        study, together = self.study, self.together
        return f"Trust: {trust_of(study, together)}; {trust_words(study, together)}."

    def check(self) -> None:
        """Refuse what a budget that is known here does not cover."""
        for cost in self.costs:
            cost.check()

    def to_dict(self) -> Values:
        study = self.study
        return {
            "run": self.run,
            "study_id": study.id,
            "study_sha256": study.sha256,
            "method": study.method.name,
            "mode": study.mode,
            "epsilon_per_unit": self.epsilon_per_unit,
            "trust": str(trust_of(study, self.together)),
            "trust_words": trust_words(study, self.together),
            "together": self.together,
            "costs": [one.to_dict() for one in self.costs],
        }

    @override
    def view(self) -> Panel:
        numbers = ("spends", "spent so far", "left", "left after")
        rows = [
            (
                one.party,
                f"epsilon {shown_cost(one.guarantee.epsilon, one.guarantee.delta)}",
                share(one.spent + one.guarantee.epsilon, one.limit, one.spent),
                shown(one.spent) if one.here else "not here",
                amount(one.left),
                Word("refused", "bad") if one.left_after < 0 else amount(one.left_after),
                one.limit_by or "nobody",
            )
            for one in self.costs
        ]
        columns = ("party", "spends", "of its limit", *numbers[1:], "limit set by")
        told = f"Guarantee: {self.costs[0].guarantee}; one "
        told += f"{self.study.privacy.unit} spends epsilon {shown(self.epsilon_per_unit)}. "
        note = f"{told}Nothing was spent yet."
        if self.study.has_intervals:
            note += f" Of it {shown(shared(self.study.epsilon)[1])} is for intervals."
        if self.study.simulated:
            note += " SIMULATION: seeded noise protects nobody, and its card can never be released."
        title = f"Privacy cost of {self.study.id} by {self.study.method.name}"
        table = Table(columns, rows, numbers, pictures=("of its limit",))
        return Panel(title, [table], f"{note}\n{self.trusted}")


def make_plan(
    study: Study,
    # Mapping of party to Local. The parties that live here: their ledgers say what is left.
    locals_: Mapping[str, Local],
    attempt: int = 1,  # Which run of the study: each is paid for anew
) -> StudyPlan:
    """Say what a study costs."""
    guarantee = cost_of(study)
    costs = tuple(budget_of(one, locals_.get(one.name), guarantee) for one in study.payers)
    paid: Values = {cost.party: _with_earlier(cost, study) for cost in costs}
    per_unit, _ = Spending(guarantee, parties=paid).privacy_cost(
        study.privacy.max_rows_per_unit, study.privacy.parties_per_unit
    )
    together = sum(cost.here for cost in costs) if study.engine == "local" else 0
    return StudyPlan(run_name(study.sha256, attempt), study, per_unit, together, costs)


def cost_of(study: Study) -> Guarantee:
    """Return what a run costs one party: of the method, or its source, which costs the same."""
    method = find_method(study.method.source) if study.method.source else study.method
    return cost_for(study, estimator_for(study, method))


def _with_earlier(cost: PartyCost, study: Study) -> Guarantee:
    """Return a party's cost with what its own account paid before for facts of the schema."""
    found, own = receipts_for_facts(study.schema), f"{cost.party}/"
    paid = [one for one in found if one.account == cost.account or one.account.startswith(own)]
    return Together([*(one.guarantee for one in paid), cost.guarantee]).guarantee()


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Codes that are many lie in a private file, which the system reads when they are touched.
    ``sums`` are those of the raw rows, for a table of the cohort, which has no bounded ones.
    """

    X: Coded | Floats
    y: NDArray[Any]
    sums: NDArray[np.int64] | None = None

    def coded(self, study: Study) -> tuple[Coded | Floats, NDArray[np.float64]]:
        """Return rows, and labels as parties hold them: -1 and +1, codes of classes, or numbers."""
        if not study.n_classes:
            return self.X, np.asarray(self.y, dtype=np.float64)
        codes = encode_labels(self.y, np.array(study.classes))
        return self.X, codes.astype(np.float64) if study.n_classes > 2 else 2.0 * (codes == 1) - 1.0


def read_rows(study: Study, table: RowTable, encoder: SchemaEncoder | None = None) -> Rows:
    """Return what a study learns from one party's table, read and encoded batch by batch."""
    schema, unit = study.schema, study.privacy.unit_column
    outcome = getattr(study.outcome, "columns", (study.outcome.column,))
    columns = dict.fromkeys([*schema.columns, *outcome, *([unit] if unit else [])])
    counts = CohortCounts(schema) if study.method.shape == "table" else None
    encoder, seen = encoder or study.encoder, UnitCounts(unit, study.privacy.max_rows_per_unit)
    sums = np.zeros(0 if counts is None else counts.size, dtype=np.int64)

    def blocks() -> Iterator[list[NDArray[Any]]]:
        for batch in table.read(list(columns)):
            kept = seen.bounded(batch)
            if len(kept):
                if counts is not None:
                    sums[:] += counts.sums(kept)
                yield [*([] if counts else encoder.codes(kept)), schema.label(kept)]

    codes, labels = gathered(blocks(), table.rows)
    if counts is not None:  # cells that no model could be learned from are counted, too
        return Rows(np.broadcast_to(0.0, (len(labels), 1)), labels, sums)
    return Rows(encoder.coded(codes), labels)


def described(
    study: Study,
    release: Release,
    *,
    # The one that was charged, where one party paid: the card shows the budget.
    ledger: Ledger | None = None,
    n_here: int = 1,  # How many organisations' data were read by one process
) -> Release:
    """Return a release with the study's encoding, words and hash."""
    privacy = study.privacy
    bounded = f"rows of a {privacy.unit} beyond {privacy.max_rows_per_unit} were dropped"
    if privacy.unit_column is None:
        bounded = f"that a {privacy.unit} has {privacy.max_rows_per_unit} row at most is assumed"
    # Which organisations of the study have no part in what all made together.
    away = [one.name for one in study.payers if study.joint and one.name not in release.parties]
    without = f"without {', '.join(away)}: in the study, and no answer of theirs was used"
    operator = Adversary(
        who="whoever ran the study on one machine",
        sees="the data of all organisations, and each one's own release",
        protected=False,
    )
    notes = CardNotes(
        title=study.title,
        purpose=study.purpose,
        unit_detail=f"one {privacy.unit}",
        max_rows_per_unit=privacy.max_rows_per_unit,
        # In how many organisations' data a unit may be, of those that paid.
        parties_per_unit=min(privacy.parties_per_unit, max(1, len(release.parties))),
        adversaries=(operator,) if n_here > 1 else (),
        trust=trust_words(study, n_here),
        trust_kind=trust_of(study, n_here),
        preprocessing=(bounded, without) if away else (bounded,),
        tuning="none on the data: every parameter stands in the study file",
        justification=privacy.justification,
        study_sha256=study.sha256,
    )
    return release.describe(notes, ledger=ledger)


#: What a card says in the study's own words.
_WORDS = (
    *("product.title", "product.purpose", "guarantee.unit_detail"),
    *("guarantee.max_rows_per_unit", "guarantee.across_parties.parties_per_unit"),
)


def check_words(study: Study, release: Release) -> None:
    """Refuse a card of a study that says something else about whom it protects, and what for.

    Whoever saves a release writes its card; how many rows a unit has decides about the cost.

    Raises InvalidRelease.
    """
    card, own = release.card, described(study, release).card
    differing = [place for place in _WORDS if attrgetter(place)(card) != attrgetter(place)(own)]
    if card.trust.kind is not None and not Trust.parse(card.trust.kind).allows(trust_of(study)):
        differing.append("trust.kind")
    if differing:
        raise InvalidRelease(
            f"card.json does not say what the study says: {', '.join(differing)}; do not use it."
        )


@dataclass(frozen=True)
class StudyResult:
    name: str  #: Of its folder: the party's, or the study's if all made it together
    release: Release
    #: Mapping of party to tuple of Receipt. One for each of its answers.
    receipts: Mapping[str, tuple[Receipt, ...]]

    def told(self) -> Values:
        """Return what a command says of it."""
        card = self.release.card
        return {"release_id": card.release_id, "status": card.status, "epsilon": card.epsilon}

    def page(self) -> str:
        return card_page(self.release)

    def write(self, study: Study, place: Path) -> Path:
        # The study's bytes that were read, whatever became of the file.
        if isinstance(self.release, Simulated):
            return self.release.rehearse(place, study=study.content)
        # What caps it may be the study or a policy, and not the account.
        return self.release.save(place, study=study.content, allow_uncapped=True)

    def is_in(self, study: Study, place: Path) -> bool:
        """Whether a folder holds it already."""
        kept = reader_for(study)(place)
        return np.array_equal(released_numbers_of(kept), released_numbers_of(self.release))


Made = StudyResult | CountedTable


def result_of(
    study: Study,
    learned: TrainedModel | CountedTable,
    *,
    ledger: Ledger | None = None,
    n_here: int = 1,
) -> Made:
    if isinstance(learned, CountedTable):
        return learned
    release = described(study, learned.release, ledger=ledger, n_here=n_here)
    return StudyResult(learned.name, release, learned.receipts)


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

        ``approval`` says who agreed to the cost, and why.
        """
        study, run = self.study, self.plan.run
        beside = next(iter(self.locals_.values())).ledger_path
        trusted = trusted_by(study, beside.with_name(f"{beside.name}.releases"))
        cost = self.plan.costs[0].guarantee
        parties = [
            local_party(study, cost, local, self.rows[name], self._policy(name, approval))
            for name, local in self.locals_.items()
        ]
        federation = LocalFederation(parties, run=run, study=study.sha256, on_error="raise")
        steps = protocol_of(study, self.given)(federation.parties())
        found = federation.run_protocol(steps, trusted=trusted)
        return [self._made(learned) for learned in found]

    def _policy(self, name: str, approval: ChargeApproval | None) -> Policy:
        """Return what a party answers: its own study's questions, in this run, at the cost."""
        requests, cost = self.requests[name], self.plan.costs[0].guarantee
        return Policy(
            operations=frozenset(request.operation for request in requests),
            unit=cost.unit,
            neighbours=cost.neighbours,
            epsilon_per_run=cost.epsilon,
            delta_per_answer=cost.delta,
            study=self.study.sha256,
            study_id=self.study.id,
            approval=approval,
            trust=str(trust_of(self.study, len(self.locals_))),
            runs=frozenset([self.plan.run]),
            requests=requests,
        )

    def _made(self, learned: TrainedModel | CountedTable) -> Made:
        ledgers = {name: Ledger(self.locals_[name].ledger_path) for name in learned.receipts}
        alone = next(iter(ledgers.values())) if len(ledgers) == 1 else None
        made = result_of(self.study, learned, ledger=alone, n_here=len(self.locals_))
        if isinstance(made, StudyResult):
            digests = made.release.digests()
            for name, receipts in learned.receipts.items():
                for receipt in receipts:
                    ledgers[name].note_model(receipt, digest=digests[receipt.hash])
        return made


def prepare(
    study: Study,
    plan: StudyPlan,  # Its cost, agreed to; it names the run
    locals_: Mapping[str, Local],  # Mapping of party to Local. The parties that live here.
    # Mapping of party to Release. In a transfer, what source parties elsewhere have released.
    sources: Mapping[str, Release] | None = None,
    *,
    # The rows that parties vote on; by default a local file says where they are.
    auxiliary: Path | None = None,
) -> Runner:
    """Check everything that can be checked before a cost is paid, and read the data."""
    if study.engine != "local":
        raise StudyError(f"federation.engine: {study.engine!r} runs between machines.").hinting(
            "confrere coordinator STUDY at one of them and confrere party STUDY at every party; "
            'to learn in one process, declare engine = "local"'
        )
    payers = {party.name for party in study.payers}
    here = {n: one for n, one in locals_.items() if one.has_table and n in payers}
    if not here:
        raise StudyError(
            "no party that learns lives here: give its local file, which names its table, with "
            "--local FILE."
        )
    _check_parties(study, here, sources or {})
    for cost in plan.costs:
        if cost.party not in here:
            continue
        local = here[cost.party]
        local.policy.check(study, cost.party)
        if local.key_path is not None:
            read_private_key(local.key_path)
        refusal = standing_refusal(study, local)
        if refusal is not None:
            raise refusal.error()
        if not has_answered(local, (plan.run,)):
            cost.check()
        if cost.limit is None and not study.simulated:
            raise StudyError(
                f"party.cap: nothing caps what {cost.party} may ever spend; give it one in the "
                "study (cap = { epsilon = 3 }), in its policy or by confrere ledger open. Nothing "
                "was spent."
            )
    given = Given(sources or {}, auxiliary_rows(study, auxiliary, here))
    requests = requests_of(study, given, list(here))  # what cannot be asked is found before data
    rows = {name: read_rows(study, local.table()) for name, local in here.items()}
    return Runner(study, plan, here, rows, given, requests)


def requests_of(
    study: Study, given: Given, among: Sequence[str] | None = None
) -> Mapping[str, tuple[Request, ...]]:
    """Return every question that a run of the study may ask each party."""
    return dry_run(
        protocol_of(study, given),
        [each.name for each in study.payers] if among is None else among,
        study.sha256,
        most=MAX_MESSAGE if study.engine != "local" else None,
    )


def local_party(
    study: Study,
    cost: Guarantee,
    local: Local,
    rows: Rows,
    policy: Policy,
    until: datetime | None = None,
) -> LocalParty:
    """Return a party with its rows and books; its account is open once a limit covers the cost.

    Between machines, where an approval lasts ``until``, what is paid for is kept until then.
    """
    party = study.party(local.party)
    assert policy.runs is not None
    X, y = rows.coded(study)
    sums = rows.sums
    if has_answered(local, policy.runs):
        ledger = Ledger(local.ledger_path)  # who goes on need not afford all of it again
    else:
        ledger = open_account(party, local, cost)
    budget = budget_of(party, local, cost)
    books = PartyAccounts(
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
        raw=None if sums is None else RawRows(study.schema.fingerprint(), sums),
        encode=lambda encoder: read_rows(study, local.table(), encoder).coded(study),
        encoding=study.encoder.told(),
    )


def has_answered(local: Local, runs: Iterable[str]) -> bool:
    """Whether a party has answered in one of the runs: then part of the cost is paid."""
    path = _answer_file(local)
    if not (local.ledger_path.exists() and path.exists()):
        return False
    answers = Answers(path)
    return any(answers.kept(run) for run in runs)


def _answer_file(local: Local) -> Path:
    # Parties that share a ledger do not share their answers.
    return local.ledger_path.with_name(f"{local.ledger_path.name}.{local.party}.answers")


def auxiliary_rows(study: Study, path: Path | None, locals_: Mapping[str, Local]) -> Floats | None:
    """Return the public rows that the study names by their hash, if it does, encoded."""
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
    rows: Floats = study.encoder.transform(open_table(place).whole(study.schema.columns))
    return rows


def _check_parties(study: Study, here: Mapping[str, Local], given: Mapping[str, Release]) -> None:
    if study.joint and len(here) < study.quorum * len(study.parties):
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
        facts = public_facts(study.names(study.encoder), 0)
        check_sources([release], facts, study.encoder)
    lacking = [name for name in sorted(names) if name not in here and name not in given]
    if lacking:
        raise StudyError(
            f"source: {', '.join(lacking)} is not here; give its release: --source "
            f"{lacking[0]}=FOLDER."
        )


def check_destination(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse, before anything is spent, a place where releases could not be written."""
    names = [study.id] if study.joint else parties
    taken = [name for name in names if (folder / name).exists()]
    if taken:
        raise StudyError(f"out: {folder.name} holds {', '.join(taken)} already.").hinting(
            f"see what is there: confrere verify {folder / taken[0]}; a study that was carried out "
            "gives the same again, into another folder: --out FOLDER"
        )
    try:
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        with tempfile.TemporaryDirectory(dir=there):
            pass  # whoever may write there is not found out in the middle
    except OSError as error:
        what = f"out: nothing can be written into {folder} ({error.strerror}). Nothing was spent."
        raise StudyError(what).hinting("give another folder: --out FOLDER") from None


def reader_for(study: Study) -> Callable[..., Release]:
    """Return what reads this study's releases: those of a simulation are rehearsals."""
    return load_rehearsal if study.simulated else load_release


def save_result(study: Study, made: Made, folder: Path, locals_: Mapping[str, Local]) -> Path:
    """Write a release with its study, signed by every party here that has a key, and its page.

    Returns the release's folder; the page lies beside it.
    """
    place = made.write(study, folder / made.name)
    for name in made.receipts:
        local = locals_.get(name)
        if local is not None and local.key_path is not None:
            sign_release(place, local.key_path, name)
    page = folder / f"{made.name}.html"
    page.write_text(made.page(), encoding="utf-8")
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


#: Relative agreement of a released model with the one that a party computes from the answers.
AGREEMENT = 1e-6

#: What a card says of the moment and the machine that made it; the rest follows from the study.
_OF_THE_MOMENT = ("release_id", "created", "implementation", "files")
_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,40}")

#: Bytes of what a party signs releases with, as it sends them.
_LONGEST_SIGNATURES = 1 << 16


def accept_releases(
    study: Study,
    files: Mapping[str, bytes],
    found: Models | None,
    out: Path,
    key: PrivateKey,
    local: LocalParty,
) -> bytes:
    """Compare releases with what the signed answers give here, keep them and sign one's own."""
    releases: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        name, _, file = path.partition("/")
        releases.setdefault(name, {})[file] = content
    wanted = [study.id] if found is None else [learned.name for learned in found]
    if sorted(releases) != sorted(wanted):
        raise _unlike()
    signatures: dict[str, str] = {}
    for name, inside in releases.items():
        own = next((one for one in found or () if one.name == name), None)
        if isinstance(own, CountedTable):
            if inside != own.files(study):
                raise _unlike()
            paid = own.receipts.get(local.name, ())
        else:
            paid = _accepted(study, inside, own, local)
        signature = sign_sums(sums_of(inside), key) if paid else None
        if signature is not None:
            signatures[name] = signature.decode()
        target = out / name
        if not target.exists():
            write_folder(target, inside, {} if signature is None else {local.name: signature})
        elif (target / SUMS).read_bytes() != sums_of(inside):
            raise OperationRefused("another release lies where this one should go.", "release")
    return json.dumps(signatures).encode()


def _accepted(
    study: Study, files: Mapping[str, bytes], own: TrainedModel | None, local: LocalParty
) -> tuple[Receipt, ...]:
    """Compare a model's release, note it in the ledger and return what was paid here for it."""
    with tempfile.TemporaryDirectory() as aside:
        release = reader_for(study)(write_folder(Path(aside) / "release", files, {}))
    _compare_release(study, release, own, local)
    paid = _paid_by(release, local.name) if own is None else own.receipts.get(local.name, ())
    for receipt in paid:
        local.books.ledger.note_model(receipt, digest=release.digests()[receipt.hash])
    return paid


def keep_signatures(study: Study, name: str, reply: bytes, folders: Mapping[str, Path]) -> bool:
    """Put a party's signatures with releases; False if one is lacking, or is not its own."""
    key = next((str(party.key) for party in study.payers if party.name == name), None)
    if len(reply) > _LONGEST_SIGNATURES:  # what a stranger sent takes much more once it is read
        return False
    try:
        signatures = json.loads(reply)
        for release, folder in folders.items():
            signature = signatures[release].encode()
            verify_signature(signature, (folder / SUMS).read_bytes(), [key] if key else [])
            place = folder / SIGNATURES / f"{name}.sig"
            if not place.exists():
                add_file(place, signature)
    except (ConfrereError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    return True


def share_signatures(study: Study, replies: Mapping[str, bytes], out: Path) -> None:
    """Keep what the others signed of the releases that are here."""
    for name, reply in replies.items():
        for folder in [one for one in out.iterdir() if (one / SUMS).is_file()]:
            keep_signatures(study, name, reply, {folder.name: folder})


def _compare_release(
    study: Study, release: Release, learned: TrainedModel | None, local: LocalParty
) -> None:
    """Refuse a release that is not what everybody signed, or does not say what the study says.

    Where the coordinator adds the noise nobody can recompute it: its cost, its meaning, its card
    and the party's own receipt are all that is compared.
    """
    model, agreed = release.model, True
    if learned is None:
        rows = {entry.hash for entry in local.books.ledger.entries()}
        paid = {name: _paid_by(release, name) for name in release.parties}
        own = [one.hash for one in paid.get(local.name, ())]
        agreed = (
            bool(own)
            and rows.issuperset(own)
            and terms(release.guarantee) == terms(cost_of(study))
            and model.classes == tuple(study.classes)
            and model.features == study.encoder.names
        )
        meant = replace(model, encoder=Encoder.of(study.encoder))
        learned = TrainedModel(
            study.id, "multiparty", meant, release.guarantee, paid, seeded=release.simulated
        )
    here, encoder, meant_by = learned.release, model.encoder, learned.model.encoder
    told = ("kind", "simulated", "guarantee", "receipt", "parties")
    given, numbers = released_numbers_of(release), released_numbers_of(here)
    near = AGREEMENT * float(np.linalg.norm(numbers))
    if not (
        agreed
        and all(getattr(release, name) == getattr(here, name) for name in told)
        and given.shape == numbers.shape
        and np.linalg.norm(given - numbers) <= near
        and alike(model.to_dict(), replace(here.model, encoder=encoder).to_dict(), AGREEMENT, near)
        and encoder is not None
        and meant_by is not None
        and (encoder.schema, encoder.labels) == (meant_by.schema, meant_by.labels)
        and encoder.same_encoding(meant_by)
        and _same_words(release.card, described(study, learned.release).card)
    ):
        raise _unlike()


def _same_words(card: Card, own: Card) -> bool:
    """Whether a card says what the party's own would: whom it protects, the cost, what for.

    How many rows a unit has decides about the cost, and is nobody's word but the study's.
    """
    given, here = card.to_dict(), own.to_dict()
    made, mine = given["implementation"], here["implementation"]
    known = made.keys() == mine.keys() and all(map(_VERSION.fullmatch, made.values()))
    rest = [name for name in here if name not in _OF_THE_MOMENT]
    return known and all(alike(given[name], here[name], AGREEMENT) for name in rest)


def _paid_by(release: Release, party: str) -> tuple[Receipt, ...]:
    found = release.parties.get(party, ())
    several = found if isinstance(found, tuple) else (found,)
    return tuple(one for one in several if isinstance(one, Receipt))


def _unlike() -> OperationRefused:
    return OperationRefused(
        "the release is not what the parties' answers give; it is not signed.", "release"
    )


def released_numbers_of(release: Release) -> NDArray[np.float64]:
    arrays = release.model.arrays()
    return np.concatenate([np.ravel(arrays[name]) for name in sorted(arrays)])


def make_approval(
    study: Study,  # The party's own copy
    local: Local,
    *,
    # How many runs may be paid for: a second one only if the first cannot be finished.
    attempts: int = 1,
    days: float = 30.0,  # How long the approval is good for
    now: datetime | None = None,
    **said: str | None,  # ``approved_by``, ``reason``, ``justification``: who agrees, and why
) -> SignedApproval:
    """Return what a party would agree to: every question of the study, at its cost.

    Raises OperationRefused if its policy does not allow the study.
    """
    check_engine(study)
    party = study.party(local.party)
    local.policy.check(study, party.name)
    check_peers(study, local)
    cost = cost_of(study)
    given = Given(auxiliary=auxiliary_rows(study, None, {party.name: local}))
    requests = requests_of(study, given)[party.name]
    if not requests:
        raise StudyError(f"{party.name} is asked nothing: it uses the others' release as it is.")
    began = now or datetime.now(UTC)
    known: Values = {
        "party": party.name,
        "account": budget_of(party, local, cost).account,
        "study_id": study.id,
        "study_sha256": study.sha256,
        "requests": requests,
        "unit": study.privacy.privacy_unit,
        "relation": study.privacy.neighbours,
        "trust": str(trust_of(study)),
        "epsilon_per_run": cost.epsilon,
        "delta_per_run": cost.delta,
        "attempts": attempts,
        "expires": began + timedelta(days=days),
        "approved_at": began,
    }
    return SignedApproval(**known | said)


def asked_in(approval: SignedApproval) -> list[tuple[str, Request]]:
    """Return what an approval lets be asked, in words, how often, and what each costs."""
    return [(OPERATION_WORDS.get(one.operation, one.operation), one) for one in approval.requests]


def asked_lines(study: Study, local: Local) -> list[str]:
    """Say to an approver what is predicted from what, and every question that would be asked."""
    columns = ", ".join(one.titled for one in study.schema.features)
    lines = [f"Predicts {study.outcome.titled} from {columns}."]
    for what, one in asked_in(make_approval(study, local, approved_by="nobody", reason="none")):
        often = f", {one.steps} times" if one.steps > 1 else ""
        cost = f"epsilon {shown(one.epsilon)}" if one.epsilon else "free, a public number"
        cost = "a part of epsilon that follows from all sizes" if "epsilon" in one.derived else cost
        lines.append(f"{local.party} is asked for {what}{often}: {cost}")
    return lines


def party_session(
    study: Study,  # The party's own copy
    local: Local,
    *,
    approval: Path,  # What ``confrere approve`` wrote and the party's key signed
    out: Path,  # Where the release goes once it is checked
    # The party's, opened already if its file has a passphrase; by default ``local.key_path``.
    key: PrivateKey | None = None,
) -> PartySession[Models]:
    """Return what answers for a party: its rows read, its account open, its approval checked.

    Raises ApprovalRefused, SignatureError if it is of another study, another version of this
    library, or signed by another.
    """
    if local.coordinator is None:
        raise StudyError(
            "coordinator: the local file must name the key whose questions are answered."
        )
    if key is None and local.key_path is None:
        raise StudyError("key_path: between machines a party signs what it sends; name its key.")
    opened = read_private_key(key if key is not None else str(local.key_path))
    agreed = SignedApproval.load(approval, opened.public_key())
    _compare(agreed, study, local)
    if local.ledger_path.is_file():
        LedgerReader.look(local.ledger_path).check_agreed(study.sha256, agreed.approval)
    given = Given(auxiliary=auxiliary_rows(study, None, {local.party: local}))
    rows, cost = read_rows(study, local.table()), cost_of(study)
    answering = local_party(study, cost, local, rows, agreed.policy, agreed.expires)
    session = PartySession(
        answering,
        agreed,
        protocol=protocol_of(study, given),
        parties=_keys(study),
        coordinator=local.coordinator,
        key=opened,
        accept=lambda files, found: accept_releases(study, files, found, out, opened, answering),
        share=lambda replies: share_signatures(study, replies, out),
    )
    session.facts = {
        "party": local.party,
        "study": study.sha256,
        "study_id": study.id,
        "ledger": str(local.ledger_path.resolve()),
        "account": str(answering.books.account),
    }
    return session


@dataclass(frozen=True)
class Finished:
    made: tuple[Made, ...]  #: The releases
    folders: Mapping[str, Path]  #: Where each of them lies, with the signatures of those who signed
    left_out: Mapping[str, str]  #: Parties whose answers were not used, and why
    unsigned: Mapping[str, str]  #: Parties that did not sign what they paid for, and why
    as_released: Sequence[str] = ()  #: Parties that have their source's model, and paid nothing


@dataclass(frozen=True)
class CoordinatorSession:
    """The whole of a study at the coordinator; started again on the same folder it goes on."""

    study: Study
    _: KW_ONLY
    key: PrivateKey  #: The coordinator's: parties pin its public half
    folder: Path  #: Its files: the journal. A folder serves one run
    carrier: Carrier  #: How parties are reached
    out: Path  #: Where the releases go
    auxiliary: Path | None = None  #: Public rows that parties vote on, where the study does
    attempt: int = 1  #: Which run of the study: parties have agreed to so many and no more
    timeout: float | None = None  #: Seconds to wait for a round
    steps: RunSteps | None = None  #: Is told who was asked what, and how that ended

    @cached_property
    def _federation(self) -> SignedFederation:
        return SignedFederation(
            run=run_name(self.study.sha256, self.attempt),
            study=self.study.sha256,
            key=self.key,
            parties=_keys(self.study),
            carrier=self.carrier,
            journal=Answers(self.folder / "journal"),
            simulated=self.study.simulated,
            steps=self.steps,
        )

    def run(self) -> Finished:
        """Ask, validate, keep, release, and have the release signed; or go on doing so."""
        study, federation = self.study, self._federation
        check_engine(study)
        given = Given(auxiliary=auxiliary_rows(study, self.auxiliary, {}))
        found = federation.run_protocol(
            protocol_of(study, given)(federation.parties()),
            timeout=self.timeout,
            trusted=trusted_by(study, self.folder / "releases"),
        )
        taken = {name for learned in found for name in learned.receipts}
        left_out = {n: c for n, c in federation.left_out.items() if n not in taken}
        made = tuple(result_of(study, learned) for learned in found)
        folders = {one.name: self._saved(one) for one in made}
        free = [n for n in _keys(study) if n not in taken and n not in left_out]
        return Finished(made, folders, left_out, self._hand_out(made, folders), free)

    def _hand_out(self, made: Sequence[Made], folders: Mapping[str, Path]) -> dict[str, str]:
        """Give everyone all releases; keep who signed, and return who did not, and why."""
        files = {name: read_folder(folder).files for name, folder in folders.items()}
        whole = {f"{n}/{f}": c for n, inside in files.items() for f, c in inside.items()}
        signing = {
            name: {
                one.name: folders[one.name] / SIGNATURES / f"{name}.sig"
                for one in made
                if name in one.receipts
            }
            for name in _keys(self.study)
        }
        # Who has signed has ended: nobody waits for them when this is started again.
        known = {
            name: json.dumps({n: place.read_text() for n, place in theirs.items()}).encode()
            for name, theirs in signing.items()
            if theirs and all(place.exists() for place in theirs.values())
        }
        handed = self._federation.hand_out(
            whole, to=[n for n in signing if n not in known], timeout=self.timeout, known=known
        )
        unsigned: dict[str, str] = {}
        for name, reply in handed.items():
            if isinstance(reply, PartyError):
                unsigned[name] = reply.code
            elif not keep_signatures(
                self.study, name, reply, {n: folders[n] for n in signing[name]}
            ):
                unsigned[name] = "InvalidReply:signature"
        return unsigned

    def _saved(self, made: Made) -> Path:
        place = self.out / made.name
        if not place.exists():
            return save_result(self.study, made, self.out, {})
        if not made.is_in(self.study, place):
            raise StudyError(f"out: {place.name} holds another release; give another folder.")
        return place.resolve()


def check_engine(study: Study) -> None:
    if study.engine == "local":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
    lacking = [party.name for party in study.payers if party.key is None]
    if lacking:
        raise StudyError(
            f"party.key: {lacking[0]} has none; between machines everyone signs: give the line of "
            "its .pub file, made by confrere keys new."
        )


def _keys(study: Study) -> dict[str, str]:
    return {party.name: str(party.key) for party in study.payers}


def _compare(approval: SignedApproval, study: Study, local: Local) -> None:
    """Refuse an approval that this study, or this version of the library, would not give again."""
    if approval.study_sha256 != study.sha256:
        raise ApprovalRefused("approval: it is for other bytes than this study; approve it again.")
    told = ("approved_by", "reason", "justification", "attempts")
    said: Values = {name: getattr(approval, name) for name in told}
    again = make_approval(study, local, now=approval.approved_at, **said)
    # Which of its accounts pays is the party's own affair: another study may have opened one since.
    same = {"expires": approval.expires, "account": approval.account}
    if again.model_copy(update=same) != approval:
        raise ApprovalRefused(
            "approval: it does not say what this study asks for and costs now; approve it again."
        )


#: How the name of an approval ends that was taken back.
_WITHDRAWN = "-withdrawn"


def approve_study(
    study: Study,  # The party's own copy
    local: Local,  # Its local file, whose policy must allow it
    *,
    key: PrivateKey,  # The party's
    approval: Path,  # The file to write; one for the same study is not replaced
    name: str,
    reason: str,
    justification: str | None = None,  # Why this epsilon; by default what the study says
    attempts: int = 1,
    days: float = 30.0,
) -> SignedApproval:
    """Write what a party agrees to, signed by its key; an earlier study's approval is put aside."""
    why = justification or study.privacy.justification
    said = approval_of(name=name, reason=reason, justification=why)
    opened = read_private_key(key)
    own = study.party(local.party).key
    # A key in a study may have a comment.
    if own is not None and public_line(opened.public_key()) != public_line(read_public_key(own)):
        raise StudyError(f"key_path: it is not the key that the study names for {local.party}.")
    make_plan(study, {local.party: local}).check()
    check_data(local)
    words: Values = {"approved_by": said.name, "reason": said.reason, "justification": why}
    agreed = make_approval(study, local, attempts=attempts, days=days, **words)
    if approval.exists():
        before = SignedApproval.load(approval, opened.public_key())
        if before.study_sha256 == study.sha256 and before.expires > datetime.now(UTC):
            what = f"approval: {approval.name} approves this study already, beside it."
            raise StudyError(what).hinting("to stop it: confrere approve STUDY --refuse")
        when = before.approved_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
        approval.rename(
            approval.with_name(f"{approval.stem}-{when}-{before.study_sha256[:8]}.json")
        )
    lift_refusal(study, local, agreed.approval)
    write_new(approval, agreed.document(opened, study.content), mode=0o644)
    return agreed


def refuse_study(
    study: Study,
    local: Local,
    *,
    name: str,
    reason: str,
    # Where an approval may lie; others of this study beside it are put aside too.
    approval: Path | None = None,
) -> Decision:
    """Say no to a study in the party's ledger, and put aside what was approved for it.

    From then on nothing is charged and nothing answered for it: not by who holds an approval, nor
    by a party that is running. :func:`approve_study` lifts it. The decision is "withdrawn" if
    the study had been approved or charged before.
    """
    party = study.party(local.party)
    said = approval_of(name=name, reason=reason)
    ledger = Ledger(local.ledger_path)
    approved = []
    if approval is not None and party.key is not None:
        for place in dict.fromkeys([approval, *sorted(approval.parent.glob("approval*.json"))]):
            with suppress(ConfrereError):
                if SignedApproval.load(place, party.key).study_sha256 == study.sha256:
                    approved.append(place)
    charged = any(sha256 == study.sha256 for _, _, sha256 in ledger.by_study())
    # The row first: it is what stops, whatever becomes of the files.
    ledger.refuse(
        (study.id, study.sha256),
        name=said.name,
        reason=said.reason,
        withdrawn=bool(approved) or charged,
    )
    standing = ledger.refusal(study.sha256)
    assert standing is not None
    for place in approved:
        if not place.stem.endswith(_WITHDRAWN):
            place.rename(place.with_name(f"{place.stem}-{standing.row}{_WITHDRAWN}.json"))
    return standing


def lift_refusal(study: Study, local: Local, approval: ChargeApproval) -> None:
    """Say yes again in the party's ledger, where a no stands."""
    if standing_refusal(study, local) is not None:
        Ledger(local.ledger_path).agree_again((study.id, study.sha256), approval)


def earlier_approvals(
    folder: Path, key: PublicKey | None
) -> Iterator[tuple[SignedApproval, bytes | None]]:
    """Yield every approval in a folder that the key signed, the last one first.

    With the study's own text, if the file has it as it was agreed to.
    """
    found = []
    if key is None:
        return
    for path in folder.glob("approval*.json"):
        try:
            content = read_bytes(path, "the approval", 1 << 22)
            agreed = SignedApproval.read(content, key)
            text = json.loads(content).get("study")
        except (OSError, ValueError, ConfrereError):
            continue
        known = text.encode("utf-8", "replace") if isinstance(text, str) else b""
        # The signature is over the approval, which names the text by its hash.
        same = hashlib.sha256(known).hexdigest() == agreed.study_sha256
        found.append((agreed, known if same else None))
    yield from sorted(found, key=lambda one: one[0].approved_at, reverse=True)


def changed_facts(before: bytes, after: bytes) -> list[tuple[str, object, object]]:
    """Return every key in which two study files differ, with both values; None where it is not."""
    old, new = (dict(_flat(tomllib.loads(text.decode()))) for text in (before, after))
    keys = [*new, *(key for key in old if key not in new)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _flat(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _flat(inside, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for number, inside in enumerate(value):
            yield from _flat(inside, f"{place}.{inside.get('name', number)}")
    else:
        yield place, value
