"""Words about what is allowed and probably not meant, said before anything is spent.

Warnings rest on settings, declared facts and what stands around a fit, never on a record. What
can only be known from the rows is told afterwards, to the log of whoever holds them.
"""

from __future__ import annotations

import logging
import math
import sys
import warnings
from collections.abc import Iterator
from inspect import currentframe
from traceback import walk_stack
from typing import Any
from weakref import WeakSet

import numpy as np
from sklearn.utils import get_tags

from confrere.data.encoding import SchemaEncoder
from confrere.errors import PrivacyWarning
from confrere.kernel.guarantee import Guarantee, added
from confrere.ledger import Ledger

#: For the owner of the data alone: nothing here crosses a wire.
OWNER = logging.getLogger("confrere.owner")

#: Rows that are looked at to say that most are too long.
_ROWS = 1000

#: What was logged already: once per process is enough.
_told: set[str] = set()

#: Cross-validations that were announced, each by the pool of workers that it made for itself.
_announced: WeakSet[Any] = WeakSet()


def _callers(*names: str) -> Iterator[dict[str, Any]]:
    """Yield what is at hand in functions of these names around a fit, from the inside.

    Neither a pipeline nor a search tells its steps about itself, so the stack is asked.
    """
    for frame, _ in walk_stack(currentframe()):
        if frame.f_code.co_name in names:
            yield frame.f_locals


def _loaded(module: str, name: str) -> Any:
    """Return a class if anybody can have an instance of it; importing it for this takes long."""
    return getattr(sys.modules.get(module), name, ())


def warn_about_steps(estimator: Any) -> None:
    """Warn if a pipeline fits something else on the same private rows first."""
    kind = _loaded("sklearn.pipeline", "Pipeline")
    for around in _callers("fit"):
        pipeline = around.get("self")
        if not isinstance(pipeline, kind) or pipeline.steps[-1][1] is not estimator:
            continue
        learning = [
            type(step).__name__
            for _, step in pipeline.steps[:-1]
            if step not in (None, "passthrough") and get_tags(step).requires_fit
        ]
        if learning:
            warnings.warn(
                f"{', '.join(learning)} learns from the private rows in front of "
                f"{type(estimator).__name__}, and no guarantee covers that. Declare scales and "
                "bounds instead: schema=PublicSchema(...), or schema.encoder() as the step.",
                PrivacyWarning,
                stacklevel=2,
            )
        return


def warn_about_norm(encoder: SchemaEncoder | None, data_norm: Any) -> None:
    """Warn, from declared facts alone, of a norm that shortens most rows or that none reaches."""
    if encoder is None:
        return
    asked = encoder.schema.clip_norm if encoder.clip_norm is None else encoder.clip_norm
    usual = encoder.schema.rms_norm
    told = ""
    if encoder.rows == "clip" and not isinstance(asked, str) and asked < usual / 2:
        told = (
            f"clip_norm={asked:g} shortens most rows: the schema implies a length of about "
            f'{usual:.2g}. Give clip_norm="rms", or declare other facts.'
        )
    elif isinstance(data_norm, int | float) and not 0.5 <= data_norm <= 2:
        effect = "shortens most of them" if data_norm < 1 else "pays for lengths that none has"
        told = (
            f"with a schema rows have length 1 at most, and data_norm={data_norm:g} {effect}. "
            "Leave it out."
        )
    if told:
        warnings.warn(told, PrivacyWarning, stacklevel=2)


def announce_fits(estimator: Any) -> tuple[float, float] | None:
    """Say what a search or a cross-validation around a copy will spend, and return it: once.

    Both ask for copies of the estimator before they fit one. Whoever is asked compares this with
    what is left: scikit-learn takes a fit that is refused for a score of nan, and goes on.
    """
    planned = _searching(estimator) or _cross_validating(estimator)
    if planned is None:
        return None
    who, instead, prices = planned
    epsilon, delta = (added(each) for each in zip(*prices, strict=True))
    if estimator.random_state is None:
        warnings.warn(
            f"{who} will fit {type(estimator).__name__} {len(prices)} times, each at its own "
            f"price: epsilon {epsilon:g} in all, and its scores are read off private rows for "
            f"nothing. {instead}",
            PrivacyWarning,
            stacklevel=2,
        )
    return epsilon, delta


_Planned = tuple[str, str, list[tuple[float, float]]]


def _searching(estimator: Any) -> _Planned | None:
    """Return the prices of all fits of the search that asks for its first copy, if one does."""
    kind = _loaded("sklearn.model_selection", "GridSearchCV")
    for around in _callers("fit"):
        search = around.get("self")
        if not isinstance(search, kind):
            continue
        if "base_estimator" in around or not _ends_in(search.estimator, estimator):
            return None  # copies of the copy, or of a search around another one
        grid = sys.modules["sklearn.model_selection"].ParameterGrid(search.param_grid)
        prices = [_price(candidate, estimator) for candidate in grid]
        fits = prices * (around.get("n_splits") or search.n_splits_)
        if search.refit:
            fits.append((max(one[0] for one in prices), max(one[1] for one in prices)))
        return "GridSearchCV", "Defaults follow public rules and cost nothing.", fits
    return None


def _cross_validating(estimator: Any) -> _Planned | None:
    """Return the prices of all folds of the cross-validation that asks for its first copy."""
    for around in _callers("cross_validate", "cross_val_predict"):
        workers: Any = around.get("parallel")
        cv: Any = around.get("cv")
        if workers is None or not hasattr(cv, "get_n_splits"):
            continue  # somebody else's function
        if workers in _announced or not _ends_in(around.get("estimator"), estimator):
            return None
        _announced.add(workers)
        folds = cv.get_n_splits(around.get("X"), around.get("y"), around.get("groups"))
        instead = "confrere.evaluation.evaluate measures for one epsilon."
        return "Cross-validation", instead, [_price({}, estimator)] * folds
    return None


def _ends_in(model: Any, estimator: Any) -> bool:
    """Whether a model is an estimator, or a pipeline that ends in it."""
    while isinstance(model, _loaded("sklearn.pipeline", "Pipeline")):
        model = model.steps[-1][1]
    return model is estimator


def _price(candidate: dict[str, Any], estimator: Any) -> tuple[float, float]:
    """Return epsilon and delta of one fit; nothing, if it will be refused for what they are."""
    told = {name.split("__")[-1]: value for name, value in candidate.items()}
    epsilon, delta = (told.get(name, getattr(estimator, name, 0)) for name in ("epsilon", "delta"))
    try:
        price = Guarantee(epsilon, delta)
    except (ValueError, TypeError):
        return 0.0, 0.0
    return price.epsilon, price.delta


def warn_about_cap(ledger: Ledger, account: str | None) -> None:
    """Warn if nothing limits what is spent; of the session's own ledger, log it once."""
    if ledger.ephemeral:
        _log_once(logging.INFO, "charged to a ledger that goes with this process: no cap holds.")
    elif math.isinf(ledger.left(account)):
        name = "the account" if account is None else f"account {account!r}"
        warnings.warn(
            f"{name} has no cap: nothing limits what is spent on these records. Open one with a "
            "cap: ledger.open_account(name, epsilon=...).",
            PrivacyWarning,
            stacklevel=2,
        )


def _log_once(level: int, text: str) -> None:
    if text not in _told:
        _told.add(text)
        OWNER.log(level, text)


def tell_owner_about_length(data: Any, bound: Any) -> None:
    """Log, after a fit, that most of the rows were shortened to the declared norm."""
    X: Any = getattr(data, "X", None)
    if not isinstance(bound, int | float) or not math.isfinite(bound) or not hasattr(X, "dtype"):
        return
    rows = X[:_ROWS]
    with np.errstate(all="ignore"):  # the longest rows are infinitely long: that will do
        squares = rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows
        lengths = np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64)).ravel()
    if len(lengths) and np.mean(lengths > bound * (1 + 1e-9)) > 0.5:
        _log_once(
            logging.WARNING,
            f"most rows are longer than data_norm={bound:g} and were shortened to it, so that much "
            "of what tells them apart is gone. Declare what is public: schema=PublicSchema(...), "
            "or a data_norm that follows from the bounds of the columns. (For the owner alone: "
            "this was read off the rows.)",
        )
