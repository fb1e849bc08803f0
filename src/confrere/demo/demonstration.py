"""The demonstration: what the main hospital and every branch near it learn, their cards, a picture.

The data are simulated patients; the noise is real.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from confrere import Ledger
from confrere.demo.simulated_hospitals import SCHEMA, ruijin_like
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    TransferClassifier,
    TransferStackingClassifier,
    designed,
)
from confrere.extras import extra
from confrere.kernel.release import paying
from confrere.release import CardNotes, Release, Utility, card_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILON = 1.0
CAPS = {"main": 3.0, "branch": 2.0}
WARNING = (
    "SIMULATED PATIENTS: nobody in this demonstration exists. Sizes and importances are those "
    "published for a main hospital and sixteen branches; all else is made up. The noise is real: "
    "unseeded, from the operating system."
)

#: Rows of stacks for the high level, which has three weights where the low level has fifty; and
#: their groups. Fewer groups see more of what columns say together: on other simulated worlds two
#: were .003 to .02 above the papers' five.
HIGH_FRACTION, GROUPS = 0.2, 2

_TEST_SHARE = 0.2
_ENCODER = SCHEMA.encoder(weighted=True)
_COMMON: dict[str, Any] = {"epsilon": EPSILON, "schema": _ENCODER}
#: What every method that has no source is told besides: signs and importances; it is checked.
_EXPERTS = _COMMON | {"prior": _ENCODER.expert_prior()}

#: What is compared: its column in the table, and its legend, colour, shape and size in the picture.
#: Colours are Okabe and Ito's; by the shapes they are told apart without colour, too.
METHODS = {
    "experts": ("experts", "no data: the experts' score", "#7f7f7f", "D", 26),
    "alone": ("alone", "private, the branch alone", "#E69F00", "s", 34),
    "pst-h": ("PST-H", "", "", "", 0),
    "transfer": ("transfer", "private, near the main hospital's release", "#0072B2", "o", 40),
    "together": ("averaged", "private, all 17 releases averaged", "#009E73", "^", 56),
    "ceiling": ("ceiling", "not private, all data pooled", "#000000", "|", 110),
}

Scores = dict[str, float]


@dataclass(frozen=True)
class Centre:
    name: str
    X: pa.Table
    y: NDArray[np.int64]
    X_test: pa.Table
    y_test: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y) + len(self.y_test)


#: All organisations, the main one first.
World = Sequence[Centre]


def open_world(seed: int) -> World:
    """Return the simulated hospitals, with rows of every one kept aside."""
    hospitals = ruijin_like(seed)
    tables = {"main": hospitals.main, **hospitals.branches}

    def centre(name: str, stream: np.random.Generator) -> Centre:
        X, y = tables[name].X, tables[name].y
        test, train = np.split(stream.permutation(len(y)), [int(_TEST_SHARE * len(y))])
        own = name.removeprefix("simulated ")
        return Centre(own, X.take(train), y[train], X.take(test), y[test])

    return list(map(centre, tables, np.random.default_rng(seed).spawn(len(tables))))


@dataclass(frozen=True)
class DemoModels:
    """What was released, and the AUC of every method on every branch's held-out rows."""

    #: The main hospital's, every branch's near it, and "together": the average of all.
    releases: Mapping[str, Release]
    scores: Mapping[str, Scores]  #: By method and branch: what was released, and what is compared

    def mean(self, method: str) -> float:
        return float(np.mean(list(self.scores[method].values())))

    def above(self, method: str, other: str) -> int:
        ours, theirs = self.scores[method], self.scores[other]
        return sum(ours[name] > theirs[name] for name in ours)


def learn(world: World, ledger: Ledger, tell: Callable[[str], None]) -> DemoModels:
    """Learn and release on ``ledger``, and beside it, on books of their own, the comparisons."""
    warnings.filterwarnings("ignore", "schema.expert_score")  # the table shows it
    releases, scores = _transfer(world, _accounts(world, ledger, CAPS), tell)
    tell("what it is compared with")
    scores |= _compared(world)
    ceiling = make_pipeline(
        FunctionTransformer(_ENCODER.transform), LogisticRegression(C=10.0, max_iter=1000)
    )
    scores["ceiling"] = _scores(world, ceiling.fit(*_pooled(world)))
    scores["experts"] = {
        c.name: float(roc_auc_score(c.y_test, SCHEMA.expert_score(c.X_test))) for c in world[1:]
    }
    return DemoModels(releases, scores)


def drawn(world: World) -> dict[str, Scores]:
    """Return every private method's scores with fresh noise, on books that only count."""
    return _transfer(world, _accounts(world, Ledger()), lambda _: None)[1] | _compared(world)


def _transfer(
    world: World, ledger: Ledger, tell: Callable[[str], None]
) -> tuple[dict[str, Release], dict[str, Scores]]:
    """Return the main release, every branch's near it and the average of all, and their scores."""
    main = world[0]
    tell(f"{main.name} releases")
    source = PrivateLogisticRegression(budget=ledger[main.name], **_EXPERTS)
    releases = {main.name: source.fit(main.X, main.y).to_release()}
    tell("every branch learns near that release")
    transfer = TransferClassifier(source=releases[main.name], eta=0.0, budget=ledger, **_COMMON)
    targets = _branches(transfer, world)
    releases |= {name: target.to_release() for name, target in targets.items()}
    tell("every organisation releases, all are averaged")
    everyone = CollaborativeClassifier(**_EXPERTS)
    releases["together"] = _together(world, everyone, ledger)
    return releases, {"transfer": _scores(world, targets), "together": _scores(world, everyone)}


def _compared(world: World) -> dict[str, Scores]:
    """Return the scores of what the branches might have chosen instead: alone, or stacks."""
    books = _accounts(world, Ledger())  # with real people one would choose, not compare
    source = FeatureStackingClassifier(
        importance=SCHEMA.importances(), n_groups=GROUPS, budget=Ledger(), **_EXPERTS
    )
    released = designed(source, high_fraction=HIGH_FRACTION).fit(world[0].X, world[0].y)
    stack = TransferStackingClassifier(source=released.to_release(), budget=books, **_COMMON)
    designed(stack, high_fraction=HIGH_FRACTION)
    alone = PrivateLogisticRegression(budget=books, **_EXPERTS)
    methods = {"alone": alone, "pst-h": stack}
    return {name: _scores(world, _branches(m, world)) for name, m in methods.items()}


def _branches(model: Any, world: World) -> dict[str, Any]:
    """Return a copy of the model for every branch, fitted at the cost of its own account."""
    paid = {c.name: model.budget[c.name] for c in world[1:]}
    return {c.name: clone(model).set_params(budget=paid[c.name]).fit(c.X, c.y) for c in world[1:]}


def _together(world: World, model: Any, ledger: Ledger) -> Release:
    X, y = _pooled(world)
    party = np.repeat([c.name for c in world], [len(c.y) for c in world])
    cost = model.privacy_cost(len(y), len(SCHEMA.feature_names))
    with ExitStack() as payments:
        receipts = {
            c.name: payments.enter_context(
                paying(ledger, c.name, cost, purpose="average of all organisations")
            ).receipt
            for c in world
        }
        model.set_params(budget=Ledger()).fit(X, y, party=party)
    release: Release = model.to_release()
    return replace(release, receipt=None, parties=receipts)


def _accounts(world: World, ledger: Ledger, caps: Mapping[str, float] | None = None) -> Ledger:
    """Open everybody's account; one without a cap only counts."""
    for centre in world:
        kind = "main" if centre is world[0] else "branch"
        ledger.open_account(centre.name, epsilon=None if caps is None else caps[kind])
    return ledger


def _pooled(world: World) -> tuple[pa.Table, NDArray[np.int64]]:
    return pa.concat_tables([c.X for c in world]), np.concatenate([c.y for c in world])


def _scores(world: World, models: Any) -> Scores:
    """Return the AUC on every branch of one model for all, or of a model each."""
    each = models if isinstance(models, dict) else {c.name: models for c in world}
    return {
        c.name: float(roc_auc_score(c.y_test, each[c.name].decision_function(c.X_test)))
        for c in world[1:]
    }


def save_releases(learned: DemoModels, ledger: Ledger, folder: Path) -> dict[str, Path]:
    places = {}
    for name, release in learned.releases.items():
        book = None if release.receipt is None else ledger
        full = release.describe(_notes(learned, name), ledger=book)
        place = places[name] = full.save(folder / name.replace(" ", "-"), overwrite=True)
        place.with_name(f"{place.name}.html").write_text(card_page(full), encoding="utf-8")
    return places


def _notes(learned: DemoModels, name: str) -> CardNotes:
    """Return what a card says beside its numbers: that of the main hospital says no quality."""
    measured: Scores = {}
    method, where = "together", "simulated patients of every branch, kept aside; the mean"
    if name in learned.scores["transfer"]:
        method, where = "transfer", f"simulated patients of {name}, kept aside"
        measured = {each: scores[name] for each, scores in learned.scores.items()}
    elif name == "together":
        measured = {each: learned.mean(each) for each in learned.scores}
    utility = measured and Utility(
        metric="AUC",
        value=measured[method],
        measured_on=where,
        basis="synthetic data",
        non_private=measured["ceiling"],
        zero_data=measured["experts"],
    )
    return CardNotes(
        title=f"Diabetes risk, {name} (demonstration)",
        purpose="To show what a release is; for nobody's care.",
        not_for=("any decision about a person",),
        unit_detail="one person",
        unprotected=(WARNING,),
        trust="in the demonstration one process plays every organisation",
        tuning="none on the data: every parameter was chosen before",
        utility=(utility,) if utility else (),
    )


def draw(learned: DemoModels, path: Path) -> None:
    scores = learned.scores
    names = sorted(scores["together"], key=lambda name: scores["together"][name])
    points = {m: [*(scores[m][name] for name in names), learned.mean(m)] for m in METHODS}
    figure = extra("plot", "matplotlib.figure").Figure(figsize=(8.4, 7.2), layout="constrained")
    axes: Axes = figure.subplots()
    rows = np.append(np.arange(len(names)) + 1.4, 0.0)
    gain = points["alone"], points["together"]
    axes.hlines(rows, *gain, color="#009E73", alpha=0.35, linewidth=2.4, zorder=2)
    for method, (_, label, colour, marker, size) in METHODS.items():
        if label:
            axes.scatter(
                points[method], rows, s=size, color=colour, marker=marker, label=label, zorder=3
            )
    axes.set_yticks(rows, [*names, "mean of the branches"])
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.axhline(0.7, color="#bbbbbb", linewidth=0.8)
    axes.set_ylim(-0.7, rows[:-1].max() + 0.7)
    axes.set_xlabel("AUC on people kept aside (0.5 is guessing, 1 is perfect)")
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    title = f"{learned.above('together', 'alone')} of {len(names)} branches learn more together"
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=26)
    told = f"simulated patients; every organisation spends epsilon = {EPSILON:g}; one draw of noise"
    axes.text(0, 1.015, told, transform=axes.transAxes, color="#555555")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=160)
