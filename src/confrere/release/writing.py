"""Write the folder of a release: whole, on disk, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from confrere.errors import InvalidParameter
from confrere.release.folder import OPTIONAL, REQUIRED, SIGNATURES, SUMS, sums_of


def write_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    signatures: Mapping[str, bytes],
    *,
    overwrite: bool = False,
) -> Path:
    """Write the folder beside its place, flush it to disk, then rename it there."""
    target = Path(folder).absolute()
    if target.is_symlink() or (target.exists() and not overwrite):
        raise InvalidParameter(
            f"folder: {target.name} exists; choose another name, or overwrite=True."
        )
    if target.exists():
        _check_overwritable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile.mkdtemp: the folder is meant to leave, with the permissions of the user.
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        fresh.mkdir()
        for name, content in {**files, SUMS: sums_of(files)}.items():
            write_durably(fresh / name, content)
        if signatures:
            (fresh / SIGNATURES).mkdir()
            for party, signature in signatures.items():
                write_durably(fresh / SIGNATURES / f"{party}.sig", signature)
            _flush_folder(fresh / SIGNATURES)
        _flush_folder(fresh)
        _move_into_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    _flush_folder(target.parent)
    return target


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _check_overwritable(target: Path) -> None:
    """Only a release may be replaced by one: a wrong path must not cost a folder of work."""
    known = REQUIRED | OPTIONAL | {SUMS, SIGNATURES}
    if not target.is_dir() or not {path.name for path in target.iterdir()} <= known:
        raise InvalidParameter(
            f"folder: {target.name} holds other things than a release; choose another name."
        )


def _move_into_place(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    old = target.with_name(f"{fresh.name}.old")
    target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def add_file(path: Path, content: bytes) -> Path:
    """Add one file to a folder of a release, whole or not at all, replacing nothing."""
    # Made outside the release, so that a reader never meets a file it does not know.
    fresh = path.parent.parent.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if path.exists():
        raise InvalidParameter(f"party: {path.name} exists already; nothing was signed.")
    write_durably(fresh, content)
    path.parent.mkdir(exist_ok=True)
    fresh.rename(path)
    _flush_folder(path.parent)
    return path
