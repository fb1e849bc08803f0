"""Write what a study made: release folders, the cards as pages."""

from __future__ import annotations

import tempfile
from pathlib import Path

from confrere.errors import StudyError
from confrere.release import card_page, read_private_key, sign_release
from confrere.study.local_file import Local
from confrere.study.running import Made
from confrere.study.study_file import Study


def check_destination(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse, before anything is spent, a place where releases could not be written."""
    names = [study.id] if study.method.shape == "together" else parties
    taken = [name for name in names if (folder / name).exists()]
    if taken:
        raise StudyError(
            f"out: {folder.name} holds {', '.join(taken)} already; give another folder with --out."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StudyError(f"out: {folder.name} cannot be written ({error.strerror}).") from None


def check_keys(locals_: dict[str, Local]) -> None:
    """Refuse, before anything is spent, a key that cannot sign."""
    for local in locals_.values():
        if local.key_path is not None:
            read_private_key(local.key_path)


def save_made(study: Study, made: Made, folder: Path, locals_: dict[str, Local]) -> Path:
    """Write a release with its study, signed by every party here that has a key, and its page.

    Returns
    -------
    Path
        The release's folder; the card as a page lies beside it.
    """
    with tempfile.TemporaryDirectory() as aside:
        copy = Path(aside) / "study.toml"
        copy.write_bytes(study.content)  # the bytes that were read, whatever became of the file
        # Who sets no cap was told so with the price, and the card says it.
        place = made.release.save(
            folder / made.name,
            study=copy,
            allow_simulated=study.simulated,
            allow_uncapped=True,
        )
    for name in made.receipts:
        local = locals_.get(name)
        if local is not None and local.key_path is not None:
            sign_release(place, local.key_path, name)
    page = folder / f"{made.name}.html"
    page.write_text(card_page(made.release), encoding="utf-8")
    return place
