"""Rows that stay what they were when they were paid for, and the secret that noise follows from.

Between machines a party's noise is a function of its secret and of all that the noise is for, so
that who asks again, restores a copy or runs a party twice gets the same bytes, and never a second
draw. If the party recomputed an answer of rows that have changed since, equal bytes would tell that
none has. So the organisation names the states of its data, *snapshots*, by its calendar and not by
what is in them, and what is paid for is learned from a snapshot: the rows of the first paid
question under its name, as they were encoded then, in the party's own files until the last approval
that needs them ends. Without them a party that is asked again refuses, whether or not rows have
changed; another snapshot is another charge.

Whoever has the secret has the rows, which lie where it does. It is made at the first start, is in
no image and no kit, and does not follow from the identity key, which can be changed.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from confrere.data.codes import Coded
from confrere.errors import FederationError, OperationRefused
from confrere.files import read_plain, write_new
from confrere.kernel.log import canonical
from confrere.kernel.release import mac

if TYPE_CHECKING:
    from confrere_federation.parties.party import LocalParty

Arrays = dict[str, NDArray[Any]]

#: Until when rows are kept that no approval with an end needs, in seconds: for good.
_NEVER = 4e9


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of one data set. Use :meth:`at`."""

    secret: bytes = field(repr=False)
    folder: Path
    name: str = "1"  #: Of the one that is paid for now
    until: datetime | None = None  #: When the approval ends that it is needed for
    _held: dict[Path, tuple[Arrays, bytes]] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, secret: Path, folder: Path, name: str = "1", until: datetime | None = None) -> Self:
        """Return them, with a secret of its own at the first start; what has ended is removed."""
        try:
            for place in (secret.parent, folder):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                write_new(secret, os.urandom(32))
            found = read_plain(secret, 32)
            for one in folder.glob("*.npz"):
                if one.stat().st_mtime < time.time():
                    os.truncate(one, 0)  # its name stays used
        except OSError as error:
            raise FederationError(f"{folder}: cannot be used ({error.strerror}).") from None
        if found is None or len(found) != 32:
            raise FederationError(f"{secret}: this is not the secret of a party's noise.")
        return cls(found, folder, name, until)

    def settled(
        self, party: LocalParty, study: str | None, *, paid: bool
    ) -> tuple[LocalParty, bytes]:
        """Return the party with the rows of the snapshot, and their keyed digest.

        They are those that it has now, if a study pays for them for the first time. Where the
        question was ``paid`` for, they must be there.

        Raises OperationRefused if they are gone.
        """
        encoding = "" if party.encoding is None else canonical(party.encoding)
        told = (part.encode() for part in (self.name, party.name, study or "", encoding))
        place = self.folder / f"{self.name}-{mac(self.secret, b'snapshot', *told).hex()[:32]}.npz"
        if place not in self._held:
            if not (paid or place.exists()):
                with suppress(FileExistsError):
                    write_new(place, lambda file: self._write(file, _arrays(party)))
            arrays = self._read(place)
            # Tables are public; a changed map of the same codes has other noise by them.
            tables = party.X.tables if isinstance(party.X, Coded) else ()
            whole = {f"table{k}": one for k, one in enumerate(tables)} | arrays
            parts = [part for name, one in whole.items() for part in _told(name, one)]
            self._held[place] = arrays, mac(self.secret, b"rows", *parts)
        arrays, digest = self._held[place]
        return _with(party, arrays), digest

    @property
    def _ends(self) -> float:
        return _NEVER if self.until is None else self.until.timestamp()

    def _write(self, file: IO[bytes], arrays: Arrays) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.utime(file.fileno(), (self._ends, self._ends))

    def _read(self, place: Path) -> Arrays:
        if not place.exists() or not place.stat().st_size:
            raise OperationRefused(
                f"the rows of snapshot {self.name!r} are not here any more; what was paid for is "
                "answered from them, or not at all. Name a new snapshot.",
                "snapshot",
            )
        if self._ends > place.stat().st_mtime:  # another approval needs them for longer
            os.utime(place, (self._ends, self._ends))
        with np.load(place, allow_pickle=False) as found:
            return dict(found)


def _codes(X: Any) -> list[NDArray[Any]]:
    """Return the arrays that have the rows of a table."""
    if not isinstance(X, Coded):
        return [X]
    shrink = [] if X.shrink is None else [np.asarray(X.shrink)]
    return [np.asarray(store.codes) for store in X.stores] + shrink


def _arrays(party: LocalParty) -> Arrays:
    """Return all that answers are made of; rows in an order that is their own."""
    codes = [*_codes(party.X), party.y]
    order = np.lexsort([column for one in codes for column in np.atleast_2d(one.T)])
    arrays = {f"rows{k}": one[order] for k, one in enumerate(codes)}
    if party.raw is not None:
        arrays |= {"sums": party.raw.sums, "count": np.array(party.raw.n_samples)}
    return arrays if party.ballot is None else arrays | {"ballot": np.asarray(party.ballot)}


def _with(party: LocalParty, arrays: Arrays) -> LocalParty:
    """Return a party whose answers are made of these."""
    *codes, y = (one for name, one in arrays.items() if name.startswith("rows"))
    if len(codes) != len(_codes(party.X)):
        raise FederationError("the rows of the snapshot were kept by another version of confrere.")
    left = iter(codes)
    X = party.X.kept(lambda _: next(left)) if isinstance(party.X, Coded) else codes[0]
    raw = party.raw
    if raw is not None:
        raw = replace(raw, sums=arrays["sums"], n_samples=int(arrays["count"]))
    return replace(party, X=X, y=y, raw=raw, ballot=arrays.get("ballot"))


def _told(name: str, array: NDArray[Any]) -> tuple[bytes, bytes, bytes]:
    return name.encode(), f"{array.dtype.str} {array.shape}".encode(), array.tobytes()
