from __future__ import annotations

from pathlib import Path

import pytest

from confrere.ledger import Ledger
from confrere.privacy import Guarantee


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "books.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A durable ledger with one account, capped at 1."""
    ledger = Ledger(path)
    ledger.open_account("study", epsilon=1.0)
    return ledger


@pytest.fixture
def tenth() -> Guarantee:
    return Guarantee(0.1, theorem="objective_perturbation", public=("n_samples",))
