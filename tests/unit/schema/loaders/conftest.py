from __future__ import annotations

import dataclasses
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from confrere.schema.loaders.files import PublishedFile

Publish = Callable[..., PublishedFile]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Write small content where a loader looks for the real one; return the file pinned to it."""

    def write(
        published: PublishedFile, content: bytes, *, sha256: str | None = None, packed: bool = True
    ) -> PublishedFile:
        folder = tmp_path / published.folder
        folder.mkdir(exist_ok=True)
        if packed:
            (folder / f"{published.file}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / published.file).write_bytes(content)
        return dataclasses.replace(published, sha256=sha256 or hashlib.sha256(content).hexdigest())

    return write
