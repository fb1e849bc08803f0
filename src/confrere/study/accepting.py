"""What a party does with releases that are handed to it: compare, keep, note and sign.

A party signs what it can compute itself from the answers that everybody signed, and a card that
says what the study says: a signature stands under every word of it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import ConfrereError, OperationRefused
from confrere.federation import LocalParty
from confrere.federation.messages import terms
from confrere.ledger import Receipt
from confrere.model import Encoder
from confrere.release import Card, Release, load_release, sign_sums, verify_signature
from confrere.release.folder import SIGNATURES, SUMS, add_file, sums_of, write_folder
from confrere.release.signing import PrivateKey
from confrere.study.priced_plan import price_of
from confrere.study.protocols import Learned
from confrere.study.study_card import described
from confrere.study.study_file import Study

#: Relative agreement of a released model with the one that a party computes from the answers.
AGREEMENT = 1e-6

#: What a card says of the moment and the machine that made it; the rest follows from the study.
_OF_THE_MOMENT = ("release_id", "created", "implementation", "files")
_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,40}")


def accept_releases(
    study: Study,
    files: Mapping[str, bytes],
    found: tuple[Learned, ...] | None,
    out: Path,
    key: PrivateKey,
    local: LocalParty,
) -> bytes:
    """Compare releases with what the signed answers give here, keep them and sign one's own."""
    releases: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        name, _, file = path.partition("/")
        releases.setdefault(name, {})[file] = content
    wanted = [study.id] if found is None else [learned.name for learned in found]
    if sorted(releases) != sorted(wanted):
        raise _unlike()
    signatures: dict[str, str] = {}
    for name, inside in releases.items():
        with tempfile.TemporaryDirectory() as aside:
            place = write_folder(Path(aside) / "release", inside, {})
            release = load_release(place, allow_simulated=study.simulated)
        own = next((one for one in found or () if one.name == name), None)
        _compare_release(study, release, own, local)
        paid = _paid_by(release, local.name) if own is None else own.receipts.get(local.name, ())
        for receipt in paid:
            local.books.ledger.note_model(receipt, digest=release.model.digest())
        signature = sign_sums(sums_of(inside), key) if paid else None
        if signature is not None:
            signatures[name] = signature.decode()
        target = out / name
        if not target.exists():
            write_folder(target, inside, {} if signature is None else {local.name: signature})
        elif (target / SUMS).read_bytes() != sums_of(inside):
            raise OperationRefused("another release lies where this one should go.", "release")
    return json.dumps(signatures).encode()


def keep_signatures(study: Study, name: str, reply: bytes, folders: Mapping[str, Path]) -> bool:
    """Put a party's signatures with releases; False if one is lacking, or is not its own."""
    key = next((str(party.key) for party in study.payers if party.name == name), None)
    try:
        signatures = json.loads(reply)
        for release, folder in folders.items():
            signature = signatures[release].encode()
            verify_signature(signature, (folder / SUMS).read_bytes(), [key] if key else [])
            place = folder / SIGNATURES / f"{name}.sig"
            if not place.exists():
                add_file(place, signature)
    except (ConfrereError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    return True


def share_signatures(study: Study, replies: Mapping[str, bytes], out: Path) -> None:
    """Keep what the others signed of the releases that are here."""
    for name, reply in replies.items():
        for folder in [one for one in out.iterdir() if (one / SUMS).is_file()]:
            keep_signatures(study, name, reply, {folder.name: folder})


def _compare_release(
    study: Study, release: Release, learned: Learned | None, local: LocalParty
) -> None:
    """Refuse a release that is not what everybody signed, or does not say what the study says.

    Where the coordinator adds the noise nobody can recompute it: its price, its meaning, its card
    and the party's own receipt are all that is compared.
    """
    if learned is None:
        rows = {entry.hash for entry in local.books.ledger.entries()}
        paid = [one.hash for one in _paid_by(release, local.name)]
        price = price_of(study)
        same = (
            release.kind == "multiparty"
            and bool(paid)
            and rows.issuperset(paid)
            and terms(release.guarantee) == terms(price)
            and release.model.classes == tuple(study.classes)
            and release.model.features == study.columns
        )
        close = True
    else:
        own_release = learned.release
        same = (
            release.kind == own_release.kind
            and release.simulated == own_release.simulated
            and release.guarantee == own_release.guarantee
            and release.receipt == own_release.receipt
            and release.parties == own_release.parties
            and release.model.classes == own_release.model.classes
            and release.model.features == own_release.model.features
        )
        given, here = released_numbers_of(release), released_numbers_of(own_release)
        length = float(np.linalg.norm(here))
        close = given.shape == here.shape and bool(
            np.linalg.norm(given - here) <= AGREEMENT * length
        )
        said = replace(own_release.model, encoder=release.model.encoder).to_dict()
        close = close and _alike(release.model.to_dict(), said, AGREEMENT * length)
    schema = study.schema if learned is None else learned.schema or study.schema
    encoder, own = release.model.encoder, Encoder.of(study.with_schema(schema).encoder())
    meaning = (
        encoder is not None
        and encoder.schema == own.schema
        and encoder.labels == own.labels
        and encoder.same_encoding(own)
    )
    if not (same and close and meaning):
        raise _unlike()
    told = learned or Learned(
        study.id,
        release.kind,
        release.model,
        release.guarantee,
        {name: _paid_by(release, name) for name in release.parties},
        seeded=release.simulated,
    )
    if not _same_words(release.card, described(study, told).card):
        raise _unlike()


def _same_words(card: Card, own: Card) -> bool:
    """Whether a card says what the party's own would: whom it protects, the price, what for.

    How many rows a unit has decides about the price, and is nobody's word but the study's.
    """
    given, here = card.to_dict(), own.to_dict()
    made, mine = given["implementation"], here["implementation"]
    known = made.keys() == mine.keys() and all(map(_VERSION.fullmatch, made.values()))
    rest = [name for name in here if name not in _OF_THE_MOMENT]
    return known and all(_alike(given[name], here[name], 0.0) for name in rest)


def _alike(one: Any, other: Any, near: float) -> bool:
    """Whether two documents say the same, numbers but for their last bits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[k], other[k], near) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other, [near] * len(one)))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(near, AGREEMENT * max(abs(one), abs(other)))
    return type(one) is type(other) and bool(one == other)


def _paid_by(release: Release, party: str) -> tuple[Receipt, ...]:
    found = release.parties.get(party, ())
    several = found if isinstance(found, tuple) else (found,)
    return tuple(one for one in several if isinstance(one, Receipt))


def _unlike() -> OperationRefused:
    return OperationRefused(
        "the release is not what the parties' answers give; it is not signed.", "release"
    )


def released_numbers_of(release: Release) -> NDArray[np.float64]:
    """Return all numbers of a release's model, one after the other."""
    arrays = release.model.arrays()
    return np.concatenate([np.ravel(arrays[name]) for name in sorted(arrays)])
