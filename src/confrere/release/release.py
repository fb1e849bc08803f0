"""The release itself: noised arrays and public facts, with the card that describes them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confrere.errors import InvalidParameter, InvalidRelease
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.model import Model
from confrere.model.strict_json import canonical_bytes
from confrere.release.card import Card
from confrere.release.describe import CardNotes, build_card
from confrere.release.signing import PrivateKey
from confrere.release.spending import Paid, Spending
from confrere.release.writing import save_release

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
        if self.spending.simulated and not self.simulated:
            raise InvalidParameter("simulated must be True: a receipt says the noise was seeded.")
        if self._card is not None and self._card.release_id != self.release_id:
            raise InvalidRelease("the card belongs to another release; build one for this.")

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

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        sign_with: PrivateKey | None = None,
        party: str | None = None,
        overwrite: bool = False,
        allow_simulated: bool = False,
        allow_uncapped: bool = False,
        onnx: bool = False,
        study: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write the release as a folder; see :func:`save_release`."""
        return save_release(
            self,
            folder,
            sign_with=sign_with,
            party=party,
            overwrite=overwrite,
            allow_simulated=allow_simulated,
            allow_uncapped=allow_uncapped,
            onnx=onnx,
            study=study,
        )
