"""What a witness remembers, beside what the file says, and whether one disaster takes both."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from confrere.errors import NotALedger, WitnessMismatch
from confrere.kernel.ledger import Head, Store

#: How blanks are written in the system's list of mounts.
_OCTAL = re.compile(r"\\([0-7]{3})")


def witnessed(
    path: str | os.PathLike[str], *, witness: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Show what a witness remembers of a ledger, beside what the file says; nothing is refused."""
    store, kept = Store.at(path, witness)
    found: Head | None = None
    complaint: str | None = None
    try:
        if store.path.exists():
            with store.reading() as log:
                found = Head(log.ledger_id, log.tail.seq, log.tail.hash, log.tail.time)
                kept.check(log, store.path)
        kept.check_place(None if found is None else found.ledger_id, store.path)
    except WitnessMismatch as error:
        complaint = str(error).removeprefix(f"{store.path}: ")
    before = kept.ledger_at(store.path) or (None if found is None else found.ledger_id)
    return {
        "folder": str(kept.folder),
        "kept": None if before is None else kept.head_of(before),
        "found": found,
        "complaint": complaint,
    }


def no_ledger(path: Path) -> NotALedger:
    """Return the error of a ledger that is looked at and is not there."""
    return NotALedger(f"there is no ledger {path.name}.").hinting(
        f"give the path of one, or make it: confrere ledger open {path} ACCOUNT --epsilon CAP "
        "--unit record --neighbours replace-one --reason WHY"
    )


def shared_storage(ledger: Path, witness: Path) -> Literal["mount", "device"] | None:
    """Say what a ledger's folder and its witness have in common.

    On one mount, whoever puts back a volume puts back both, and nothing is noticed. Two mounts of
    one device (two volumes on a disk) are put back apart, but for a snapshot of all of it.

    Parameters
    ----------
    ledger, witness : Path
        Their folders; what is not there yet is where its nearest parent is.
    """
    first, second = (_there(folder) for folder in (ledger, witness))
    if _mount_of(first) == _mount_of(second):
        return "mount"
    return "device" if first.stat().st_dev == second.stat().st_dev else None


def _there(folder: Path) -> Path:
    return next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())


def _mount_of(folder: Path) -> Path:
    """Return the mount point of a folder; on Linux mounts of one device differ by their place."""
    real = folder.resolve()
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return next(one for one in (real, *real.parents) if one.is_mount())
    points = [Path(_OCTAL.sub(lambda m: chr(int(m[1], 8)), line.split(" ")[4])) for line in lines]
    inside = [one for one in points if real.is_relative_to(one)]
    return max(inside, key=lambda one: len(one.parts), default=Path(real.anchor))
