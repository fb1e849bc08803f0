"""What tests have in common."""

import functools
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization

from confrere import Guarantee, Ledger
from confrere.arrays import Floats
from confrere.assurance.audit.adversary import LOGISTIC, Comparison
from confrere.assurance.audit.densities import log_det, pull
from confrere.kernel.accountants import loss_of
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import Columns, Objective, RowCount
from confrere.kernel.noise import L2, HiddenSize, Norm, RandomSource
from confrere.kernel.release import Ticket, paying
from confrere.methods import allowance
from confrere.methods.votes import PartyTotal
from confrere.release import read_private_key

SLOW = pytest.mark.slow
#: Which changes are hidden.
RELATIONS = (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE)


@contextmanager
def paid(guarantee: Guarantee) -> Iterator[Ticket]:
    """A ticket for real noise, from a ledger of its own."""
    ledger = Ledger()
    ledger.open_account("test", unit=guarantee.unit, neighbours=guarantee.neighbours)
    with paying(ledger, "test", guarantee, purpose="a test") as ticket:
        yield ticket


@contextmanager
def system_stream() -> Iterator[RandomSource]:
    """The operating system's randomness, as one booked draw sees it."""
    with paid(Guarantee(1.0)) as ticket:
        yield ticket._book(Guarantee(1.0))


def each(**wrong: Iterable[Any]) -> list[dict[str, Any]]:
    """One change at a time: ``each(a=(1, 2), b=(3,))`` is ``[{"a": 1}, {"a": 2}, {"b": 3}]``."""
    return [{name: value} for name, values in wrong.items() for value in values]


def covering(cases: Iterable[Any], strength: int = 2) -> list[Any]:
    """Cases among which any values of so many dimensions meet wherever they do among all."""
    met = {
        case: {
            (places, tuple(case[place] for place in places))
            for places in combinations(range(len(case)), strength)
        }
        for case in map(tuple, cases)
    }
    left, kept = set().union(*met.values()), []
    while left:
        kept.append(max(met, key=lambda case: len(met[case] & left)))
        left -= met[kept[-1]]
    return kept


def rest_slow(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Parameters, of which all but those that are kept are for ``make test-slow``."""
    return [
        pytest.param(case, id="-".join(map(str, case)), marks=[] if case in kept else [SLOW])
        for case in cases
    ]


def forget() -> None:
    """Empty what was kept of rates: code that is broken must not find what sound code made."""
    rooms = ("confrere.kernel", "confrere.methods")
    for module in [one for name, one in sys.modules.items() if name.startswith(rooms)]:
        for kept in vars(module).values():
            if isinstance(kept, functools._lru_cache_wrapper):
                kept.cache_clear()


def unit_rows(n: int, d: int, seed: int = 0, flat: float = 1.0) -> Floats:
    """Return rows of the ball, which later columns make ``flat``."""
    X = np.random.default_rng(seed).normal(size=(n, d)) * np.geomspace(1, flat, d)
    return 0.999 * X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)


def log_density(w, X, y, *, rho, ridge, centre=0.0, loss=LOGISTIC) -> float:
    """Return ``-rho ||b(w)|| + log det A(w)`` for dense rows and noise of the L2 norm."""
    w = np.ravel(np.asarray(w, dtype=np.float64))
    b = pull(loss, w, X, y) + ridge * (w - np.ravel(centre))
    return float(-rho * np.linalg.norm(b) + log_det(loss, w, X, y, ridge))


def opposed_case(d: int, *, tilt: float, tilt_second: float, size: float) -> Comparison:
    """Return the worst construction known: both records badly fitted, pulling opposite ways."""
    rows = np.zeros((3, d))
    rows[:, 0] = -np.cos(tilt), np.cos(tilt_second), 0
    rows[:, 1] = -np.sin(tilt), -np.sin(tilt_second), size
    return Comparison(np.zeros((0, d)), *rows)


def row_count(n: int, relation: Neighbours) -> RowCount:
    """How many rows there are, or what stands for that where it is not public."""
    return HiddenSize(n) if relation is Neighbours.ADD_REMOVE else n


def ball(
    size: int, *, kind: Any = L2, classes: int = 2, cap: float = 1.0, **facts: Any
) -> Objective:
    """One objective of rows in a ball: of L2, sixty of them, at epsilon 1, unless facts differ."""
    return objective(
        norm=kind(size), loss=loss_of(classes, cap), **{"epsilon": 1.0, "n_samples": 60} | facts
    )


def objective(*, norm: Norm, ridge: float, centre: Any = None, **facts: Any) -> Objective:
    """One objective of rows in a norm."""
    return allowance.objective(blocks=(Columns(norm, ridge, centre=centre),), **facts)


def near(made: Objective, centre: Any) -> Objective:
    """The same around a public point."""
    return replace(made, blocks=(replace(made.blocks[0], centre=centre),))


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, by its place there."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def votes_for(second: Any, counted: int) -> Any:
    """Votes of so many parties on every row: so many for the second of two classes."""
    second = np.asarray(second)
    return np.stack([counted - second, second], axis=1)


def released(made: PartyTotal, data: Any, source: Any, count: int = 1) -> Any:
    """What a total of parties is after noise, so many times, in the shape that is wanted."""
    value = made.value(*data) if isinstance(data, tuple) else made.value(data)
    (noised,) = made.noise.sample(value, source, count)
    return made.turned(noised)


def groups(
    norms: Sequence[Norm],
    ridges: Sequence[float],
    weights: Sequence[float],
    *,
    classes: int = 2,
    cap: float = 1.0,
    **facts: Any,
) -> Objective:
    """Objectives of groups of columns of the same sixty records, at epsilon 1."""
    blocks = tuple(map(Columns, norms, ridges, weights))
    return allowance.objective(
        blocks=blocks, loss=loss_of(classes, cap), **{"epsilon": 1.0, "n_samples": 60} | facts
    )


def lock_key(path: Path, passphrase: str) -> None:
    """Give a signing key a passphrase, as ``ssh-keygen -p`` does."""
    form, lock = serialization.PrivateFormat.OpenSSH, serialization.BestAvailableEncryption
    key = read_private_key(path)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock(passphrase.encode())))


class Page(HTMLParser):
    """What a browser makes of a page: tags, attributes, titles and text; every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.titles: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.words += [value or "" for name, value in attrs if name == "value"]
        if tag not in ("meta", "br", "link", "input"):
            self.open.append(tag)
        if tag == "h2":
            self.titles.append("")

    def handle_endtag(self, tag: str) -> None:
        # A paragraph or an item may stay open in HTML; ours never do.
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.titles[-1] += data
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split()).replace("\u202f", " ")
