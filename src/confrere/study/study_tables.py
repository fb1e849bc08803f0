"""The tables of a study file, and what may stand in them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from confrere.catalogue import find_method
from confrere.errors import InvalidParameter
from confrere.guarantee import Neighbours, Unit
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
)

Mode = Literal["private", "simulation"]
Engine = Literal["local", "flower"]
Role = Literal["source", "member"]

#: How many lost sums a study pays for unless it says so: one party that is lost, or lies, must not
#: cost the others what they paid.
RESERVE = 1


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
    """``[federation]``: what carries the questions, and the share of parties that must answer.

    By default all of them; in a sum of more than three parties all but one.
    """

    engine: Engine = "local"
    quorum: Share | None = None


class RandomTable(Table):
    """``[random]``: seeds of public splits and, in a simulation, of the noise."""

    split_seed: Seed = 0
    noise_seed: Seed | None = None


class EvaluationTable(Table):
    """``[evaluation]``: what every party spends on counting the errors of the finished model."""

    epsilon: Positive


class FactsTable(Table):
    """``[facts]``: what every party spends on facts that the schema lacks, before anything else.

    They are sums over all parties that nobody sees into.

    Attributes
    ----------
    epsilon : float
    colluding : int or "auto"
        How many parties may pool what they know; by default a minority of those of a sum.
    reserve : int
        How many lost sums are paid for.
    """

    epsilon: Positive
    colluding: Count | Literal["auto"] = "auto"
    reserve: Annotated[int, Field(ge=0)] = RESERVE


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
    facts: FactsTable | None = None

    @field_validator("version", mode="before")
    @classmethod
    def _this_version(cls, value: Any) -> Any:
        if type(value) is not int:
            raise fault("must be a whole number")
        if value != 1:
            raise fault("must be 1; this is another version's study")
        return value
