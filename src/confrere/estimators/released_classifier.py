"""A released model as a classifier that learns nothing more (SourceD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from confrere.errors import InvalidParameter
from confrere.estimators.starting_points import SourceLike, refuse_model
from confrere.model import Model
from confrere.release import Release, load_release


class ReleasedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Another organisation's released model, used as it is (SourceD).

    ``fit`` ignores its data, so it spends nothing and needs no account.

    Parameters
    ----------
    source : Release or path
        What was released.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    allow_simulated : bool, default=False
        Whether seeded noise is accepted, for experiments.

    Attributes
    ----------
    classes_ : array
        The source's label set.
    """

    def __init__(
        self,
        *,
        source: SourceLike | None = None,
        source_keys: Mapping[str, Any] | None = None,
        allow_simulated: bool = False,
    ) -> None:
        self.source = source
        self.source_keys = source_keys
        self.allow_simulated = allow_simulated

    def fit(self, X: Any = None, y: Any = None) -> ReleasedClassifier:  # noqa: ARG002
        """Read the release; the data are not looked at."""
        if self.source is None:
            raise InvalidParameter("source must be given: the release to use, or its path.")
        refuse_model(self.source)
        release = (
            self.source
            if isinstance(self.source, Release)
            else load_release(
                self.source,
                require_signature_from=self.source_keys,
                allow_simulated=self.allow_simulated,
            )
        )
        self.model_: Model = release.model
        self.classes_ = np.asarray(self.model_.classes)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the released model's scores."""
        return self.model_.decision_function(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the released model's probabilities."""
        return self.model_.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the released model's labels."""
        return self.model_.predict(X)
