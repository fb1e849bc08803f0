"""A release: noised arrays and public facts with their card, saved as a folder.

The folder needs nothing of ours to be checked and used.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confrere.errors import InvalidParameter, InvalidRelease, SimulatedRelease, UncappedRelease
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.model import Model
from confrere.model.model_json import model_document, npz_bytes
from confrere.model.onnx_graph import onnx_bytes
from confrere.model.strict_json import canonical_bytes, json_bytes
from confrere.release.card import Card
from confrere.release.describe import CardNotes, build_card
from confrere.release.folder import (
    SIGNATURES,
    add_file,
    check_party,
    read_folder,
    sha256,
    sums_of,
    write_folder,
)
from confrere.release.pages import README, release_html
from confrere.release.paid_receipts import receipts_for_facts, schema_of
from confrere.release.signing import PrivateKey, PublicKey, sign_sums
from confrere.release.spending import Paid, Spending

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves an organisation.

    Parameters
    ----------
    kind : str
        The method that made it, by its name in the catalogue: "plr", "pst-f", ...
    model : Linear or Stack
        What was learned: noised numbers and public facts only.
    guarantee : Guarantee
        What the mechanism proves.
    receipt : Receipt or None
        What the ledger recorded; without one the card says "unrecorded".
    simulated : bool
        Whether noise was seeded; then it protects nobody and does not leave by accident.
    parties : mapping of str to Receipt, tuple of Receipt, or Guarantee, optional
        Where several organisations' data are in it (an average, a transfer): what each one paid;
        several receipts together where it answered several times.
    """

    kind: str
    model: Model
    guarantee: Guarantee
    receipt: Receipt | None
    simulated: bool
    parties: Mapping[str, Paid] = field(default_factory=dict)
    _card: Card | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not _KIND.fullmatch(self.kind):
            raise InvalidParameter("kind must be lower-case letters, digits, '_' or '-'.")
        if not isinstance(self.simulated, bool):
            raise InvalidParameter("simulated must be True or False.")
        if not isinstance(self.model, Model):
            raise InvalidParameter("model must be a confrere.model.Linear or Stack.")
        self.model.require_plain()
        object.__setattr__(self, "parties", self.spending.parties)
        self._check_facts()
        if self.spending.simulated and not self.simulated:
            raise InvalidParameter("simulated must be True: a receipt says the noise was seeded.")
        if self._card is not None and self._card.release_id != self.release_id:
            raise InvalidRelease("the card belongs to another release; build one for this.")

    def _check_facts(self) -> None:
        """Refuse a model whose schema was paid for, without the receipts for that."""
        facts = receipts_for_facts(schema_of(self.model.encoder))
        if any(one not in self.spending.receipts() for one in facts):
            raise InvalidParameter(
                "parties: facts of the schema were paid for, and count in the total; give their "
                "receipts: confrere.release.paid_receipts.with_facts."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Release:
        """Return itself: nothing in it changes, and an estimator's clone keeps its source."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Let workers of the same organisation have it; what leaves is never pickled."""
        fields = (
            self.kind,
            self.model,
            self.guarantee,
            self.receipt,
            self.simulated,
            dict(self.parties),
            self._card,
        )
        return (Release, fields)

    def _repr_html_(self) -> str:
        return release_html(self)

    @property
    def spending(self) -> Spending:
        """What was promised and what was paid."""
        return Spending(self.guarantee, self.receipt, self.parties)

    @property
    def release_id(self) -> str:
        """The content's own name: equal content, equal id."""
        content = {
            "kind": self.kind,
            "model": self.model.to_dict(),
            "simulated": self.simulated,
            **self.spending.to_dict(),
        }
        return hashlib.sha256(canonical_bytes(content)).hexdigest()[:32]

    @property
    def card(self) -> Card:
        """The card; the one of :meth:`describe`, or one that says what the library knows."""
        if self._card is None:
            object.__setattr__(self, "_card", build_card(self))
        assert self._card is not None
        return self._card

    def describe(self, notes: CardNotes | None = None, *, ledger: Ledger | None = None) -> Release:
        """Return the same release with a card that says more; see :func:`build_card`."""
        return replace(self, _card=build_card(self, notes, ledger=ledger))

    def to_onnx(self) -> bytes:
        """Return model and encoder as a graph for any ONNX runtime; equal models, equal bytes."""
        return onnx_bytes(self.model)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        sign_with: PrivateKey | None = None,
        party: str | None = None,
        overwrite: bool = False,
        allow_simulated: bool = False,
        allow_uncapped: bool = False,
        study: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write the release as a folder, whole or not at all.

        Parameters
        ----------
        folder : path
            Where; made here.
        sign_with : path or Ed25519 private key, optional
            Sign ``SHA256SUMS`` as ``party``; other parties add theirs with :func:`sign_release`.
        party : str, optional
            Who signs: the signature's file name.
        overwrite : bool, default=False
            Replace an earlier release; anything else is never replaced.
        allow_simulated : bool, default=False
            Write seeded noise, with status "simulated".
        allow_uncapped : bool, default=False
            Write what was paid for on an account without a cap, or in a ledger that does not last;
            the card says so.
        study : path, optional
            The study file; the same bytes go along and their hash into the card.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        SimulatedRelease
            If the noise was seeded and ``allow_simulated`` is false.
        UncappedRelease
            If nothing caps what is spent on the same data and ``allow_uncapped`` is false.
        """
        card = self.card
        if (self.simulated or card.simulated) and not allow_simulated:
            raise SimulatedRelease(
                "the noise was seeded (random_state), so this protects nobody: fit again without a "
                "seed to release it, or give allow_simulated=True to keep it as a simulation."
            )
        if self.spending.uncapped and not (allow_uncapped or allow_simulated):
            raise UncappedRelease(
                "it was paid for on an account without a cap, or in a ledger that goes with its "
                "process, so nothing limits what is spent on the same data: fit with "
                "ledger=Ledger(path) and an account with a cap, or give allow_uncapped=True, which "
                "the card says."
            )
        if (sign_with is None) != (party is None):
            raise InvalidParameter("sign_with and party go together: a key, and whose it is.")
        added = None if study is None else Path(study).read_bytes()
        if added is not None:
            card = _with_study(card, sha256(added))
        files = release_files(self.model, card, study=added)
        signatures = {}
        if sign_with is not None and party is not None:
            signatures[check_party(party)] = sign_sums(sums_of(files), sign_with)
        return write_folder(folder, files, signatures, overwrite=overwrite)


def release_files(model: Model, card: Card, *, study: bytes | None) -> dict[str, bytes]:
    """Return every file of a release but sums and signatures: all follow from model and card.

    Parameters
    ----------
    model : Model
        What was learned.
    card : Card
        What is said about it; its ``files`` are filled in.
    study : bytes or None
        The study file.
    """
    files = {
        "model.npz": npz_bytes(model.stored()),
        "model.json": model_document(model, card.product.kind),
    }
    if study is not None:
        files["study.toml"] = study
    card = card.changed(files={name: sha256(files[name]) for name in sorted(files)})
    files["README.md"] = README
    files["card.json"] = json_bytes(card.to_dict())
    return files


def sign_release(
    folder: str | os.PathLike[str],
    key: PrivateKey,
    party: str,
    *,
    require_signature_from: dict[str, PublicKey] | None = None,
) -> Path:
    """Add a party's signature to a release that is whole.

    Parameters
    ----------
    folder : path
        The release; it is verified first.
    key : path or Ed25519 private key
        The party's own.
    party : str
        The signature's file name; an existing one is not replaced.
    require_signature_from : mapping of str to public key, optional
        Who must have signed before.

    Returns
    -------
    Path
        The signature's file.
    """
    check_party(party)
    files = read_folder(folder, require_signature_from=require_signature_from).files
    place = Path(folder).absolute() / SIGNATURES / f"{party}.sig"
    return add_file(place, sign_sums(sums_of(files), key))


def _with_study(card: Card, digest: str) -> Card:
    if card.study_sha256 not in (None, digest):
        raise InvalidParameter("study: it is not the file whose hash the card holds.")
    return card.changed(study_sha256=digest)
