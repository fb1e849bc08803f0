"""A study as a value: what all parties agreed to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from confrere.catalogue import Method
from confrere.errors import StudyError
from confrere.guarantee import Neighbours, Unit
from confrere.schema import PublicSchema, SchemaEncoder

Mode = Literal["private", "simulation"]
Engine = Literal["local", "flower"]
Role = Literal["source", "member"]


@dataclass(frozen=True)
class Promise:
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
    """

    protects: Unit
    relation: Neighbours
    unit: str = "person"
    unit_column: str | None = None
    max_rows_per_unit: int = 1
    parties_per_unit: int = 1


@dataclass(frozen=True)
class Encoding:
    """How rows are bounded and weighted: ``[encoding]``; see :class:`SchemaEncoder`."""

    rows: Literal["clip", "unit"]
    weighted: bool

    def encoder(self, schema: PublicSchema) -> SchemaEncoder:
        """Return the transformer from raw tables to bounded rows."""
        return schema.encoder(rows=self.rows, weighted=self.weighted)


@dataclass(frozen=True)
class Party:
    """One organisation: ``[[party]]``.

    Attributes
    ----------
    name : str
    dataset : str
        What its data are called; where they lie is in its own local file.
    role : {"source", "member"}
        In a transfer, whose release the others start from.
    cap : float or None
        The most that its account may ever have spent, as far as this study is concerned.
    cap_delta : float
        The same for delta; without a word about it only pure methods are covered.
    key : str or None
        The public key that it signs grants, answers and releases with: ``ssh-ed25519 AAAA...``.
    """

    name: str
    dataset: str
    role: Role = "member"
    cap: float | None = None
    cap_delta: float = 0.0
    key: str | None = None

    @property
    def account(self) -> str:
        """The account that pays: one per organisation and data set."""
        return f"{self.name}/{self.dataset}"


@dataclass(frozen=True)
class Study:
    """What all parties agreed to.

    Attributes
    ----------
    id, title, purpose : str
        For people.
    mode : {"private", "simulation"}
        A simulation's noise is seeded: its card can never be released.
    promise : Promise
    schema : PublicSchema
    encoding : Encoding
    method : Method
        From the catalogue.
    epsilon : float
        What every party spends, per record.
    parameters : dict
        Further arguments of the method.
    parties : tuple of Party
    engine : {"local", "flower"}
    quorum : float
        Share of the parties that must take part.
    split_seed : int
        Of public splits; never of noise.
    noise_seed : int or None
        In a simulation, the seed of the noise.
    content : bytes
        The file.
    """

    id: str
    title: str
    purpose: str
    mode: Mode
    promise: Promise
    schema: PublicSchema
    encoding: Encoding
    method: Method
    epsilon: float
    parameters: dict[str, Any]
    parties: tuple[Party, ...]
    engine: Engine
    quorum: float
    split_seed: int
    noise_seed: int | None
    content: bytes

    @property
    def sha256(self) -> str:
        """The hash of the file: in the plan, the ledger and the card."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded."""
        return self.mode == "simulation"

    @property
    def sources(self) -> tuple[Party, ...]:
        """In a transfer, the parties whose releases the others start from."""
        if self.method.shape != "transfer":
            return ()
        return tuple(party for party in self.parties if party.role == "source")

    def seed_for(self, name: str) -> int | None:
        """In a simulation, the seed of one party's noise: each draws its own."""
        if not self.simulated:
            return None
        text = f"{self.noise_seed or 0}/{name}"
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
        return self.encoding.encoder(self.schema)
