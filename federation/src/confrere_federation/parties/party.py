"""A party on its own side: what it agrees to, its data and books, and how it answers a question.

**An approval** is one file that the party's own key signs. It says which study, which requests (as
the party derived them from its own copy of the study), at which price, in how many runs, until
when, who approved it and why. What in a request is the same whatever anybody answers the approval
holds, and a question must have the same; what follows from earlier answers (a ridge, a check's part
of epsilon) it names, and the party computes it itself from what the other parties signed.

**A snapshot.** Between machines noise follows from a party's secret and all that the noise is for:
who asks again, restores a copy or runs a party twice gets the same bytes. If an answer were of rows
that have changed since, equal bytes would tell that none has. So what is paid for is learned from a
snapshot that the organisation names: the rows of its first paid question, kept until the last
approval that needs them ends. Without them a party that is asked again refuses, whether or not rows
have changed. The secret is in no image and no kit, and does not follow from the identity key.

**An answer**: check, claim, charge, act, keep, mark. Whatever the engine, :func:`answer` is the
only way from a question to a number about data. A question is paid for once and answered with the
same bytes for ever; killed at any moment, a party asked again either sends what it had kept or, if
nothing had left, finishes what it had paid for.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from confrere.arrays import Floats
from confrere.data.cells import Coded
from confrere.data.encoding import SchemaEncoder
from confrere.data.tables import check_engine
from confrere.errors import (
    ApprovalRefused,
    CompositionError,
    FederationError,
    InvalidData,
    InvalidParameter,
    LedgerError,
    OperationRefused,
    StudyError,
    Unpaid,
)
from confrere.files import read_plain, shared_storage, write_new
from confrere.kernel.guarantee import Guarantee, Neighbours, Unit, exact
from confrere.kernel.ledger import Origin, canonical
from confrere.kernel.release import NoiseKey, Ticket, free_ticket, mac, paying
from confrere.ledger import ChargeApproval, Ledger, Limit, Receipt
from confrere.ledger.witness import witness_folder
from confrere.methods.sums import check_try
from confrere.release.signing import PrivateKey, PublicKey, sign_bytes, verify_bytes
from confrere.simulation import Seed, SeededSource
from confrere.trust import OWN_NOISE
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.masks import Masking, Masks, SumContext
from confrere_federation.parties.messages import (
    Array,
    Arrays,
    PartyError,
    Payload,
    Question,
    Values,
    receipt_of,
)
from confrere_federation.parties.requests import OPERATIONS, Operation, RawRows, SumOperation

FORMAT: Literal["confrere-approval/2"] = "confrere-approval/2"
NAMESPACE = "confrere-approval"

_LARGEST_FILE = 1 << 22

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
LongText = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Epsilon = Annotated[float, Field(gt=0, lt=float("inf"), allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class Stated(BaseModel):
    """Facts that are stated whole, checked when made, and do not change after."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Request(Stated):
    """One question that a party may be asked, as far as it is known beforehand."""

    operation: Name
    step: Annotated[int, Field(ge=0)]  #: Which time in the run
    #: What answering costs, 0 where only public facts leave; ``derived``, an example within a run's
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Delta = 0.0
    #: What a question must have: plain values, and arrays by the hash of their bytes
    values: Values = {}
    #: Values and arrays that the party computes itself from what others have signed
    derived: tuple[str, ...] = ()
    #: How many times in the run, from ``step`` on, for one price together
    steps: Annotated[int, Field(ge=1)] = 1

    def is_about(self, operation: str, step: int) -> bool:
        return operation == self.operation and self.step <= step < self.step + self.steps


class Policy(Stated):
    """What serving enforces; what is not in it is refused before anything is spent."""

    operations: frozenset[str]  #: What is answered
    #: Whose data an answer's guarantee must hide, against which change. There are no defaults: a
    #: policy that does not say whom it protects answers nothing.
    unit: Unit
    neighbours: Neighbours
    #: The most that one run may spend. The lifetime cap is the ledger account's.
    epsilon_per_run: Epsilon | None = None
    #: The most that one answer may spend of it; of all answers, what the account's cap allows.
    delta_per_answer: Delta | None = None
    #: Hash of the study (or fingerprint of the schema) that questions must be about.
    study: str | None = None
    study_id: str | None = None  #: What people call it, for the ledger
    approval: ChargeApproval | None = None  #: Who agreed, and why, for the ledger
    #: Who must be trusted, for the ledger; the requests say which sums may be asked for.
    trust: str | None = None
    runs: frozenset[str] | None = None  #: The only runs that are answered
    requests: tuple[Request, ...] | None = None  #: The only questions that are answered

    def __init__(self, **facts: object) -> None:
        try:
            super().__init__(**facts)
        except ValidationError as error:
            raise InvalidParameter(f"policy: {first_fault(error)}") from None

    @classmethod
    def anything(cls, *, unit: Unit, neighbours: Neighbours, **facts: object) -> Policy:
        """Allow whatever is installed, for one unit and relation: for simulations."""
        return cls(operations=frozenset(OPERATIONS), unit=unit, neighbours=neighbours, **facts)

    def check(self, operation: str, step: int) -> None:
        """Refuse what was not agreed to; what is in a request the party derives itself."""
        if operation not in self.operations:
            raise OperationRefused("the operation is not allowed here.", "operation")
        if self.requests is None:
            return
        if not any(request.is_about(operation, step) for request in self.requests):
            raise OperationRefused("this step was not agreed to.", "step")

    def check_cost(self, price: Guarantee | None) -> None:
        """Refuse a promise about another unit or relation, or a delta that was not agreed to."""
        if price is None:
            # Sizes leave as public facts: they are not where a record may come or go, nor where
            # all rows of a party, and how many they are, may change.
            if self.unit is not Unit.RECORD or self.neighbours is Neighbours.ADD_REMOVE:
                raise OperationRefused("the number of records is not public here.", "relation")
        elif price.neighbours is not self.neighbours:
            raise OperationRefused("the relation is not the one that was agreed to.", "relation")
        elif price.unit is not self.unit:
            raise OperationRefused("the unit is not the one that was agreed to.", "unit")
        elif self.delta_per_answer is not None and price.delta > self.delta_per_answer:
            raise OperationRefused("the delta is more than was agreed to.", "price")


class SignedApproval(Stated):
    """A party's word, signed: what it will answer, once, at which price."""

    format: Literal["confrere-approval/2"] = FORMAT  #: The version of this file
    party: Name  #: Who agrees, and which account of its ledger pays
    account: Text
    study_id: Name  #: The study; the hash is of the file's bytes
    study_sha256: Digest
    requests: Annotated[tuple[Request, ...], Field(min_length=1)]  #: What may be asked in a run
    unit: Unit  #: Whom every answer protects, and against which change
    relation: Neighbours
    #: Who must be trusted for that: see :class:`~confrere.trust.Trust`
    trust: Name = str(OWN_NOISE)
    epsilon_per_run: Epsilon  #: What one run costs
    delta_per_run: Delta
    attempts: Annotated[int, Field(ge=1, le=100)]  #: How many runs there may be; each pays anew
    expires: AwareDatetime  #: When the party's word ends
    approved_by: Text  #: Who agreed, and why
    reason: Text
    approved_at: AwareDatetime
    justification: LongText | None = None  #: Why this epsilon

    @model_validator(mode="after")
    def _a_run_covers_its_requests(self) -> Self:
        epsilon, delta = (
            sum(exact(getattr(one, name)) for one in self.requests) for name in ("epsilon", "delta")
        )
        if epsilon > exact(self.epsilon_per_run) or delta > exact(self.delta_per_run):
            raise ValueError("a run costs less than what the requests cost together")
        return self

    @property
    def epsilon(self) -> float:
        """What all attempts may cost together."""
        return float(self.attempts * exact(self.epsilon_per_run))

    @property
    def delta(self) -> float:
        return float(self.attempts * exact(self.delta_per_run))

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(run_name(self.study_sha256, k + 1) for k in range(self.attempts))

    @property
    def approval(self) -> ChargeApproval:
        return ChargeApproval(
            name=self.approved_by,
            reason=self.reason,
            time=self.approved_at.astimezone(UTC).isoformat(timespec="seconds"),
            justification=self.justification,
        )

    @property
    def policy(self) -> Policy:
        shared = ("unit", "epsilon_per_run", "study_id", "approval", "trust", "requests")
        return Policy(
            operations=frozenset(request.operation for request in self.requests),
            neighbours=self.relation,
            delta_per_answer=self.delta_per_run,
            study=self.study_sha256,
            runs=frozenset(self.runs),
            **{name: getattr(self, name) for name in shared},
        )

    def check(self, *, now: datetime | None = None) -> None:
        if (now or datetime.now(UTC)) >= self.expires:
            raise OperationRefused(
                "the approval's time is over; approve the study again.", "expired"
            )

    def document(self, key: PrivateKey, study: bytes | None = None) -> bytes:
        """Return the file: the approval and the party's signature over its canonical bytes.

        With the study's own text in it, whose hash the approval holds, it can be read for ever what
        was agreed to.
        """
        facts = self.model_dump(mode="json")
        signature = sign_bytes(canonical(facts).encode(), key, namespace=NAMESPACE).decode()
        document = {"approval": facts, "signature": signature}
        if study is not None:
            document["study"] = study.decode()
        return (json.dumps(document, indent=2) + "\n").encode()

    @classmethod
    def read(cls, content: bytes, key: PublicKey) -> Self:
        """Read what :meth:`document` wrote and the owner of ``key`` signed.

        Raises ApprovalRefused if it is none, or was changed. It names the key of the file, never a
        value; SignatureError if somebody else signed it, or nobody.
        """
        try:
            document = json.loads(content)
            facts, signature = document["approval"], document["signature"].encode("ascii")
            signed = canonical(facts).encode()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ApprovalRefused("approval: not a file that confrere approve wrote.") from None
        verify_bytes(signature, signed, key, namespace=NAMESPACE)
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            raise ApprovalRefused(f"approval: {first_fault(error)}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str], key: PublicKey) -> Self:
        try:
            content = read_plain(Path(path), _LARGEST_FILE, links=True)
        except OSError as error:
            raise ApprovalRefused(
                f"approval: {Path(path).name} cannot be read ({error.strerror}); "
                "write one with confrere approve."
            ) from None
        return cls.read(content or b"", key)


def run_name(study_sha256: str, attempt: int = 1) -> str:
    """Return the name of a study's run: the same for everyone, and one per attempt."""
    return f"{study_sha256[:48]}-{attempt}"


def digests(payload: Payload) -> dict[str, str]:
    """Return the hash of every array's type, shape and bytes."""
    heads = {n: json.dumps([a.dtype.str, list(a.shape)]) for n, a in payload.arrays.items()}
    return {
        name: hashlib.sha256(heads[name].encode() + array.tobytes()).hexdigest()
        for name, array in payload.arrays.items()
    }


def first_fault(error: ValidationError) -> str:
    """Return the first thing that is wrong: the key and what is wrong with it, never a value."""
    fault, *_ = error.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(part) for part in fault["loc"])
    what = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {what}." if where else f"{what}."


#: Until when rows are kept that no approval with an end needs, in seconds: for good.
_NEVER = 4e9


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of one data set. Use :meth:`at`."""

    secret: bytes = field(repr=False)
    folder: Path
    name: str = "1"  #: Of the one that is paid for now
    until: datetime | None = None  #: When the approval ends that it is needed for
    _held: dict[Path, tuple[Arrays, bytes]] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, secret: Path, folder: Path, name: str = "1", until: datetime | None = None) -> Self:
        """Return them, with a secret of its own at the first start; what has ended is removed."""
        try:
            for place in (secret.parent, folder):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                write_new(secret, os.urandom(32))
            found = read_plain(secret, 32)
            for one in folder.glob("*.npz"):
                if one.stat().st_mtime < time.time():
                    os.truncate(one, 0)  # its name stays used
        except OSError as error:
            raise FederationError(f"{folder}: cannot be used ({error.strerror}).") from None
        if found is None or len(found) != 32:
            raise FederationError(f"{secret}: this is not the secret of a party's noise.")
        return cls(found, folder, name, until)

    def settled(
        self, party: LocalParty, study: str | None, *, paid: bool
    ) -> tuple[LocalParty, bytes]:
        """Return the party with the rows of the snapshot, and their keyed digest.

        They are those that it has now, if a study pays for them for the first time. Where the
        question was ``paid`` for, they must be there.

        Raises OperationRefused if they are gone.
        """
        encoding = "" if party.encoding is None else canonical(party.encoding)
        told = (part.encode() for part in (self.name, party.name, study or "", encoding))
        place = self.folder / f"{self.name}-{mac(self.secret, b'snapshot', *told).hex()[:32]}.npz"
        if place not in self._held:
            if not (paid or place.exists()):
                with suppress(FileExistsError):
                    write_new(place, lambda file: self._write(file, _arrays(party)))
            arrays = self._read(place)
            # Tables are public; a changed map of the same codes has other noise by them.
            tables = party.X.tables if isinstance(party.X, Coded) else ()
            whole = {f"table{k}": one for k, one in enumerate(tables)} | arrays
            parts = [part for name, one in whole.items() for part in _told(name, one)]
            self._held[place] = arrays, mac(self.secret, b"rows", *parts)
        arrays, digest = self._held[place]
        return _with(party, arrays), digest

    @property
    def _ends(self) -> float:
        return _NEVER if self.until is None else self.until.timestamp()

    def _write(self, file: IO[bytes], arrays: Arrays) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.utime(file.fileno(), (self._ends, self._ends))

    def _read(self, place: Path) -> Arrays:
        if not place.exists() or not place.stat().st_size:
            raise OperationRefused(
                f"the rows of snapshot {self.name!r} are not here any more; what was paid for is "
                "answered from them, or not at all. Name a new snapshot.",
                "snapshot",
            )
        if self._ends > place.stat().st_mtime:  # another approval needs them for longer
            os.utime(place, (self._ends, self._ends))
        with np.load(place, allow_pickle=False) as found:
            return dict(found)


def _codes(X: Floats | Coded) -> list[Array]:
    if not isinstance(X, Coded):
        return [X]
    shrink = [] if X.shrink is None else [np.asarray(X.shrink)]
    return [*map(np.asarray, X.codes), *shrink]


def _arrays(party: LocalParty) -> Arrays:
    """Return all that answers are made of; rows in an order that is their own."""
    codes = [*_codes(party.X), party.y]
    order = np.lexsort([column for one in codes for column in np.atleast_2d(one.T)])
    arrays = {f"rows{k}": one[order] for k, one in enumerate(codes)}
    if party.raw is not None:
        arrays |= {"sums": party.raw.sums}
    return arrays


def _with(party: LocalParty, arrays: Arrays) -> LocalParty:
    """Return a party whose answers are made of these."""
    *codes, y = (one for name, one in arrays.items() if name.startswith("rows"))
    if len(codes) != len(_codes(party.X)):
        raise FederationError("the rows of the snapshot were kept by another version of confrere.")
    left = iter(codes)
    X = party.X.kept(lambda _: next(left)) if isinstance(party.X, Coded) else codes[0]
    raw = party.raw and replace(party.raw, sums=arrays["sums"])
    return replace(party, X=X, y=y, raw=raw)


def _told(name: str, array: Array) -> tuple[bytes, bytes, bytes]:
    return name.encode(), f"{array.dtype.str} {array.shape}".encode(), array.tobytes()


@dataclass(frozen=True, kw_only=True)
class PartyAccounts:
    """Who pays, what is allowed, and what was answered."""

    ledger: Ledger  #: Charged before any noise is drawn
    policy: Policy  #: What is agreed to: what is answered, and for which unit and relation
    account: str | None = None  #: The account in the ledger
    #: The file that every answer is in before it leaves; a temporary one by default.
    answers: Answers = field(default_factory=Answers)
    #: A cap on all that may ever be spent on these data, besides the account's own.
    limit: Limit | None = None
    #: What its noise follows from, and which rows are paid for: between machines. Where one
    #: process has all parties, noise is the system's.
    snapshots: Snapshots | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger) or not isinstance(self.policy, Policy):
            raise InvalidParameter(
                "books need a ledger to charge, and a policy that says what is answered, and for "
                "which unit and relation."
            )


@dataclass(frozen=True)
class LocalParty:
    """One organisation's side of a federation."""

    name: str  #: What others call it
    X: Floats | Coded  #: Rows, encoded by the public schema; finite
    y: Floats  #: Labels -1 and +1; of more than two classes their codes, from 0
    books: PartyAccounts
    random_state: Seed | None = None
    masking: Masking | None = None  #: Its keys, for sums that nobody sees into
    n_classes: int = 2
    engine: str | None = None  #: Who reads its rows, where an answer takes many passes over them
    raw: RawRows | None = None  #: What it can count, for a table of the cohort
    #: From an encoder to its rows and labels, encoded by it, where that is known only in the run.
    encode: Callable[[SchemaEncoder], tuple[Floats | Coded, Floats]] | None = None
    encoding: Values | None = None

    def __post_init__(self) -> None:
        if self.engine is not None:
            check_engine(self.engine, "engine")
        _check_name(self.name)
        X = self.X if isinstance(self.X, Coded) else np.asarray(self.X, dtype=np.float64)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", np.asarray(self.y, dtype=np.float64))
        # Where nobody may know how many rows there are, there may be none.
        hidden = self.books.policy.neighbours == Neighbours.ADD_REMOVE
        _check_data(self.X, self.y, self.n_classes, least=0 if hidden else 1)

    def encoded_by(self, encoder: SchemaEncoder | None) -> LocalParty:
        """Return the party with rows as a question has them encoded; None, as they are."""
        if encoder is None:
            return self
        if self.encode is None:
            raise InvalidParameter("encode: this party cannot encode its rows anew.")
        wanted = encoder.told()
        if wanted == self.encoding:
            return self
        if not self._encoded or self._encoded[0][0] != wanted:  # a run has one encoding
            X, y = self.encode(encoder)  # both: a query may give rows in another order
            if len(y) != len(self.y):
                raise InvalidData("the table has changed since it was read; start the party again.")
            self._encoded[:] = [(wanted, replace(self, X=X, y=y, encoding=wanted))]
        return self._encoded[0][1]

    @cached_property
    def _encoded(self) -> list[tuple[Values, LocalParty]]:
        return []

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded, so that nothing may be released."""
        return self.random_state is not None

    @cached_property
    def _seeded(self) -> SeededSource | None:
        # A generator is asked once, so that asking for a stream has no side effects.
        return None if self.random_state is None else SeededSource(self.random_state)

    def simulation(self, operation: str, step: int) -> SeededSource | None:
        """Return the seeded stream of one answer, where noise is not real."""
        seeded = self._seeded
        return None if seeded is None else seeded.stream(operation, step).stream(self.name, 0)

    @property
    def codes(self) -> NDArray[np.intp]:
        return np.asarray(self.y > 0 if self.n_classes == 2 else self.y, dtype=np.intp)


def check_witness(ledger: Path, *, allowed: bool) -> str | None:
    """Return what to say of a witness that a restored volume would take back with its ledger.

    It is refused in services, which say that they are one by the environment variable
    ``CONFRERE_SERVICE``: an image, unit or manifest can give the witness a mount of its own, and
    somebody who tries it out need not.
    """
    witness = witness_folder()
    shared = shared_storage(ledger.parent, witness)
    if shared is None:
        return None
    text = (
        f"the ledger ({ledger.parent}) and its witness ({witness}) are on one {shared}: whoever "
        "puts back a copy of it puts back both, what was spent since is forgotten, and nothing "
        "notices. Name a folder on another mount in CONFRERE_WITNESS"
    )
    if shared == "mount" and os.environ.get("CONFRERE_SERVICE") and not allowed:
        raise StudyError(f"{text}, or say --same-mount. Nothing was spent.").hinting(
            "mount another disk or volume, and name it: CONFRERE_WITNESS=/var/lib/confrere-witness"
        )
    return text


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise InvalidParameter("a party's name must be a printable text of 1 to 64 characters.")


def _check_data(X: Floats | Coded, y: Floats, n_classes: int = 2, least: int = 1) -> None:
    # Checked when a party is set up, so that no question can find it out.
    if len(X.shape) != 2 or X.shape[0] < least or X.shape[1] < 1 or y.shape[:1] != X.shape[:1]:
        raise InvalidData("X needs rows and columns, and y one label per row.")
    # In parts: the rows may be larger than memory.
    parts = range(0, len(X) if isinstance(X, np.ndarray) else 0, 65_536)
    if not all(np.isfinite(X[i : i + 65_536]).all() for i in parts):
        raise InvalidData("X must be finite; encode missing values by a PublicSchema.")
    if n_classes == 2 and not np.all(np.abs(y) == 1):
        raise InvalidData("y must be -1 or +1.")
    if n_classes > 2 and not np.all(np.isin(y, np.arange(n_classes))):
        raise InvalidData("y must be codes of the declared classes, from 0.")


_MAX_STEP = 1_000_000

logger = logging.getLogger("confrere_federation.parties")


def serve(
    asked: Operation,
    local: LocalParty,
    *,
    run: str,
    study: str | None = None,
    step: int = 0,
    roster: dict[str, str] | None = None,
) -> Payload:
    """Answer a request in a run, or refuse it; all else is as :class:`Question` has it."""
    question = Question(run, study, asked.operation, asked.payload, step, roster)
    return answer(question, asked, local)


def answer(question: Question, asked: Operation, local: LocalParty) -> Payload:
    """Answer one question, or refuse it.

    ``asked`` is what it is about, as the party itself derives it: what follows from the study. What
    is returned has the released arrays, the ledger's receipt (None if only public facts leave), its
    head, and which question of whose is answered: what a party signs.

    Raises OperationRefused if the policy says no, InvalidMessage if the request is wrong,
    BudgetExceeded if the account does not cover the price. Nothing was spent then.
    """
    policy, answers = local.books.policy, local.books.answers
    check_agreed(question, local.books)
    policy.check(question.operation, question.step)
    local = local.encoded_by(asked.encoder(len(local.y)))  # what cannot be read is not charged
    asked.check(local)
    price = asked.response(len(local.y)).guarantee
    policy.check_cost(price)
    key = Key(question.run, asked.slot or question.operation, question.step)
    summed = asked if isinstance(asked, SumOperation) else None
    if (summed is None) is not (question.roster is None):
        raise OperationRefused("a sum, and nothing else, has a roster of signed keys.", "roster")
    if summed is not None:
        check_try(summed.mechanism, question.step)
        if question.asks_ready:
            return _ready(question, key, local)
    claim = answers.claim(
        key,
        question=question.digest,
        epsilon=0.0 if price is None else price.epsilon,
        cap=policy.epsilon_per_run,
        once=summed is not None,
    )
    if claim.failure is not None:
        raise FederationError(
            f"{question.operation} failed before ({claim.failure}); it is not repeated."
        ).hinting("another run is paid for anew: --attempt 2")
    if claim.answer is not None:
        return _sent(claim.answer, local, key, asked, again=True)
    with ExitStack() as stack:
        try:
            masks = None if summed is None else _masks(question, summed, local)
            local, ticket = _paid(question, asked, key, price, local, stack)
            receipt = None if price is None else ticket.receipt
            if summed is not None and receipt is not None:
                _recognise(receipt, local, key)
        except Unpaid:
            # Another thread or process of this party has just answered: its bytes are the answer.
            kept = answers.answer_to(key)
            if kept is None:
                raise
            return _sent(kept, local, key, asked, again=True)
        except (LedgerError, CompositionError, OperationRefused):
            answers.withdraw(key)  # nothing was paid for this answer
            raise
        try:
            made = asked.answer(local, ticket)
            if masks is not None:  # what is kept and sent; the rest is forgotten
                made = {"masked": masks.hide(made["masked"].view(np.uint64)).view(np.int64)}
            kept = answers.keep(key, _signable(made, receipt, local, question).encode())
        except Exception as error:
            code = PartyError.of(error).code
            earlier = answers.fail(key, code)
            if earlier is None:
                logger.warning("%s: run %s, %s step %d failed (%s)", local.name, *key, code)
                raise
            kept = earlier  # another process of this party had answered meanwhile
        return _sent(kept, local, key, asked, again=False)


def check_agreed(question: Question, books: PartyAccounts) -> None:
    """Refuse a question of a study or run that nobody here has agreed to, whatever it asks."""
    policy = books.policy
    if question.study != policy.study:
        raise OperationRefused("the question is about another study or schema.", "study")
    if question.study is not None:  # a no holds for what is free, and for what was paid, too
        books.ledger.check_agreed(question.study, policy.approval)
    if not 0 <= question.step <= _MAX_STEP:
        raise OperationRefused(f"step must be an int from 0 to {_MAX_STEP}.", "step")
    if policy.runs is not None and question.run not in policy.runs:
        raise OperationRefused("the run is not one that was agreed to.", "run")


def _ready(question: Question, key: Key, local: LocalParty) -> Payload:
    """Say that one is ready for a sum: a key that is good for it alone, and not kept on disk."""
    if key in local.books.answers.asked():
        raise OperationRefused("this try of the run is over; take the next one.", "repeated")
    word = _masking(local).ready(sum_context(question))
    return _signable({"announcement": np.frombuffer(word, np.uint8)}, None, local, question)


def _masks(question: Question, asked: SumOperation, local: LocalParty) -> Masks:
    """Agree on masks with everybody whom the question says to be in the sum."""
    try:
        roster = {name: bytes.fromhex(told) for name, told in question.keys.items()}
    except ValueError:
        raise OperationRefused("a key for this sum, or its signature, is none.", "roster") from None
    fewest, most = asked.mechanism.fewest, asked.mechanism.n_parties
    return _masking(local).agree(sum_context(question), roster, fewest=fewest, most=most)


def sum_context(question: Question) -> SumContext:
    """Return what names a try: the question as all were asked it, not as each one derives it.

    Machines whose last bits differ derive one that is another by these.
    """
    key = Key(question.run, question.operation, question.step)
    return SumContext(study=question.study or "", question=question.payload.digest, key=key)


def _masking(local: LocalParty) -> Masking:
    if local.masking is None:
        raise OperationRefused("this party has no identity to sign a key with.", "identity")
    return local.masking


def _paid(
    question: Question,
    asked: Operation,
    key: Key,
    price: Guarantee | None,
    local: LocalParty,
    stack: ExitStack,  # Ends the payment
) -> tuple[LocalParty, Ticket]:
    """Pay for an answer, once per key; return the party with the rows that are paid for.

    Nothing is due for public facts. Sums are paid for once per run: by the first of them, for all.
    Their mechanism is named, so that another one is another charge, which the key refuses.
    """
    books, study = local.books, question.study
    simulation = local.simulation(question.operation, question.step)
    if price is None:
        return local, free_ticket(simulation)
    summed = isinstance(asked, SumOperation)
    told = [local.name, *map(str, key[:2] if summed else key)]
    charge = hashlib.sha256("\n".join(told).encode()).hexdigest()
    noise = None
    if books.snapshots is not None and not local.simulated:
        local, noise = _settled(question, asked, books.snapshots, local, charge)
    paid = paying(
        books.ledger,
        books.account,
        price,
        key=charge,
        purpose=f"answer {key.operation} in a federation",
        event=asked.mechanism.event() if isinstance(asked, SumOperation) else None,
        origin=Origin(
            run=key.run,
            party=local.name,
            step=None if summed else key.step,
            trust=books.policy.trust,
        ),
        simulation=simulation,
        study=None if study is None else (books.policy.study_id, study),
        approval=books.policy.approval,
        limit=books.limit,
        resumes=True,
        keyed=noise,
    )
    return local, stack.enter_context(paid)


def _settled(
    question: Question, asked: Operation, snapshots: Snapshots, local: LocalParty, charge: str
) -> tuple[LocalParty, NoiseKey]:
    """Return the party with the rows that are paid for, and what noise on an answer follows from.

    All that enters a value or its law is in it: equal noise on two values is their difference.
    The request holds the statistic, norm, loss, ridge, centre, epsilon, delta, relation, declared
    sizes and tries; the study's hash stands for schema, outcome, columns and units. In a sum a
    party's part is drawn for one try of one run among one roster: of two rosters the difference
    would be its part under one share. Masks are not drawn from it, and stay fresh.
    """
    settled, rows = snapshots.settled(local, question.study, paid=local.books.ledger.paid(charge))
    policy = local.books.policy
    told_sizes = (policy.unit, policy.neighbours) == (Unit.RECORD, Neighbours.REPLACE_ONE)
    if told_sizes and len(settled.y) != len(local.y):
        raise OperationRefused(
            f"snapshot {snapshots.name!r} has another number of rows than the table has now; name "
            "a new one.",
            "snapshot",
        )
    told = [local.name, snapshots.name, question.study or "", asked.operation]
    about = [part.encode() for part in told] + [rows, str(local.n_classes).encode()]
    request = asked.payload.encode()
    if not isinstance(asked, SumOperation):
        return settled, NoiseKey(snapshots.secret, [b"own noise", *about, request])
    masking, made = _masking(local), asked.mechanism
    own = masking.identity.public_key().public_bytes_raw()
    others = (masking.identities[name] for name in question.keys)
    numbers = f"try {question.step} shares {made.parts} fewest {made.fewest}".encode()
    drawn = [request, numbers, own, *sorted(one.public_bytes_raw() for one in others)]
    return settled, NoiseKey(snapshots.secret, [b"sum", question.run.encode(), *about], drawn)


def _recognise(receipt: Receipt, local: LocalParty, key: Key) -> None:
    """Refuse another sum of a run whose earlier ones the answer file does not know any more.

    One charge pays for so many sums, and only that file tells which tries were used: put back from
    a copy, it would let noise be drawn again for nothing. The ledger names what has left.
    """
    kept = local.books.answers.kept(key.run)
    known = {Payload.decode(one).digest for (slot, _), one in kept.items() if slot == key.operation}
    # What failed after its draw has left nothing: "draw 2" is a note of the kernel's.
    noted = local.books.ledger.entry(receipt).models
    if not known.issuperset(one for one in noted if not one.startswith("draw ")):
        raise OperationRefused(
            "the ledger knows sums of this run that the answer file does not: was it restored from "
            "a copy? Bring back the newest one, or agree to a new run.",
            "repeated",
        )


def _signable(
    arrays: Mapping[str, Array], receipt: Receipt | None, local: LocalParty, question: Question
) -> Payload:
    """Put with the arrays what a signature is to cover: receipt, ledger's head, and the question.

    The head is the one of the moment: that of the charge, where there is one.
    """
    head = local.books.ledger.head() if receipt is None else receipt.hash
    paid = None if receipt is None else receipt.to_dict()
    about = question.about(local.name)
    return Payload({"receipt": paid, "head": head, "about": about}, arrays)


def _sent(content: bytes, local: LocalParty, key: Key, asked: Operation, *, again: bool) -> Payload:
    answer, ledger = Payload.decode(content), local.books.ledger
    receipt = receipt_of(answer)
    if receipt is not None:
        # Marking twice is harmless, and a kill may have come between keeping and marking. One
        # charge for several sums has no one digest.
        summed = isinstance(asked, SumOperation)
        ledger.mark_released(receipt, digest=None if summed else answer.digest)
        if summed:
            ledger.note_model(receipt, digest=answer.digest)
    logger.info(
        "%s: run %s, %s step %d %s, %s, digest %s",
        local.name,
        *key,
        "sent again" if again else "leaves",
        "nothing charged" if receipt is None else f"ledger row {receipt.row}",
        answer.digest[:16],
    )
    return answer
