"""Find a published file, or fetch it; hand over its content only if it is the published one."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import logging
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pooch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from confrere.errors import DataSetCorrupt, DataSetMissing

DATA_VARIABLE = "CONFRERE_DATA"

DataDir = str | os.PathLike[str] | None
Opened = TypeVar("Opened")

_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a data set, named by its content.

    Parameters
    ----------
    folder, file : str
        Where it lies below the data directory. ``file`` names the plain content; on disk it
        may also be gzipped, with ``.gz`` added.
    sha256 : str
        Digest of the content, not of its container: see the ``read_*`` functions.
    page : str
        Where a person finds it.
    url : str, optional
        What to download; empty where a login or a form stands in the way.
    convert : callable, optional
        Turns the official container into the content of ``file``.
    """

    folder: str
    file: str
    sha256: str
    page: str
    url: str = ""
    convert: Callable[[bytes], bytes] | None = None


def data_directory(data_dir: DataDir = None) -> Path:
    """Return the argument, else the environment's ``CONFRERE_DATA``, else the user's cache."""
    chosen = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE)
    return Path(chosen if chosen else pooch.os_cache("confrere")).expanduser()


def read_content(published: PublishedFile, data_dir: DataDir) -> bytes:
    """Return the verified plain bytes; the digest is the sha256 of them."""
    return _read(
        published, data_dir, lambda content: (content, hashlib.sha256(content).hexdigest())
    )


def read_archive(published: PublishedFile, data_dir: DataDir) -> dict[str, bytes]:
    """Return the verified members of a tar file, sorted by name.

    The digest is the sha256 over ``name, 0, sha256(member)`` of the sorted members, so that
    packing the same members again changes nothing.
    """

    def opened(content: bytes) -> tuple[dict[str, bytes], str]:
        members: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                handle = archive.extractfile(member) if member.isfile() else None
                if handle is not None:
                    members[member.name] = handle.read()
        members = dict(sorted(members.items()))
        digest = hashlib.sha256()
        for name, member_content in members.items():
            digest.update(name.encode() + b"\0" + hashlib.sha256(member_content).digest())
        return members, digest.hexdigest()

    return _read(published, data_dir, opened)


def read_arrays(
    published: PublishedFile, data_dir: DataDir, names: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Return the verified arrays ``names`` of an npz file.

    The digest is the sha256 over name, type, shape and bytes of each array, sorted by name.
    """

    def opened(content: bytes) -> tuple[dict[str, NDArray[Any]], str]:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: np.ascontiguousarray(archive[name]) for name in sorted(names)}
        digest = hashlib.sha256()
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
            digest.update(array.tobytes())
        return arrays, digest.hexdigest()

    return _read(published, data_dir, opened)


def _read(
    published: PublishedFile, data_dir: DataDir, opened: Callable[[bytes], tuple[Opened, str]]
) -> Opened:
    """Open what is on disk, or else fetch it; only verified content is kept or returned."""
    plain = data_directory(data_dir) / published.folder / published.file
    packed = plain.with_name(f"{plain.name}.gz")
    path = next((p for p in (packed, plain) if p.exists()), None)
    raw = path.read_bytes() if path else _fetch(published, plain)
    origin = str(path or published.url)
    try:
        content = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        del raw
        value, sha256 = opened(content)
    except _BROKEN as error:
        raise _corrupt(published, origin) from error
    if sha256 != published.sha256:
        raise _corrupt(published, origin)
    if path is None:
        _store(plain, content)
    return value


def _fetch(published: PublishedFile, path: Path) -> bytes:
    """Take the official container from beside ``path`` if it lies there, else download it."""
    by_hand = (
        f"Put its content at {path} (plain, or gzipped with .gz added to the name): it is "
        f"published at {published.page} and its sha256 is {published.sha256}. To look in another "
        f"directory, give data_dir or set {DATA_VARIABLE}."
    )
    if not published.url:
        raise DataSetMissing(
            f"{published.file} is not there, and its publisher wants a person to ask. {by_hand}"
        )
    container = path.with_name(published.url.rsplit("/", 1)[-1])
    try:
        content = container.read_bytes() if container.exists() else download(published.url)
        return published.convert(content) if published.convert else content
    except _BROKEN as error:
        raise DataSetMissing(
            f"{published.file} is not there, and getting it from {published.url} failed "
            f"({type(error).__name__}). Download that to {container}, and load again. Or: {by_hand}"
        ) from error


def _store(path: Path, content: bytes) -> None:
    """Write so that nobody ever sees half of the file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise DataSetMissing(
            f"{path.name} was fetched, but {path.parent} cannot be written "
            f"({type(error).__name__}). Give a data_dir that can, or set {DATA_VARIABLE}."
        ) from error


def _corrupt(published: PublishedFile, origin: str) -> DataSetCorrupt:
    return DataSetCorrupt(
        f"{origin}: the content of {published.file} is not the published one (sha256 "
        f"{published.sha256}). Delete a file that is damaged; it is published at {published.page}."
    )


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
