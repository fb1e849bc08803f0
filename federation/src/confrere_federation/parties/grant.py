"""What a party agrees to: a policy that serving enforces, and the signed grant that it comes from.

A grant is one file. It says which study, which requests (as the party derived them from its own
copy of the study), under which relation and unit, at which total price, in how many runs, until
when, who approved it and why; and the party's own key signs it. A run's name follows from the
study's hash and the number of the attempt, so there are as many runs as attempts and no more.

**What is fixed and what is derived.** A request's values and arrays are either the same whatever
anybody answers (operation, step, epsilon, relation, cap, coordinates): the grant holds
them, and a question must have the same. Or they follow from earlier answers (a ridge that depends
on how many records all have, a centre that is the last round's average): the grant names them, and
before it answers the party computes them itself, from the answers that the other parties signed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from confrere.errors import GrantRefused, InvalidParameter, OperationRefused
from confrere.kernel.guarantee import Guarantee, Neighbours, Unit, exact
from confrere.ledger import ChargeApproval
from confrere.release.signing import PrivateKey, PublicKey, sign_bytes, verify_bytes
from confrere.trust import OWN_NOISE
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.requests import OPERATIONS

FORMAT: Literal["confrere-grant/1"] = "confrere-grant/1"
NAMESPACE = "confrere-grant"

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
    #: What answering costs; 0 where only public facts leave
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Delta = 0.0
    values: dict[str, Any] = {}  #: Plain values that a question must have, exactly
    arrays: dict[str, Digest] = {}  #: Arrays that it must have, by the hash of their bytes
    #: Values and arrays that the party computes itself from what others have signed
    derived: tuple[str, ...] = ()
    #: Values that the coordinator may choose: names that mean nothing to the data
    chosen: tuple[str, ...] = ()
    #: How many times in the run, from ``step`` on, for one price together
    steps: Annotated[int, Field(ge=1)] = 1

    def is_about(self, operation: str, step: int) -> bool:
        """Whether it is this question that it speaks of."""
        return operation == self.operation and self.step <= step < self.step + self.steps

    def admits(self, payload: Payload) -> bool:
        """Whether a question has what is fixed, and beside it only what may differ."""
        loose = {*self.derived, *self.chosen}
        values = {name: v for name, v in payload.values.items() if name not in loose}
        arrays = {n: array_digest(a) for n, a in payload.arrays.items() if n not in loose}
        return values == self.values and arrays == self.arrays


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

    def __init__(self, **facts: Any) -> None:
        try:
            super().__init__(**facts)
        except ValidationError as error:
            raise InvalidParameter(f"policy: {first_fault(error)}") from None

    @classmethod
    def anything(cls, *, unit: Unit, neighbours: Neighbours, **facts: Any) -> Policy:
        """Allow whatever is installed, for one unit and relation: for simulations."""
        return cls(operations=frozenset(OPERATIONS), unit=unit, neighbours=neighbours, **facts)

    def check(self, operation: str, step: int, payload: Payload, run: str) -> None:
        """Refuse a question that is not agreed to, whatever it costs."""
        if operation not in self.operations:
            raise OperationRefused("the operation is not allowed here.", "operation")
        if self.runs is not None and run not in self.runs:
            raise OperationRefused("the run is not one that was agreed to.", "run")
        if self.requests is None:
            return
        known = [r for r in self.requests if r.is_about(operation, step)]
        if not known:
            raise OperationRefused("this step was not agreed to.", "step")
        if not any(request.admits(payload) for request in known):
            raise OperationRefused("the request is not the one that was agreed to.", "request")

    def check_price(self, price: Guarantee | None) -> None:
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


class Grant(Stated):
    """A party's word, signed: what it will answer, once, at which price."""

    format: Literal["confrere-grant/1"] = FORMAT  #: The version of this file
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
    epsilon: Epsilon  #: What all attempts may cost together
    delta: Delta
    attempts: Annotated[int, Field(ge=1, le=100)]  #: How many runs there may be; each pays anew
    expires: datetime  #: When the party's word ends
    approved_by: Text  #: Who agreed, and why
    reason: Text
    approved_at: datetime
    justification: LongText | None = None  #: Why this epsilon

    @model_validator(mode="after")
    def _totals_add_up(self) -> Self:
        per_run = sum((exact(request.epsilon) for request in self.requests), exact(0.0))
        if per_run > exact(self.epsilon_per_run):
            raise ValueError("epsilon_per_run is less than what the requests cost together")
        if sum(exact(request.delta) for request in self.requests) > exact(self.delta_per_run):
            raise ValueError("delta_per_run is less than what the requests cost together")
        if exact(self.epsilon) != self.attempts * exact(self.epsilon_per_run):
            raise ValueError("epsilon must be attempts times epsilon_per_run")
        if exact(self.delta) != self.attempts * exact(self.delta_per_run):
            raise ValueError("delta must be attempts times delta_per_run")
        if self.expires.tzinfo is None or self.approved_at.tzinfo is None:
            raise ValueError("times need a time zone")
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs that it is good for."""
        return tuple(run_name(self.study_sha256, k + 1) for k in range(self.attempts))

    @property
    def approval(self) -> ChargeApproval:
        """Who agreed, and why: what every charge and the card say."""
        return ChargeApproval(
            name=self.approved_by,
            reason=self.reason,
            time=self.approved_at.astimezone(UTC).isoformat(timespec="seconds"),
            justification=self.justification,
        )

    @property
    def policy(self) -> Policy:
        """What serving enforces."""
        return Policy(
            operations=frozenset(request.operation for request in self.requests),
            unit=self.unit,
            neighbours=self.relation,
            epsilon_per_run=self.epsilon_per_run,
            delta_per_answer=self.delta_per_run,
            study=self.study_sha256,
            study_id=self.study_id,
            approval=self.approval,
            trust=self.trust,
            runs=frozenset(self.runs),
            requests=self.requests,
        )

    def check(self, *, now: datetime | None = None) -> None:
        """Refuse a grant whose time is over."""
        if (now or datetime.now(UTC)) >= self.expires:
            raise OperationRefused("the grant's time is over; approve the study again.", "expired")

    def document(self, key: PrivateKey, study: bytes | None = None) -> bytes:
        """Return the file: the grant and the party's signature over its canonical bytes.

        With the study's own text in it, whose hash the grant holds, it can be read for ever what
        was agreed to.
        """
        facts = self.model_dump(mode="json")
        signature = sign_bytes(_canonical(facts), key, namespace=NAMESPACE).decode()
        document = {"grant": facts, "signature": signature}
        if study is not None:
            document["study"] = study.decode()
        return (json.dumps(document, indent=2) + "\n").encode()

    @classmethod
    def read(cls, content: bytes, key: PublicKey) -> Self:
        """Read what :meth:`document` wrote and the owner of ``key`` signed.

        Raises GrantRefused if it is not a grant, or was changed. It names the key of the file,
        never a value; SignatureError if somebody else signed it, or nobody.
        """
        try:
            document = json.loads(content)
            facts, signature = document["grant"], document["signature"].encode("ascii")
            canonical = _canonical(facts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise GrantRefused("grant: not a file that confrere approve wrote.") from None
        verify_bytes(signature, canonical, key, namespace=NAMESPACE)
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            raise GrantRefused(f"grant: {first_fault(error)}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str], key: PublicKey) -> Self:
        """Read a file; see :meth:`read`."""
        try:
            with Path(path).open("rb") as stream:
                content = stream.read(_LARGEST_FILE + 1)
        except OSError as error:
            raise GrantRefused(
                f"grant: {Path(path).name} cannot be read ({error.strerror}); "
                "write one with confrere approve."
            ) from None
        if len(content) > _LARGEST_FILE:
            raise GrantRefused("grant: the file is too large to be a grant.")
        return cls.read(content, key)


def run_name(study_sha256: str, attempt: int = 1) -> str:
    """Return the name of a study's run: the same for everyone, and one per attempt."""
    return f"{study_sha256[:48]}-{attempt}"


def array_digest(array: Any) -> str:
    """Return the hash of an array's type, shape and bytes."""
    head = json.dumps([array.dtype.str, list(array.shape)]).encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


def first_fault(error: ValidationError) -> str:
    """Return the first thing that is wrong: the key and what is wrong with it, never a value."""
    fault: Mapping[str, Any] = error.errors(
        include_url=False, include_context=False, include_input=False
    )[0]
    where = ".".join(str(part) for part in fault["loc"])
    what = str(fault["msg"]).removeprefix("Value error, ")
    return f"{where}: {what}." if where else f"{what}."


def _canonical(facts: object) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
