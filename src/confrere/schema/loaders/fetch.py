"""Download one official file with a progress bar, and open the containers it comes in."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

SILENCE_SECONDS = 10


def download(url: str) -> bytes:
    """Return what ``url`` holds. The caller verifies the content; nothing stays on disk.

    Raises
    ------
    OSError
        No connection, or a refusal; failures of ``requests`` are of this kind.
    """
    bar = _RichBar(url.rsplit("/", 1)[-1])
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=SILENCE_SECONDS)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(bar), _quiet_pooch():
        # The container's own hash is nobody's promise (archives are packed again and again):
        # what is inside is verified instead, on every load.
        path = pooch.retrieve(
            url, known_hash=None, fname="download", path=folder, downloader=downloader
        )
        return Path(path).read_bytes()


def unzip(*members: str) -> Callable[[bytes], bytes]:
    """Return a function that opens ``members[0]`` of a zip file, in it ``members[1]``, ..."""

    def extract(content: bytes) -> bytes:
        for member in members:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(member)
        return content

    return extract


@contextlib.contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Hold back pooch's advice to pin the container's hash and its talk of temporary files."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _RichBar:
    """The little of a progress bar that pooch asks for, drawn by rich on the error stream."""

    def __init__(self, label: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
        )
        self._task = self._progress.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        """Bytes to come."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, n_bytes: float) -> None:
        self._progress.update(self._task, total=n_bytes or None)
        self._progress.start()

    def update(self, n_bytes: float) -> None:
        """Count what has come."""
        self._progress.update(self._task, advance=n_bytes)

    def reset(self) -> None:
        """Back to nothing."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Leave the last line as it is."""
        self._progress.stop()
