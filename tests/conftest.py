"""Heads of ledgers are kept in folders of the tests: nothing is written into anybody's home."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDER = tempfile.TemporaryDirectory(prefix="confrere-witness-")
os.environ["CONFRERE_WITNESS"] = _FOLDER.name
# For programs that are started without any variable of ours.
os.environ["XDG_STATE_HOME"] = _FOLDER.name


@pytest.fixture(autouse=True)
def witness_of_this_test() -> Iterator[Path]:
    """A folder of its own, so that tests may copy one ledger and go on with it."""
    folder = tempfile.TemporaryDirectory(dir=_FOLDER.name)
    with pytest.MonkeyPatch.context() as patch, folder as own:
        patch.setenv("CONFRERE_WITNESS", own)
        yield Path(own)
