"""A released model as a classifier that learns nothing more (SourceD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.predicting import Predicting, sorted_labels
from confrere.estimators.starting_points import SourceLike, refuse_model
from confrere.model import Model
from confrere.release import Release, load_release
from confrere.schema.tables import is_table


class ReleasedClassifier(Predicting, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Another organisation's released model, used as it is (SourceD).

    It is ready without ``fit``, which ignores its data, spends nothing and needs no account. A
    release that carries its encoder takes raw tables, and predicts the data's own labels. One
    without takes rows that were encoded before: arrays, in the order of the release's features.

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
        self._opened = (self.source, self._read())
        return self

    @property
    def model_(self) -> Model:  # type: ignore[override]
        """What was released; read once."""
        opened: tuple[Any, Model] | None = getattr(self, "_opened", None)
        if opened is None or opened[0] is not self.source:
            self.fit()
            opened = self._opened
        return opened[1]

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return sorted_labels(self.model_)

    def _read(self) -> Model:
        if self.source is None:
            raise InvalidParameter("source must be given: the release to use, or its path.")
        refuse_model(self.source)
        if isinstance(self.source, Release):
            return self.source.model
        return load_release(
            self.source,
            require_signature_from=self.source_keys,
            allow_simulated=self.allow_simulated,
        ).model

    def _rows(self, X: Any) -> Any:
        if self.model_.encoder is None and is_table(X):
            raise InvalidData(
                "the release carries no encoder, so it cannot read a table; encode the rows as its "
                "maker did, and give an array."
            )
        return super()._rows(X)

    def __sklearn_is_fitted__(self) -> bool:
        return self.source is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
