"""Load a release: verify, then parse, then ask whether the parts belong together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from confrere.errors import InvalidParameter, InvalidRelease, SimulatedRelease
from confrere.release.arrays import read_npz
from confrere.release.card import Card
from confrere.release.folder import sha256
from confrere.release.keys import PublicKey
from confrere.release.model import Release
from confrere.release.plain import PlainModel
from confrere.release.plain_values import fields
from confrere.release.saving import MODEL_SCHEMA
from confrere.release.strict_json import read_json
from confrere.release.verifying import read_folder


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
        is only known to be whole, not to come from anybody.
    allow_simulated : bool, default=False
        Accept a release whose noise was seeded.

    Raises
    ------
    InvalidRelease
        If a file was changed, is missing, unlisted, too large or not what it should be.
    SignatureError
        If a signature is missing or wrong.
    SimulatedRelease
        If the noise was seeded and ``allow_simulated`` is false.
    """
    files = read_folder(folder, require_signature_from=require_signature_from).files
    card = Card.from_dict(read_json(files["card.json"], "card.json"))
    described = {name: sha256(files[name]) for name in files if name not in _AROUND_THE_CARD}
    if card.files != described:
        raise InvalidRelease("card.json describes other files; ask for the whole folder again.")
    if card.simulated and not allow_simulated:
        raise SimulatedRelease(
            "the noise of this release was seeded: it protects nobody and proves nothing. Ask for "
            "a real one, or give allow_simulated=True to study it."
        )
    model = _read_model(files["model.json"])
    spending = card.spending
    try:
        return Release(
            kind=model["kind"],
            arrays=read_npz(files["model.npz"]),
            facts=model["facts"],
            guarantee=spending.guarantee,
            receipt=spending.receipt,
            simulated=card.simulated,
            parties=spending.parties,
            predictor=model["model"],
            _card=card,
        )
    except InvalidParameter as error:
        raise InvalidRelease(f"the parts do not fit: {error} Ask for the folder again.") from error


_AROUND_THE_CARD = frozenset({"card.json", "README.md"})


def _read_model(content: bytes) -> dict[str, Any]:
    found = fields(
        read_json(content, "model.json"),
        "model.json",
        "schema",
        "kind",
        "facts",
        "model",
        "test_vectors",
    )
    if found["schema"] != MODEL_SCHEMA or not isinstance(found["facts"], dict):
        raise InvalidRelease(f"model.json is not a {MODEL_SCHEMA}; update confrere, or ask again.")
    PlainModel.from_dict(found["model"]).check_vectors(found["test_vectors"])
    return found
