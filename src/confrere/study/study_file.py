"""The study file: what all organisations agree to, the same bytes at every party."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confrere.catalogue import Method, find_method
from confrere.errors import ConfrereError, SchemaError, StudyError
from confrere.federation.summed_facts import FACTS, Hides
from confrere.guarantee import Unit
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.fact_counts import FactCounts
from confrere.study.learning import body_encoder
from confrere.study.parameters import check_parameters
from confrere.study.study_tables import Engine, Mode, Party, Promise, StudyFile
from confrere.study.typed_files import parse_toml, read_bytes


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
        if self.file.facts is not None:
            # Where whole parties are hidden, so is how many records they have.
            sized = () if self.promise.protects is Unit.PARTY else ("size",)
            asked = tuple(dict.fromkeys((*sized, "ready", FACTS.name, *asked)))
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

    def with_schema(self, schema: PublicSchema) -> Study:
        """Return the same study, of the same bytes, with facts that a run of it has learned."""
        return replace(self, schema=schema)

    def encoder(self) -> SchemaEncoder:
        """Return the transformer from raw tables to bounded rows."""
        if self.shaped:
            return body_encoder(self.schema)
        return self.schema.encoder(rows=self.file.encoding.rows, weighted=self.weighted)

    @property
    def shaped(self) -> bool:
        """Whether noise is asked for that is shaped like the rows."""
        return self.parameters.get("noise") == "schema"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns as they are learned from."""
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
    study = Study(file, content, schema, method, weighted)
    if (file.auxiliary is None) == method.auxiliary:
        raise StudyError(
            f"auxiliary: {method.name} learns from a file of public rows; give its sha256."
            if method.auxiliary
            else f"auxiliary: {method.name} has no use for it."
        )
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
    if len(study.payers) <= facts.colluding:
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
