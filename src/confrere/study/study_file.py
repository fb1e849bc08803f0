"""The study file: what all organisations agree to, the same bytes at every party."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confrere.catalogue import Method, find_method
from confrere.errors import ConfrereError, SchemaError, StudyError
from confrere.federation.summing import READY
from confrere.federation.sums import FACTS, Hides
from confrere.guarantee import Unit
from confrere.mechanisms.secure_sum import colluders_of, quorum_of_sums
from confrere.release.signing import public_line, read_public_key
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.fact_counts import FactCounts
from confrere.study.learning import body_encoder
from confrere.study.parameters import check_parameters
from confrere.study.study_tables import Engine, Mode, Party, Promise, StudyFile
from confrere.study.typed_files import parse_toml, read_bytes

#: Whoever asks; no party has this name, under which kits and signatures of the asker lie.
COORDINATOR = "coordinator"


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
        return READY in self._asked

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
            sized = () if self.promise.protects is Unit.PARTY else ("size",)
            asked = tuple(dict.fromkeys((*sized, READY, FACTS.name, *asked)))
        return asked + ((self.method.counting,) if self.file.evaluation else ())

    @property
    def _asked(self) -> tuple[str, ...]:
        by_sum = self.method.summed if self.trust == "sum" else ()
        return by_sum or self.method.operations

    @property
    def peers_needed(self) -> int:
        """How many of the others a party must know, so that made-up ones hide nobody's absence."""
        said = [self.colluding] if self.adds_up else []
        if self.file.facts is not None:
            facts = self.file.facts.colluding
            said.append(colluders_of(facts, len(self.payers), self.quorum_of_sums))
        count = len(self.payers)
        return min(count - 1, count - min(said)) if said else 0

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
