"""The study file, which all organisations agree to; and a party's own side, never shared.

Files are read as typed tables: unknown keys are refused, and no error prints a value. An
organisation has one home, and a data set in it one ledger, to which every study adds::

    keys/  peers.toml  policy.toml  datasets.toml  studies/<study>/
    ledgers/<data set>.ledger  snapshots/<data set>/

Who the others are is established by people of the party: names and keys come from whoever wrote the
study, so a party takes part in a sum once its own people have compared enough fingerprints.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from confrere.assurance.cohort import ALL
from confrere.assurance.inference import Intervals, has_intervals, shared
from confrere.catalogue import Method, find_method
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import Outcome
from confrere.data.schema import PublicSchema, TooDeep, parse_bounded
from confrere.data.tables import Dialect, RowTable, Sql, open_table
from confrere.errors import (
    CalibrationError,
    InvalidData,
    InvalidParameter,
    OperationRefused,
    SchemaError,
    StudyError,
)
from confrere.files import read_plain, write_new, write_whole
from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours, Unit, check_relation
from confrere.ledger import Decision, LedgerReader
from confrere.methods.asking import colluders_of, fewest_of, quorum_of_sums
from confrere.methods.design import AddRemove
from confrere.methods.plan import Names
from confrere.release.signing import fingerprint, public_line, read_key_line, read_public_key
from confrere.trust import OWN_NOISE, Trust, TrustKind
from confrere_federation.parties.cohort import CohortProtocol
from confrere_federation.parties.messages import Values
from confrere_federation.parties.party import Snapshots
from confrere_federation.parties.requests import OPERATIONS, Operation, SumOperation

_LARGEST_FILE = 1 << 20
# Cards refuse the word; better to hear it before anything is spent.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)

#: What to do about a file that is not there.
_FIND = {
    "the study": "give the path of a study; confrere init FOLDER writes one to begin with",
    "the local file": "give the path of a party's local file: --local FILE",
}
_SAID = {
    "missing": "is missing; write it, docs/study.md says what it means",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "string_type": "must be one line of text",
    "string_too_long": "must have {max_length} characters at most",
    "string_pattern_mismatch": "must be letters, digits, '.', '_' or '-', 64 at most",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be a number above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} at most",
    "list_type": "must be a list",
    "too_short": "must have {min_length} at least",
    "model_type": "must be a table, {{ key = value }}",
    "model_attributes_type": "must be a table, {{ key = value }}",
    "dict_type": "must be a table, {{ key = value }}",
}


_AS_PYTHON = "leave it out: how rows are bounded follows from [data] and the method, as in Python"
#: Keys of other files and of earlier studies, in whatever table, and what to write instead.
INSTEAD = {
    "data_path": "this is a party's local file; give the study, and this one with --local",
    "schema": "this is a study; give a party's local file",
    "relation": "it is neighbours now, in [privacy]",
    "protects": "it is privacy_unit now",
    **dict.fromkeys(("encoding", "rows", "normalise", "clipping", "radius"), _AS_PYTHON),
    "high_fraction": "leave it out: the rows of the model over the groups follow from their number",
    "high_alpha": "leave it out: alpha is for the groups, and the model over them has its own",
    "prior_check": 'leave it out: a prior is checked where that pays; prior = "none" has none',
    "facts": 'learn them before, by method.name = "table1": its table1.toml is the [data] here',
    "evaluation": "measure a release with confrere evaluate, at every party",
}


def fault(what: str) -> PydanticCustomError:
    """Return the error that a validator raises: what is wrong, and no value."""
    return PydanticCustomError("said", "{what}", {"what": what})


class FileTable(BaseModel):
    """One table of a file: its keys and no others."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, values: object) -> object:
        if cls.model_config.get("extra") != "forbid" or not isinstance(values, Mapping):
            return values
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in values:
            if key not in known and key not in cls.model_fields:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}? It" if near else "it"
                hint = f"{INSTEAD[key]}. It" if key in INSTEAD else hint
                what = f"{key!r}; {hint} knows {', '.join(sorted(known))}"
                raise PydanticCustomError("unknown_key", "{what}", {"what": what})
        return values

    @classmethod
    def read(cls, values: object, what: str, **context: object) -> Self:
        """Check what a file holds.

        Raises StudyError: naming the key; of several faults, the first.
        """
        try:
            return cls.model_validate(values, context=context)
        except ValidationError as error:
            raise StudyError(first_fault(error, what, values)) from None


def first_fault(error: ValidationError, what: str, values: object = None) -> str:
    """Return the first fault: the key's path and what is wrong, never a value.

    A key that is missing may be there under a name that is nearly its own.
    """
    found = error.errors(include_url=False, include_input=False)[0]
    begins = "" if what == "the study" else f"{what}: "  # of other files there are several
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    where = where.removeprefix(".")
    context = found.get("ctx", {})
    if found["type"] == "unknown_key":
        told = f"{begins}[{where}]" if where else what
        return f"{told} does not know {context['what']}."
    said = context["what"] if found["type"] == "said" else None
    if said is None:
        said = _SAID.get(found["type"], "is not what belongs here").format(**context)
    if found["type"] == "missing":
        said += _misspelt(values, found["loc"])
    return f"{begins}{where}: {said}." if where else f"{what}: {said}."


def _misspelt(values: object, place: tuple[int | str, ...]) -> str:
    for part in place[:-1]:
        inside = dict(enumerate(values)) if isinstance(values, list) else values
        values = inside.get(part) if isinstance(inside, Mapping) else None
    keys = [str(key) for key in values] if isinstance(values, Mapping) else []
    near = get_close_matches(str(place[-1]), keys, n=1)
    return f"; did you write {near[0]!r} for it" if near else ""


def read_bytes(path: Path, what: str, largest: int = _LARGEST_FILE) -> bytes:
    """Return a file's content, or say that it cannot be read; a pipe is not waited for."""
    try:
        content = read_plain(path, largest, links=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        fault = StudyError(f"{what} {path.name!r} cannot be read: {reason}.")
        raise fault.hinting(_FIND.get(what, "give its path")) from None
    if content is None:
        told = f"{what} {path.name!r} is no file, or larger than {largest} bytes; is it the one?"
        raise StudyError(told)
    return content


def parse_toml(content: bytes, what: str) -> dict[str, object]:
    try:
        return parse_bounded(content.decode("utf-8"))
    except TooDeep as error:
        raise StudyError(f"{what} is not read: {error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise StudyError(f"{what} is not valid TOML: {told}.") from None


def parse_json(content: bytes, what: str) -> object:
    try:
        found: object = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        fault = StudyError(f"{what} is not valid JSON.")
        raise fault.hinting("is it the file? Ask who sent it for it again") from None
    return found


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise fault("must be one line of text")
    if _FORBIDDEN.search(text):
        raise fault("says anonymous; privacy here bounds a risk, say by how much")
    return text


def _public_key(line: str) -> str:
    try:
        read_key_line(line)
    except InvalidParameter:
        raise fault("must be a line 'ssh-ed25519 AAAA...'") from None
    return line


def _like(pattern: str, what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise fault(what)
        return text

    return AfterValidator(check)


def _number(value: object) -> object:
    """Let files write numbers as they like; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fault("must be a number")
    return float(value) if abs(value) < 2**53 else value


#: One printable line for people.
Text = Annotated[str, Field(max_length=200), AfterValidator(_one_line)]
#: What may name a party, a study or a release's folder.
Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), AfterValidator(_one_line)
]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1, allow_inf_nan=False)]
Delta = Annotated[float, BeforeValidator(_number), Field(ge=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, lt=2**53)]
Relation = Annotated[
    Neighbours,
    Field(strict=False),
    AfterValidator(lambda one: one if one in RELATIONS else check_relation(one, "neighbours")),
]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Digest = Annotated[str, _like("[0-9a-f]{64}", "must be a SHA-256: 64 of 0-9 and a-f")]
Fingerprint = Annotated[
    str, _like("SHA256:[A-Za-z0-9+/]{43}", "must be as confrere keys show prints it: 'SHA256:...'")
]
PublicKeyLine = Annotated[Text, AfterValidator(_public_key)]


Mode = Literal["private", "simulation"]
Engine = Literal["local", "line", "flare"]
Role = Literal["source", "member"]

#: How many lost sums a study pays for unless it says so: one party that is lost, or lies, must not
#: cost the others what they paid.
RESERVE = 1


class About(FileTable):
    """``[study]``: for people; a simulation's noise is seeded, its card can never be released."""

    id: Name
    title: Text
    purpose: Text
    mode: Mode = "private"


class PrivacyTable(FileTable):
    """Whom the study protects: ``[privacy]``."""

    #: Whose data every answer's guarantee hides: one record, or a whole party.
    privacy_unit: Annotated[Unit, Field(strict=False)]
    neighbours: Relation  #: Which change of the data it hides
    #: Where a record may come or go: a public number that stands for every party's own.
    records: Count | None = None
    unit: Text  #: What one record is about, for readers: "patient"
    #: Names the unit of every row; with it, surplus rows of a unit are dropped.
    unit_column: Text | None = None
    max_rows_per_unit: Count = 1  #: Rows of one unit at most
    parties_per_unit: Count = 1  #: Organisations in whose data one unit may be
    #: Why this epsilon, for those who approve it and for the card.
    justification: Text | None = None


TABLE1 = Method(
    name="table1",
    title="who the records are about: counts, means and shares (Table 1)",
    estimator=CohortProtocol,
    paper="this library",
    algorithm="",
    proof="docs/proofs/cohort.md",
    shape="table",
    operations=("cohort",),
    summed=("size", "cohort_of_all"),
)


def study_method(name: str) -> Method:
    """Return a method of the catalogue, or the table."""
    return TABLE1 if name.lower() == TABLE1.name else find_method(name)


class MethodTable(FileTable):
    """``[method]``: its name, what every party spends, and further arguments."""

    model_config = ConfigDict(extra="allow")

    name: Text
    epsilon: Positive

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            study_method(name)
        except InvalidParameter as error:
            raise fault(str(error).removeprefix("name: ").rstrip(".")) from None
        return name


class Cap(FileTable):
    epsilon: Positive | None = None
    delta: Delta = 0.0


class Party(FileTable):
    name: Name
    dataset: Name  #: What its data are called; where they lie is in its own local file
    role: Role = "member"  #: In a transfer, whose release the others start from
    cap: Cap = Cap()  #: Without a word about delta only pure methods are covered
    #: The public key that it signs approvals, answers and releases with: ``ssh-ed25519 AAAA...``.
    key: PublicKeyLine | None = None


class FederationTable(FileTable):
    """``[federation]``: what carries the questions, and the share of parties that must answer.

    By default all of them; in a sum of more than three parties all but one.
    """

    engine: Engine = "local"
    quorum: Share | None = None


class RandomTable(FileTable):
    split_seed: Seed = 0
    noise_seed: Seed | None = None


class AuxiliaryTable(FileTable):
    sha256: Digest


class StudyFile(FileTable):
    version: Literal[1] = Field(alias="schema")
    about: About = Field(alias="study")
    privacy: PrivacyTable
    data: dict[str, object]
    method: MethodTable
    parties: Annotated[list[Party], Field(min_length=1)] = Field(alias="party")
    federation: FederationTable = FederationTable()
    random: RandomTable = RandomTable()
    auxiliary: AuxiliaryTable | None = None

    @field_validator("version", mode="before")
    @classmethod
    def _this_version(cls, value: object) -> object:
        if type(value) is not int:
            raise fault("must be a whole number")
        if value != 1:
            raise fault("must be 1; another version wrote this study: begin anew by confrere init")
        return value


#: What the study decides by other tables, or what needs more than plain values.
RESERVED = frozenset(
    {
        *("epsilon", "budget", "random_state", "classes", "split_seed", "method", "source"),
        *("source_keys", "schema", "importance", "groups", "neighbours", "local", "on_faulty"),
    }
)

#: A number of rows to ask a cost with: a study's cost does not depend on it.
NOMINAL_ROWS = 10_000


def estimator_for(
    study: Study,
    method: Method,  # The study's own, or the one that makes its source
    **more: object,  # Further arguments, such as ``source``
) -> Any:
    told = {"schema": study.schema, "random_state": study.seed, **more}
    return method.make(**settings_for(study, method, **told))


def settings_for(study: Study, method: Method, **more: object) -> Values:
    """Return the arguments of ``method`` that the study decides, and ``more`` that it takes."""
    known = _arguments(method)
    wanted: Values = {
        "trust": study.trust,
        **study.parameters,
        "epsilon": shared(study.epsilon)[0] if study.has_intervals else study.epsilon,
        "classes": study.classes,
        "split_seed": study.file.random.split_seed,
    }
    if study.declared_records is not None:
        wanted["neighbours"] = AddRemove(study.declared_records)
    if study.adds_up:
        wanted["collusion_threshold"] = study.collusion_threshold
        wanted.setdefault("max_retries", RESERVE)
    return {name: value for name, value in (wanted | more).items() if name in known}


def cost_for(study: Study, model: Any, n_samples: int = NOMINAL_ROWS) -> Guarantee:
    """Return what one of the study's estimators costs each party, whatever its number of rows.

    In a schema's body their number decides whether a delta is spent: a study's cost has all of it.
    """
    shape, count = study.method.shape, len(study.parties)
    more = {"n_parties": count} if shape in ("together", "table") else {}
    sized = count if shape == "votes" else n_samples
    cost: Guarantee = model.privacy_cost(sized, **more)
    if study.has_intervals:
        cost = replace(cost, epsilon=study.epsilon)
    return replace(cost, delta=max(cost.delta, float(study.parameters.get("delta", 0.0))))


def check_parameters(study: Study) -> None:
    """Refuse wrong parameters by their name; touches no data.

    Raises StudyError: naming the key.
    """
    methods = [study.method] + ([find_method(study.method.source)] if study.method.source else [])
    known: dict[str, inspect.Parameter] = {}
    for method in methods:
        known |= {n: p for n, p in _arguments(method).items() if n not in RESERVED}
    for name, value in study.parameters.items():
        if name not in known:
            hint = INSTEAD.get(name) or study.method.estimator.instead_of(name, sorted(known))
            raise StudyError(
                f"method.{name}: {study.method.name} does not know it; {hint.rstrip('.')}."
            )
        # Whole numbers count groups, rounds or parties: reading a stranger's study takes no hour.
        most = 10**6 if type(known[name].default) is int else 1e12
        if isinstance(value, int | float) and not abs(value) <= most:
            raise StudyError(f"method.{name}: is too large; give a smaller number.")
        if name == "prior" and value not in ("auto", "experts", "none"):
            raise StudyError('method.prior: must be "auto", "experts" (the schema\'s) or "none".')
    for method in methods:
        try:
            model = estimator_for(study, method)
            method.check(model)
        except InvalidParameter as error:
            raise StudyError(f"method.{error}") from None
        if method.shape in ("transfer", "as-is"):
            continue  # its cost is asked once there is a source; the source's comes first
        try:
            cost = cost_for(study, model)
        except (InvalidParameter, InvalidData, CalibrationError) as error:
            raise StudyError(f"method: {error}") from None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise StudyError(f"method: a parameter is wrong ({type(error).__name__}).") from None
        told = study.privacy
        if (cost.unit, cost.neighbours) != (told.privacy_unit, told.neighbours):
            raise StudyError(
                f"privacy: {method.name} guarantees {cost.unit}, {cost.neighbours}; the study "
                f"says {told.privacy_unit}, {told.neighbours}. Change one of them."
            )


def _arguments(method: Method) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(method.estimator).parameters
    return {name: value for name, value in parameters.items() if name not in method.settings}


#: Whoever asks; no party has this name, under which kits and signatures of the asker lie.
COORDINATOR = "coordinator"
#: The file of a kit that says where that is.
ADDRESS = "address"


@dataclass(frozen=True)
class Study:
    """What all parties agreed to: the file, and what follows from it."""

    file: StudyFile
    content: bytes  #: Its bytes
    sha256: str  #: Their hash: in the plan, the ledger and the card
    schema: PublicSchema
    method: Method  #: From the catalogue
    # As the file says:
    id: str  #: Names the study and its output
    title: str  #: For people, as is its purpose
    purpose: str
    mode: Mode  #: Whether noise is private or seeded
    privacy: PrivacyTable  #: Whom it protects
    epsilon: float  #: What every party spends
    parameters: Mapping[str, Any]  #: Further arguments of the method
    parties: tuple[Party, ...]  #: Everyone in it
    engine: Engine  #: What carries the questions

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded."""
        return self.mode == "simulation"

    @cached_property
    def has_intervals(self) -> bool:
        """Whether coefficients have intervals, which a part of epsilon is for."""
        told = {"schema": self.schema, "epsilon": self.epsilon, **self.parameters}
        read = self.method.name == "plr" and self.declared_records is None
        return read and has_intervals(self.method, told)

    @property
    def joint(self) -> bool:
        """Whether one thing comes of it, which all make together."""
        return self.method.shape in ("together", "votes", "table")

    @property
    def quorum(self) -> float:
        """Share of the parties that must take part."""
        given = self.file.federation.quorum
        if given is not None or not self.adds_up:
            return 1.0 if given is None else given
        return self.quorum_of_sums

    @property
    def quorum_of_sums(self) -> float:
        """Share of the parties that must be in a sum."""
        given = self.file.federation.quorum
        return quorum_of_sums(len(self.payers)) if given is None else given

    @property
    def adds_up(self) -> bool:
        """Whether the method's answers are added up where nobody sees into the sum."""
        known = (OPERATIONS.get(one, Operation) for one in self.operations)
        return any(issubclass(one, SumOperation) for one in known)

    @property
    def collusion_threshold(self) -> int:
        """How many parties of a sum may pool what they know."""
        said = self.parameters.get("collusion_threshold", "auto")
        return colluders_of(said, len(self.payers), self.quorum_of_sums)

    @property
    def sources(self) -> tuple[Party, ...]:
        """In a transfer, the parties whose releases the others start from."""
        if self.method.shape not in ("transfer", "as-is"):
            return ()
        return tuple(party for party in self.parties if party.role == "source")

    @property
    def declared_records(self) -> int | None:
        """What stands for the number of records of a party, or of all that learn together."""
        one, together = self.privacy.records, self.method.shape == "together"
        return one * len(self.payers) if one and together else one

    @property
    def outcome(self) -> Outcome:
        """What is predicted."""
        assert self.schema.outcome is not None  # or it was refused
        return self.schema.outcome

    @cached_property
    def classes(self) -> list[object]:
        """The declared labels, sorted."""
        return list(self.outcome.labels)

    @property
    def n_classes(self) -> int:
        """How many labels are declared."""
        return len(self.classes)

    @property
    def payers(self) -> tuple[Party, ...]:
        """Whose data are learned from: where a release is used as it is, its makers' alone."""
        return self.sources if self.method.shape == "as-is" else self.parties

    @property
    def trust(self) -> str:
        """Who sees what parties of a vote send: nobody, unless the method or the study says so."""
        default = "sum" if self.method.summed else "coordinator"
        default = "own noise" if self.method.shape == "table" else default
        return str(self.parameters.get("trust", default))

    @property
    def operations(self) -> tuple[str, ...]:
        """What parties are asked, and their policies must allow."""
        by_sum = self.method.summed if self.trust == "sum" else ()
        known = by_sum or self.method.operations
        known += (Intervals.operation,) if self.has_intervals else ()
        return tuple(one for one in known if one != "size" or self.privacy.records is None)

    @property
    def peers_needed(self) -> int:
        """How many of the others a party must know, so that made-up ones hide nobody's absence."""
        count = len(self.payers)
        return min(count - 1, count - self.collusion_threshold) if self.adds_up else 0

    @property
    def seed(self) -> int | None:
        """In a simulation, the seed of all noise: a party's own is told apart by its name."""
        return (self.file.random.noise_seed or 0) if self.simulated else None

    def party(self, name: str) -> Party:
        """Return a party, or say which there are."""
        for party in self.parties:
            if party.name == name:
                return party
        names = ", ".join(party.name for party in self.parties)
        raise StudyError(f"there is no party {name!r} in the study; there is {names}.")

    @cached_property
    def encoder(self) -> SchemaEncoder:
        """The transformer from raw tables to rows of a ball."""
        return self.schema.encoder(weighted=self.schema.has_importances and self.method.weighted)

    def names(self, encoder: SchemaEncoder) -> Names:
        """Return labels, and columns as they are encoded."""
        return Names(tuple(self.classes), encoder.names)


def read_study(path: str | Path) -> Study:
    """Read and check a study file.

    Raises StudyError, naming the table and the key; SchemaError if facts of a column are wrong.
    """
    return study_from_bytes(read_bytes(Path(path), "the study"))


def study_from_bytes(content: bytes) -> Study:
    file = StudyFile.read(parse_toml(content, "the study"), "the study")
    schema = _schema(file.data)
    method = study_method(file.method.name)
    if schema.outcome is not None and not schema.outcome.labels:
        method = method.learning(schema.outcome)
    study = Study(
        file=file,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        schema=schema,
        method=method,
        privacy=file.privacy,
        epsilon=file.method.epsilon,
        parameters=dict(file.method.model_extra or {}),
        parties=tuple(file.parties),
        engine=file.federation.engine,
        **file.about.model_dump(),
    )
    for place, wrong, why in _refusals(study):
        if wrong:
            raise StudyError(f"{place}: {why}.")
    check_parameters(study)
    return study


def _refusals(study: Study) -> Iterator[tuple[str, object, str]]:
    """Yield what tables do not say of themselves: the key, whether it is wrong, and the words."""
    file, method, parties = study.file, study.method.name, study.parties
    shape, privacy = study.method.shape, study.privacy
    names = [party.name for party in parties]
    twice = next((name for name in names if names.count(name) > 1), "")
    yield "party.name", twice, f"{twice!r} is there twice; give every party a name of its own"
    asks = COORDINATOR in map(str.casefold, names)
    yield "party.name", asks, f"{COORDINATOR!r} is who asks; give the party another name"
    # A comment behind a key makes it no other key.
    keys = [(public_line(read_public_key(one.key)), one.name) for one in parties if one.key]
    alike = [[name for key, name in keys if key == one] for one, _ in keys]
    shared = next((f"{names[0]} and {names[1]}" for names in alike if len(names) > 1), "")
    yield (
        "party.key",
        shared,
        f"{shared} have the same key; whoever holds it would count as two. Every party makes its "
        "own: confrere keys request",
    )
    outcome = study.outcome
    count, sources = len(parties), len([one for one in parties if one.role == "source"])
    many = f"must be {count} at most, as many as there are parties"
    yield "privacy.parties_per_unit", privacy.parties_per_unit > count, many
    lone = shape in ("transfer", "as-is") and not 0 < sources < count
    yield "party.role", lone, f"{method} needs a party with role = 'source' and one without"
    seeded = file.random.noise_seed is not None and not study.simulated
    yield "random.noise_seed", seeded, "needs study.mode = 'simulation': seeds protect nobody"
    public = f"{method} learns from a file of public rows; give its sha256"
    yield "auxiliary", study.method.auxiliary and file.auxiliary is None, public
    useless = file.auxiliary is not None and not study.method.auxiliary
    yield "auxiliary", useless, f"{method} has no use for it; delete the table"
    hidden = privacy.neighbours is Neighbours.ADD_REMOVE
    wrong = hidden != (privacy.records is not None)
    why = "add it under add-remove, a public number for every party's own; elsewhere delete it"
    yield "privacy.records", wrong, why
    called = [*names, *map(str, outcome.names)]
    everybody = shape == "table" and ALL in called
    yield "party.name, data.label", everybody, f"{ALL!r} names everybody; call it otherwise"
    alone = shape == "table" and study.adds_up and count <= study.collusion_threshold
    yield "party", alone, "a sum needs more parties than may collude"


def _schema(facts: dict[str, object]) -> PublicSchema:
    try:
        schema = PublicSchema.from_dict(facts)
    except SchemaError as error:
        raise SchemaError(f"data: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"data: a fact is of the wrong kind ({type(error).__name__}).") from None
    if schema.outcome is None:
        raise StudyError("data.label: is missing; name the column that is to be predicted.")
    return schema


def trust_of(
    study: Study,
    # How many organisations' tables one process reads: whoever runs it sees more of the others
    # than any coordinator does.
    n_here: int = 1,
) -> Trust:
    voted = study.method.shape == "votes"
    if n_here > 1 or (voted and study.trust == "coordinator"):
        return Trust(TrustKind.COORDINATOR)
    if not study.adds_up:
        return OWN_NOISE
    return Trust.sum_of(study.collusion_threshold, len(study.payers))


def trust_words(study: Study, n_here: int = 1) -> str:
    """Return what that means, with the cost if all others work together, where it differs.

    Pure sums have a closed form of it: own noise makes it ``sqrt(10 M)`` times epsilon; that of a
    sum with a delta is on the card.
    """
    if n_here > 1:
        return f"one process reads the tables of {n_here} organisations; whoever runs it sees them"
    needed = trust_of(study)
    if needed.kind is not TrustKind.SUM or "delta" in study.parameters:
        return needed.words
    alone = math.sqrt(10 * needed.parties) * study.epsilon
    return f"{needed.words}; if all of them do, epsilon is at most {math.ceil(100 * alone) / 100:g}"


_POLICY, _DATASETS = "policy.toml", "datasets.toml"
_PEERS = "# Whose keys were compared by telephone.\n[peers]\n"
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def _beside(text: Path, info: ValidationInfo) -> Path:
    """Take a path of a file as relative to the file."""
    folder = (info.context or {}).get("folder")
    return text if folder is None else Path(folder) / text.expanduser()


FilePath = Annotated[Path, Field(strict=False), AfterValidator(_beside)]


Written = Annotated[Dialect, BeforeValidator(TypeAdapter(Dialect).validate_python)]


class Query(FileTable):
    #: Its address; ``${NAME}`` in it stands for that environment variable, where secrets belong.
    connection: Text
    sql: Text  #: What to ask; with an ``ORDER BY`` rows come in the same order every time


class DataSet(FileTable):
    #: A CSV or Parquet file, or a folder of either.
    data_path: FilePath | None = Field(default=None, alias="path")
    data: Query | None = None  #: The same, where it is a query to a database
    dialect: Written | None = None  #: How a file of text is written, if not as its first line says
    #: Whose rows they are: a study that counts other units is not answered.
    unit_column: Text | None = None
    sha256: Digest | None = None  #: Of a file that does not change
    #: What the organisation calls the state of its rows that is paid for now. Named by a calendar,
    #: whether or not rows change; another name is another charge.
    snapshot: Name = "1"


class _DataSets(FileTable):
    named: dict[Name, DataSet]


@dataclass(frozen=True)
class Home:
    folder: Path

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def studies(self) -> Path:
        return self.folder / "studies"

    def ledger_of(self, dataset: str) -> Path:
        return self.folder / "ledgers" / f"{dataset}.ledger"

    @property
    def peers_file(self) -> Path:
        """The file of other parties' fingerprints that people have compared."""
        return self.folder / "peers.toml"

    def peers(self) -> Values:
        """Return what it holds; nothing until somebody was confirmed."""
        if not self.peers_file.exists():
            return {}
        told: Values = parse_toml(read_bytes(self.peers_file, "peers.toml"), "peers.toml")
        found: Values = told.get("peers", {})
        return found

    def policy(self) -> dict[str, object]:
        return parse_toml(read_bytes(self.folder / _POLICY, _POLICY), _POLICY)

    def datasets(self) -> Mapping[str, DataSet]:
        """Return its data sets, by the organisation's names.

        Raises StudyError if two names are for one table: a data set has one ledger.
        """
        told = parse_toml(read_bytes(self.folder / _DATASETS, _DATASETS), _DATASETS)
        found = _DataSets.read({"named": told}, _DATASETS, folder=self.folder).named
        seen: dict[object, str] = {}
        for name, one in found.items():
            if (one.data_path is None) == (one.data is None):
                raise StudyError(f"{_DATASETS}: {name} needs a path, or a query in data, not both.")
            table = one.data if one.data_path is None else one.data_path.resolve()
            for mark in (table, one.sha256):
                if mark is not None and seen.setdefault(mark, name) != name:
                    raise StudyError(
                        f"{_DATASETS}: {seen[mark]} and {name} are one table; a data set has one "
                        "name and one ledger, whatever studies call it."
                    )
        return found

    def matched(self, chosen: str | None) -> str:
        """Return which data set a study is about: the one that is named, or the only one."""
        known = self.datasets()
        listed = ", ".join(known) or "none yet"
        name = next(iter(known)) if chosen is None and len(known) == 1 else chosen
        if name is None or name not in known:
            raise StudyError(
                f"--dataset: say which of your data sets the study is about; there is: {listed}."
            ).hinting("name one: confrere home --data NAME=FILE --unit-column COLUMN")
        return name

    def add(self, name: str, table: Path, unit_column: str | None) -> None:
        """Give a table a name, for good."""
        try:
            _NAME.validate_python(name)
        except ValidationError:
            raise StudyError(
                "--data: a name is letters, digits, '.', '_' or '-', 64 at most."
            ) from None
        if name in self.datasets():
            raise StudyError(f"--data: there is a data set {name} already; see {_DATASETS}.")
        place = table.resolve()
        if not place.exists():
            raise StudyError(f"--data: there is no {table.name}.")
        within = place.is_relative_to(self.folder.resolve())
        path = place.relative_to(self.folder.resolve()) if within else place
        lines = [f"\n[{json.dumps(name)}]", f"path = {json.dumps(str(path))}"]
        lines += [] if unit_column is None else [f"unit_column = {json.dumps(unit_column)}"]
        file = self.folder / _DATASETS
        before = file.read_text(encoding="utf-8")
        file.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")
        try:
            self.datasets()
        except StudyError:
            file.write_text(before, encoding="utf-8")
            raise


def template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def home_folder() -> Path:
    """Return the organisation's home.

    What the environment variable ``CONFRERE_HOME`` names, or ``confrere`` in the user's data folder
    (``XDG_DATA_HOME``, or ``~/.local/share``).
    """
    chosen = os.environ.get("CONFRERE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "confrere"


def home_of(file: Path) -> Home:
    """Return the home that a file lies in, or else the organisation's."""
    inside = (one for one in file.absolute().parents if (one / _DATASETS).is_file())
    return Home(next(inside, home_folder()))


def open_home(folder: Path) -> Home:
    """Return a home; what it lacks is made, for its owner alone, and nothing is written over."""
    home = Home(folder.absolute())
    for place in (home.folder, home.keys, home.folder / "ledgers", home.studies):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.folder.chmod(0o700)
    for name in (_POLICY, _DATASETS):
        if not (home.folder / name).exists():
            write_new(home.folder / name, template(name).encode())
    return home


class LocalPolicy(FileTable):
    """What a party allows, whatever a study says: ``[policy]``."""

    #: Whose data must be hidden: a study that says otherwise is not answered.
    privacy_unit: Annotated[Unit, Field(strict=False)]
    neighbours: Relation  #: Against which change
    #: The weakest that it is content with: "own noise" by default, so that nobody else has to be
    #: trusted; "1 of 3" and the like for a sum, "coordinator" where one may see its answers.
    trust: Annotated[Trust, BeforeValidator(Trust.parse)] = OWN_NOISE
    #: The only operations that it answers; None allows whatever is installed.
    operations: list[Text] | None = None
    max_epsilon_per_run: Positive | None = None  #: The most that one run may spend
    #: The most that may ever be spent on its data, by all studies, whatever they call them.
    lifetime_epsilon: Positive | None = None

    def check(self, study: Study, party: str) -> None:
        """Refuse a study that asks for what is not allowed, or protects others."""
        allowed = self.operations
        refused = [o for o in study.operations if allowed is not None and o not in allowed]
        if refused:
            raise OperationRefused(
                f"{party}: policy.operations has no {', '.join(refused)}; nothing was spent."
            )
        told = study.privacy
        if (self.privacy_unit, self.neighbours) != (told.privacy_unit, told.neighbours):
            raise OperationRefused(
                f"{party}: its policy protects a {self.privacy_unit} under {self.neighbours}, the "
                f"study a {told.privacy_unit} under {told.neighbours}; nothing was spent. "
                "Agree on one.",
                "neighbours",
            )
        needed = trust_of(study)
        # In one process whoever runs it reads all tables: nothing is sent that a policy could hold.
        if study.engine != "local" and not self.trust.allows(needed):
            raise OperationRefused(
                f"{party}: its policy asks for {self.trust} ({self.trust.words}), the study needs "
                f"{needed} ({needed.words}); nothing was spent. Who wants that writes trust = "
                f'"{needed}" into its policy.',
                "trust",
            )


class Local(DataSet):
    party: Name
    #: Made when it is first charged; ``<party>.ledger`` beside the local file by default.
    ledger_path: FilePath
    data_path: FilePath | None = None
    #: Who reads the rows: "loop" (the default), "joblib", "dask" or a scheduler's address.
    engine: Text | None = None
    key_path: FilePath | None = None  #: The private key that it signs with
    policy: LocalPolicy  #: What it allows
    #: The public key whose questions it answers: ``ssh-ed25519 AAAA...``.
    coordinator: PublicKeyLine | None = None
    #: Its copy of the public rows that a study names by their hash.
    auxiliary_path: FilePath | None = None
    #: Other parties' fingerprints, ``SHA256:...``, that people have compared with them.
    peers: dict[Name, Fingerprint] = Field(default_factory=dict)
    #: Which of the data sets in the organisation's home: their table, ledger and the policy stand
    #: there, and every study of them adds up.
    dataset: Name | None = None

    def snapshots(self, until: datetime) -> Snapshots:
        """Return what its noise follows from, in the home, or beside a ledger that is in none."""
        beside, home = self.ledger_path, self.ledger_path.parent.parent
        secret, folder = (
            (beside.with_name(f"{beside.name}.{self.party}.{end}") for end in ("secret", "rows"))
            if self.dataset is None
            else (home / "keys" / "noise.secret", home / "snapshots" / self.dataset)
        )
        return Snapshots.at(secret, folder, self.snapshot, until)

    @property
    def has_table(self) -> bool:
        return self.data_path is not None or self.data is not None

    def table(self) -> RowTable:
        """Return where its rows come from; nothing is read yet."""
        if self.data is not None and self.data_path is None:
            return Sql(self.data.connection, self.data.sql)
        if self.data_path is None:
            raise StudyError(
                f"data_path: the local file of {self.party} does not say where it lies."
            )
        if self.data is not None:
            raise StudyError(f"data: the local file of {self.party} has data_path too; keep one.")
        return open_table(self.data_path, dialect=self.dialect)


def read_local(path: str | Path) -> Local:
    """Read a local file; its paths are relative to it."""
    file = Path(path)
    what = f"the local file {file.name!r}"
    values = parse_toml(read_bytes(file, "the local file"), what)
    if isinstance(dataset := values.get("dataset"), str):
        values |= _from_home(dataset, values, file)
    elif "ledger_path" not in values and isinstance(values.get("party"), str):
        values["ledger_path"] = f"{values['party']}.ledger"
    return Local.read(values, what, folder=file.parent)


def _from_home(dataset: str, values: Iterable[str], file: Path) -> Values:
    """Return what the organisation's home says about the data set that a local file names."""
    told = ("data_path", "data", "dialect", "ledger_path", "policy", "peers", "snapshot")
    twice = [key for key in told if key in values]
    if twice:
        raise StudyError(
            f"{twice[0]}: with a dataset the organisation's home says it, in datasets.toml, "
            "policy.toml or peers.toml; leave it out of the local file."
        )
    home = home_of(file)
    name = home.matched(dataset)
    own = home.datasets()[name].model_dump()
    own["dialect"] = own["dialect"] and asdict(own["dialect"])
    own["data_path"] = own["data_path"] and str(own["data_path"])
    ledger = str(home.ledger_of(name))
    return {**own, "ledger_path": ledger, "policy": home.policy(), "peers": home.peers()}


def gather_locals(
    study: Study,
    # Its file: without ``paths``, ``local.toml`` and ``local/*.toml`` beside it are taken.
    study_path: Path,
    paths: Sequence[Path] = (),  # Local files, or folders of them
) -> dict[str, Local]:
    """Return the parties that live here, by name, in the study's order."""
    found: dict[str, Local] = {}
    for path in _files(study_path, paths):
        local = read_local(path)
        study.party(local.party)
        if local.unit_column not in (None, study.privacy.unit_column):
            raise StudyError(
                f"privacy.unit_column: {local.party} counts by another column than the study; "
                "nothing was spent."
            )
        if local.party in found:
            raise StudyError(f"party: {local.party!r} has two local files; keep one.")
        found[local.party] = local.model_copy(update={"key_path": _key_named(study, local)})
    return {party.name: found[party.name] for party in study.parties if party.name in found}


def _key_named(study: Study, local: Local) -> Path | None:
    """Return the key that the study names: the party's, or one that it had before a rotation."""
    path, line = local.key_path, study.party(local.party).key
    if path is None or line is None:
        return path
    for public in path.parent.glob(f"{path.name}.*.pub"):
        if fingerprint(public) == fingerprint(line):
            return public.with_suffix("")
    return path


def _files(study_path: Path, paths: Sequence[Path]) -> list[Path]:
    if not paths:
        beside = study_path.parent
        paths = [path for path in (beside / "local.toml", beside / "local") if path.exists()]
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.toml"))
            if not inside:
                raise StudyError(f"local: the folder {path.name!r} holds no .toml file.")
            files += inside
        else:
            files.append(path)
    return files


def standing_refusal(study: Study, local: Local) -> Decision | None:
    """Return the no to a study that stands in a party's ledger, if one does; no ledger is made."""
    if not local.ledger_path.is_file():
        return None
    return LedgerReader.look(local.ledger_path).refusal(study.sha256)


def peers_of(study: Study, local: Local) -> dict[str, str]:
    """Return fingerprints of the others whose answers a run uses; a key that changed is refused."""
    found = {
        party.name: fingerprint(party.key)
        for party in study.payers
        if party.name != local.party and party.key is not None
    }
    for name, print_ in found.items():
        if local.peers.get(name, print_) != print_:
            raise StudyError(
                f"peers: the study names another key for {name} than the one that was confirmed. "
                "Ask that organisation by telephone; if it has a new key, correct [peers], in the "
                "local file or the home's peers.toml."
            )
    return found


def check_peers(study: Study, local: Local) -> None:
    """Refuse a study that adds up where too few of the others are known; nothing was spent."""
    peers = peers_of(study, local)
    unknown = [name for name in peers if name not in local.peers]
    lacking = study.peers_needed - (len(peers) - len(unknown))
    if lacking > 0:
        raise StudyError(
            f"peers: the study adds up what parties send, and hides {local.party} among the "
            f"others; {lacking} more of them must be known to be who they are: "
            f"{', '.join(unknown[:5])}{', ...' if len(unknown) > 5 else ''}. Compare fingerprints "
            "with each by telephone, then: confrere approve STUDY --peer NAME=SHA256:..."
        )


def peer_lines(study: Study, local: Local) -> list[str]:
    """Say to an approver who the others are, and in a sum what a party that is lost costs."""
    peers, count = peers_of(study, local), len(study.payers)
    lines = [
        f"{name}: {own}, {'confirmed' if name in local.peers else 'NOT CONFIRMED'}"
        for name, own in peers.items()
    ]
    if study.peers_needed:
        fewest = fewest_of(count, study.quorum_of_sums)
        lost = f"A party may be lost: a run goes on with {fewest} of {count}, in tries it paid for."
        if fewest == count:
            lost = f"All {count} are needed: one that is lost, or lies, ends the run, and what "
            lost += "was paid is gone."
        needed = f"at least {study.peers_needed} of these {len(peers)} must be confirmed by you"
        lines.append(f"Parties add up: {needed}. {lost}")
    return lines


def confirm_peers(
    study: Study, local: Local, home: Home, told: Mapping[str, str]
) -> dict[str, str]:
    """Write fingerprints that people have compared into a home's ``peers.toml``, for all studies.

    Returns all that are confirmed.
    """
    added, known, file = dict[str, str](), peers_of(study, local), home.peers_file
    for name, said in told.items():
        study.party(name)
        if name not in known:
            raise StudyError(f"--peer: {name} is this party itself, or has no key in the study.")
        if known[name] != said.strip():
            raise StudyError(
                f"--peer: the study has another key for {name} than the one of this fingerprint. "
                "Do not approve it; ask both that organisation and the coordinator."
            )
        if name not in local.peers:
            added[name] = said.strip()
    if added:
        lines = [f"{json.dumps(name)} = {json.dumps(one)}" for name, one in added.items()]
        begun = file.read_text(encoding="utf-8") if file.exists() else _PEERS
        text = "\n".join([begun.rstrip(), *lines, ""])
        # What a hand has written may not take another table.
        found = parse_toml(text.encode(), file.name).get("peers", {})
        if not isinstance(found, dict) or not added.items() <= found.items():
            raise StudyError(
                f"--peer: {file.name} cannot be added to; write into its [peers]: {lines[0]}"
            )
        write_whole(file, text.encode())
    return {**local.peers, **home.peers()}


_EXAMPLE_ROWS = {"main": 4000, "branch-1": 1500, "branch-2": 1000}


def write_template(folder: Path, seed: int | None = None) -> list[Path]:
    """Write ``study.toml``, a local file per party and, by a seed, patients who do not exist."""
    content, local = template("study.toml"), template("local.toml")
    study, texts = study_from_bytes(content.encode()), {folder / "study.toml": content}
    for name in (party.name for party in study.parties):
        text = local.replace("# data_path", "data_path") if seed is not None else local
        texts[folder / "local" / f"{name}.toml"] = text.replace("{party}", name)
        if seed is not None:
            texts[folder / "local" / f"{name}.csv"] = _simulated(study, name, seed)
    taken = [path.name for path in (folder, *texts) if path.is_file()]
    if taken:
        what = f"folder: {taken[0]} is there already, and nothing is written over."
        raise StudyError(what).hinting("choose another folder: confrere init FOLDER")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _simulated(study: Study, party: str, seed: int) -> str:
    """Draw patients from the template's own public facts: none of them exists."""
    count = _EXAMPLE_ROWS[party]
    one = secrets.token_hex(4)  # two examples are two data sets, each with a ledger of its own
    rng = np.random.default_rng([seed, *party.encode()])
    age, bmi, glucose = rng.normal(size=(3, count))
    chance = 1 / (1 + np.exp(2.6 - 0.5 * age - 0.6 * bmi - 1.1 * glucose))
    bounds = [feature.to_dict()["bounds"] for feature in study.schema.features[:3]]
    numbers = [52 + 16 * age, 26 + 5 * bmi, 5.5 + 1.2 * glucose]
    clipped = [np.clip(x, *b).round(1) for x, b in zip(numbers, bounds, strict=True)]
    columns = {
        "patient_id": [f"simulated-{party}-{one}-{number}" for number in range(count)],
        **dict(zip(("age", "bmi", "Glu0"), clipped, strict=True)),
        "smoker": rng.choice(["never", "former", "current"], size=count, p=[0.6, 0.2, 0.2]),
        "diabetes": np.where(rng.random(count) < chance, "yes", "no"),
    }
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n"
