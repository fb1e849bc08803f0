"""Killed at any moment, a ledger never shows less than what was let out."""

import json
import multiprocessing
import random
import time

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger

EPSILON = 0.1


def release_forever(path, artifacts):
    """Charge, let something out, say so; again and again."""
    ledger = Ledger(path)
    while True:
        receipt = ledger.charge("study", Guarantee(EPSILON), purpose="fit")
        (artifacts / f"{receipt.row}.json").write_text(json.dumps(receipt.to_dict()))
        ledger.mark_released(receipt, digest=f"row-{receipt.row}")


def let_out(artifacts):
    return {int(file.stem): file for file in artifacts.iterdir()}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(
    "kills", [40, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_nothing_let_out_is_ever_forgotten(tmp_path, kills):
    path, artifacts = tmp_path / "books.ledger", tmp_path / "artifacts"
    artifacts.mkdir()
    context = multiprocessing.get_context("fork")
    chance = random.Random(20)
    ledger = Ledger(path)
    ledger.open_account("study")
    head = ledger.head()

    for _ in range(kills):
        enough = len(let_out(artifacts)) + chance.randint(0, 2)
        child = context.Process(target=release_forever, args=(path, artifacts), daemon=True)
        child.start()
        while child.is_alive() and len(let_out(artifacts)) < enough:
            time.sleep(0.0005)
        time.sleep(chance.uniform(0.0, 0.015))
        child.kill()
        child.join()
        assert child.exitcode == -9

        # A fresh handle, as whoever comes after the crash has.
        ledger = Ledger(path)
        ledger.verify(head=head)
        head = ledger.head()
        entries = {entry.row: entry for entry in ledger.entries()}
        out = let_out(artifacts)
        released = {row for row, entry in entries.items() if entry.state == "released"}
        assert released <= out.keys() <= entries.keys()
        assert ledger.spent("study") == round(EPSILON * len(entries), 9)

    for row, file in out.items():
        text = file.read_text()
        if text:  # The kill may have come between making the file and writing it.
            assert json.loads(text)["hash"] == entries[row].hash
    # The kills did come between a charge and its end as well as after it.
    assert {entry.state for entry in entries.values()} == {"open", "released"}
    assert ledger.charge("study", Guarantee(EPSILON), purpose="life goes on").row not in entries
