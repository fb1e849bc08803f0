"""The releases of the demonstration, with cards that say what the data are."""

from __future__ import annotations

from pathlib import Path

from confrere.demo.demo_models import DemoModels
from confrere.demo.world import World
from confrere.ledger import Ledger
from confrere.release import CardNotes, Release, Utility, card_page


def save_releases(
    world: World, learned: DemoModels, ledger: Ledger, folder: Path
) -> dict[str, Path]:
    """Write every organisation's release and, beside it, its card as a page.

    Returns
    -------
    dict of organisation to Path
        The release's folder.
    """
    places = {}
    for name, release in learned.releases.items():
        full = release.describe(
            _notes(world, learned, name), ledger=None if release.receipt is None else ledger
        )
        places[name] = _save(full, folder, name.replace(" ", "-"))
    return places


def _save(release: Release, folder: Path, name: str) -> Path:
    place = release.save(folder / name, overwrite=True)
    (folder / f"{name}.html").write_text(card_page(release), encoding="utf-8")
    return place


def _notes(world: World, learned: DemoModels, name: str) -> CardNotes:
    utility: tuple[Utility, ...] = ()
    if name in learned.scores["transfer"]:
        measured = {method: scores[name] for method, scores in learned.scores.items()}
        utility = (_utility(world, measured, "transfer", f"{world.people} of {name}, kept aside"),)
    elif name == "together":
        measured = {method: learned.mean(method) for method in learned.scores}
        where = f"{world.people} of every branch, kept aside; the mean"
        utility = (_utility(world, measured, "together", where),)
    return CardNotes(
        title=f"Diabetes risk, {name} (demonstration)",
        purpose="To show what a release is; for nobody's care.",
        not_for=("any decision about a person",),
        unit_detail="one person",
        unprotected=(world.warning,),
        trust="in the demonstration one process plays every organisation",
        tuning="none on the data: every parameter was chosen before",
        utility=utility,
    )


def _utility(world: World, measured: dict[str, float], method: str, where: str) -> Utility:
    return Utility(
        metric="AUC",
        value=measured[method],
        measured_on=where,
        basis=world.basis,
        non_private=measured["ceiling"],
        zero_data=measured["experts"],
    )
