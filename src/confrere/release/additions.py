"""What is written onto a release later: how good it is, measured at a price, signed by who did it.

The bytes of a release are frozen, and so are its sums and signatures. An addition is a file of its
own in ``additions/``, with a signature over its bytes that is good for nothing else; it names the
release by the hash of its ``SHA256SUMS``, so it cannot be put beside another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from confrere.errors import InvalidParameter, InvalidRelease, SignatureError, SimulatedRelease
from confrere.ledger import Receipt
from confrere.model.strict_json import json_bytes, read_json, validated
from confrere.release.card import CardPart, Quality, ReceiptForm, ReleaseId, Sha256, Text, Time
from confrere.release.folder import (
    ADDITIONS,
    PARTY,
    REHEARSAL,
    VerifiedFolder,
    add_file,
    check_party,
    read_folder,
    sha256,
    sums_of,
)
from confrere.release.signing import (
    PrivateKey,
    PublicKey,
    fingerprint,
    sign_bytes,
    signer_of,
    verify_bytes,
)

ADDITION_NAMESPACE = "confrere-addition"
SCHEMA = "confrere-addition/1"


class Addition(CardPart):
    """A file of ``additions/``."""

    schema_: Literal["confrere-addition/1"] = Field(alias="schema")
    kind: Literal["evaluation"]
    release_id: ReleaseId
    sums_sha256: Sha256
    party: Text
    created: Time
    measured_on: Text
    quality: Quality
    receipt: ReceiptForm

    @property
    def paid(self) -> Receipt:
        """What the ledger of the party that measured recorded."""
        return Receipt.from_dict(self.receipt.model_dump())

    def to_dict(self) -> dict[str, Any]:
        """Return the document, in the order of the fields."""
        return self.model_dump(mode="json")


_ADDITION = TypeAdapter(Addition)


@dataclass(frozen=True)
class SignedAddition:
    """An addition whose signature is right, and whose key that is."""

    addition: Addition
    signer: str  #: Fingerprint of the key; who that is, only you can know
    known: bool  #: Whether it is the key that you gave for this party


def add_evaluation(
    folder: str | os.PathLike[str],  # The release; it is verified first
    quality: Mapping[str, Any],  # What ``Evaluation.quality()`` returned
    receipt: Receipt,  # What the ledger recorded for it
    *,
    # ``party``, ``key``: who measured, and its private key.
    party: str,
    key: PrivateKey,
    measured_on: str,  # On which records, in words that give nothing away
) -> Path:
    """Write what an evaluation found beside a release, signed; the release stays as it is."""
    check_party(party)
    whole = read_folder(folder)
    if receipt.simulated or REHEARSAL in whole.files:
        raise SimulatedRelease("noise was seeded, of the evaluation or of what is evaluated.")
    sums = sums_of(whole.files)
    document = {
        "schema": SCHEMA,
        "kind": "evaluation",
        "release_id": str(read_json(whole.files["card.json"], "card.json").get("release_id")),
        "sums_sha256": sha256(sums),
        "party": party,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "measured_on": measured_on,
        "quality": dict(quality),
        "receipt": receipt.to_dict(),
    }
    addition = validated(_ADDITION, document, "addition")
    content = json_bytes(addition.to_dict())
    name = f"evaluation-{receipt.hash[:16]}"
    place = Path(folder).absolute() / ADDITIONS
    add_file(place / f"{name}.sig", sign_bytes(content, key, namespace=ADDITION_NAMESPACE))
    return add_file(place / f"{name}.json", content)


def read_additions(
    whole: VerifiedFolder, keys: Mapping[str, PublicKey] | None = None
) -> tuple[SignedAddition, ...]:
    """Return what was added to a release, once signatures and names are right.

    Raises InvalidRelease if an addition is of another release, or not in the form that is written.
    Raises SignatureError if a signature is missing, wrong, or of another key than the one given for
    the party.
    """
    return tuple(_signed(whole, keys or {}))


def _signed(whole: VerifiedFolder, keys: Mapping[str, PublicKey]) -> Iterator[SignedAddition]:
    sums = sha256(sums_of(whole.files))
    for name in sorted(whole.additions):
        content, signature = whole.additions[name]
        where = f"{ADDITIONS}/{name}.json"
        if signature is None:
            raise SignatureError(f"{where} is not signed; remove it, or ask its makers.")
        try:
            key = signer_of(signature, content, namespace=ADDITION_NAMESPACE)
        except SignatureError as error:
            raise SignatureError(f"{where}: {error}") from error
        addition = validated(_ADDITION, read_json(content, where), where)
        if json_bytes(addition.to_dict()) != content or not PARTY.fullmatch(addition.party):
            raise InvalidRelease(f"{where} is not in the form that is written; remove it.")
        if addition.sums_sha256 != sums:
            raise InvalidRelease(f"{where} is about another release; remove it.")
        if addition.receipt.simulated:
            raise InvalidRelease(f"{where}: seeded noise is written onto no card; remove it.")
        known = addition.party in keys
        if known:
            namespace = ADDITION_NAMESPACE
            verify_bytes(signature, content, keys[addition.party], namespace=namespace)
        yield SignedAddition(addition, fingerprint(key), known)


def check_words(party: str, measured_on: str) -> None:
    """Refuse, before anything is spent, what could not be written onto a card."""
    check_party(party)
    try:
        TypeAdapter(Text).validate_python(measured_on)
    except ValueError:
        raise InvalidParameter(
            "measured_on must be one line of at most 2000 characters that promises no anonymity."
        ) from None


def check_addition(addition: Addition, digest: str | None, model: Any, expected: str) -> None:
    """Compare an addition with the row of the ledger that paid for it."""
    if digest != addition.quality.digest():
        raise InvalidRelease("the ledger's row paid for another evaluation than the addition says.")
    if model != expected:
        raise InvalidRelease("the ledger's row paid for the evaluation of another model.")
