"""From a study to a kit for every participant: what each has to have, signed, in one file.

Private keys are made where they stay; a party's request holds the public halves, signed with the
first (and, after a rotation, with the key before it). A kit is a tar of plain files, with
``SHA256SUMS`` and the coordinator's signature over that: ``tar``, ``sha256sum -c`` and ``ssh-keygen
-Y verify -n confrere-kit`` look into one. Nothing of it is written before its signature was checked
against a fingerprint that people compared, and nothing ever under another name than a kit's own.

What a participant obeys (its local file, its unit, its README) is in no kit: a local file names
schedulers that get rows, and a unit is a command. Whoever opens a kit makes these itself.
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
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jinja2 import Environment, PackageLoader, StrictUndefined

from confrere.errors import InvalidParameter, SignatureError, StudyError
from confrere.files import write_whole
from confrere.release.folder import SUMS, sums_of
from confrere.release.signing import (
    PrivateKey,
    fingerprint,
    generate_key,
    public_line,
    read_key_line,
    read_private_key,
    sign_bytes,
    verify_bytes,
)
from confrere_federation.engines.flare_site import project_files
from confrere_federation.engines.keys import (
    certificate_beside,
    certificate_text,
    make_authority,
    make_node_key,
    read_certificate,
    read_certificate_text,
)
from confrere_federation.studies.running import cost_of
from confrere_federation.studies.study_file import (
    ADDRESS,
    COORDINATOR,
    FileTable,
    Home,
    Name,
    PublicKeyLine,
    Study,
    home_folder,
    open_home,
    parse_json,
    read_bytes,
    study_from_bytes,
    trust_of,
)

#: What signatures are for: a request by its own key, and the key after another one by that one.
_ASKS, _FOLLOWS, _DEALS = "confrere-request", "confrere-key-follows", "confrere-kit"
REVOKED, SIGNATURE = "revoked", f"{SUMS}.sig"
#: The home of an organisation whose parties are services; their user is called like the library.
SERVICE = "/var/lib/confrere"
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


class KeyRequest(FileTable):
    format: Literal["confrere-request/1"] = "confrere-request/1"
    party: Name
    key: PublicKeyLine  #: The line ``ssh-ed25519 AAAA...`` that goes into the study
    certificate: str  #: Of the node key with which it connects
    signature: str
    #: The key that was the party's before, and its signature: that this one is the party's now
    follows: PublicKeyLine | None = None
    followed: str | None = None

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)

    @cached_property
    def node(self) -> x509.Certificate:
        return read_certificate_text(self.certificate, "request")

    @property
    def content(self) -> bytes:
        return (self.model_dump_json(indent=2, exclude_none=True) + "\n").encode()

    def check(self) -> Self:
        """Refuse a request that its own key, or the key that it follows, has not signed."""
        part = _signed_part(self.party, self.key, self.certificate)
        try:
            verify_bytes(self.signature.encode(), part, read_key_line(self.key), namespace=_ASKS)
            if self.follows is not None:
                known, before = (self.followed or "").encode(), read_key_line(self.follows)
                verify_bytes(known, part, before, namespace=_FOLLOWS)
        except SignatureError as error:
            raise SignatureError(f"request of {self.party}: {error}") from None
        _ = self.node  # is one
        return self


def make_request(place: Path, party: str) -> KeyRequest:
    """Make a party's keys in a folder of its own, and its request; nothing is overwritten."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (place / "node.key").exists():  # before half of it is made
        raise InvalidParameter("node.key exists; choose another folder, or put all keys elsewhere.")
    generate_key(place / f"{party}.key", party)
    make_node_key(place / "node.key")
    return _ask(place, party, read_private_key(place / f"{party}.key"))


def renew_node_key(place: Path, party: str, key: PrivateKey) -> KeyRequest:
    """Make a new node key in place of the old one, which is kept under another name."""
    old = place / "node.key"
    if not old.exists():
        raise InvalidParameter(f"there is no node.key in {place.name}; make one: keys request.")
    for path in (old, certificate_beside(old)):
        path.rename(_aside(path))
    make_node_key(old)
    return _ask(place, party, read_private_key(key))


def renew_signing_key(place: Path, party: str, key: PrivateKey) -> KeyRequest:
    """Make a new signing key in place of the old one, which signs that it is the party's now.

    The old one is kept under another name: studies that name it go on with it. Whatever moment it
    is killed at, ``<party>.key`` is one of both, and no request that was written is lost.
    """
    before = read_private_key(key)
    own, new = place / f"{party}.key", place / f".{party}.key"
    public = [path.with_name(f"{path.name}.pub") for path in (own, new)]
    for left in (new, public[1]):
        left.unlink(missing_ok=True)
    generate_key(new, party)
    kept = _aside(own)
    os.link(own, kept)
    os.link(public[0], kept.with_name(f"{kept.name}.pub"))
    made = _ask(place, party, read_private_key(new), before)
    new.replace(own)
    public[1].replace(public[0])
    return made


def accept_key(home: Home, request: KeyRequest) -> None:
    """Know a party by its new key, in ``peers.toml``, since the one that is known has signed it."""
    known = home.peers().get(request.party)
    if known == request.fingerprint:
        return
    if request.follows is None or known != fingerprint(request.follows):
        raise SignatureError(
            f"request of {request.party}: the key that peers.toml has for it has not signed the "
            "new one; compare fingerprints by telephone, then: confrere approve STUDY --peer."
        )
    text = home.peers_file.read_text(encoding="utf-8").replace(known, request.fingerprint)
    write_whole(home.peers_file, text.encode())


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}")


def read_request(path: Path) -> KeyRequest:
    return request_from_bytes(read_bytes(path, "the request"))


def request_from_bytes(content: bytes) -> KeyRequest:
    return KeyRequest.read(parse_json(content, "the request"), "the request").check()


def _ask(
    place: Path, party: str, key: Ed25519PrivateKey, before: Ed25519PrivateKey | None = None
) -> KeyRequest:
    """Write a request; one that was there is kept under another name."""
    line = public_line(key.public_key(), party)
    certificate = certificate_text(read_certificate(place / "node.key.pem"))
    part = _signed_part(party, line, certificate)
    told = {"party": party, "key": line, "certificate": certificate}
    told["signature"] = sign_bytes(part, key, namespace=_ASKS).decode()
    if before is not None:
        told["follows"] = public_line(before.public_key(), party)
        told["followed"] = sign_bytes(part, before, namespace=_FOLLOWS).decode()
    made, path = KeyRequest.read(told, "the request").check(), place / f"{party}.request"
    if path.exists():
        path.rename(_aside(path))
    write_whole(path, made.content)
    return made


def _signed_part(party: str, key: str, certificate: str) -> bytes:
    return json.dumps(["confrere-request/1", party, key, certificate]).encode()


def read_nodes(place: Path, study: Study) -> dict[str, Path]:
    """Return every party's certificate; one that is missing or was taken back is refused."""
    taken_back = _revoked(place)
    found = {party.name: place / f"{party.name}.pem" for party in study.payers}
    for name, path in found.items():
        there = path.is_file()
        if not there or _digest(read_certificate(path)) in taken_back:
            raise InvalidParameter(
                f"nodes: the certificate of {name} {'was revoked' if there else 'is missing'}; "
                "admit a new one: confrere keys admit."
            )
    return found


def admit(place: Path, study: Study, request: KeyRequest) -> None:
    """Let a party in by the certificate of its request; the one before, if any, is revoked."""
    known, named = {request.fingerprint}, study.party(request.party).key
    if request.follows is not None:
        known.add(fingerprint(request.follows))
    if named is None or fingerprint(named) not in known:
        raise SignatureError(
            f"request of {request.party}: the study names another key for this party; compare "
            "fingerprints by telephone."
        )
    if _digest(request.node) in _revoked(place):
        raise InvalidParameter(
            f"request of {request.party}: its certificate was revoked; a new key is needed: "
            "confrere keys rotate."
        )
    path = place / f"{request.party}.pem"
    text = certificate_text(request.node)
    if path.exists() and certificate_text(read_certificate(path)) == text:
        return
    if path.exists():
        revoke(place, request.party)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, text.encode(), mode=0o644)


def revoke(place: Path, party: str) -> None:
    path = place / f"{party}.pem"
    if not path.is_file():
        raise InvalidParameter(f"there is no certificate of {party} in {place.name}.")
    # The list first: a kill in between leaves a certificate that is refused, not one let in.
    with (place / REVOKED).open("a", encoding="ascii") as stream:
        stream.write(f"{_digest(read_certificate(path))}\n")
        stream.flush()
        os.fsync(stream.fileno())
    path.unlink()


def _revoked(folder: Path) -> set[str]:
    try:
        return set((folder / REVOKED).read_text(encoding="ascii").split())
    except FileNotFoundError:
        return set()


def _digest(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


@dataclass(frozen=True)
class OpenedKit:
    participant: str  #: Whose it is: a party's name, or ``"coordinator"``
    key: Ed25519PublicKey  #: The one that signed it
    study: Study
    files: Mapping[str, bytes]  #: What was signed, by name

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)

    def pages(
        self,
        dataset: str | None = None,  # What a party calls its data; by default as the study does
    ) -> dict[str, bytes]:
        """Return what a participant obeys, by the templates of this installation.

        README, unit and, for a party, its local file.
        """
        own, study = self.participant == COORDINATOR, self.study
        reached = _REACHED.fullmatch(self.files[ADDRESS].decode("ascii", "replace"))
        authority = self.files.get("authority/ca.pem" if own else "ca.pem")
        if reached is None or authority is None:
            raise SignatureError("the kit does not say where the coordinator is; ask for it again.")
        facts = {
            "study": study,
            "participant": self.participant,
            **reached.groupdict(),
            "fingerprint": self.fingerprint,
            "ends": read_certificate_text(authority, "ca.pem").not_valid_after_utc,
            "cost": cost_of(study),
            "trust": trust_of(study),
            "line": public_line(self.key, COORDINATOR),
            "dataset": None if own else dataset or study.party(self.participant).dataset,
            "home": SERVICE,
        }
        templates = {
            "README.md": f"{'coordinator' if own else 'party'}.md.j2",
            f"confrere-{self.participant}.service": "service.j2",
            **({} if own else {"local.toml": "local.toml.j2"}),
        }
        return {n: _PAGES.get_template(t).render(**facts).encode() for n, t in templates.items()}


def study_with_keys(content: bytes, keys: Mapping[str, str]) -> Study:
    """Return a study with every party's public key in it; one that is there must be the same."""
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
    place: Path,  # A folder for the kits, ``<name>.kit`` each
    *,
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
    line = f"{public_line(key.public_key(), COORDINATOR)}\n".encode()
    shared = {"study.toml": study.content, "coordinator.pub": line, ADDRESS: address}
    nodes = {n: certificate_text(one.node).encode() for n, one in named.items()}
    inside = {
        COORDINATOR: {
            **{f"authority/{name}": text for name, text in tls.items()},
            **{f"nodes/{name}.pem": text for name, text in nodes.items()},
        }
    }
    for name in (party.name for party in study.payers):
        inside[name] = {"ca.pem": tls["ca.pem"], f"{name}.request": named[name].content}
    return [_write(place / f"{n}.kit", shared | own, key) for n, own in inside.items()]


def show_kit(path: Path, expected: str | None = None) -> OpenedKit:
    """Check a kit against the key that it says it is signed by, and write nothing.

    The fingerprint that is expected of this key is compared before anything else of it is read.
    """
    files = _members(path)
    signature, sums = files.pop(SIGNATURE, None), files.pop(SUMS, None)
    needed = {"coordinator.pub", "study.toml", ADDRESS}
    if signature is None or sums is None or not needed <= files.keys():
        raise SignatureError(f"{path.name} is no kit; ask the coordinator for it again.")
    key = read_key_line(files["coordinator.pub"])
    if expected is not None and fingerprint(key) != expected.strip():
        raise SignatureError(
            "the kit was signed by another key than the one of this fingerprint; do not use it."
        )
    verify_bytes(signature, sums, key, namespace=_DEALS)
    if sums != sums_of(files):
        raise SignatureError(f"{path.name} was changed after it was signed.")
    requests = [request_from_bytes(files[name]) for name in files if name.endswith(".request")]
    participant = requests[0].party if requests else COORDINATOR
    known = study_from_bytes(files["study.toml"])
    if not files.keys() <= _names(participant, known):
        raise SignatureError(
            f"{path.name} is no kit: it holds files that none has. Do not use it; ask "
            "whoever made it what they are for."
        )
    kit = OpenedKit(participant, key, known, files)
    kit.pages()  # what they are made of is there
    return kit


def _names(participant: str, study: Study) -> set[str]:
    """Return all that may be in a participant's kit: it is written beside keys, books and data."""
    names = {"study.toml", "coordinator.pub", ADDRESS}
    if participant != COORDINATOR:
        return names | {"ca.pem", f"{participant}.request"}
    tls = {f"authority/{name}" for name in ("ca.pem", "server.key")}
    return names | tls | {f"nodes/{party.name}.pem" for party in study.parties}


def open_kit(
    path: Path,  # The archive
    # The party's home, made if it is not there, or the coordinator's folder; None is where one is
    into: Path | None,
    expected: str,  # The coordinator's fingerprint, ``SHA256:...``, as it was told by telephone
    dataset: str | None = None,  # Which of its data sets it is about; by default the only one
) -> tuple[OpenedKit, Path]:
    """Check a kit; write its files and what is made of them into a folder of its owner's alone.

    A party's go into its home, under the study's id. Returns the kit and the folder.
    """
    kit = show_kit(path, expected)
    own, chosen = kit.participant == COORDINATOR, None
    place = into or (Path() if own else home_folder())
    if not own:
        _check_own_keys(Home(place).keys, kit)
        home = open_home(place)
        chosen, place = home.matched(dataset), home.studies / kit.study.id
    for name in _FIXED:
        if (place / name).exists() and (place / name).read_bytes() != kit.files[name]:
            raise StudyError(
                f"there is another {name} in {place}: a study has an id of its own, and a "
                "coordinator a folder."
            )
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.chmod(0o700)
    for name, content in {**kit.files, **kit.pages(chosen)}.items():
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


def service_commands() -> list[list[str]]:
    """Return the commands by which root makes the user and the folders that units name."""
    user = ["useradd", "--system", "--home-dir", SERVICE, "--shell", "/usr/sbin/nologin"]
    made = ["install", "-d", "-m", "0700", "-o", "confrere", "-g", "confrere"]
    return [[*user, "confrere"], [*made, SERVICE, f"{SERVICE}-witness"]]


def _write(path: Path, files: Mapping[str, bytes], key: Ed25519PrivateKey) -> Path:
    """Write an archive, whole or not at all; the same files give the same bytes."""
    sums = sums_of(files)
    every = {**files, SUMS: sums, SIGNATURE: sign_bytes(sums, key, namespace=_DEALS)}
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
