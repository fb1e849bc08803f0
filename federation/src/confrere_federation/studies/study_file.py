"""The study file: what all organisations agree to, the same bytes at every party.

TOML and JSON files are read as typed tables: unknown keys are refused, and no error prints a value.
A study's tables, what follows from them, its estimators (declared parameters on top of the settings
that serve well), and whom its parties have to trust.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from confrere.catalogue import Method, find_method
from confrere.data.encoding import SchemaEncoder
from confrere.data.fact_counts import FactCounts
from confrere.data.schema import PublicSchema, TooDeep, parse_bounded
from confrere.errors import (
    CalibrationError,
    ConfrereError,
    InvalidData,
    InvalidParameter,
    SchemaError,
    StudyError,
)
from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours, Unit, check_relation
from confrere.methods.asking import colluders_of, quorum_of_sums
from confrere.methods.sums import Hides
from confrere.release.signing import public_line, read_key_line, read_public_key
from confrere.trust import OWN_NOISE, Trust, TrustKind
from confrere_federation.parties.requests import FactsOfAll, Ready

_LARGEST_FILE = 1 << 20
# Cards refuse the word; better to hear it before anything is spent.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)

#: What is said of a fault, by pydantic's word for it; its own words quote values.
#: What to do about a file that is not there.
_FIND = {
    "the study": "give the path of a study; confrere init FOLDER writes one to begin with",
    "the plan": "give the path of a plan; confrere price STUDY --out PLAN writes one",
    "the local file": "give the path of a party's local file: --local FILE",
}
_SAID = {
    "missing": "is missing",
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
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
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
    def _only_known(cls, values: Any) -> Any:
        if cls.model_config.get("extra") != "forbid" or not isinstance(values, Mapping):
            return values
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in values:
            if key not in known and key not in cls.model_fields:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}? It" if near else "it"
                raise PydanticCustomError(
                    "unknown_key",
                    "{what}",
                    {"what": f"{key!r}; {hint} knows {', '.join(sorted(known))}"},
                )
        return values

    @classmethod
    def read(cls, values: Any, what: str, **context: Any) -> Self:
        """Check what a file holds.

        Raises StudyError: naming the key; of several faults, the first.
        """
        try:
            return cls.model_validate(values, context=context)
        except ValidationError as error:
            raise StudyError(first_fault(error, what, values)) from None


def first_fault(error: ValidationError, what: str, values: Any = None) -> str:
    """Return the first fault: the key's path and what is wrong, never a value.

    A key that is missing may be there under a name that is nearly its own.
    """
    found: Any = error.errors(include_url=False, include_input=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    where = where.removeprefix(".")
    context = found.get("ctx", {})
    if found["type"] == "unknown_key":
        return f"{f'[{where}]' if where else what} does not know {context['what']}."
    said = context["what"] if found["type"] == "said" else None
    if said is None:
        said = _SAID.get(found["type"], "is not what belongs here").format(**context)
    if found["type"] == "missing":
        said += _misspelt(values, found["loc"])
    return f"{where or what}: {said}."


def _misspelt(values: Any, place: tuple[Any, ...]) -> str:
    for part in place[:-1]:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return ""
    keys = [str(key) for key in values] if isinstance(values, Mapping) else []
    near = get_close_matches(str(place[-1]), keys, n=1)
    return f"; did you write {near[0]!r} for it" if near else ""


def read_bytes(path: Path, what: str, largest: int = _LARGEST_FILE) -> bytes:
    """Return a file's content, or say that it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = stream.read(largest + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        fault = StudyError(f"{what} {path.name!r} cannot be read: {reason}.")
        raise fault.hinting(_FIND.get(what, "give its path")) from None
    if len(content) > largest:
        raise StudyError(f"{what} {path.name!r} is larger than {largest} bytes.")
    return content


def parse_toml(content: bytes, what: str) -> dict[str, Any]:
    """Return what a TOML file holds."""
    try:
        return parse_bounded(content.decode("utf-8"))
    except TooDeep as error:
        raise StudyError(f"{what} is not read: {error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise StudyError(f"{what} is not valid TOML: {told}.") from None


def parse_json(content: bytes, what: str) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise StudyError(f"{what} is not valid JSON.") from None


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


def _fingerprint(text: str) -> str:
    if not re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", text):
        raise fault("must be a fingerprint, 'SHA256:...', as confrere keys show prints it")
    return text


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise fault("must be a SHA-256: 64 of 0-9 and a-f")
    return text


def _number(value: Any) -> Any:
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
    AfterValidator(lambda one: one if one in RELATIONS else check_relation(one, "relation")),
]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Digest = Annotated[str, AfterValidator(_digest)]
Fingerprint = Annotated[str, AfterValidator(_fingerprint)]
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


class Promise(FileTable):
    """Whom the study protects: ``[privacy]``."""

    #: Whose data every answer's guarantee hides: one record, or a whole party.
    protects: Annotated[Unit, Field(strict=False)]
    relation: Relation  #: Which change of the data it hides
    #: Where a record may come or go: a public number that stands for every party's own.
    records: Count | None = None
    unit: Text  #: What one record is about, for readers: "patient"
    #: Names the unit of every row; with it, surplus rows of a unit are dropped.
    unit_column: Text | None = None
    max_rows_per_unit: Count = 1  #: Rows of one unit at most
    parties_per_unit: Count = 1  #: Organisations in whose data one unit may be
    #: Why this epsilon, for those who approve it and for the card.
    justification: Text | None = None


class EncodingTable(FileTable):
    """How rows are bounded and weighted: ``[encoding]``; see :class:`SchemaEncoder`.

    ``weighted`` is by default what suits the method.
    """

    rows: Literal["clip", "unit"] = "clip"
    weighted: bool | None = None


class MethodTable(FileTable):
    """``[method]``: its name, what every party spends, and further arguments."""

    model_config = ConfigDict(extra="allow")

    name: Text
    epsilon: Positive

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            find_method(name)
        except InvalidParameter as error:
            raise fault(str(error).rstrip(".")) from None
        return name


class Cap(FileTable):
    """The most that a party's account may ever have spent, as far as this study is concerned."""

    epsilon: Positive | None = None
    delta: Delta = 0.0


class Party(FileTable):
    """One organisation: ``[[party]]``."""

    name: Name
    dataset: Name  #: What its data are called; where they lie is in its own local file
    role: Role = "member"  #: In a transfer, whose release the others start from
    cap: Cap = Cap()  #: Without a word about delta only pure methods are covered
    #: The public key that it signs grants, answers and releases with: ``ssh-ed25519 AAAA...``.
    key: PublicKeyLine | None = None

    @property
    def account(self) -> str:
        """The account that pays: one per organisation and data set."""
        return f"{self.name}/{self.dataset}"


class FederationTable(FileTable):
    """``[federation]``: what carries the questions, and the share of parties that must answer.

    By default all of them; in a sum of more than three parties all but one.
    """

    engine: Engine = "local"
    quorum: Share | None = None


class RandomTable(FileTable):
    """``[random]``: seeds of public splits and, in a simulation, of the noise."""

    split_seed: Seed = 0
    noise_seed: Seed | None = None


class EvaluationTable(FileTable):
    """``[evaluation]``: what every party spends on counting the errors of the finished model."""

    epsilon: Positive


class FactsTable(FileTable):
    """``[facts]``: what every party spends on facts that the schema lacks, before anything else.

    They are sums over all parties that nobody sees into.
    """

    epsilon: Positive
    #: How many parties may pool what they know; by default a minority of those of a sum.
    colluding: Count | Literal["auto"] = "auto"
    reserve: Annotated[int, Field(ge=0)] = RESERVE  #: How many lost sums are paid for


class AuxiliaryTable(FileTable):
    """``[auxiliary]``: the file of public rows that parties vote on, by its hash."""

    sha256: Digest


class StudyFile(FileTable):
    """A study file's tables."""

    version: Literal[1] = Field(alias="schema")
    about: About = Field(alias="study")
    promise: Promise = Field(alias="privacy")
    data: dict[str, Any]
    encoding: EncodingTable = EncodingTable()
    method: MethodTable
    parties: Annotated[list[Party], Field(min_length=1)] = Field(alias="party")
    federation: FederationTable = FederationTable()
    random: RandomTable = RandomTable()
    evaluation: EvaluationTable | None = None
    auxiliary: AuxiliaryTable | None = None
    facts: FactsTable | None = None

    @field_validator("version", mode="before")
    @classmethod
    def _this_version(cls, value: Any) -> Any:
        if type(value) is not int:
            raise fault("must be a whole number")
        if value != 1:
            raise fault("must be 1; this is another version's study")
        return value


#: What the study decides by other tables, or what needs more than plain values.
RESERVED = frozenset(
    {
        *("epsilon", "ledger", "account", "random_state", "classes", "split_seed", "method"),
        *("source", "source_keys", "schema", "importance", "feature_scale", "groups"),
        *("neighbours", "declared_samples", "local", "memory", "on_faulty"),
    }
)

#: From which epsilon on intercepts start from a declared base rate, unless experts say more: below
#: it costs up to .06 AUC (docs/priors.md, "The base rate"), from here on nothing.
BASE_RATE_FROM = 0.5

#: A number of rows to ask a price with: a study's price does not depend on it.
NOMINAL_ROWS = 10_000


def estimator_for(
    study: Study,
    method: Method,  # The study's own, or the one that makes its source
    **more: Any,  # Further arguments, such as ``source``
) -> Any:
    """Return the estimator of ``method`` as the study wants it."""
    told = {"schema": study.declared, "random_state": study.seed, **more}
    return method.make(**settings_for(study, method, **told))


def settings_for(study: Study, method: Method, **more: Any) -> dict[str, Any]:
    """Return the arguments of ``method`` that the study decides, and ``more`` that it takes."""
    known = _arguments(method)
    wanted = {**_defaults(study), **study.parameters, **_settled(study), **more}
    return {name: value for name, value in wanted.items() if name in known}


def price_for(study: Study, model: Any, n_samples: int = NOMINAL_ROWS) -> Guarantee:
    """Return what one of the study's estimators costs each party, whatever its number of rows.

    In a schema's body their number decides whether a delta is spent: a study's price has all of it.
    """
    shape, count = study.method.shape, len(study.parties)
    more = {"n_parties": count} if shape == "together" else {}
    sized = count if shape == "votes" else n_samples
    price: Guarantee = model.price(sized, **more)
    return replace(price, delta=max(price.delta, float(study.parameters.get("delta", 0.0))))


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
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? It" if near else "it"
            raise StudyError(
                f"method.{name}: {study.method.name} does not know it; {hint} knows "
                f"{', '.join(sorted(known))}."
            )
        if name == "alpha" and isinstance(value, dict | list):
            _check_ridges(value)
        else:
            _check_kind(name, value, known[name].default)
    for method in methods:
        if method.shape in ("transfer", "as-is"):
            continue  # its price is asked once there is a source; the source's comes first
        try:
            price = price_for(study, estimator_for(study, method))
        except (InvalidParameter, InvalidData, CalibrationError) as error:
            raise StudyError(f"method: {error}") from None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise StudyError(f"method: a parameter is wrong ({type(error).__name__}).") from None
        if (price.unit, price.neighbours) != (study.promise.protects, study.promise.relation):
            raise StudyError(
                f"privacy: {method.name} promises {price.unit}, {price.neighbours}; the study "
                f"says {study.promise.protects}, {study.promise.relation}."
            )


def _arguments(method: Method) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(method.estimator).parameters
    return {name: value for name, value in parameters.items() if name not in method.settings}


def _check_ridges(alpha: dict[str, Any] | list[Any]) -> None:
    plain = all(isinstance(one, int | float) and not isinstance(one, bool) for one in alpha)
    if isinstance(alpha, dict) or not alpha or not plain or not all(0 < a <= 1e12 for a in alpha):
        raise StudyError(
            "method.alpha: must be a list of numbers above 0, one per encoded column or group."
        )


def _check_kind(name: str, value: Any, default: Any) -> None:
    """Refuse a value that is of another kind than the default."""
    if name == "prior":
        if value != "experts":
            raise StudyError('method.prior: must be "experts": what the schema\'s columns declare.')
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        bool: isinstance(value, bool),
        int: type(value) is int,
        float: number,
        str: isinstance(value, str) or (default == "auto" and number),
    }.get(type(default), number)
    if not fits or (number and not math.isfinite(value)):
        kind = "auto or a number" if default == "auto" else type(default).__name__
        raise StudyError(f"method.{name}: must be of the kind {kind}.")
    # Whole numbers count groups, rounds or parties: reading a stranger's study must take no hour.
    if number and abs(value) > (10**6 if type(value) is type(default) is int else 1e12):
        raise StudyError(f"method.{name}: is too large.")


def _defaults(study: Study) -> dict[str, Any]:
    """Return what serves well unless the study says otherwise."""
    outcome = study.schema.outcome
    defaults: dict[str, Any] = {"trust": study.trust}
    rate = None if outcome is None else outcome.base_rate
    if rate is not None and (study.epsilon >= BASE_RATE_FROM or "prior" in study.parameters):
        defaults["prior_intercept"] = math.log(rate / (1 - rate))
    return defaults


def _settled(study: Study) -> dict[str, Any]:
    """Return what other tables of the study decide."""
    outcome = study.schema.outcome
    assert outcome is not None
    settled: dict[str, Any] = {
        "epsilon": study.epsilon,
        "classes": [-1, 1] if outcome.classes is None else list(outcome.classes),
        "split_seed": study.file.random.split_seed,
    }
    if study.declared_records is not None:
        settled |= {"neighbours": "add-remove", "declared_samples": study.declared_records}
    if study.adds_up:
        settled |= {
            "colluding": study.colluding,
            "reserve": study.parameters.get("reserve", RESERVE),
        }
    return settled


#: Whoever asks; no party has this name, under which kits and signatures of the asker lie.
COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Study:
    """What all parties agreed to: the file, and what follows from it."""

    file: StudyFile
    content: bytes  #: Its bytes
    sha256: str  #: Their hash: in the plan, the ledger and the card
    schema: PublicSchema
    method: Method  #: From the catalogue
    weighted: bool  #: Whether columns are multiplied by their importances
    # As the file says:
    id: str  #: Names the study and its output
    title: str  #: For people, as is its purpose
    purpose: str
    mode: Mode  #: Whether noise is private or seeded
    promise: Promise  #: Whom it protects
    epsilon: float  #: What every party spends
    parameters: Mapping[str, Any]  #: Further arguments of the method
    parties: tuple[Party, ...]  #: Everyone in it
    engine: Engine  #: What carries the questions

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded."""
        return self.mode == "simulation"

    @property
    def alone(self) -> str:
        """The only party's name; empty where there are more."""
        return self.parties[0].name if len(self.parties) == 1 else ""

    @property
    def quorum(self) -> float:
        """Share of the parties that must take part."""
        given = self.file.federation.quorum
        if given is not None or not self.adds_up:
            return 1.0 if given is None else given
        return self.quorum_of_sums

    @property
    def quorum_of_sums(self) -> float:
        """Share of the parties that must be in a sum, of the method or of facts."""
        given = self.file.federation.quorum
        return quorum_of_sums(len(self.payers)) if given is None else given

    @property
    def adds_up(self) -> bool:
        """Whether the method's answers are added up where nobody sees into the sum."""
        return Ready.operation in self._asked

    @property
    def colluding(self) -> int:
        """How many parties of a sum may pool what they know."""
        said = self.parameters.get("colluding", "auto")
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
        one, together = self.promise.records, self.method.shape == "together"
        return one * len(self.payers) if one and together else one

    @property
    def classes(self) -> list[Any]:
        """The declared labels, sorted."""
        outcome = self.schema.outcome
        assert outcome is not None
        return [-1, 1] if outcome.classes is None else sorted(outcome.classes)

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
        return str(self.parameters.get("trust", default))

    @property
    def operations(self) -> tuple[str, ...]:
        """What parties are asked, and their policies must allow."""
        asked = self._asked
        if self.file.facts is not None:
            # Where whole parties are hidden, so is how many records they have.
            public = self.promise.protects is Unit.RECORD and self.promise.records is None
            sized = ("size",) if public else ()
            more = (*sized, Ready.operation, FactsOfAll.operation)
            asked = tuple(dict.fromkeys((*more, *asked)))
        return asked + ((self.method.counting,) if self.file.evaluation else ())

    @property
    def _asked(self) -> tuple[str, ...]:
        by_sum = self.method.summed if self.trust == "sum" else ()
        known = by_sum or self.method.operations
        return tuple(one for one in known if one != "size" or self.promise.records is None)

    @property
    def colluders(self) -> list[int]:
        """How many parties may pool what they know, in each of the sums that there are."""
        facts = self.file.facts
        said = [self.colluding] if self.adds_up else []
        if facts is not None:
            said.append(colluders_of(facts.colluding, len(self.payers), self.quorum_of_sums))
        return said

    @property
    def peers_needed(self) -> int:
        """How many of the others a party must know, so that made-up ones hide nobody's absence."""
        said, count = self.colluders, len(self.payers)
        return min(count - 1, count - min(said)) if said else 0

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

    def encoder(self) -> SchemaEncoder:
        """Return the transformer from raw tables to rows of a ball."""
        return self._encoder

    @cached_property
    def _encoder(self) -> SchemaEncoder:
        return self.schema.encoder(rows=self.file.encoding.rows, weighted=self.weighted)

    @property
    def declared(self) -> PublicSchema | SchemaEncoder:
        """What estimators are given: by the schema and sizes they choose how columns are encoded.

        Where the study says how, there is nothing to choose.
        """
        return self.schema if self.file.encoding == EncodingTable() else self.encoder()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a ball."""
        return self.encoder().names


def read_study(path: str | Path) -> Study:
    """Read and check a study file.

    Raises
    ------
    StudyError
        Naming the table and the key.
    SchemaError
        If the facts about a column are wrong.
    """
    return study_from_bytes(read_bytes(Path(path), "the study"))


def study_from_bytes(content: bytes) -> Study:
    """Read and check the content of a study file."""
    file = StudyFile.read(parse_toml(content, "the study"), "the study")
    method = find_method(file.method.name)
    _check_parties(file, method)
    schema = _schema(file.data)
    weighted = file.encoding.weighted
    if weighted is None:
        weighted = schema.has_importances and method.weighted
    if weighted and not schema.has_importances:
        raise StudyError("encoding.weighted: needs an importance for every feature.")
    if file.random.noise_seed is not None and file.about.mode != "simulation":
        raise StudyError(
            "random.noise_seed: needs study.mode = 'simulation': seeds protect nobody."
        )
    study = Study(
        file=file,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        schema=schema,
        method=method,
        weighted=weighted,
        promise=file.promise,
        epsilon=file.method.epsilon,
        parameters=dict(file.method.model_extra or {}),
        parties=tuple(file.parties),
        engine=file.federation.engine,
        **file.about.model_dump(),
    )
    if (file.auxiliary is None) == method.auxiliary:
        raise StudyError(
            f"auxiliary: {method.name} learns from a file of public rows; give its sha256."
            if method.auxiliary
            else f"auxiliary: {method.name} has no use for it."
        )
    hidden = file.promise.relation is Neighbours.ADD_REMOVE
    if hidden != (file.promise.records is not None):
        raise StudyError(
            "privacy.records: where a record may come or go, a public number has to stand for "
            "every party's own; elsewhere that is public, and asked for."
        )
    if hidden and file.evaluation is not None:
        raise StudyError("evaluation: errors are a share of a number of records that is public.")
    if file.evaluation is not None and method.shape != "together":
        raise StudyError(f"evaluation: {method.name} makes no one model that all could evaluate.")
    _check_facts(study)
    check_parameters(study)
    return study


def _check_facts(study: Study) -> None:
    """Refuse a first step that has nothing to learn, or whose price would not add up."""
    facts = study.file.facts
    if facts is None:
        return
    if study.method.shape == "votes" and study.trust != "sum":
        raise StudyError(
            "facts: where a coordinator adds the noise parties cannot tell what was made of them; "
            "use trust = 'sum', or declare the facts."
        )
    try:
        Hides.of(study.promise.protects, study.promise.relation)
    except ConfrereError as error:
        raise StudyError(f"facts: {error}") from None
    least = 1 if facts.colluding == "auto" else facts.colluding
    if len(study.payers) <= least:
        raise StudyError(
            "facts: a sum needs more parties than may collude; one party alone learns facts with "
            "confrere schema learn."
        )
    try:
        FactCounts(study.schema)
    except ConfrereError as error:
        raise StudyError(f"facts: {error}") from None


def _check_parties(file: StudyFile, method: Method) -> None:
    names = [party.name for party in file.parties]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise StudyError(f"party.name: {twice[0]!r} is there twice.")
    if any(name.casefold() == COORDINATOR for name in names):
        raise StudyError(f"party.name: {COORDINATOR!r} is who asks; give the party another name.")
    # A comment behind a key makes it no other key.
    keys = [(public_line(read_public_key(p.key)), p.name) for p in file.parties if p.key]
    owner: dict[str, str] = {}
    for key, name in keys:
        if key in owner:
            raise StudyError(
                f"party.key: {owner[key]} and {name} have the same key; whoever holds it would "
                "count as two. Every party makes its own: confrere keys request."
            )
        owner[key] = name
    if file.promise.parties_per_unit > len(names):
        raise StudyError(f"privacy.parties_per_unit: is more than the {len(names)} parties.")
    sources = [party for party in file.parties if party.role == "source"]
    if method.shape in ("transfer", "as-is") and not 0 < len(sources) < len(names):
        raise StudyError(
            f"party.role: {method.name} needs a party with role = 'source' and one without."
        )


def _schema(facts: dict[str, Any]) -> PublicSchema:
    try:
        schema = PublicSchema.from_dict(facts)
    except SchemaError as error:
        raise SchemaError(f"data: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"data: a fact is of the wrong kind ({type(error).__name__}).") from None
    if schema.outcome is None:
        raise StudyError("data.label: is missing: what is to be predicted.")
    return schema


def trust_of(
    study: Study,
    # How many organisations' tables one process reads: whoever runs it sees more of the others
    # than any coordinator does.
    n_here: int = 1,
) -> Trust:
    """Return whom a party of the study has to trust."""
    voted = study.method.shape == "votes"
    if n_here > 1 or (voted and study.trust == "coordinator"):
        return Trust(TrustKind.COORDINATOR)
    summed = study.colluders
    return Trust.sum_of(min(summed), len(study.payers)) if summed else OWN_NOISE


def trust_words(study: Study) -> str:
    """Return what that means, with the price if all others work together, where it differs.

    Pure sums have a closed form of it: own noise makes it ``sqrt(10 M)`` times epsilon; that of a
    sum with a delta is on the card.
    """
    needed, told = trust_of(study), study.file
    if needed.kind is not TrustKind.SUM or "delta" in study.parameters:
        return needed.words
    errors = 0.0 if told.evaluation is None else told.evaluation.epsilon
    summed, own = (study.epsilon + errors, 0.0) if study.adds_up else (0.0, study.epsilon + errors)
    summed += 0.0 if told.facts is None else told.facts.epsilon
    alone = math.sqrt(10 * needed.parties) * summed + own
    return f"{needed.words}; if all of them do, epsilon is at most {math.ceil(100 * alone) / 100:g}"
