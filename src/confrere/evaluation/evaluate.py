"""Ask private records how good a model is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from confrere.errors import InvalidData, InvalidParameter
from confrere.evaluation.estimates import CalibrationBin, Estimate, Evaluation
from confrere.evaluation.intervals import area, noise_quantile, noise_variance, proportion, ratio
from confrere.guarantee import check_epsilon, in_sequence, shares
from confrere.kernel.release import paying
from confrere.ledger import Ledger, payer
from confrere.mechanisms.counts import PrivateCounts
from confrere.model import Model
from confrere.noise.sources import Seed, simulation_of
from confrere.plans.base_plan import encode_labels
from confrere.release import quality_digest

Metric = Literal["accuracy", "confusion", "auc", "calibration"]

#: Which query answers a metric; metrics of one query cost no more than one of them.
_QUERIES = {
    "accuracy": "errors",
    "confusion": "confusion",
    "auc": "scores",
    "calibration": "scores",
}
#: Largest sum of changes of a query's counts when one record is replaced.
_SENSITIVITY = {"errors": 1, "confusion": 2, "scores": 2}

#: Intervals add up over all that noise can be: of more records they would not fit into memory.
LARGEST_SCALE = 100_000

THRESHOLDS = tuple(float(k) / 20 for k in range(1, 20))


def public_thresholds(
    n_samples: int, epsilon: float, base_rate: float = 0.5, *, confidence: float = 0.95
) -> tuple[float, ...]:
    """Return a grid for a table of that size and price, from public facts alone.

    As many bins as the noise leaves room for, and no more than twelve: the rarer side must stand
    out of the noise of all bins together. They lie where scores of people like these do, around
    the declared base rate.

    Parameters
    ----------
    n_samples : int
        Public number of records.
    epsilon : float
        What the query of scores spends.
    base_rate : float, default=0.5
        Declared share of the positive side.
    confidence : float, default=0.95
        Of the intervals.
    """
    rarer = n_samples * min(base_rate, 1 - base_rate)
    z = float(special.ndtri((1 + confidence) / 2))
    noise = noise_variance(_SENSITIVITY["scores"] / epsilon)
    # Twice as far as the area's interval needs.
    room = int((rarer / (4 * z)) ** 2 / noise)
    bins = min(max(room, 4), 12)
    middle = float(special.logit(base_rate))
    steps = 1.5 * special.ndtri(np.arange(1, bins) / bins)
    return tuple(float(share) for share in special.expit(middle + steps))


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    metrics: Sequence[Metric] = ("accuracy", "auc"),
    thresholds: Sequence[float] = THRESHOLDS,
    confidence: float = 0.95,
    ledger: Ledger | None = None,
    account: str | None = None,
    random_state: Seed | None = None,
) -> Evaluation:
    """Estimate a model's quality on private records, from noised counts.

    Parameters
    ----------
    model : fitted classifier
        Public or released; ``predict`` and ``classes_``, and ``predict_proba`` for scores. Records
        that it was fitted on pay twice: once for the fit, once here.
    X : array or table
        Private records, as the model's ``predict`` takes them.
    y : array, optional
        Their labels. May be left out where the model's schema says which column holds them.
    epsilon : float
        Price of all metrics together; shared equally by the queries that they need.
    metrics : sequence of {"accuracy", "confusion", "auc", "calibration"}
        What to estimate. The last two need one and the same query, for two classes.
    thresholds : sequence of float, default=(0.05, 0.10, ..., 0.95)
        Public grid of probabilities at which scores are counted. A grid that fits the model's
        scores makes the area's interval narrower; it must not be chosen by looking at ``X``.
    confidence : float, default=0.95
        Of every interval, each by itself.
    ledger, account, random_state
        As in :class:`confrere.PrivateLogisticRegression`.

    Returns
    -------
    Evaluation

    Notes
    -----
    Unit : record. Neighbours : replace one row of ``(X, y)``. Guarantee : ``epsilon``-DP, pure.
    Spends : ``epsilon`` on ``account`` before noise is drawn. Proof :
    docs/proofs/private_evaluation.md.
    """
    check_epsilon(epsilon)
    queries = _queries(metrics)
    grid = _grid(thresholds)
    if not 0 < confidence < 1:
        raise InvalidParameter("confidence must lie strictly between 0 and 1.")
    classes = np.asarray(model.classes_)
    if "scores" in queries and len(classes) != 2:
        raise InvalidParameter("metrics: 'auc' and 'calibration' are for two classes.")
    codes = encode_labels(np.asarray(_labels(model, X, y)), classes)
    positive = _positive(model, classes)
    if not len(codes):
        raise InvalidData("y needs at least one record.")
    truths = {name: _count(name, model, X, codes, classes, grid, positive) for name in queries}
    counters = {
        name: PrivateCounts(epsilon=share, sensitivity=_SENSITIVITY[name])
        for name, share in zip(queries, shares(epsilon, [1.0] * len(queries)), strict=True)
    }
    if max(counter.scale for counter in counters.values()) > LARGEST_SCALE:
        raise InvalidParameter(
            "epsilon is too small for these metrics: noise of more than "
            f"{LARGEST_SCALE:,} records would say nothing. Nothing was spent."
        )
    guarantees = {name: counter.guarantee() for name, counter in counters.items()}
    guarantee = in_sequence(guarantees.values())
    book, paid_by = payer(ledger, account, guarantee)
    simulation = simulation_of(random_state)
    learned = getattr(model, "model_", None)
    named = {"model": learned.digest()} if isinstance(learned, Model) else {}
    scales = {name: counter.scale for name, counter in counters.items()}
    with paying(
        book,
        paid_by,
        guarantee,
        purpose=f"evaluate {type(model).__name__}",
        detail={"queries": {name: each.epsilon for name, each in guarantees.items()}, **named},
        simulation=simulation,
    ) as ticket:
        noisy = {
            name: counter.run(truths[name], source=ticket) for name, counter in counters.items()
        }
        found = Evaluation(
            n_samples=len(codes),
            confidence=confidence,
            guarantees=guarantees,
            guarantee=guarantee,
            receipt=ticket.receipt,
            simulated=ticket.simulated,
            positive=str(classes[positive]) if len(classes) == 2 else None,
            **_estimates(noisy, scales, metrics, len(codes), classes, grid, confidence),
        )
        # The row names what was found, so that nobody can write something else onto a card.
        book.mark_released(ticket.receipt, digest=quality_digest(found.quality()))
    return found


def _labels(model: Any, X: Any, y: Any) -> Any:
    named = getattr(model, "true_labels", None)
    if named is None:
        if y is None:
            raise InvalidParameter("y must be given: the labels of the records.")
        return y
    return named(X, y)


def _positive(model: Any, classes: NDArray[Any]) -> int:
    """Return which class is the positive side; a model of two sides knows its own."""
    learned = getattr(model, "model_", None)
    if not isinstance(learned, Model) or len(classes) != 2:
        return len(classes) - 1
    return int(np.flatnonzero(classes == learned.labels[1])[0])


def _queries(metrics: Sequence[Metric]) -> list[str]:
    if isinstance(metrics, str) or not metrics or not set(metrics) <= set(_QUERIES):
        raise InvalidParameter(f"metrics must be some of {', '.join(map(repr, _QUERIES))}.")
    return list(dict.fromkeys(_QUERIES[metric] for metric in metrics))


def _grid(thresholds: Sequence[float]) -> NDArray[np.float64]:
    grid = np.asarray(thresholds, dtype=np.float64)
    inside = grid.ndim == 1 and grid.size and np.all((grid > 0) & (grid < 1))
    if not inside or np.any(np.diff(grid) <= 0):
        raise InvalidParameter("thresholds must be increasing numbers strictly between 0 and 1.")
    return grid


def _count(
    query: str,
    model: Any,
    X: Any,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    grid: NDArray[np.float64],
    positive: int,
) -> NDArray[np.int64]:
    """Return a query's exact counts: the only place that reads the records."""
    if query == "scores":
        bins = np.searchsorted(grid, model.predict_proba(X)[:, positive], side="right")
        sides = (codes == positive).astype(np.intp)
        return _table(sides, bins, (2, len(grid) + 1))
    predicted = encode_labels(np.asarray(model.predict(X)), classes)
    if query == "confusion":
        return _table(codes, predicted, (len(classes), len(classes)))
    return np.array([np.count_nonzero(predicted != codes)])


def _table(
    first: NDArray[np.intp], second: NDArray[np.intp], shape: tuple[int, int]
) -> NDArray[np.int64]:
    cells = np.ravel_multi_index((first, second), shape)
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _estimates(
    noisy: dict[str, NDArray[np.int64]],
    scales: dict[str, float],
    metrics: Sequence[Metric],
    n: int,
    classes: NDArray[Any],
    grid: NDArray[np.float64],
    confidence: float,
) -> dict[str, Any]:
    """Post-process the noised counts."""
    found: dict[str, Any] = {}
    if "accuracy" in metrics:
        wrong, scale = int(noisy["errors"][0]), scales["errors"]
        found["accuracy"] = proportion(wrong, n, scale, confidence).complement()
        reach = noise_quantile(scale, confidence)
        bounds = np.clip([wrong, wrong - reach, wrong + reach], 0, n)
        found["errors"] = Estimate(*(float(bound) for bound in bounds))
    if "confusion" in metrics:
        found["confusion"] = {
            (label, predicted): proportion(
                int(noisy["confusion"][i, j]), n, scales["confusion"], confidence
            )
            for i, label in enumerate(classes.tolist())
            for j, predicted in enumerate(classes.tolist())
        }
    if "scores" in noisy:
        negatives, positives = noisy["scores"].astype(np.float64)
        scale = scales["scores"]
        if "auc" in metrics:
            found["auc"] = area(positives, negatives, scale, confidence)
        if "calibration" in metrics:
            edges = np.concatenate([[0.0], grid, [1.0]])
            found["calibration"] = tuple(
                CalibrationBin(
                    float(low),
                    float(high),
                    float(yes + no),
                    ratio(float(yes), float(no), scale, confidence),
                )
                for low, high, yes, no in zip(
                    edges[:-1], edges[1:], positives, negatives, strict=True
                )
            )
    return found
