"""Load a release: verify, then parse, then ask whether the parts belong together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from confrere.errors import InvalidParameter, InvalidRelease, SimulatedRelease
from confrere.model.arrays import check_npz
from confrere.model.model_json import read_document
from confrere.model.onnx_graph import onnx_bytes
from confrere.model.strict_json import read_json
from confrere.release.card import Card
from confrere.release.folder import sha256
from confrere.release.keys import PublicKey
from confrere.release.model import Release
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
    kind, model = read_document(files["model.json"])
    check_npz(files["model.npz"], model.arrays())
    if "model.onnx" in files and files["model.onnx"] != onnx_bytes(model):
        raise InvalidRelease("model.onnx is not the graph of model.json; do not use it.")
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


_AROUND_THE_CARD = frozenset({"card.json", "README.md"})
