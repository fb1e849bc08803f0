"""The study file: what all organisations agree to, the same bytes at every party."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator
from sklearn.utils import get_tags

from confrere.catalogue import Method, find_method
from confrere.errors import InvalidParameter, SchemaError, StudyError
from confrere.guarantee import Neighbours, Unit
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.study.parameters import check_parameters
from confrere.study.typed_files import (
    Count,
    Delta,
    Digest,
    Name,
    Positive,
    PublicKeyLine,
    Seed,
    Share,
    Table,
    Text,
    fault,
    parse_toml,
    read_bytes,
)

Mode = Literal["private", "simulation"]
Engine = Literal["local", "flower"]
Role = Literal["source", "member"]


class About(Table):
    """``[study]``: for people; a simulation's noise is seeded, its card can never be released."""

    id: Name
    title: Text
    purpose: Text
    mode: Mode = "private"


class Promise(Table):
    """Whom the study protects: ``[privacy]``.

    Attributes
    ----------
    protects : Unit
        Whose data every answer's guarantee hides: one record, or a whole party.
    relation : Neighbours
        Which change of the data it hides.
    unit : str
        What one record is about, for readers: "patient".
    unit_column : str or None
        Names the unit of every row; with it, surplus rows of a unit are dropped.
    max_rows_per_unit : int
        Rows of one unit at most.
    parties_per_unit : int
        Organisations in whose data one unit may be.
    justification : str or None
        Why this epsilon, for those who approve it and for the card.
    """

    protects: Annotated[Unit, Field(strict=False)]
    relation: Annotated[Neighbours, Field(strict=False)]
    unit: Text
    unit_column: Text | None = None
    max_rows_per_unit: Count = 1
    parties_per_unit: Count = 1
    justification: Text | None = None


class EncodingTable(Table):
    """How rows are bounded and weighted: ``[encoding]``; see :class:`SchemaEncoder`.

    ``weighted`` is by default what suits the method.
    """

    rows: Literal["clip", "unit"] = "clip"
    weighted: bool | None = None


class MethodTable(Table):
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


class Cap(Table):
    """The most that a party's account may ever have spent, as far as this study is concerned."""

    epsilon: Positive | None = None
    delta: Delta = 0.0


class Party(Table):
    """One organisation: ``[[party]]``.

    Attributes
    ----------
    name : str
    dataset : str
        What its data are called; where they lie is in its own local file.
    role : {"source", "member"}
        In a transfer, whose release the others start from.
    cap : Cap
        Without a word about delta only pure methods are covered.
    key : str or None
        The public key that it signs grants, answers and releases with: ``ssh-ed25519 AAAA...``.
    """

    name: Name
    dataset: Name
    role: Role = "member"
    cap: Cap = Cap()
    key: PublicKeyLine | None = None

    @property
    def account(self) -> str:
        """The account that pays: one per organisation and data set."""
        return f"{self.name}/{self.dataset}"


class FederationTable(Table):
    """``[federation]``: what carries the questions, and the share of parties that must answer."""

    engine: Engine = "local"
    quorum: Share = 1.0


class RandomTable(Table):
    """``[random]``: seeds of public splits and, in a simulation, of the noise."""

    split_seed: Seed = 0
    noise_seed: Seed | None = None


class EvaluationTable(Table):
    """``[evaluation]``: what every party spends on counting the errors of the finished model."""

    epsilon: Positive


class AuxiliaryTable(Table):
    """``[auxiliary]``: the file of public rows that parties vote on, by its hash."""

    sha256: Digest


class StudyFile(Table):
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

    @field_validator("version", mode="before")
    @classmethod
    def _this_version(cls, value: Any) -> Any:
        if type(value) is not int:
            raise fault("must be a whole number")
        if value != 1:
            raise fault("must be 1; this is another version's study")
        return value


@dataclass(frozen=True)
class Study:
    """What all parties agreed to: the file, and what follows from it.

    Attributes
    ----------
    file : StudyFile
    content : bytes
        Its bytes.
    schema : PublicSchema
    method : Method
        From the catalogue.
    weighted : bool
        Whether columns are multiplied by their importances.
    """

    file: StudyFile
    content: bytes
    schema: PublicSchema
    method: Method
    weighted: bool

    @property
    def sha256(self) -> str:
        """The hash of the file: in the plan, the ledger and the card."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def id(self) -> str:
        """Names the study and its output."""
        return self.file.about.id

    @property
    def title(self) -> str:
        """For people."""
        return self.file.about.title

    @property
    def purpose(self) -> str:
        """For people."""
        return self.file.about.purpose

    @property
    def mode(self) -> Mode:
        """Whether noise is private or seeded."""
        return self.file.about.mode

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded."""
        return self.mode == "simulation"

    @property
    def promise(self) -> Promise:
        """Whom it protects."""
        return self.file.promise

    @property
    def epsilon(self) -> float:
        """What every party spends."""
        return self.file.method.epsilon

    @property
    def parameters(self) -> dict[str, Any]:
        """Further arguments of the method."""
        return dict(self.file.method.model_extra or {})

    @property
    def parties(self) -> tuple[Party, ...]:
        """Everyone in it."""
        return tuple(self.file.parties)

    @property
    def engine(self) -> Engine:
        """What carries the questions."""
        return self.file.federation.engine

    @property
    def quorum(self) -> float:
        """Share of the parties that must take part."""
        return self.file.federation.quorum

    @property
    def sources(self) -> tuple[Party, ...]:
        """In a transfer, the parties whose releases the others start from."""
        if self.method.shape not in ("transfer", "as-is"):
            return ()
        return tuple(party for party in self.parties if party.role == "source")

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
        by_sum = self.method.summed if self.trust == "sum" else ()
        asked = by_sum or self.method.operations
        return asked + ((self.method.counting,) if self.file.evaluation else ())

    def seed_for(self, name: str) -> int | None:
        """In a simulation, the seed of one party's noise: each draws its own."""
        if not self.simulated:
            return None
        text = f"{self.file.random.noise_seed or 0}/{name}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def party(self, name: str) -> Party:
        """Return a party, or say which there are."""
        for party in self.parties:
            if party.name == name:
                return party
        names = ", ".join(party.name for party in self.parties)
        raise StudyError(f"there is no party {name!r} in the study; there is {names}.")

    def encoder(self) -> SchemaEncoder:
        """Return the transformer from raw tables to bounded rows."""
        return self.schema.encoder(rows=self.file.encoding.rows, weighted=self.weighted)


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
    schema = _schema(file.data, method)
    weighted = file.encoding.weighted
    if weighted is None:
        weighted = schema.has_importances and method.weighted
    if weighted and not schema.has_importances:
        raise StudyError("encoding.weighted: needs an importance for every feature.")
    if file.random.noise_seed is not None and file.about.mode != "simulation":
        raise StudyError(
            "random.noise_seed: needs study.mode = 'simulation': seeds protect nobody."
        )
    study = Study(file, content, schema, method, weighted)
    if (file.auxiliary is None) == method.auxiliary:
        raise StudyError(
            f"auxiliary: {method.name} learns from a file of public rows; give its sha256."
            if method.auxiliary
            else f"auxiliary: {method.name} has no use for it."
        )
    if file.evaluation is not None and method.shape != "together":
        raise StudyError(f"evaluation: {method.name} makes no one model that all could evaluate.")
    check_parameters(study)
    return study


def _check_parties(file: StudyFile, method: Method) -> None:
    names = [party.name for party in file.parties]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StudyError(f"party.name: {twice[0]!r} is there twice.")
    if file.promise.parties_per_unit > len(names):
        raise StudyError(f"privacy.parties_per_unit: is more than the {len(names)} parties.")
    sources = [party for party in file.parties if party.role == "source"]
    if method.shape in ("transfer", "as-is") and not 0 < len(sources) < len(names):
        raise StudyError(
            f"party.role: {method.name} needs a party with role = 'source' and one without."
        )


def _schema(facts: dict[str, Any], method: Method) -> PublicSchema:
    try:
        schema = PublicSchema.from_dict(facts)
    except SchemaError as error:
        raise SchemaError(f"data: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"data: a fact is of the wrong kind ({type(error).__name__}).") from None
    if schema.outcome is None:
        raise StudyError("data.label: is missing: what is to be predicted.")
    classes = schema.outcome.classes
    tags = get_tags(method.make())
    if classes is not None and len(classes) > 2 and not tags.classifier_tags.multi_class:
        raise StudyError(f"data.label: {method.name} needs two sides: declare positive values.")
    return schema
