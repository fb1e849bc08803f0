"""What the folder of a release is made of.

``SHA256SUMS`` lists every file, in the format of ``sha256sum``; ``signatures/<party>.sig`` are
over its bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from confrere.errors import InvalidParameter

SUMS = "SHA256SUMS"
SIGNATURES = "signatures"
REQUIRED = frozenset({"card.json", "model.json", "model.npz", "README.md"})
OPTIONAL = frozenset({"model.onnx", "study.toml"})
PARTY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_party(name: str) -> str:
    """Return a party's name if it can be a file's name."""
    if not isinstance(name, str) or not PARTY.fullmatch(name):
        raise InvalidParameter("party must be letters, digits, '.', '_' or '-', at most 64.")
    return name


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """Return the content of ``SHA256SUMS``, sorted by name."""
    return "".join(f"{sha256(files[name])}  {name}\n" for name in sorted(files)).encode()


def sha256(content: bytes) -> str:
    """Return the digest in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
