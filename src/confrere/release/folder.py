"""The folder of a release: written whole or not at all, read only after it was verified.

``SHA256SUMS`` lists every file, in the format of ``sha256sum``; ``signatures/<party>.sig`` are
over its bytes. Every file is taken into memory once; those very bytes are checked and handed out,
so nothing can be exchanged between the check and the use.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from confrere.errors import InvalidParameter, InvalidRelease, SignatureError
from confrere.files import flush_folder, read_plain
from confrere.model.model_json import MAX_BYTES
from confrere.release.signing import PublicKey, fingerprint, read_public_key, verify_signature

SUMS = "SHA256SUMS"
SIGNATURES = "signatures"
ADDITIONS = "additions"
REQUIRED = frozenset({"card.json", "model.json", "model.npz", "README.md"})
OPTIONAL = frozenset({"study.toml"})
#: In the card's place in what was rehearsed, so that no reader of releases takes it for one.
REHEARSAL = "rehearsal.json"
#: What the files of a table of a cohort are called, and those of one that was rehearsed.
TABLE, REHEARSED = "table1", "rehearsal"
_TABLES = tuple(frozenset({f"{one}.csv", f"{one}.toml"}) for one in (TABLE, REHEARSED))
_KNOWN = REQUIRED.union(OPTIONAL, {REHEARSAL}, *_TABLES)
PARTY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LIMITS = {SUMS: 1 << 12}
_LIMITS |= dict.fromkeys(("card.json", REHEARSAL, "README.md", "study.toml"), 1 << 20)
_LARGEST = 4 * MAX_BYTES
_SIGNATURE_LIMIT = 1 << 12
_MOST_ADDITIONS = 100
_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._-]*)")


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


@dataclass(frozen=True)
class VerifiedFolder:
    """A release's bytes after every check that needs no parsing."""

    files: Mapping[str, bytes]  #: By name; ``SHA256SUMS`` and signatures are not among them
    #: Party's file name -> fingerprint of the key in it. A fingerprint says who signed only if you
    #: know whose key it is.
    signers: Mapping[str, str]
    #: What was written beside it later, by name: the content and its signature, neither looked at
    #: yet; see :func:`~confrere.release.additions.read_additions`.
    additions: Mapping[str, tuple[bytes, bytes | None]] = field(default_factory=dict)


def read_folder(
    folder: str | os.PathLike[str],  # The release
    *,
    # Party -> its key (a file, a line or a key): each of them must have signed. Without it a
    # folder is only known to be whole: whoever changes a file can redo the sums.
    require_signature_from: Mapping[str, PublicKey] | None = None,
) -> VerifiedFolder:
    """Return the files of a release once names, sizes, signatures and hashes are right.

    Raises InvalidRelease if a file is missing, unlisted, changed, too large, or not a regular file.
    Raises SignatureError if a signature is missing or wrong, or made by another key than the one
    you gave.
    """
    root = Path(folder)
    if root.is_symlink() or not root.is_dir():
        raise _not_a_release(root)
    if not (root / SUMS).exists():
        below = (*root.glob(f"*/{SUMS}"), *root.glob(f"*/*/{SUMS}"))
        inside = sorted(path.parent for path in below)
        if inside:
            raise InvalidRelease(
                f"{root.name!r} is a folder above a release; give {str(inside[0])!r}."
            ).hinting(f"give the release itself: {inside[0]}")
    names = _names(root)
    if SUMS not in names:
        raise InvalidRelease(f"{SUMS} is missing; ask the sender for the whole folder.")
    sums = _read(root / SUMS, _LIMITS[SUMS])
    signers = _check_signatures(root, sums, require_signature_from)
    digests = _parse_sums(sums)
    _check_names(set(digests), names - {SUMS})
    files = {name: _read(root / name, _LIMITS.get(name, _LARGEST)) for name in sorted(digests)}
    for name, content in files.items():
        if sha256(content) != digests[name]:
            raise InvalidRelease(
                f"{name} is not the file that {SUMS} lists: it was changed; ask the sender for "
                "the folder again."
            )
    additions = MappingProxyType(_additions(root))
    return VerifiedFolder(MappingProxyType(files), MappingProxyType(signers), additions)


def _not_a_release(root: Path) -> InvalidRelease:
    if root.is_file() and (root.parent / SUMS).exists():
        error = InvalidRelease(f"{root.name!r} is a file of a release; give its folder.")
        return error.hinting(f"give the folder: {root.parent}")
    what = "is not a folder" if root.exists() or root.is_symlink() else "is not there"
    error = InvalidRelease(f"{root.name!r} {what}; give the path of a release.")
    return error.hinting("give the folder of a release: confrere fit says where it wrote one")


def _parse_sums(sums: bytes) -> dict[str, str]:
    """Read ``SHA256SUMS`` in the only form that is ever written."""
    lines = sums.decode("ascii", errors="replace").splitlines()
    matches = [_LINE.fullmatch(line) for line in lines]
    digests = {match[2]: match[1] for match in matches if match is not None}
    rebuilt = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()
    if not digests or rebuilt != sums or any(".." in name for name in digests):
        raise InvalidRelease(
            f"{SUMS} is not a sorted list of digests and plain file names; ask for the folder "
            "again."
        )
    return digests


def _names(root: Path) -> set[str]:
    """Return the regular files at the top; refuse whatever is neither one nor ``signatures``."""
    names = set()
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name in (SIGNATURES, ADDITIONS) and entry.is_dir(follow_symlinks=False):
                continue
            if not entry.is_file(follow_symlinks=False):
                raise InvalidRelease(
                    "the folder holds a link, a folder or a special file; releases hold plain "
                    "files only. Ask the sender for the folder again."
                )
            names.add(entry.name)
    return names


def _check_names(listed: set[str], found: set[str]) -> None:
    required = REQUIRED ^ {"card.json", REHEARSAL} if REHEARSAL in listed else REQUIRED
    required = next((table for table in _TABLES if table & listed), required)
    strange = found - listed | listed - required - OPTIONAL
    if strange:
        raise InvalidRelease(
            f"the folder holds files that {SUMS} or a release does not know "
            f"({len(strange)} of them); remove them, or ask again."
        )
    missing = sorted((listed | required) - found | required - listed)
    if missing:
        raise InvalidRelease(f"{', '.join(missing)} is missing; ask for the whole folder.")


def _check_signatures(
    root: Path, sums: bytes, required: Mapping[str, PublicKey] | None
) -> dict[str, str]:
    if required is not None and not required:
        raise InvalidParameter("require_signature_from names no party; name one, or give None.")
    signers = {}
    for party, signature in _signature_files(root):
        allowed = [required[party]] if required is not None and party in required else None
        try:
            signers[party] = fingerprint(verify_signature(signature, sums, allowed))
        except SignatureError as error:
            raise SignatureError(f"signatures/{party}.sig: {error}") from error
    for party, key in (required or {}).items():
        if party not in signers:
            raise SignatureError(
                f"{party} has not signed (key {fingerprint(read_public_key(key))}); ask that "
                f"party for signatures/{party}.sig."
            )
    return signers


def _signature_files(root: Path) -> Iterator[tuple[str, bytes]]:
    folder = root / SIGNATURES
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.iterdir()):
        party = path.name.removesuffix(".sig")
        if path.name == party or not PARTY.fullmatch(party):
            raise InvalidRelease("signatures/ holds a file that is not <party>.sig; remove it.")
        yield party, _read(path, _SIGNATURE_LIMIT)


def _additions(root: Path) -> dict[str, tuple[bytes, bytes | None]]:
    folder = root / ADDITIONS
    if not folder.is_dir() or folder.is_symlink():
        return {}
    found = sorted(path.name for path in folder.iterdir())
    names = [name.removesuffix(".json") for name in found if name.endswith(".json")]
    # A signature alone is what is left of an addition that was interrupted.
    known = {f"{name}{end}" for name in names for end in (".json", ".sig")}
    strange = [name for name in found if name not in known and not name.endswith(".sig")]
    if strange or len(names) > _MOST_ADDITIONS:
        raise InvalidRelease(f"{ADDITIONS}/ holds other files than signed additions; remove them.")
    return {
        name: (
            _read(folder / f"{name}.json", _LIMITS["card.json"]),
            _read(folder / f"{name}.sig", _SIGNATURE_LIMIT) if f"{name}.sig" in found else None,
        )
        for name in names
    }


def _read(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes, following no link."""
    try:
        content = read_plain(path, limit)
    except OSError as error:
        raise InvalidRelease(
            f"{path.name} cannot be read ({error.strerror}); links are refused, and files must "
            "be readable."
        ) from error
    if content is None:
        raise InvalidRelease(
            f"{path.name} is not a plain file of at most {limit} bytes; do not use it."
        )
    return content


def write_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    signatures: Mapping[str, bytes],
    *,
    overwrite: bool = False,
) -> Path:
    """Write the folder beside its place, flush it to disk, then rename it there.

    Raises InvalidRelease if a name is none of a release's files: what others sent could lie
    anywhere by its name.
    """
    if not files.keys() <= _KNOWN:
        raise InvalidRelease("a release holds no file of such a name; nothing was written.")
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
            flush_folder(fresh / SIGNATURES)
        flush_folder(fresh)
        _move_into_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    flush_folder(target.parent)
    return target


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _check_overwritable(target: Path) -> None:
    """Only a release may be replaced by one: a wrong path must not cost a folder of work."""
    known = _KNOWN | {SUMS, SIGNATURES, ADDITIONS}
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


def add_file(path: Path, content: bytes) -> Path:
    """Add one file to a folder of a release, whole or not at all, replacing nothing."""
    # Made outside the release, so that a reader never meets a file it does not know.
    fresh = path.parent.parent.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if path.exists():
        raise InvalidParameter(f"{path.name} exists already; nothing was signed.")
    write_durably(fresh, content)
    path.parent.mkdir(exist_ok=True)
    fresh.rename(path)
    flush_folder(path.parent)
    return path
