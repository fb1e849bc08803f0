"""What lies in the folders that a desk was given: ledgers, studies, releases and runs.

Nothing is opened but the first bytes of a file. A folder that vanishes is shown as gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confrere.kernel.log import FIRST_BYTES
from confrere.progress import STATUS

#: How deep folders are looked through, and how many entries are looked at in all.
_DEPTH = 4
_MOST = 20_000
_STUDY_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """One thing that was found.

    Attributes
    ----------
    path : Path
    shown : str
        The same for people: from the folder on that the desk was given.
    id : str
        Names it in addresses; says nothing about the path.
    """

    path: Path
    shown: str

    @property
    def id(self) -> str:
        """A short name that follows from the path alone."""
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]


@dataclass(frozen=True)
class Contents:
    """All that was found.

    Attributes
    ----------
    ledgers, studies, releases, runs : tuple of Place
        Files of ledgers and studies; folders of releases, coordinators and parties.
    gone : tuple of Path
        Folders that were given and cannot be read.
    cut : bool
        Whether there was more than is looked at.
    """

    ledgers: tuple[Place, ...] = ()
    studies: tuple[Place, ...] = ()
    releases: tuple[Place, ...] = ()
    runs: tuple[Place, ...] = ()
    gone: tuple[Path, ...] = ()
    cut: bool = False


def look_through(folders: Sequence[Path]) -> Contents:
    """Find what can be shown in folders, and in those inside them."""
    found: dict[str, dict[Path, Place]] = {
        "ledgers": {},
        "studies": {},
        "releases": {},
        "runs": {},
    }
    gone, looked = [], 0
    for folder in folders:
        root = folder.resolve()
        if not os.access(root, os.R_OK | os.X_OK) or not root.is_dir():
            gone.append(folder)
            continue
        for path, kind in _walk(root):
            looked += 1
            if looked > _MOST:
                break
            if kind is not None:
                shown = Path(root.name) / path.relative_to(root)
                found[kind].setdefault(path, Place(path, str(shown)))
    kinds = {kind: tuple(sorted(x.values(), key=lambda p: p.path)) for kind, x in found.items()}
    return Contents(gone=tuple(gone), cut=looked > _MOST, **kinds)


def _walk(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield everything below a folder with the kind that it is of; links are not followed."""
    for folder, inside, files in os.walk(root, onerror=lambda _: None):
        here = Path(folder)
        if {"card.json", "SHA256SUMS"} <= set(files):
            yield here, "releases"
            inside.clear()
            continue
        depth = len(here.relative_to(root).parts)
        inside[:] = sorted(n for n in inside if not n.startswith(".")) if depth < _DEPTH else []
        if STATUS in files:
            yield here, "runs"
        for name in files:
            yield here / name, _kind(here / name)


def _kind(path: Path) -> str | None:
    if path.suffix == ".toml":
        text = _beginning(path, _STUDY_BYTES)
        return "studies" if b"[study]" in text and b"[[party]]" in text else None
    if path.suffix == ".ledger" or path.suffix == "":
        return "ledgers" if _beginning(path, len(FIRST_BYTES)) == FIRST_BYTES else _named(path)
    return None


def _named(path: Path) -> str | None:
    """Show a file that is called a ledger as what it is, even if it is none."""
    return "ledgers" if path.suffix == ".ledger" else None


def _beginning(path: Path, size: int) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def state_of(*paths: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when one of the files does: for what is remembered about them."""
    told = []
    for path in paths:
        try:
            stat = path.stat()
            told.append((str(path), stat.st_mtime_ns, stat.st_size))
        except OSError:
            told.append((str(path), 0, -1))
    return tuple(told)
