"""keys, provision and kit: with which a party signs and connects, and a signed archive for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import confrere_federation.kits as kits
from confrere.cli.app import Answer, Option, command, said, wrote
from confrere.errors import StudyError
from confrere.release import fingerprint, generate_key
from confrere.release.folder import check_party
from confrere_federation.commands.party import signing_key
from confrere_federation.studies.study_file import (
    Home,
    home_folder,
    open_home,
    read_bytes,
    read_study,
)

_NEW = Option("The private key's file; nothing is overwritten.", dir_okay=False)
_PARTY = Option("Its name in the study.", metavar="PARTY")
_REQUEST = Option("A party's request.", metavar="REQUEST")
_NODES = "The coordinator's folder of certificates."
_OWN = "The folder of the party's keys; by default its home's."


@command("keys new")
def new(path: Annotated[Path, _NEW], *, comment: Annotated[str, "Whose key it is."] = "") -> Answer:
    """Make an Ed25519 key pair in OpenSSH's files."""
    public = generate_key(path, comment)
    words = "private key {private} (keep it), public key {public} (give it to partners), "
    words += "{fingerprint}"
    return said(words, private=path, public=public, fingerprint=fingerprint(public))


@command("keys show")
def show(path: Annotated[Path, "A public key's file."]) -> Answer:
    """Print a public key's fingerprint."""
    return said("{fingerprint}", fingerprint=fingerprint(path))


@command("keys request")
def request(
    party: Annotated[str, _PARTY], *, folder: Annotated[Path | None, _OWN] = None
) -> Answer:
    """Make a party's keys, and the request that it sends to whoever coordinates."""
    place = folder or open_home(home_folder()).keys
    made = kits.make_request(place, check_party(party))
    return _asked(place, party, made.fingerprint)


@command("keys rotate")
def rotate(
    party: Annotated[str, _PARTY],
    *,
    signing: Annotated[
        bool, "A new signing key, which the old one signs; else a new node key."
    ] = False,
    folder: Annotated[Path | None, _OWN] = None,
) -> Answer:
    """Make a new key in place of the old one, and a new request; studies that run stay good."""
    place = folder or Home(home_folder()).keys
    key = signing_key(place / f"{check_party(party)}.key")
    made = (kits.renew_signing_key if signing else kits.renew_node_key)(place, party, key)
    return _asked(place, party, made.fingerprint)


@command("keys accept")
def accept(file: Annotated[Path, _REQUEST]) -> Answer:
    """Know another party by its new signing key, which the key that is known has signed."""
    found = kits.read_request(file)
    kits.accept_key(Home(home_folder()), found)
    words = "{party} is known by {fingerprint} from now on"
    return said(words, party=found.party, fingerprint=found.fingerprint)


@command("keys admit")
def admit(
    file: Annotated[Path, _REQUEST],
    *,
    study: Annotated[Path, "The study, which names its key."],
    nodes: Annotated[Path, _NODES],
) -> Answer:
    """Let a party connect by its request's certificate; the one before is revoked."""
    found = kits.read_request(file)
    kits.admit(nodes, read_study(study), found)
    words = "{party} may connect; a coordinator that is running has to be started again"
    return said(words, party=found.party, fingerprint=found.fingerprint)


@command("keys revoke")
def revoke(party: Annotated[str, _PARTY], *, nodes: Annotated[Path, _NODES]) -> Answer:
    """Take a party's certificate back; a coordinator that is running has to be started again."""
    kits.revoke(nodes, check_party(party))
    words = "{party} cannot connect any more; start a coordinator that is running again"
    return said(words, party=party)


def _asked(folder: Path, party: str, own: str) -> Answer:
    words = "send {request} to the coordinator, and tell {fingerprint} by telephone"
    return said(words, request=folder / f"{party}.request", fingerprint=own)


_KIT = Option("The archive.", metavar="KIT")


@command("provision")
def provision(
    study: Path,
    *,
    requests: Annotated[list[Path], "A party's request (keys request), or a folder of them."],
    key: Annotated[Path, "The coordinator's private key: it signs the kits."],
    host: Annotated[str, "Address by which parties reach the coordinator."],
    out: Annotated[Path, "The folder of the kits."] = Path("kits"),
    port: Annotated[int, Option("Its port.", min=1, max=65535)] = 8443,
    days: Annotated[int, Option("How long its certificate is good.", min=1, max=3650)] = 365,
    renew: Annotated[bool, "Write over kits that are there: a new certificate."] = False,
) -> Answer:
    """Make a signed kit for every participant: the study, certificates, where you are reached."""
    files = [
        file
        for path in requests
        for file in (sorted(path.glob("*.request")) if path.is_dir() else [path])
    ]
    if not files:
        raise StudyError("--requests: there is no .request file; a party makes it: keys request.")
    found = [kits.read_request(path) for path in files]
    opened, content = signing_key(key), read_bytes(study, "the study")
    written = kits.make_kits(
        content, found, opened, out, host=host, port=port, days=days, renew=renew
    )
    own = fingerprint(opened.public_key())
    return Answer(
        f"fingerprint {own}: tell it to every party by telephone, and compare theirs: "
        + ", ".join(f"{one.party} {one.fingerprint}" for one in found),
        {
            "kits": written,
            "fingerprint": own,
            "parties": {one.party: one.fingerprint for one in found},
        },
        wrote(*written),
    )


@command("kit open")
def open_(
    kit: Annotated[Path, _KIT],
    *,
    fingerprint: Annotated[str, "The coordinator's, SHA256:..., as told by telephone."],
    into: Annotated[
        Path | None,
        "A party's home, by default CONFRERE_HOME or the user's; a coordinator's folder.",
    ] = None,
    dataset: Annotated[
        str | None, "Which of the home's data sets the study is about, if it has several."
    ] = None,
) -> Answer:
    """Check a kit's signature; write its files, a local file, a unit and a README made here."""
    found, place = kits.open_kit(kit, into, fingerprint, dataset=dataset)
    return said(
        "the kit of {participant}; next: read {folder}/README.md",
        participant=found.participant,
        study_sha256=found.study.sha256,
        folder=place,
    )


@command("kit show")
def look(kit: Annotated[Path, _KIT]) -> Answer:
    """Say whose a kit is, who signed it and what is in it; writes nothing."""
    found = kits.show_kit(kit)
    return Answer(
        f"the kit of {found.participant}, signed by {found.fingerprint}",
        {
            "participant": found.participant,
            "fingerprint": found.fingerprint,
            "study_sha256": found.study.sha256,
            "files": sorted(found.files),
            "made_here": sorted(found.pages()),
        },
        text="".join(f"{name}\n" for name in sorted(found.files)),
    )
