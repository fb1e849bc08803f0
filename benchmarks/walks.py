"""Files of the package that one act passes: a measure of how far a reader has to walk.

Run ``python -m benchmarks.walks``. A file counts if one of its functions is entered while the act
runs; importing it does not count.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import numpy as np

import confrere
import confrere_federation
from benchmarks.ratchet import ROOMS
from confrere import (
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    TransferStackingClassifier,
)

#: Where rooms are, of either wheel.
PACKAGES = tuple(f"{Path(one.__file__).parent}/" for one in (confrere, confrere_federation))


@dataclass
class Walk:
    """What was entered."""

    files: set[str] = field(default_factory=set)
    calls: int = 0
    #: How often the next function is of another room than the last one.
    switches: int = 0

    @property
    def rooms(self) -> set[str]:
        """The packages of the files."""
        return {name.split("/")[0] for name in self.files}


@contextmanager
def walked() -> Iterator[Walk]:
    """Note every function of the package that is entered, in any thread."""
    walk = Walk()
    last = ""

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal last
        code = frame.f_code
        root = next((one for one in PACKAGES if code.co_filename.startswith(one)), None)
        if event != "call" or root is None:
            return
        if not code.co_flags & CO_OPTIMIZED:
            return  # the body of a module or a class, which is imported now
        name = code.co_filename[len(root) :]
        room = ROOMS.get(name.split("/")[0], name.split("/")[0]) if "/" in name else ""
        walk.calls += 1
        walk.files.add(name)
        walk.switches += room != last
        last = room

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def rows(n: int = 300, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up rows and labels."""
    X = np.random.default_rng(0).normal(size=(n, d)) / 4
    return X, (X[:, 0] > 0).astype(int)


def fit() -> Callable[[], object]:
    """A plain private fit on a ledger of its own."""
    X, y = rows()
    model = PrivateLogisticRegression(budget=Ledger())
    return lambda: model.fit(X, y)


def transfer_stack() -> Callable[[], object]:
    """A stack near another organisation's release."""
    X, y = rows()
    source = FeatureStackingClassifier(n_groups=2, budget=Ledger()).fit(X, y).to_release()
    model = TransferStackingClassifier(source=source, budget=Ledger())
    return lambda: model.fit(X, y)


def study() -> Callable[[], object]:
    """``confrere fit study.toml`` of the template's three hospitals, with made-up patients."""
    from typer.testing import CliRunner

    from confrere.cli.app import app
    from confrere_federation.studies.study_file import write_template

    folder = Path(tempfile.mkdtemp())
    os.environ["CONFRERE_WITNESS"] = str(folder / "witness")  # nothing is left in anybody's home
    write_template(folder, seed=0)
    # The plain study: a check of what its experts say is one more round of the same kind.
    file = folder / "study.toml"
    file.write_text(file.read_text().replace("[method]\n", '[method]\nprior = "none"\n'))
    runner = CliRunner()
    line = ["fit", str(folder / "study.toml"), "--yes", "--out", str(folder / "out")]
    return lambda: runner.invoke(app, line, catch_exceptions=False)


def federated_round() -> Callable[[], object]:
    """Three parties with ledgers of their own answer once, in this process."""
    from confrere.data.frame import Frame
    from confrere.methods.average import Averaging
    from confrere_federation.parties.federation import LocalFederation
    from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy

    X, y = rows()
    parties = []
    for k in range(3):
        ledger = Ledger()
        ledger.open_account("study", epsilon=2.0)
        part = slice(100 * k, 100 * k + 100)
        policy = Policy.anything(unit="record", neighbours="replace-one")
        books = PartyAccounts(ledger=ledger, account="study", policy=policy)
        parties.append(LocalParty(f"party {k}", X[part], 2.0 * y[part] - 1, books))
    federation = LocalFederation(parties)
    plan = Averaging(frame=Frame(X.shape[1]), epsilon=1.0)
    return lambda: federation.run_protocol(plan.steps(federation.parties()))


WALKS: dict[str, Callable[[], Callable[[], object]]] = {
    "PrivateLogisticRegression.fit": fit,
    "TransferStackingClassifier.fit": transfer_stack,
    "confrere fit study.toml": study,
    "a federated round": federated_round,
}


def main() -> None:
    """Print every walk."""
    verbose = "-v" in sys.argv
    for name, prepare in WALKS.items():
        act = prepare()
        with walked() as walk:
            act()
        print(
            f"{name}: {len(walk.files)} files, {len(walk.rooms)} rooms, {walk.calls} calls, "
            f"{walk.switches} switches between rooms"
        )
        if verbose:
            print("  " + "\n  ".join(sorted(walk.files)))


if __name__ == "__main__":
    main()
