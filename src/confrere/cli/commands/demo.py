"""demo: the main job from the cost to the card, in a minute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv

from confrere.cli.app import Answer, Option, command, console, wrote
from confrere.demo.demonstration import (
    CAPS,
    EPSILON,
    METHODS,
    WARNING,
    DemoModels,
    World,
    draw,
    learn,
    open_world,
    save_releases,
)
from confrere.demo.simulated_hospitals import SCHEMA
from confrere.errors import BudgetExceeded
from confrere.estimators import PrivateLogisticRegression
from confrere.extras import installed
from confrere.ledger import Ledger
from confrere.views import Table, Word, amount, shown

_COLUMNS = {method: drawn[0] for method, drawn in METHODS.items()}


@command("demo")
def demo(
    *,
    out: Annotated[Path, "Where everything is written."] = Path("confrere-out/demo"),
    seed: Annotated[int, Option("Of the simulated world, not of noise.", min=0)] = 0,
) -> Answer:
    """Show the main job: privacy cost, release, transfer to sixteen branches, cards and ledger.

    On simulated patients. What an earlier demonstration wrote into the same folder is replaced.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("demo.ledger*"):
        old.unlink()  # an earlier demonstration's people are not these ones' budget
    witness = out / "witness"
    shutil.rmtree(witness, ignore_errors=True)
    with console().status("opening the world") as status:
        world, ledger = open_world(seed), Ledger(out / "demo.ledger", witness=witness)
        main, branch = world[:2]
        cost = PrivateLogisticRegression(epsilon=EPSILON).privacy_cost(
            len(main.y), len(SCHEMA.feature_names)
        )
        learned = learn(world, ledger, status.update)
        status.update("cards and picture")
        places = save_releases(learned, ledger, out / "releases")
        picture = {"picture": out / "branches.png"} if installed("matplotlib") else {}
        for path in picture.values():
            draw(learned, path)
        patients = out / "patients.csv"
        pa.csv.write_csv(branch.X_test.slice(0, 20), patients)
        refusal = _refusal(world, ledger)
        rows = ledger.verify()
    place = out / "releases" / places[branch.name].name
    files = {
        **picture,
        "card": place.with_name(f"{place.name}.html"),
        "card of the average": place.with_name("together.html"),
        "ledger": out / "demo.ledger",
    }
    return Answer(
        f"next: confrere verify {place}\n"
        f"      confrere predict {place} {patients}\n"
        f"      confrere ledger show {files['ledger']}",
        {
            "simulated_data": True,
            "epsilon": EPSILON,
            "mean_auc": {method: learned.mean(method) for method in _COLUMNS},
            "auc": dict(learned.scores),
            "releases": places,
            "files": files,
            "ledger_head": ledger.head(),
            "refused": refusal,
        },
        [
            Word(WARNING, "bad"),
            f"\n{sum(map(len, world)):,} simulated patients: {main.name} ({len(main):,}) and "
            f"{len(world) - 1} branches, {len(SCHEMA.columns)} features with public bounds, means "
            "and importances.",
            f"\nPrivacy cost of one model, shown before any row is touched: {cost}.",
            _price_table(world),
            _branch_table(world, learned),
            _words(learned),
            "\nAnd then somebody asks for more than is left:",
            f"  {refusal}",
            f"\nLedger: {rows} rows verified, head {ledger.head()[:16]}; every privacy cost was "
            "on disk before its noise was drawn.",
            "" if picture else "\nFor the picture: pip install 'confrere[plot]', and run it again.",
            *wrote(*(f"{name}: {path}" for name, path in files.items())),
        ],
    )


def _price_table(world: World) -> Table:
    numbers = ("cap", "transfer", "averaged", "left after")
    names = (world[0].name, f"each of {len(world) - 1} branches")
    rows = [
        (name, shown(cap), *2 * [shown(EPSILON)], amount(cap - 2 * EPSILON))
        for name, cap in zip(names, CAPS.values(), strict=True)
    ]
    return Table(("organisation", *numbers), rows, numbers, "Budgets")


def _branch_table(world: World, learned: DemoModels) -> Table:
    numbers = ("people", *_COLUMNS.values())
    rows: list[tuple[object, ...]] = [
        (c.name, f"{len(c):,}", *(f"{learned.scores[m][c.name]:.3f}" for m in _COLUMNS))
        for c in world[1:]
    ]
    means = (Word(f"{learned.mean(method):.3f}", "strong") for method in _COLUMNS)
    rows.append((Word("mean", "strong"), "", *means))
    title = f"AUC on people kept aside, epsilon = {EPSILON:g} each"
    return Table(("branch", *numbers), rows, numbers, title)


def _words(learned: DemoModels) -> str:
    means = {method: learned.mean(method) for method in _COLUMNS}
    gains = {method: f"{means[method] - means['alone']:+.3f}" for method in means}
    return (
        "experts: declared signs and importances, no data at all. alone: the branch's own private "
        "model. PST-H and transfer (SimComb): near the main hospital's release. averaged: every "
        "organisation releases once. ceiling: no privacy, all data pooled.\n\n"
        f"At the same privacy cost, mean AUC against alone: {gains['transfer']} near the main "
        f"release, {gains['pst-h']} with PST-H, {gains['together']} with the average. That is one "
        "draw of noise; docs/algorithms/transfer.md has sixty. "
        f"{learned.above('transfer', 'alone')} of {len(learned.scores['alone'])} branches do "
        "better near the main release than alone. Released and charged: transfer and averaged. The "
        "rest is for comparison, on books of its own; with real people one would choose before "
        "spending."
    )


def _refusal(world: World, ledger: Ledger) -> str:
    """Have the main hospital ask for its whole cap again, and return what it is told."""
    main = world[0]
    greedy = PrivateLogisticRegression(CAPS["main"], SCHEMA, ledger[main.name])
    try:
        greedy.fit(main.X[:100], main.y[:100])
    except BudgetExceeded as refused:
        return str(refused)
    raise AssertionError("the ledger let more through than its cap")
