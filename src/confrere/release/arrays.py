"""Arrays as bytes: an ``.npz`` that is the same bytes for the same arrays, and holds no code.

Members are stored, sorted by name, with a fixed date. Reading refuses everything that writing
does not produce: compression, pickles, other dtypes, sizes that do not add up, values that are
not finite. No size is believed before it was compared with the bytes that are there.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter, InvalidRelease

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

#: Larger releases are refused on both sides.
MAX_BYTES = 1 << 28
MAX_ARRAYS = 4096

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_DTYPES = frozenset({"<f8", "<f4", "<i8", "<i4", "|u1", "|b1"})
_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644 << 16


def frozen_arrays(arrays: Mapping[str, ArrayLike]) -> Arrays:
    """Return read-only, C-ordered, little-endian copies, sorted by name.

    Raises
    ------
    InvalidParameter
        If a name, a dtype or a value cannot leave.
    """
    if len(arrays) > MAX_ARRAYS:
        raise InvalidParameter(f"arrays must be at most {MAX_ARRAYS}; stack those of one shape.")
    copies: dict[str, NDArray[Any]] = {}
    for name in sorted(arrays):
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "arrays: a name must be letters, digits and underscores, at most 64 of them."
            )
        given = np.asarray(arrays[name])
        copy = np.array(given, dtype=given.dtype.newbyteorder("<"), order="C", copy=True)
        problem = _problem(copy)
        if problem is not None:
            raise InvalidParameter(f"arrays[{name!r}] {problem}.")
        copy.flags.writeable = False
        copies[name] = copy
    if sum(copy.nbytes for copy in copies.values()) > MAX_BYTES:
        raise InvalidParameter(f"arrays must take at most {MAX_BYTES >> 20} MiB together.")
    return MappingProxyType(copies)


def npz_bytes(arrays: Arrays) -> bytes:
    """Return the archive; equal arrays give equal bytes on every machine and day."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            member.create_system = 3
            member.external_attr = _REGULAR_FILE
            content = io.BytesIO()
            np.lib.format.write_array(content, arrays[name], version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    return buffer.getvalue()


def read_npz(content: bytes) -> Arrays:
    """Return the arrays of an archive that :func:`npz_bytes` wrote.

    Raises
    ------
    InvalidRelease
        If anything in it is not a plain, finite, whole array.
    """
    if len(content) > MAX_BYTES + (1 << 20):
        raise InvalidRelease(f"model.npz is larger than {MAX_BYTES >> 20} MiB; ask for a smaller.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read_members(archive)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError) as error:
        raise InvalidRelease(
            "model.npz is not a readable archive; ask the sender for the folder again."
        ) from error


def _read_members(archive: zipfile.ZipFile) -> Arrays:
    members = archive.infolist()
    if len(members) > MAX_ARRAYS:
        raise InvalidRelease(f"model.npz holds more than {MAX_ARRAYS} arrays; do not use it.")
    arrays: dict[str, NDArray[Any]] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if not member.filename.endswith(".npy") or not _NAME.fullmatch(name) or name in arrays:
            raise InvalidRelease("model.npz holds a member that is not an array; do not use it.")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
            raise InvalidRelease("model.npz is compressed or encrypted; releases are stored plain.")
        array = _read_array(archive.read(member), name)
        problem = _problem(array)
        if problem is not None:
            raise InvalidRelease(f"model.npz: array {name!r} {problem}; do not use it.")
        arrays[name] = array
    return MappingProxyType(dict(sorted(arrays.items())))


def _read_array(content: bytes, name: str) -> NDArray[Any]:
    """Read one ``.npy``: a header, then exactly as many bytes as the header says."""
    stream = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise InvalidRelease(
            f"model.npz: array {name!r} has no readable header; ask for the folder again."
        ) from error
    body = content[stream.tell() :]
    if dtype.hasobject or fortran or math.prod(shape) * dtype.itemsize != len(body):
        raise InvalidRelease(
            f"model.npz: array {name!r} is not as large as its header says, or holds objects; "
            "do not use it."
        )
    # ``frombuffer`` over immutable bytes is read-only and allocates nothing.
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def _problem(array: NDArray[Any]) -> str | None:
    if array.dtype.str not in _DTYPES:
        return f"has a dtype that cannot leave ({array.dtype.kind}); use {sorted(_DTYPES)}"
    if not np.all(np.isfinite(array)):
        return "holds values that are not finite"
    return None
