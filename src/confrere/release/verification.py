"""Load and verify a release: whole, then parsed, then every part made again from the others.

A folder whose sums are right can still be forged, by whoever can redo them. So nothing in it is
believed because it is written there: the README is every release's, arrays follow from the model,
the card's price from its receipts, and the receipts from the ledger, if it is at hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from confrere.errors import InvalidParameter, InvalidRelease, LedgerError, SimulatedRelease
from confrere.ledger import Entry, Ledger, Receipt
from confrere.model.model_json import check_npz, read_document
from confrere.model.strict_json import json_bytes, read_json
from confrere.release.additions import SignedAddition, check_addition, read_additions
from confrere.release.card import Card
from confrere.release.describe import preprocessing, prior_spend
from confrere.release.folder import VerifiedFolder, read_folder, sha256
from confrere.release.pages import README
from confrere.release.paid_receipts import receipts_for_facts, schema_of
from confrere.release.release import Release
from confrere.release.signing import PublicKey
from confrere.schema import PublicSchema

_AROUND_THE_CARD = frozenset({"card.json", "README.md"})


@dataclass(frozen=True)
class Verified:
    """A release and what is known about it.

    Attributes
    ----------
    release : Release
        What was released.
    signers : mapping of str to str
        Party's file name -> fingerprint of the key in it; who that is, only you can know.
    checked : tuple of str
        What was found to be right, in words.
    additions : tuple of SignedAddition
        What was measured later, by whom.
    """

    release: Release
    signers: Mapping[str, str]
    checked: tuple[str, ...]
    additions: tuple[SignedAddition, ...] = ()


def load_release(
    folder: str | os.PathLike[str],
    *,
    require_signature_from: Mapping[str, PublicKey] | None = None,
    allow_simulated: bool = False,
) -> Release:
    """Read a release after every file was verified.

    Parameters
    ----------
    folder : path
        What :meth:`Release.save` wrote.
    require_signature_from : mapping of str to public key, optional
        Party -> its ``.pub`` file, or the line in it. Each must have signed. Without it, a folder
        is only known to be whole and consistent, not to come from anybody.
    allow_simulated : bool, default=False
        Accept a release whose noise was seeded.

    Raises
    ------
    InvalidRelease
        If a file was changed, is missing, unlisted, too large or not what the others make of it.
    SignatureError
        If a signature is missing or wrong.
    SimulatedRelease
        If the noise was seeded and ``allow_simulated`` is false.
    """
    verified = read_folder(folder, require_signature_from=require_signature_from)
    return _consistent(verified, allow_simulated=allow_simulated)


def verify_release(
    folder: str | os.PathLike[str],
    *,
    require_signature_from: Mapping[str, PublicKey] | None = None,
    ledgers: Sequence[Ledger] = (),
    study: bytes | None = None,
    release_id: str | None = None,
    allow_simulated: bool = False,
) -> Verified:
    """Load a release and compare it with what is known from elsewhere.

    Parameters
    ----------
    folder, require_signature_from, allow_simulated
        As in :func:`load_release`.
    ledgers : sequence of Ledger, optional
        Ledgers that were charged; each must have, word for word, a charge that the card names.
    study : bytes, optional
        The study file that it must be of.
    release_id : str, optional
        The id that it must have, as told by its makers on another way: an old release that is
        sent again is genuine in every other respect.

    Raises
    ------
    InvalidRelease
        Also if a ledger, the study or the id says otherwise.
    """
    whole = read_folder(folder, require_signature_from=require_signature_from)
    release = _consistent(whole, allow_simulated=allow_simulated)
    checked = [
        "every file is the one that SHA256SUMS lists",
        "the arrays are those of the model, and the README is every release's",
        "the card fits its receipts",
        *(f"{party} signed it" for party in require_signature_from or ()),
    ]
    if release_id is not None:
        if release.release_id != release_id:
            raise InvalidRelease("it is another release than the one named: a replay, or a mix-up.")
        checked.append("it is the release that was named")
    if study is not None:
        if release.card.study_sha256 != sha256(study):
            raise InvalidRelease("the release is of another study, or of another version of it.")
        checked.append("it is of this study")
    additions = read_additions(whole, require_signature_from)
    for one in additions:
        whose = "" if one.known else f" with a key that you did not name, {one.signer}"
        checked.append(f"{one.addition.party} measured its quality and signed that{whose}")
    for ledger in ledgers:
        measured = _check_additions(release, additions, ledger)
        if not measured or _own_receipts(release, ledger):
            _check_ledger(release, ledger)
    if ledgers:
        checked.append("the ledger has its charge, word for word, and the chain is whole")
    return Verified(release, whole.signers, tuple(checked), additions)


def _check_additions(
    release: Release, additions: Sequence[SignedAddition], ledger: Ledger
) -> list[Receipt]:
    """Compare evaluations with the ledger that paid for them; return those that it has."""
    own = [one.addition for one in additions if one.addition.receipt.ledger_id == ledger.ledger_id]
    entries = {entry.row: entry for entry in ledger.entries()} if own else {}
    for addition in own:
        entry = entries.get(addition.receipt.row)
        if entry is None:
            raise InvalidRelease("the ledger has no charge of an evaluation; do not rely on it.")
        _check_receipt(addition.paid, entry)
        digest = release.model.digest()
        check_addition(addition, entry.digest, entry.detail.get("model"), digest)
    return [addition.paid for addition in own]


def _consistent(folder: VerifiedFolder, *, allow_simulated: bool) -> Release:
    """Return the release if every part of the folder follows from the others."""
    files = folder.files
    document = read_json(files["card.json"], "card.json")
    card = Card.from_dict(document)
    if json_bytes(card.to_dict()) != files["card.json"]:
        raise InvalidRelease("card.json is not in the form that is written; ask for it again.")
    if card.files != {name: sha256(files[name]) for name in files if name not in _AROUND_THE_CARD}:
        raise InvalidRelease("card.json describes other files; ask for the whole folder again.")
    if card.simulated and not allow_simulated:
        raise SimulatedRelease(
            "the noise of this release was seeded: it protects nobody and proves nothing. Ask for "
            "a real one, or give allow_simulated=True to study it."
        )
    kind, model = read_document(files["model.json"])
    check_npz(files["model.npz"], model.stored())
    if "study.toml" in files and card.study_sha256 != sha256(files["study.toml"]):
        raise InvalidRelease("study.toml is not the study that card.json names; do not use it.")
    said = list(preprocessing(model))
    if card.product.kind != kind or card.preprocessing[: len(said)] != said:
        raise InvalidRelease("card.json is about another model than model.json; do not use it.")
    if files["README.md"] != README:
        raise InvalidRelease("README.md is not the text of every release; do not use it.")
    spending = card.spending
    try:
        return Release(
            kind=kind,
            model=model,
            guarantee=spending.guarantee,
            receipt=spending.receipt,
            simulated=card.simulated,
            parties=spending.parties,
            _card=card,
        )
    except InvalidParameter as error:
        raise InvalidRelease(f"the parts do not fit: {error} Ask for the folder again.") from error


def _check_ledger(release: Release, ledger: Ledger) -> None:
    """Refuse a release of which the ledger says something else, or nothing."""
    entries = {entry.row: entry for entry in ledger.entries()}
    own = _own_receipts(release, ledger)
    if not own:
        raise InvalidRelease("the ledger has no charge of this release.")
    facts = _check_facts(schema_of(release.model.encoder), entries, ledger)
    own_model = [receipt for receipt in own if receipt.row not in facts]
    for receipt in own:
        entry = entries.get(receipt.row)
        if entry is None:
            raise InvalidRelease(f"the ledger has no charge in row {receipt.row}; do not use it.")
        _check_receipt(receipt, entry)
        # In a transfer the sources' receipts are of what they released before, for whatever study;
        # so are those of facts.
        if release.receipt in (None, receipt) and receipt in own_model:
            _check_study(release.card, entry)
        try:
            ledger.verify(head=receipt.hash)
        except LedgerError as error:
            raise InvalidRelease(f"the ledger is not whole: {error}") from error
    for receipt in own_model:
        if release.receipt in (None, receipt):
            _check_digest(release, entries[receipt.row])
    if release.receipt in own:
        budget = release.card.prior_spend
        if budget is not None and budget.model_dump() != prior_spend(ledger, release.receipt):
            raise InvalidRelease("card.json: prior_spend is not the ledger's; do not use it.")


def _check_facts(
    schema: PublicSchema | None, entries: Mapping[int, Entry], ledger: Ledger
) -> set[int]:
    """Compare facts with the rows that paid for them; return those rows."""
    rows: set[int] = set()
    if schema is None:
        return rows
    for paid in schema.paid:
        for receipt in receipts_for_facts(replace(schema, paid=(paid,))):
            if receipt.ledger_id != ledger.ledger_id:
                continue
            rows.add(receipt.row)
            entry = entries.get(receipt.row)
            # A party's row of a run names nothing: what was learned is of all of them together.
            digest = None if entry is None or "run" in entry.detail else entry.digest
            if digest is not None and paid.digest(schema) not in ("", digest):
                raise InvalidRelease(
                    f"row {receipt.row} of the ledger paid for other facts than the schema has."
                )
    return rows


def _own_receipts(release: Release, ledger: Ledger) -> list[Receipt]:
    return [one for one in release.spending.receipts() if one.ledger_id == ledger.ledger_id]


def _check_receipt(receipt: Receipt, entry: Entry) -> None:
    """Compare a receipt with the row of the ledger, word for word."""
    promised, paid = receipt.guarantee.to_dict(), entry.guarantee.to_dict()
    differing = [f"guarantee.{name}" for name in paid if promised[name] != paid[name]]
    names = sorted(set(Receipt.__dataclass_fields__) - {"ledger_id", "guarantee"})
    differing += [name for name in names if getattr(receipt, name) != getattr(entry, name)]
    if differing:
        raise InvalidRelease(
            f"the receipt is not what row {receipt.row} of the ledger says: "
            f"{', '.join(differing)}; do not use it."
        )
    if entry.state != "released":
        raise InvalidRelease(
            f"row {receipt.row} of the ledger does not say that this was released ({entry.state})."
        )


def _check_study(card: Card, entry: Entry) -> None:
    # A study's row names it for itself; an answer between machines among its details.
    if (entry.study_sha256 or entry.detail.get("study_sha256")) != card.study_sha256:
        raise InvalidRelease(
            f"row {entry.row} of the ledger was paid for another study than the card names."
        )


def _check_digest(release: Release, entry: Entry) -> None:
    """One charge, one model: a receipt cannot stand behind another one.

    A row of a run names the party's own answer, and further rows name the models that were made
    of it together with others.
    """
    if "run" in entry.detail:
        if release.model.digest() not in entry.models:
            raise InvalidRelease(
                f"row {entry.row} of the ledger paid for an answer of which another model was made."
            )
        return
    if entry.digest is None:
        raise InvalidRelease(f"row {entry.row} of the ledger does not name what was released.")
    # An encoder that stood before the estimator became part of the model when it was released.
    if release.model.digest() not in (entry.digest, *entry.models):
        raise InvalidRelease(f"row {entry.row} of the ledger paid for another model than this.")
