"""demo: the main job from the price to the card, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.panel import Panel
from rich.table import Table

from confrere.cli.envelope import Answer, aside, command, good, screen
from confrere.cli.views import facts, listing
from confrere.demo.demonstration import (
    CAPS,
    EPSILON,
    DemoModels,
    World,
    draw,
    learn,
    open_world,
    save_releases,
)
from confrere.errors import BudgetExceeded
from confrere.estimators import PrivateLogisticRegression
from confrere.extras import installed
from confrere.ledger import Ledger
from confrere.ledger.accounts import amount
from confrere.release import load_release, shown
from confrere.study import predict

#: Columns of one person that are shown.
_SHOWN = 6
_COLUMNS = {
    "experts": "experts",
    "alone": "alone",
    "pst-h": "PST-H",
    "transfer": "transfer",
    "together": "averaged",
    "ceiling": "ceiling",
}


@command("demo")
def demo(
    out: Annotated[Path, typer.Option(help="Where everything is written.")] = Path(
        "confrere-out/demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated world, not of noise.")] = 0,
) -> Answer:
    """Show the main job: price, release, transfer to sixteen branches, cards and ledger.

    On simulated patients, or on survey data where CONFRERE_DATA says where they lie. What an
    earlier demonstration wrote into the same folder is replaced.
    """
    out.mkdir(parents=True, exist_ok=True)
    console = aside()
    with console.status("opening the world") as status:
        world = open_world(seed)
        ledger = _fresh_ledger(out / "demo.ledger")
        price = PrivateLogisticRegression(epsilon=EPSILON).price(
            len(world.main.y), len(world.schema.feature_names)
        )
        learned = learn(world, ledger, status.update)
        status.update("cards and picture")
        places = save_releases(world, learned, ledger, out / "releases")
        picture = out / "branches.png" if installed("matplotlib") else None
        if picture is not None:
            draw(world, learned, picture)
        patients = out / "patients.csv"
        world.branches[0].raw_test.head(20).to_csv(patients, index=False)
        person = world.branches[0].raw_test.head(1)
        foretold = predict(load_release(places[world.branches[0].name]), person)
        refusal = _refusal(world, ledger)
        rows = ledger.verify()
    branch = places[world.branches[0].name]
    files = {
        **({} if picture is None else {"picture": picture}),
        "card": branch.with_name(f"{branch.name}.html"),
        "card of the average": branch.with_name("together.html"),
        "ledger": ledger.path,
    }
    return Answer(
        f"next: confrere verify {_short(branch)}\n"
        f"      confrere predict {_short(branch)} {patients}\n"
        f"      confrere ledger show {_short(ledger.path)}",
        {
            "simulated_data": world.basis == "synthetic data",
            "epsilon": EPSILON,
            "mean_auc": {method: learned.mean(method) for method in _COLUMNS},
            "auc": dict(learned.scores),
            "draws": [dict(draw) for draw in learned.draws],
            "releases": {name: str(place) for name, place in places.items()},
            "files": {name: str(path) for name, path in files.items()},
            "ledger_head": ledger.head(),
            "refused": refusal,
            "one_person": foretold.iloc[0].to_dict(),
        },
        [
            Panel(world.warning, style="bold yellow", width=min(100, screen().width)),
            f"\n{len(world):,} {world.people}: {world.main.name} ({len(world.main):,}) and "
            f"{len(world.branches)} branches, {len(world.schema.columns)} features with public "
            "bounds, means and importances.",
            f"\nPrice of one model, said before any row is touched: {price}.",
            _price_table(world),
            _branch_table(world, learned),
            _words(world, learned),
            "\nAnd then somebody asks for more than is left:",
            f"  {refusal}",
            f"\nLedger: {rows} rows verified, head {ledger.head()[:16]}; every price was on disk "
            "before its noise was drawn.",
            f"\nOne of {world.branches[0].name}'s {world.people}, raw as in its table, and what "
            "its release says:",
            _person_table(world, person, foretold),
            *(
                ["\nFor the picture: pip install 'confrere[plot]', and run it again."]
                if picture is None
                else []
            ),
            *(good("wrote", f"{name}: {_short(path)}") for name, path in files.items()),
        ],
    )


def _fresh_ledger(path: Path) -> Ledger:
    """Return a new ledger: an earlier demonstration's people are not these ones' budget."""
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    return Ledger(path)


def _price_table(world: World) -> Table:
    numbers = ("cap", "transfer", "averaged", "left after")
    table = listing("Budgets", "organisation", *numbers, right=numbers)
    kinds = {world.main.name: "main", f"each of {len(world.branches)} branches": "branch"}
    for words, kind in kinds.items():
        table.add_row(
            words, shown(CAPS[kind]), *2 * [shown(EPSILON)], amount(CAPS[kind] - 2 * EPSILON)
        )
    return table


def _branch_table(world: World, learned: DemoModels) -> Table:
    title = f"AUC on people kept aside, epsilon = {EPSILON:g} each"
    table = listing(
        title, "branch", "people", *_COLUMNS.values(), right=("people", *_COLUMNS.values())
    )
    table.columns[0].no_wrap = True
    table.padding = (0, 0, 0, 1)
    for branch in world.branches:
        table.add_row(
            branch.name,
            f"{len(branch):,}",
            *(f"{learned.scores[method][branch.name]:.3f}" for method in _COLUMNS),
        )
    table.add_section()
    table.add_row("mean", "", *(f"{learned.mean(m):.3f}" for m in _COLUMNS), style="bold")
    return table


def _words(world: World, learned: DemoModels) -> str:
    count = len(world.branches)
    return (
        "experts: declared signs and importances, no data at all. alone: the branch's own private "
        "model. PST-H and transfer (SimComb): near the main hospital's release. averaged: every "
        "organisation releases once. ceiling: no privacy, all data pooled.\n\n"
        f"At the same price, AUC against alone, mean of {len(learned.draws)} draws of all noise ± "
        f"how far one draw is from the next: {_gain(learned, 'transfer', 'alone')} near the main "
        f"release, {_gain(learned, 'pst-h', 'alone')} with PST-H (two groups), "
        f"{_gain(learned, 'together', 'alone')} with the average; which is "
        f"{_gain(learned, 'together', 'transfer')} against near the main release. The table is the "
        f"first draw, the one that is released: {learned.above('transfer', 'alone')} of {count} "
        f"branches do better near the main release than alone, and the average beats the experts "
        f"in {learned.above('together', 'experts')}. Released and charged: transfer and averaged. "
        "The rest is for comparison, on books of its own; with real people one would "
        "choose before spending."
    )


def _gain(learned: DemoModels, method: str, other: str) -> str:
    mean, spread = learned.gain(method, other)
    return f"{mean:+.3f} ± {spread:.3f}"


def _person_table(world: World, person: pd.DataFrame, foretold: pd.DataFrame) -> Table:
    """Show one raw row, as a hospital has it, and what the released model says of it."""
    ranked = sorted(world.schema.features, key=lambda feature: -max(feature.importances or (0.0,)))
    row = person.iloc[0]
    told = {feature.column: row[feature.column] for feature in ranked[:_SHOWN]}
    told |= {f"and {len(ranked) - _SHOWN} more": ""} if len(ranked) > _SHOWN else {}
    chances = {name: f"{foretold[name].iloc[0]:.1%}" for name in foretold.columns[1:]}
    return facts("", {**told, **chances})


def _refusal(world: World, ledger: Ledger) -> str:
    """Have the main hospital ask for its whole cap again, and return what it is told."""
    greedy = PrivateLogisticRegression(
        epsilon=CAPS["main"], ledger=ledger, account=world.main.name, classes=[0, 1]
    )
    try:
        greedy.fit(world.main.X.head(100), world.main.y[:100])
    except BudgetExceeded as refused:
        return str(refused)
    raise AssertionError("the ledger let more through than its cap")


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
