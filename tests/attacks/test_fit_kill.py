"""kill -9 during fits: whatever left was paid for, and the ledger opens and verifies."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("fit_killer.py")


def test_nothing_leaves_unpaid_when_fits_are_killed(tmp_path):
    folder = tmp_path / "released"
    folder.mkdir()
    command = [sys.executable, str(PROGRAM), str(tmp_path / "budget.ledger"), str(folder)]
    done = subprocess.run([*command, "50", "20261115"], capture_output=True, text=True, check=True)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 50
    for report in reports:
        assert report["verified"]
        assert report["unpaid"] == 0
        assert report["charged"] >= report["released"]
        assert report["spent"] == 0.25 * report["charged"]
    # The kills must have hit running fits, not only the start of the children.
    assert reports[-1]["released"] >= 25
    assert reports[-1]["charged"] > reports[-1]["released"]
