"""A party killed at any moment: what left is what is sent again, and it is paid for once."""

import multiprocessing
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.kernel.ledger import Store
from confrere.ledger import Ledger
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy, Snapshots, serve
from confrere_federation.parties.requests import request_for

EPSILON = 0.5


def party_in(folder: Path) -> LocalParty:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) / 3
    books = PartyAccounts(
        ledger=Ledger(folder / "ledger"),
        account="study",
        policy=Policy(
            operations=frozenset({"objective"}),
            unit="record",
            neighbours="replace-one",
            epsilon_per_run=EPSILON,
        ),
        answers=Answers(folder / "answers"),
        snapshots=Snapshots.at(folder / "secret", folder / "rows"),
    )
    return LocalParty("clinic", X, np.where(X[:, 0] > 0, 1.0, -1.0), books)


def answer(run: str, party: LocalParty) -> bytes:
    """Return what leaves."""
    sizes = Sizes({"clinic": 50})
    plan = Averaging(frame=Frame(3), epsilon=EPSILON)
    return serve(request_for(plan.request(sizes, None)), party, run=run).encode()


def die_at(folder: Path, run: str, place: str, sent: Path) -> None:
    """Answer, but be killed just before or after the named step."""
    owner, name, when = place.split(".")
    target = {"ledger": Store, "answers": Answers, "snapshots": Snapshots}[owner]
    original = getattr(target, name)

    def fatal(*args, **kwargs):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(target, name, fatal)
    sent.write_bytes(answer(run, party_in(folder)))


PLACES = [
    f"{owner}.{name}.{when}"
    for owner, name in (
        ("answers", "claim"),
        ("snapshots", "_read"),
        ("ledger", "charge"),
        ("ledger", "note_model"),
        ("answers", "keep"),
        ("ledger", "mark"),
    )
    for when in ("before", "after")
]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("place", PLACES)
def test_killed_at_a_step(tmp_path, place):
    Ledger(tmp_path / "ledger").open_account("study", epsilon=EPSILON)
    sent = tmp_path / "sent"
    context = multiprocessing.get_context("fork")
    child = context.Process(target=die_at, args=(tmp_path, "run", place, sent))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not sent.exists()

    party = party_in(tmp_path)
    first = answer("run", party)
    assert Payload.decode(first).arrays["weights"].shape == (4,)
    assert answer("run", party_in(tmp_path)) == first
    (entry,) = party.books.ledger.entries("study")
    assert (entry.state, entry.spent) == ("released", EPSILON)
    party.books.ledger.verify()


def answer_forever(folder: Path, sent: Path) -> None:
    """Answer run after run; what is written to ``sent`` has left."""
    party = party_in(folder)
    number = len(list(sent.iterdir()))
    while True:
        draft = sent.parent / "draft"
        draft.write_bytes(answer(f"run{number}", party))
        draft.rename(sent / f"run{number}")
        number += 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_killed_at_any_moment(tmp_path):
    Ledger(tmp_path / "ledger").open_account("study")
    sent = tmp_path / "sent"
    sent.mkdir()
    context = multiprocessing.get_context("fork")
    chance = random.Random(3)
    for _ in range(12):
        child = context.Process(target=answer_forever, args=(tmp_path, sent))
        child.start()
        child.join(chance.uniform(0.1, 0.5))
        child.kill()
        child.join()
    party = party_in(tmp_path)
    left = {path.name: path.read_bytes() for path in sent.iterdir()}
    assert left
    for run, content in left.items():
        assert answer(run, party) == content
    entries = party.books.ledger.entries("study")
    # At most one run more was paid for than has left: the one that was being answered.
    assert len(left) <= len(entries) <= len(left) + 1
    assert party.books.ledger.spent("study") == EPSILON * len(entries)
    assert all(party.books.answers.kept(run) for run in left)
