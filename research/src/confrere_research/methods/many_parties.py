"""Methods for several parties: through a server, and from many small ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from confrere.arrays import Floats
from confrere.estimators import CollaborativeClassifier, MultipartyClassifier, designed
from confrere_research.as_printed.multiparty import PrintedMultiparty
from confrere_research.as_printed.ofpa_ofaa import ofaa, ofpa
from confrere_research.methods.run import Run
from confrere_research.problems.shapes import ManyParties

Metrics = dict[str, float]


def collaborative(problem: ManyParties, run: Run) -> Metrics:
    """Every party releases once, a server averages (or sums)."""
    options = dict(run.options)
    X, X_test = problem.train.X, problem.test.X
    if options.get("method") == "ofpa":
        # A row of L2 norm 1 has an L1 norm of at most sqrt(d); its typical one is a public guess.
        options.setdefault("data_norm", 0.8 * math.sqrt(X.shape[1]))
    model = CollaborativeClassifier(epsilon=run.budget, random_state=run.seed)
    designed(model, **options).fit(X, problem.train.y, party=problem.party)
    return _scored(problem, model.predict(X_test))


def printed_ofpa(problem: ManyParties, run: Run) -> Metrics:
    """Algorithm 2 of the multiparty paper; its last average is used."""
    scale = float(np.abs(problem.train.X).sum(axis=1).max())
    shown = ofpa(
        _parties(problem, scale),
        epsilon=run.budget,
        rounds=int(run.options.get("rounds", 1)),
        rng=run.rng,
    )
    return _linear(problem, shown.averages[-1], scale)


def printed_ofaa(problem: ManyParties, run: Run) -> Metrics:
    """Algorithm 3 of the multiparty paper; its last average is used."""
    shown = ofaa(
        _parties(problem, 1.0),
        epsilon=run.budget,
        rounds=int(run.options.get("rounds", 1)),
        rng=run.rng,
    )
    return _linear(problem, shown.averages[-1], 1.0)


def multiparty(problem: ManyParties, run: Run) -> Metrics:
    """Votes, soft votes, averages and the statistic of many small parties."""
    options = dict(run.options)
    printed = options.pop("calibration", "tight") == "as published"
    kind = PrintedMultiparty if printed else MultipartyClassifier
    model = designed(kind(epsilon=run.budget, random_state=run.seed), **options)
    model.fit(problem.train.X, problem.train.y, party=problem.party, auxiliary=problem.auxiliary)
    return _scored(problem, model.predict(problem.test.X))


def batch(problem: ManyParties, run: Run) -> Metrics:
    """Learn from everybody's rows, without privacy."""
    model = _clear(run, len(problem.train)).fit(problem.train.X, problem.train.y)
    return _scored(problem, model.predict(problem.test.X))


def individual(problem: ManyParties, run: Run) -> Metrics:
    """Let every party learn alone; the mean over the first ``parties`` of them."""
    scores = []
    for party in range(int(run.options.get("parties", 100))):
        mine = problem.party == party
        y = problem.train.y[mine]
        if len(np.unique(y)) < 2:
            guess: Any = np.full(len(problem.test), y[0])
        else:
            model = _clear(run, len(y)).fit(problem.train.X[mine], y)
            guess = model.predict(problem.test.X)
        scores.append(_scored(problem, guess)["accuracy"])
    mean = float(np.mean(scores))
    return {"accuracy": mean, "error": 1 - mean}


def majority(problem: ManyParties, run: Run) -> Metrics:  # noqa: ARG001
    """Say the most frequent label, always."""
    common = np.bincount(problem.train.y).argmax()
    return _scored(problem, np.full(len(problem.test), common))


def _parties(problem: ManyParties, scale: float) -> list[tuple[Floats, Floats]]:
    """Return every party's rows over ``scale``, and labels -1 and +1."""
    return [
        (problem.train.X[mine] / scale, problem.train.signs[mine])
        for mine in (problem.party == party for party in np.unique(problem.party))
    ]


def _linear(problem: ManyParties, weights: Floats, scale: float) -> Metrics:
    scores = problem.test.X / scale @ weights[:-1] + weights[-1]
    return _scored(problem, (scores > 0).astype(np.int64))


def _scored(problem: ManyParties, guess: Any) -> Metrics:
    accuracy = float(np.mean(guess == problem.test.y))
    return {"accuracy": accuracy, "error": 1 - accuracy}


def _clear(run: Run, n_rows: int) -> LogisticRegression:
    """Return logistic regression with the papers' lambda on the mean loss."""
    alpha = float(run.options.get("alpha", 1e-4))
    return LogisticRegression(C=1 / (n_rows * alpha), max_iter=2000)
