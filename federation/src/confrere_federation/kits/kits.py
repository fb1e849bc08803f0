"""A kit: one signed archive with everything that one participant of a study needs.

A tar of plain files, with ``SHA256SUMS`` over them and a signature of the coordinator over that, so
``tar``, ``sha256sum -c`` and ``ssh-keygen -Y verify -n confrere-kit`` are enough to look into one.
Nothing of a kit is written to disk before its signature was checked against a fingerprint that
people compared, and nothing ever under another name than a kit's own: whoever coordinates may ask,
and not write over a party's keys, books or data.

What a participant obeys (its local file, its unit, its README) is in no kit: a local file names
classifiers that are imported and schedulers that get rows, and a unit is a command. Whoever opens a
kit makes these itself, from the study and the coordinator's address.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jinja2 import Environment, PackageLoader, StrictUndefined

from confrere.errors import InvalidParameter, SignatureError, StudyError
from confrere.files import write_whole
from confrere.release.folder import SUMS, sums_of
from confrere.release.signing import (
    fingerprint,
    public_line,
    read_key_line,
    sign_bytes,
    verify_bytes,
)
from confrere_federation.engines.flare_site import project_files
from confrere_federation.engines.keys import certificate_text, make_authority, read_authority_text
from confrere_federation.kits.key_request import KeyRequest, request_from_bytes
from confrere_federation.studies.local_file import Home, home_folder, open_home
from confrere_federation.studies.priced_plan import price_of
from confrere_federation.studies.study_file import COORDINATOR, Study, study_from_bytes, trust_of

NAMESPACE = "confrere-kit"
SIGNATURE = f"{SUMS}.sig"
ADDRESS = "address"
_LARGEST = 1 << 20
_WHOLE = 1 << 24  # of all files together
_MEMBERS = 2100  # a thousand parties' certificates, and what else a coordinator has
_PLAIN = re.compile(r"(nodes/|authority/)?[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
#: What belongs to the party from the day on that it was written: never written over.
_OWN = frozenset({"local.toml"})
#: What must not change in a folder: another study has another folder.
_FIXED = frozenset({"study.toml", "coordinator.pub"})

_PAGES = Environment(
    loader=PackageLoader("confrere_federation.kits", "templates"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701  plain text; what is filled in has been checked
    keep_trailing_newline=True,
    trim_blocks=True,
)
#: Where the coordinator is reached: it becomes a word of commands.
_REACHED = re.compile(r"(?P<host>[A-Za-z0-9\[:][A-Za-z0-9.:\]-]{0,252}):(?P<port>[0-9]{1,5})\n")
_PARTY_LINE = re.compile(r"^\s*name\s*=\s*(?P<quote>[\"'])(?P<name>[^\"']+)(?P=quote).*$")
_TABLE = re.compile(r"^\s*\[")


@dataclass(frozen=True)
class OpenedKit:
    """A kit whose signature holds."""

    participant: str  #: Whose it is: a party's name, or ``"coordinator"``
    fingerprint: str  #: Of the key that signed it
    study_sha256: str
    files: Mapping[str, bytes]  #: Mapping of name to bytes. What was signed.
    #: Mapping of name to bytes. What is made here of it: README, unit and, for a party, its local
    #: file.
    pages: Mapping[str, bytes]


def study_with_keys(
    content: bytes,  # The study file; a party that has a key already must have this one
    keys: Mapping[str, str],  # Mapping of party to key line
) -> Study:
    """Return a study with every party's public key in it."""
    study = study_from_bytes(content)
    missing = {party.name for party in study.parties if party.key is None}
    lines, inside = [], False
    for line in content.decode().splitlines(keepends=True):
        lines.append(line)
        if _TABLE.match(line):
            inside = line.strip().startswith("[[party]]")
        found = _PARTY_LINE.match(line) if inside else None
        if found and found["name"] in missing & keys.keys():
            lines.append(f"key = {json.dumps(keys[found['name']])}\n")
    filled = study_from_bytes("".join(lines).encode())
    for party in filled.parties:
        given = keys.get(party.name)
        if given is None and party in filled.payers:
            raise StudyError(f"party {party.name}: its request is missing; ask for it.")
        if given is not None and (
            party.key is None or fingerprint(party.key) != fingerprint(given)
        ):
            raise StudyError(
                f"party {party.name}: the study names another key than its request; compare "
                "fingerprints, or write the line of the request's key into the study."
            )
    return filled


def make_kits(
    content: bytes,  # The study file. Keys of parties that it lacks are taken from the requests.
    requests: Sequence[KeyRequest],
    key: Ed25519PrivateKey,  # The coordinator's: it signs the kits, and later every question
    out: str | os.PathLike[str],  # A folder for the kits, ``<name>.kit`` each
    *,
    # ``host``, ``port``: how parties reach the coordinator.
    host: str,
    port: int,
    days: int = 365,  # How long the coordinator's certificate is good
    renew: bool = False,  # Write over kits that are there: a new certificate for the same study
) -> list[Path]:
    """Write one kit per participant; return the files, the coordinator's first."""
    named = {request.party: request for request in requests}
    if len(named) != len(requests):
        raise StudyError("requests: a party has two; ask which one holds.")
    study = study_with_keys(content, {name: one.key for name, one in named.items()})
    if study.engine == "local":
        raise StudyError("federation.engine: kits are for 'line' and 'flare', between machines.")
    for name in named:
        study.party(name)
    address = f"{host}:{port}\n".encode()
    if _REACHED.fullmatch(address.decode()) is None:
        raise InvalidParameter("host must be a name or an address by which parties reach it.")
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    taken = [path.name for path in place.glob("*.kit")]
    if taken and not renew:
        raise StudyError(f"--out: {taken[0]} is there already; give another folder, or --renew.")
    with tempfile.TemporaryDirectory(dir=place, prefix=".") as draft:
        make_authority(draft, [host], days=days)
        tls = {path.name: path.read_bytes() for path in Path(draft).iterdir()}
    if study.engine == "flare":
        names = [party.name for party in study.payers]
        for name, text in project_files(study.id, names, host, port).items():
            (place / "flare" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "flare" / name).write_bytes(text)
    own = public_line(key.public_key(), COORDINATOR)
    shared = {"study.toml": study.content, "coordinator.pub": f"{own}\n".encode(), ADDRESS: address}
    written = [
        _write(
            place / f"{COORDINATOR}.kit",
            {
                **shared,
                **{f"authority/{name}": text for name, text in tls.items()},
                **{
                    f"nodes/{name}.pem": certificate_text(request.certificate).encode()
                    for name, request in named.items()
                },
            },
            key,
        )
    ]
    for party in study.payers:
        inside = {
            **shared,
            "ca.pem": tls["ca.pem"],
            f"{party.name}.request": named[party.name].content,
        }
        written.append(_write(place / f"{party.name}.kit", inside, key))
    return written


def show_kit(
    path: str | os.PathLike[str],  # The archive
    # The fingerprint that this key must have: compared before anything else of it is read.
    expected: str | None = None,
) -> OpenedKit:
    """Check a kit against the key that it says it is signed by, and write nothing."""
    files = _members(Path(path))
    signature, sums = files.pop(SIGNATURE, None), files.pop(SUMS, None)
    needed = {"coordinator.pub", "study.toml", ADDRESS}
    if signature is None or sums is None or not needed <= files.keys():
        raise SignatureError(f"{Path(path).name} is no kit; ask the coordinator for it again.")
    key = read_key_line(files["coordinator.pub"])
    if expected is not None and fingerprint(key) != expected.strip():
        raise SignatureError(
            "the kit was signed by another key than the one of this fingerprint; do not use it."
        )
    verify_bytes(signature, sums, key, namespace=NAMESPACE)
    if sums != sums_of(files):
        raise SignatureError(f"{Path(path).name} was changed after it was signed.")
    requests = [request_from_bytes(files[name]) for name in files if name.endswith(".request")]
    participant = requests[0].party if requests else COORDINATOR
    known = study_from_bytes(files["study.toml"])
    if not files.keys() <= _names(participant, known):
        raise SignatureError(
            f"{Path(path).name} is no kit: it holds files that none has. Do not use it; ask "
            "whoever made it what they are for."
        )
    pages = _pages(participant, known, key, files)
    return OpenedKit(participant, fingerprint(key), known.sha256, files, pages)


def _names(participant: str, study: Study) -> set[str]:
    """Return all that may be in a participant's kit: it is written beside keys, books and data."""
    names = {"study.toml", "coordinator.pub", ADDRESS}
    if participant != COORDINATOR:
        return names | {"ca.pem", f"{participant}.request"}
    tls = {f"authority/{name}" for name in ("ca.pem", "server.pem", "server.key")}
    return names | tls | {f"nodes/{party.name}.pem" for party in study.parties}


def open_kit(
    path: str | os.PathLike[str],  # The archive
    # The party's home, which is made if it is not there; or the coordinator's folder. By default
    # the organisation's home, or where one is.
    into: str | os.PathLike[str] | None,
    expected: str,  # The coordinator's fingerprint, ``SHA256:...``, as it was told by telephone
    *,
    # Which of its data sets the party answers for; by default the only one.
    dataset: str | None = None,
) -> tuple[OpenedKit, Path]:
    """Check a kit; write its files and what is made of them into a folder of its owner's alone.

    A party's go into its home, under the study's id: every study finds the same keys, policy and
    ledgers there. A folder that holds the study already (of an older version, or a coordinator's)
    gets the kit's own files anew. Returns the kit and the folder.
    """
    kit = show_kit(path, expected)
    own, pages = kit.participant == COORDINATOR, kit.pages
    place = Path(into) if into is not None else Path() if own else home_folder()
    if not own and (place / "study.toml").exists():
        _check_own_keys(place, kit)
        pages = {}  # of an older version, whose parties had no home: they stay as they are
    elif not own:
        _check_own_keys(Home(place).keys, kit)
        home = open_home(place)
        study, key = study_from_bytes(kit.files["study.toml"]), kit.files["coordinator.pub"]
        chosen = home.matched(dataset)
        pages = _pages(kit.participant, study, read_key_line(key), kit.files, chosen)
        place = home.studies / study.id
    for name in _FIXED:
        if (place / name).exists() and (place / name).read_bytes() != kit.files[name]:
            raise StudyError(
                f"there is another {name} in {place}: a study has an id of its own, and a "
                "coordinator a folder."
            )
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.chmod(0o700)
    for name, content in {**kit.files, **pages}.items():
        target = place / name
        if name in _OWN and target.exists():
            continue
        target.parent.mkdir(exist_ok=True, mode=0o700)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
    return kit, place


def _check_own_keys(place: Path, kit: OpenedKit) -> None:
    """Refuse a kit that was made for other keys than those in the folder."""
    public = place / f"{kit.participant}.key.pub"
    request = request_from_bytes(kit.files[f"{kit.participant}.request"])
    if not public.is_file():
        raise InvalidParameter(
            f"{public.name} is not in {place}; open the kit in the home where keys request made it."
        )
    if fingerprint(public) != request.fingerprint:
        raise InvalidParameter(
            f"the kit of {kit.participant} was made for another key than the one in {place}."
        )


def _pages(
    participant: str,
    study: Study,
    key: Ed25519PublicKey,
    files: Mapping[str, bytes],
    dataset: str | None = None,
) -> dict[str, bytes]:
    """Return what a participant obeys, by the templates of this installation.

    ``dataset`` is what a party calls its data; by default as the study does.
    """
    own = participant == COORDINATOR
    reached = _REACHED.fullmatch(files[ADDRESS].decode("ascii", "replace"))
    authority = files.get("authority/ca.pem" if own else "ca.pem")
    if reached is None or authority is None:
        raise SignatureError("the kit does not say where the coordinator is; ask for it again.")
    facts = {
        "study": study,
        "participant": participant,
        **reached.groupdict(),
        "fingerprint": fingerprint(key),
        "ends": read_authority_text(authority).not_valid_after_utc,
        "price": price_of(study),
        "trust": trust_of(study),
        "line": public_line(key, COORDINATOR),
        "dataset": None if own else dataset or study.party(participant).dataset,
    }
    kind = "coordinator" if own else "party"
    templates = {
        "README.md": f"{kind}.md.j2",
        f"confrere-{participant}.service": f"{kind}.service.j2",
        **({} if own else {"local.toml": "local.toml.j2"}),
    }
    return {n: _PAGES.get_template(t).render(**facts).encode() for n, t in templates.items()}


def _write(path: Path, files: Mapping[str, bytes], key: Ed25519PrivateKey) -> Path:
    """Write an archive, whole or not at all; the same files give the same bytes."""
    sums = sums_of(files)
    every = {**files, SUMS: sums, SIGNATURE: sign_bytes(sums, key, namespace=NAMESPACE)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(every):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(every[name]), 0o600
            archive.addfile(entry, io.BytesIO(every[name]))
    write_whole(path, buffer.getvalue())
    return path


def _members(path: Path) -> dict[str, bytes]:
    """Return the plain files of an archive; anything else in it is refused."""
    wrong = SignatureError(f"{path.name} is no kit; ask the coordinator for it again.")
    files: dict[str, bytes] = {}
    left = _WHOLE
    try:
        with tarfile.open(path, mode="r:") as archive:
            for entry in archive:
                # Of a sparse file little is in the archive and much in memory.
                plain = entry.isreg() and not entry.issparse()
                stream = archive.extractfile(entry) if plain else None
                bad_name = not _PLAIN.fullmatch(entry.name) or ".." in entry.name
                if stream is None or bad_name or entry.name in files or len(files) >= _MEMBERS:
                    raise wrong
                left -= entry.size
                if entry.size > _LARGEST or left < 0:
                    raise wrong
                files[entry.name] = stream.read(_LARGEST)
    except (tarfile.TarError, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise InvalidParameter(f"{path.name} cannot be read ({error.strerror}).") from None
        raise wrong from None
    return files
