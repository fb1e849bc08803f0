"""What the demonstration learns: the release of the main hospital, and every branch near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere.demo.world import World
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    TransferClassifier,
    TransferStackingClassifier,
    fit_branches,
)
from confrere.kernel.release import paying
from confrere.ledger import Ledger
from confrere.release import Release
from confrere.schema import SchemaEncoder

EPSILON = 1.0
CAPS = {"main": 3.0, "branch": 2.0}

#: Rows of stacks for the high level, which has three weights where the low level has fifty; and
#: their groups. Fewer groups see more of what columns say together: on other simulated worlds two
#: were .003 to .02 above the papers' five.
HIGH_FRACTION, GROUPS = 0.2, 2

#: How often all methods are run, for the noise of a draw; only the first is released.
DRAWS = 3

Scores = dict[str, float]


@dataclass(frozen=True)
class DemoModels:
    """What was released, and the AUC of every method on every branch's held-out rows.

    Attributes
    ----------
    releases : dict of name to Release
        The main hospital's, every branch's near it, and "together": the average of all.
    scores : dict of method to dict of branch to float
        Of what was released, and of what it is compared with.
    draws : list of dict of method to float
        The mean over branches of every private method, draw by draw; the first is that of
        ``scores``.
    """

    releases: Mapping[str, Release]
    scores: Mapping[str, Scores]
    draws: Sequence[Mapping[str, float]]

    def mean(self, method: str) -> float:
        """Return a method's mean over branches."""
        return float(np.mean(list(self.scores[method].values())))

    def gain(self, method: str, other: str) -> tuple[float, float]:
        """Return a method's mean gain over another, and how far one draw is from the next."""
        gains = np.array([draw[method] - draw[other] for draw in self.draws])
        return float(gains.mean()), float(gains.std(ddof=1))

    def above(self, method: str, other: str) -> int:
        """Return in how many branches a method does better than another."""
        ours, theirs = self.scores[method], self.scores[other]
        return sum(ours[name] > theirs[name] for name in ours)


class WorldRows:
    """Encoded tables of all centres."""

    def __init__(self, world: World, encoder: SchemaEncoder) -> None:
        self.encoder = encoder
        self.train = {c.name: self._encoded(encoder, c.X) for c in world.centres}
        self.test = {c.name: self._encoded(encoder, c.X_test) for c in world.branches}

    @staticmethod
    def _encoded(encoder: SchemaEncoder, table: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(encoder.transform(table), columns=encoder.schema.feature_names)


def open_accounts(world: World, ledger: Ledger) -> None:
    """Open an account with a cap for every organisation."""
    ledger.open_account(world.main.name, epsilon=CAPS["main"])
    for branch in world.branches:
        ledger.open_account(branch.name, epsilon=CAPS["branch"])


def learn(
    world: World, ledger: Ledger, tell: Callable[[str], None], draws: int = DRAWS
) -> DemoModels:
    """Learn and release on ``ledger``, and beside it, on books of their own, the comparisons."""
    tell("encoding by the public schema")
    rows = WorldRows(world, world.schema.encoder(weighted=True))
    releases, scores = _transfer(world, rows, ledger, tell)
    tell("what it is compared with")
    scores |= _compared(world, rows)
    found = [_means(scores)]
    for draw in range(1, draws):
        tell(f"the same with other noise ({draw} of {draws - 1})")
        found.append(_means(drawn(world, rows)))
    X, y, _ = _pooled(world, rows)
    clear = LogisticRegression(C=10.0, max_iter=1000).fit(X, y)
    scores["ceiling"] = _scores(world, rows, _same(world, clear))
    scores["experts"] = {
        c.name: float(roc_auc_score(c.y_test, world.schema.expert_score(c.X_test)))
        for c in world.branches
    }
    return DemoModels(releases, scores, found)


def drawn(world: World, rows: WorldRows) -> dict[str, Scores]:
    """Return every private method's scores with fresh noise, on books that only count."""
    again = _transfer(world, rows, _comparison_ledger(world), lambda _: None)[1]
    return again | _compared(world, rows)


def _means(scores: Mapping[str, Scores]) -> dict[str, float]:
    return {method: float(np.mean(list(each.values()))) for method, each in scores.items()}


def _experts(world: World, rows: WorldRows) -> dict[str, Any]:
    """Return what every method is told: signs, importances and the base rate. It is checked."""
    return {"prior": rows.encoder.expert_prior(), "prior_intercept": _log_odds(world)}


def _transfer(
    world: World, rows: WorldRows, ledger: Ledger, tell: Callable[[str], None]
) -> tuple[dict[str, Release], dict[str, Scores]]:
    """Return the main release, every branch's near it and the average of all, and their scores."""
    experts, main = _experts(world, rows), world.main.name
    tell(f"{main} releases")
    source = PrivateLogisticRegression(epsilon=EPSILON, ledger=ledger, account=main)
    source.set_params(**experts).fit(rows.train[main], world.main.y)
    releases = {main: source.to_release(rows.encoder)}
    tell("every branch learns near that release")
    transfer = TransferClassifier(source=releases[main], epsilon=EPSILON, ledger=ledger)
    targets = fit_branches(transfer, _pairs(world, rows))
    releases |= {name: target.to_release(rows.encoder) for name, target in targets.items()}
    tell("every organisation releases, all are averaged")
    everyone = CollaborativeClassifier(epsilon=EPSILON).set_params(**experts)
    releases["together"] = _together(world, rows, everyone, ledger)
    return releases, {
        "transfer": _scores(world, rows, targets),
        "together": _scores(world, rows, _same(world, everyone)),
    }


def _compared(world: World, rows: WorldRows) -> dict[str, Scores]:
    """Return the scores of what the branches might have chosen instead."""
    books = _comparison_ledger(world)
    model = PrivateLogisticRegression(epsilon=EPSILON, ledger=books)
    alone = fit_branches(model.set_params(**_experts(world, rows)), _pairs(world, rows))
    stacks = fit_branches(_stack(world, rows, books), _pairs(world, rows))
    return {"alone": _scores(world, rows, alone), "pst-h": _scores(world, rows, stacks)}


def _together(world: World, rows: WorldRows, model: Any, ledger: Ledger) -> Release:
    """Charge every organisation, then release the average of all."""
    X, y, party = _pooled(world, rows)
    price = model.price(len(y), X.shape[1])
    with ExitStack() as payments:
        receipts = {
            c.name: payments.enter_context(
                paying(ledger, c.name, price, purpose="average of all organisations")
            ).receipt
            for c in world.centres
        }
        model.set_params(ledger=Ledger()).fit(X, y, party=party)
    release: Release = model.to_release(rows.encoder)
    return replace(release, receipt=None, parties=receipts)


def _comparison_ledger(world: World) -> Ledger:
    """Return a ledger that only counts: with real people one would choose, not compare."""
    ledger = Ledger()
    for centre in world.centres:
        ledger.open_account(centre.name)
    return ledger


def _stack(world: World, rows: WorldRows, books: Ledger) -> TransferStackingClassifier:
    """Return the transfer of stacks, from the main hospital's."""
    source = FeatureStackingClassifier(
        epsilon=EPSILON,
        importance=world.schema.importances(),
        n_groups=GROUPS,
        high_fraction=HIGH_FRACTION,
        ledger=Ledger(),
        **_experts(world, rows),
    ).fit(rows.train[world.main.name], world.main.y)
    return TransferStackingClassifier(
        source=source.to_release(rows.encoder),
        epsilon=EPSILON,
        high_fraction=HIGH_FRACTION,
        ledger=books,
    )


def _pairs(world: World, rows: WorldRows) -> dict[str, tuple[pd.DataFrame, Any]]:
    return {c.name: (rows.train[c.name], c.y) for c in world.branches}


def _pooled(world: World, rows: WorldRows) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]:
    X = pd.concat([rows.train[c.name] for c in world.centres], ignore_index=True)
    party = np.repeat([c.name for c in world.centres], [len(c.y) for c in world.centres])
    return X, np.concatenate([c.y for c in world.centres]), party


def _same(world: World, model: Any) -> dict[str, Any]:
    return dict.fromkeys((branch.name for branch in world.branches), model)


def _scores(world: World, rows: WorldRows, models: Mapping[str, Any]) -> Scores:
    return {
        c.name: float(roc_auc_score(c.y_test, models[c.name].decision_function(rows.test[c.name])))
        for c in world.branches
    }


def _log_odds(world: World) -> float:
    outcome = world.schema.outcome
    rate = None if outcome is None else outcome.base_rate
    return 0.0 if rate is None else math.log(rate / (1 - rate))
