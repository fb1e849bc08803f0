"""What was drawn once: on disk before it leaves, and the same bytes ever after.

A file of rows like the ledger's, each sealed to the one before. A party keeps its answers so; a
coordinator that adds noise what it released; and a coordinator between machines the answers that it
used, step by step: where a quorum let a round go on without someone, the next question depends on
who had answered, so a run that is started again must go on from them. Only answers that were found
valid get there, those to a sum together, and tries of a sum that were lost are noted as such: a
file cannot hold what a run would fail on again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, final

from typing_extensions import override

from confrere.errors import FederationError, LedgerError, NotALedger, OperationRefused
from confrere.files import write_new
from confrere.kernel.guarantee import exact, plus
from confrere.kernel.ledger import LogFile, Row, transaction
from confrere_federation.parties.messages import Values

_FORMAT = 4

#: How often a question may be claimed that nothing was paid for: who asks for ever fills no disk.
_MOST_CLAIMS = 100


class Key(NamedTuple):
    """Which question: asked again, it has the same key."""

    run: str
    operation: str
    step: int


class Claim(NamedTuple):
    """What is known of a question: nothing yet, its answer, or why there is none."""

    answer: bytes | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    question: str
    epsilon: Decimal
    row: int = 0  #: Of its answer, or of why there is none
    failure: str | None = None


class _AnswerLog(LogFile):
    """Where rows about answers are; what they hold is read from the disk when it is wanted."""

    first: Values

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.asked: dict[Key, _Asked] = {}
        self.withdrawn = Counter[Key]()

    @override
    def enter(self, row: Row) -> None:
        facts = row.facts
        if row.seq == 1:
            if (facts.get("of"), facts.get("format")) != ("answers", _FORMAT):
                raise NotALedger("it is not a file of answers.")
            self.first = facts
            return
        key = Key(*facts["key"])
        if row.kind == "asked":
            one = _Asked(facts["question"], Decimal(facts["epsilon"]))
            if self.asked.setdefault(key, one) is not one:
                raise ValueError("a question is claimed once")
        elif self.asked[key].row:
            raise ValueError("an answer does not change")
        elif row.kind == "withdrawn":
            del self.asked[key]
            self.withdrawn[key] += 1
        else:
            self.asked[key] = replace(self.asked[key], row=row.seq, failure=facts.get("code"))

    def claim(self, key: Key) -> Claim:
        one = self.asked[key]
        if not one.row or one.failure is not None:
            return Claim(failure=one.failure)
        return Claim(b64decode(self.row(one.row).facts["answer"]))


@final
class Answers:
    """An answer file, its owner's alone, made if it is not there.

    Without a path it is a temporary one for simulations, gone with this object.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._durable = path is not None
        if path is None:
            folder = tempfile.mkdtemp(prefix="confrere-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder) / "answers"
        self.path = Path(path).resolve()
        if not self.path.exists():
            facts = {"of": "answers", "format": _FORMAT, "id": uuid.uuid4().hex}
            try:
                with suppress(FileExistsError):  # another process was quicker
                    write_new(self.path, Row.sealed("genesis", facts, after=None).line)
            except OSError as error:
                raise FederationError(f"{self.path}: cannot be created ({error}).") from error
        with self._opened() as log:  # A file that is something else is refused here.
            #: Names this file and no other: a new file in its place has another.
            self.id: str = log.first["id"]

    @contextmanager
    def _opened(self) -> Iterator[_AnswerLog]:
        try:
            with transaction(self.path, _AnswerLog) as log:
                yield log
        except LedgerError as error:
            raise FederationError(f"{self.path}: not a file of answers ({error})") from error

    def _append(self, log: _AnswerLog, kind: str, **facts: object) -> None:
        log.append(kind, facts, durable=self._durable)

    def claim(
        self,
        key: Key,
        *,
        question: str,  # Digest of everything that was asked
        epsilon: float = 0.0,  # Its price; none for public facts
        cap: float | None = None,  # The most that all questions of the run may cost together
        # Whether the price is for all steps of the operation in the run: the first pays it
        once: bool = False,
    ) -> Claim:
        """Reserve a question, or find what became of it.

        Raises OperationRefused if the key was used for another question, or the run would cost
        more than the cap.
        """
        with self._opened() as log:
            if key in log.asked:
                if log.asked[key].question != question:
                    raise OperationRefused(
                        "this step of the run was asked another question before.", "changed"
                    )
                return log.claim(key)
            if log.withdrawn[key] >= _MOST_CLAIMS:
                raise OperationRefused("it was asked for too often and not paid.", "repeated")
            of_run = {one: asked for one, asked in log.asked.items() if one.run == key.run}
            if once and any(one.operation == key.operation for one in of_run):
                epsilon = 0.0
            total = exact(epsilon)
            for asked in of_run.values():
                total = plus(total, asked.epsilon)
            if cap is not None and total > exact(cap):
                raise OperationRefused("the run would spend more than this party allows.", "price")
            price = str(exact(epsilon))
            self._append(log, "asked", key=[*key], question=question, epsilon=price)
        return Claim()

    def asked(self) -> set[Key]:
        """Return which questions have been claimed, whatever became of them."""
        with self._opened() as log:
            return set(log.asked)

    def withdraw(self, key: Key) -> None:
        """Forget a claim that nothing was paid for."""
        with self._opened() as log:
            if key in log.asked and not log.asked[key].row:
                self._append(log, "withdrawn", key=[*key])

    def keep(self, key: Key, answer: bytes) -> bytes:
        found = self._finish(key, "answered", answer=b64encode(answer).decode())
        if found is None:
            raise FederationError("the question failed while it was answered.")
        return found

    def fail(self, key: Key, code: str) -> bytes | None:
        """Note that the question has no answer and never will; return one if it was answered."""
        return self._finish(key, "failed", code=code)

    def _finish(self, key: Key, kind: str, **facts: str) -> bytes | None:
        with self._opened() as log:
            if key not in log.asked:
                raise FederationError("the question was withdrawn while it was answered.")
            if not log.asked[key].row:
                self._append(log, kind, key=[*key], **facts)
            return log.claim(key).answer

    def answer_to(self, key: Key) -> bytes | None:
        with self._opened() as log:
            return log.claim(key).answer if key in log.asked else None

    def kept(self, run: str) -> dict[tuple[str, int], bytes]:
        """Return every answer of a run, by operation (or slot) and step."""
        with self._opened() as log:
            found = {key[1:]: log.claim(key).answer for key in log.asked if key.run == run}
        return {at: one for at, one in found.items() if one is not None}
