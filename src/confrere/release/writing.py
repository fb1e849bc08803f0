"""Save a release as a folder that needs nothing of ours to be checked and used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from confrere.errors import InvalidParameter, SimulatedRelease, UncappedRelease
from confrere.model import Model
from confrere.model.model_json import model_document, npz_bytes
from confrere.model.onnx_graph import onnx_bytes
from confrere.model.strict_json import json_bytes
from confrere.release.card import Card
from confrere.release.folder import (
    SIGNATURES,
    add_file,
    check_party,
    read_folder,
    sha256,
    sums_of,
    write_folder,
)
from confrere.release.pages import readme
from confrere.release.signing import PrivateKey, PublicKey, sign_sums

if TYPE_CHECKING:
    from confrere.release.release import Release


def save_release(
    release: Release,
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
    """Write a release as a folder, whole or not at all.

    Parameters
    ----------
    release : Release
        What leaves.
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
        Write what was paid for on an account without a cap, or in a ledger that does not last; the
        card says so.
    onnx : bool, default=False
        Write ``model.onnx`` too.
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
    card = release.card
    if (release.simulated or card.simulated) and not allow_simulated:
        raise SimulatedRelease(
            "the noise was seeded (random_state), so this protects nobody: fit again without a "
            "seed to release it, or give allow_simulated=True to keep it as a simulation."
        )
    if release.spending.uncapped and not (allow_uncapped or allow_simulated):
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
    files = release_files(release.model, card, onnx=onnx, study=added)
    signatures = {}
    if sign_with is not None and party is not None:
        signatures[check_party(party)] = sign_sums(sums_of(files), sign_with)
    return write_folder(folder, files, signatures, overwrite=overwrite)


def release_files(model: Model, card: Card, *, onnx: bool, study: bytes | None) -> dict[str, bytes]:
    """Return every file of a release but sums and signatures: all follow from model and card.

    Parameters
    ----------
    model : Model
        What was learned.
    card : Card
        What is said about it; its ``files`` are filled in.
    onnx : bool
        Whether there is a graph.
    study : bytes or None
        The study file.
    """
    files = {
        "model.npz": npz_bytes(model.arrays()),
        "model.json": model_document(model, card.product.kind),
    }
    if onnx:
        files["model.onnx"] = onnx_bytes(model)
    if study is not None:
        files["study.toml"] = study
    card = card.changed(files={name: sha256(files[name]) for name in sorted(files)})
    files["README.md"] = readme(card, model).encode()
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
