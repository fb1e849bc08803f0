"""Releases drawn by the thousand from one pass over the data: the plan that ``fit`` runs.

Scaling, clipping, split, calibration and mechanisms are those of the estimator's own plan, so that
a fault in them is heard; only the passes over the data are shared. What is returned are the numbers
that leave the mechanisms, of which the fitted attributes are post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from confrere.noise.sources import SeededSource
from confrere.plans import Plan


def bulk_sampler(estimator: Any, data: Mapping[str, Any]) -> BulkSampler | None:
    """Return a sampler of the estimator's own plan, if it draws many runs at once."""
    if not hasattr(estimator, "prepare") or not prepared(estimator, data)[0].batched:
        return None
    return BulkSampler(estimator)


@dataclass(frozen=True)
class BulkSampler:
    """What ``fit`` computes, with everything but the noise shared."""

    estimator: Any

    def __call__(
        self, data: Mapping[str, Any], count: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the released numbers of ``count`` runs, one run per row."""
        plan, records = prepared(self.estimator, data)
        return plan.run_many(records, SeededSource(generator), count)


def prepared(estimator: Any, data: Mapping[str, Any]) -> tuple[Plan[Any], Any]:
    """Return what ``fit(**data)`` would run, and the records as it would see them.

    The copy that prepares is a simulation, so that simulated sources may be opened.
    """
    plan, records = clone(estimator).set_params(random_state=0).prepare(**data)
    return plan, records
