"""A party on its own side: its data, its books, and what it allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.data.codes import Coded
from confrere.data.encoding import SchemaEncoder
from confrere.data.engines import check_engine, opened_engine
from confrere.errors import InvalidData, InvalidParameter, StudyError
from confrere.kernel.guarantee import Guarantee, Neighbours
from confrere.kernel.streams import RandomSource, Seed, SeededSource, simulation_of
from confrere.ledger import Ledger, Limit
from confrere.ledger.witness import shared_storage, witness_folder
from confrere.solver.row_blocks import Engine
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.grant import Policy
from confrere_federation.parties.masks import Masking
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.requests import Operation, PartyFacts
from confrere_federation.parties.snapshots import Snapshots

if TYPE_CHECKING:
    from confrere_federation.parties.requests import RawRows


@dataclass(frozen=True, kw_only=True)
class Books:
    """Who pays, what is allowed, and what was answered.

    Parameters
    ----------
    ledger : Ledger
        Charged before any noise is drawn.
    account : str, optional
        The account in it.
    policy : Policy
        What is agreed to: what is answered, and for which unit and relation.
    answers : Answers
        The file that every answer is in before it leaves; a temporary one by default.
    limit : Limit, optional
        A cap on all that may ever be spent on these data, besides the account's own.
    snapshots : Snapshots, optional
        What its noise follows from, and which rows are paid for: between machines. Where one
        process has all parties, noise is the system's.
    """

    ledger: Ledger
    policy: Policy
    account: str | None = None
    answers: Answers = field(default_factory=Answers)
    limit: Limit | None = None
    snapshots: Snapshots | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger) or not isinstance(self.policy, Policy):
            raise InvalidParameter(
                "books need a ledger to charge, and a policy that says what is answered, and for "
                "which unit and relation."
            )


@dataclass(frozen=True)
class LocalParty:
    """One organisation's side of a federation.

    Parameters
    ----------
    name : str
        What others call it.
    X : (n, d) array
        Rows, encoded by the public schema; finite.
    y : (n,) array
        Labels -1 and +1; of more than two classes their codes, from 0.
    masking : Masking, optional
        Its keys, for sums that nobody sees into.
    ballot : (N,) array of bool, optional
        What its own classifier votes on the public rows of its study, of more than two classes
        their codes; by default logistic regression does. It is of the party's making alone, and
        made before anything is asked.
    engine : str, optional
        Who reads its rows, where an answer takes many passes over them.
    raw : RawRows, optional
        What it can count, where facts of the schema are learned first.
    encode : callable, optional
        From an encoder to its rows and labels, encoded by it, where that is known only in the run.
    """

    name: str
    X: Floats | Coded
    y: Floats
    books: Books
    random_state: Seed | None = None
    masking: Masking | None = None
    n_classes: int = 2
    ballot: NDArray[np.bool_] | NDArray[np.int64] | None = None
    engine: str | None = None
    raw: RawRows | None = None
    encode: Callable[[SchemaEncoder], tuple[Floats | Coded, Floats]] | None = None
    encoding: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.engine is not None:
            check_engine(self.engine, "engine")
        _check_name(self.name)
        object.__setattr__(self, "X", _rows(self.X))
        object.__setattr__(self, "y", np.asarray(self.y, dtype=np.float64))
        _check_data(self.X, self.y, self.n_classes, least=_least_rows(self.books))

    def opened_engine(self) -> AbstractContextManager[Engine | None]:
        """Return who reads the rows, to be closed: a loop unless one is named."""
        return nullcontext() if self.engine is None else opened_engine(self.engine)

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
    def _encoded(self) -> list[tuple[dict[str, Any], LocalParty]]:
        return []

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded, so that nothing may be released."""
        return self.random_state is not None

    @cached_property
    def _seeded(self) -> SeededSource | None:
        # A generator is asked once, so that asking for a stream has no side effects.
        return simulation_of(self.random_state)

    def simulation(self, operation: str, step: int) -> SeededSource | None:
        """Return the seeded stream of one answer, where noise is not real."""
        seeded = self._seeded
        return None if seeded is None else seeded.stream(operation, step).stream(self.name, 0)

    @property
    def codes(self) -> NDArray[np.intp]:
        """The class of every row, from 0."""
        return np.asarray(self.y > 0 if self.n_classes == 2 else self.y, dtype=np.intp)

    @property
    def facts(self) -> PartyFacts:
        """The sizes of its data."""
        return PartyFacts(int(self.X.shape[0]), self.n_features, self.n_classes)

    def price(self, request: Operation) -> Guarantee | None:
        """Return what answering costs, or say that the request is wrong."""
        return request.price(self.facts.n_samples)

    def release(self, request: Operation, source: RandomSource) -> Payload:
        """Do what is asked, once it is paid for."""
        return Payload(arrays=request.answer(self, source))


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


def check_names(names: Sequence[str]) -> None:
    """Refuse names that two parties share."""
    for name in names:
        _check_name(name)
    if len(set(names)) != len(names) or not names:
        raise InvalidParameter("parties must have names, and different ones.")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise InvalidParameter("a party's name must be a printable text of 1 to 64 characters.")


def _least_rows(books: Books) -> int:
    """Return the fewest rows of a party: none where nobody may know how many there are."""
    return 0 if books.policy.neighbours == Neighbours.ADD_REMOVE else 1


def _rows(X: Floats | Coded) -> Floats | Coded:
    return X if isinstance(X, Coded) else np.asarray(X, dtype=np.float64)


def _check_data(X: Floats | Coded, y: Floats, n_classes: int = 2, least: int = 1) -> None:
    # Checked when a party is set up, so that no question can find it out.
    if len(X.shape) != 2 or X.shape[0] < least or X.shape[1] < 1 or y.shape != X.shape[:1]:
        raise InvalidData("X needs rows and columns, and y one label per row.")
    # In parts: the rows may be larger than memory.
    parts = range(0, len(X) if isinstance(X, np.ndarray) else 0, 65_536)
    if not all(np.isfinite(X[i : i + 65_536]).all() for i in parts):
        raise InvalidData("X must be finite; encode missing values by a PublicSchema.")
    if n_classes == 2 and not np.all(np.abs(y) == 1):
        raise InvalidData("y must be -1 or +1.")
    if n_classes > 2 and not np.all(np.isin(y, np.arange(n_classes))):
        raise InvalidData("y must be codes of the declared classes, from 0.")
