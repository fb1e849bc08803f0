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
from types import FrameType
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from confrere.errors import PrivacyWarning
from confrere.ledger import Ledger
from confrere.schema import SchemaEncoder

#: For the owner of the data alone: nothing here crosses a wire.
OWNER = logging.getLogger("confrere.owner")

#: Rows that are looked at to say that most are too long, and frames around a fit.
_ROWS, _FRAMES = 1000, 30

#: What was logged already: once per process is enough.
_told: set[str] = set()


def _around() -> Iterator[FrameType]:
    """Yield the frames of whoever called, from the inside.

    Neither a pipeline nor a search tells its steps about itself, so the stack is asked.
    """
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame.f_back is None:
            return
        frame = frame.f_back
        yield frame


def _loaded(module: str, name: str) -> Any:
    """Return a class if anybody can have an instance of it; importing it for this takes long."""
    return getattr(sys.modules.get(module), name, ())


def warn_about_steps(estimator: Any) -> None:
    """Warn if a pipeline fits something else on the same private rows first."""
    kind = _loaded("sklearn.pipeline", "Pipeline")
    for frame in _around():
        pipeline = frame.f_locals.get("self")
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


def warn_about_search(estimator: Any) -> None:
    """Warn what a search will spend, once: where it makes the copy that it copies."""
    kind = _loaded("sklearn.model_selection", "GridSearchCV")
    for frame in _around():
        search = frame.f_locals.get("self")
        if not isinstance(search, kind) or frame.f_code.co_name != "fit":
            continue
        splits = frame.f_locals.get("n_splits") or getattr(search, "n_splits_", None)
        if "base_estimator" in frame.f_locals or splits is None:
            return
        grid = list(sys.modules["sklearn.model_selection"].ParameterGrid(search.param_grid))
        prices = [_epsilon(candidate, estimator) for candidate in grid]
        fits = len(grid) * splits + bool(search.refit)
        spent = splits * math.fsum(prices) + max(prices) * bool(search.refit)
        warnings.warn(
            f"GridSearchCV will fit {type(estimator).__name__} {fits} times, each at its own "
            f"price: epsilon {spent:g} in all, and its scores are read off private rows for "
            "nothing. PrivateSelection chooses for one epsilon.",
            PrivacyWarning,
            stacklevel=2,
        )
        return


def _epsilon(candidate: dict[str, Any], estimator: Any) -> float:
    own = [value for name, value in candidate.items() if name.split("__")[-1] == "epsilon"]
    return float(own[0] if own else estimator.epsilon)


def warn_about_cap(ledger: Ledger, account: str | None) -> None:
    """Warn if nothing limits what is spent; of the session's own ledger, log it once."""
    if ledger.ephemeral:
        _log_once(logging.INFO, "charged to a ledger that goes with this process: no cap holds.")
    elif not ledger.capped(account):
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
    if not isinstance(bound, int | float) or not math.isfinite(bound) or not hasattr(X, "ndim"):
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
