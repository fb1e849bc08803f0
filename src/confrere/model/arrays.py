"""Arrays as bytes: an ``.npz`` that is the same bytes for the same arrays, and holds no code.

Members are stored, sorted by name, with a fixed date and headers of our own. Nothing here reads
such a file: whoever has the model makes the bytes again and compares, so that nothing can hide in
an archive, before it, after it or twice in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from confrere.errors import InvalidParameter, InvalidRelease
from confrere.model.scoring import Floats

#: Larger releases are refused on both sides.
MAX_BYTES = 1 << 28

_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644 << 16
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNED = 64


def npz_bytes(arrays: Mapping[str, Floats]) -> bytes:
    """Return the archive; equal arrays give equal bytes on every machine and day."""
    if sum(array.nbytes for array in arrays.values()) > MAX_BYTES:
        raise InvalidParameter(f"a model must take at most {MAX_BYTES >> 20} MiB.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            member.create_system = 3
            member.external_attr = _REGULAR_FILE
            archive.writestr(member, _npy_bytes(arrays[name]))
    return buffer.getvalue()


def check_npz(content: bytes, arrays: Mapping[str, Floats]) -> None:
    """Refuse an archive that holds anything else than these arrays, each once, and nothing more."""
    expected = npz_bytes(arrays)
    if content == expected:
        return
    if expected in content:
        raise InvalidRelease(
            "model.npz has bytes before or after its archive; releases hide nothing: do not use it."
        )
    raise InvalidRelease(
        "model.npz does not hold the numbers of model.json, each once; do not use it."
    )


def _npy_bytes(array: Floats) -> bytes:
    """Return a member: format 1.0, double precision, rows one after the other."""
    facts = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {array.shape}, }}".encode()
    length = len(_MAGIC) + 2 + len(facts) + 1
    header = facts + b" " * (-length % _ALIGNED) + b"\n"
    return _MAGIC + len(header).to_bytes(2, "little") + header + array.astype("<f8").tobytes()
