"""One organisation by itself: linear models and stacks, from nothing or from another's release."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from confrere.data.cells import is_table
from confrere.data.encoding import SchemaEncoder
from confrere.errors import InvalidData, InvalidParameter, SimulatedRelease
from confrere.estimators.base import (
    Bound,
    Bounds,
    Count,
    Experts,
    LinearClassifier,
    Predicting,
    PrivateClassifier,
    Relation,
    Ridge,
    Ridges,
    RowEngine,
    Weight,
    Weights,
    estimator,
    sorted_labels,
)
from confrere.methods.design import Purpose
from confrere.methods.geometry import GAIN, GeometryName
from confrere.model import LowLevelModel, Model
from confrere.release import Release, load_rehearsal, load_release


@estimator
class PrivateLogisticRegression(LinearClassifier):
    """Private logistic regression by objective perturbation (PLR, Algorithm 1).

    Parameters
    ----------
    alpha : float, "auto" or array of shape (n_features,)
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features. One number per column, as it is learned from: what is shrunk more
        has less noise. The intercept has the smallest of them; where that is raised to the floor
        ``2 / epsilon`` of the summed ridge, all are.
    engine : {"loop", "joblib", "dask"}, str or engine
        Who reads the rows: one partition after the other (the default), threads, a Dask cluster on
        this machine, or the address of a scheduler such as ``"tcp://host:8786"``. The bits of the
        result do not depend on it.

    Notes
    -----
    :Proof: docs/proofs/objective_perturbation.md and, for ``delta``, docs/proofs/gaussian.md; for
        noise that is shaped by a schema docs/proofs/geometry.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=5.0, random_state=0).fit(X, y)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    """

    prior: Experts = "auto"
    alpha: Ridges = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    purpose: Purpose = "prediction"
    engine: RowEngine = None
    data_norm: Bound = 1.0

    _dtype: ClassVar[Any] = [np.float64, np.float32]
    _kind = "plr"


SourceLike: TypeAlias = Release | str | os.PathLike[str]


def opened(source: Any, keys: Any, *, simulation: bool = False) -> tuple[Release, ...]:
    """Return releases, verified where they are read; only a simulation reads rehearsals."""
    listed = isinstance(source, Sequence) and not isinstance(source, str)
    read = load_rehearsal if simulation else load_release
    found = []
    for item in source if listed else [source]:
        paths = isinstance(item, str | os.PathLike)
        found.append(read(item, require_signature_from=keys) if paths else item)
        if not isinstance(found[-1], Release):
            raise InvalidParameter(
                "source must be a confrere.release.Release, a path to one, or several of them: of "
                "a classifier model.to_release(), or the folder that its save() wrote."
            )
    if not found:
        raise InvalidParameter("source must be given: a release, or its path.")
    return tuple(found)


@estimator
class ReleasedClassifier(Predicting, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Another organisation's released model, used as it is (SourceD).

    It is ready without ``fit``, which ignores its data, spends nothing and needs no account. A
    release that carries its encoder takes raw tables, and predicts the data's own labels. One
    without takes rows that were encoded before: arrays, in the order of the release's features.

    Parameters
    ----------
    source : Release or path
        What was released.
    source_keys : mapping of party to public key
        Signatures that a source read from disk must carry.

    Attributes
    ----------
    classes_ : array
        The source's label set.
    """

    source: SourceLike | None = None
    source_keys: Mapping[str, object] | None = None

    def fit(self, X: object = None, y: object = None) -> ReleasedClassifier:  # noqa: ARG002
        """Read the release; the data are not looked at."""
        release, *_ = opened(self.source, self.source_keys)
        self._opened = (self.source, release.model)
        return self

    @property
    def model_(self) -> Model:
        """What was released; read once."""
        if getattr(self, "_opened", (self,))[0] is not self.source:
            self.fit()
        return self._opened[1]

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return sorted_labels(self.model_)

    def _rows(self, X: object) -> Any:
        if self.model_.encoder is None and is_table(X):
            raise InvalidData(
                "the release carries no encoder, so it cannot read a table; encode the rows as its "
                "maker did, and give an array."
            )
        return X if self.model_.encoder is None else self.model_.encoded(X)

    def __sklearn_is_fitted__(self) -> bool:
        return self.source is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


@estimator
class FromSources(PrivateClassifier):
    """A private classifier that starts from released ones.

    Attributes
    ----------
    sources_ : tuple of Release
        What was started from, each with its own guarantee.
    expected_gain_ : float or None
        How much area the target's records are expected to add to the sources, of two classes.

    Notes
    -----
    :Neighbours: replace one row of the target's ``(X, y)``; with :class:`AddRemove` one comes or
        goes
    :Guarantee: ``epsilon``-DP, pure, for the target's records (with a ``delta``
        ``(epsilon, delta)``-DP); the sources' hold as released
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    source_keys: Mapping[str, object] | None = None

    _source_kinds: ClassVar[tuple[str, ...]]

    def _pay_and_learn(self, plan: Any, data: Any) -> Self:
        """Keep what records are expected to add to the sources, and warn where that is little."""
        fit = getattr(plan, "likely", plan)
        gain = None if fit.expected is None else fit.expected.gain(fit.known)
        self.expected_gain_, self._instead = gain, fit.instead
        if self.random_state is None and gain is not None and gain < GAIN:
            told = "the source as it is would be the model for nothing."
            if fit.instead is not None:
                told = "that is the model, and nothing is charged."
            added = f"{gain:.4f} is what these records are expected to add to the source"
            self._warn(f"{added}; {told}")
        if fit.instead is None:
            return super()._pay_and_learn(plan, data)
        self.guarantee_, self.simulated_ = fit.instead.guarantee, fit.instead.simulated
        self.receipt_ = None  # type: ignore[assignment]
        self._keep(plan, None, fit.instead.model)
        return self

    def to_release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return what may leave; where a source is the model as it is, its very release."""
        check_is_fitted(self)
        return super().to_release(encoder) if self._instead is None else self._instead

    def _sources(self) -> tuple[Release, ...]:
        simulation, kinds = self.random_state is not None, self._source_kinds
        found = opened(self.source, self.source_keys, simulation=simulation)
        for item in found:
            if item.simulated and not simulation:
                raise SimulatedRelease(
                    "source was made with seeded noise, which protects nobody; ask for a real "
                    "release, or give random_state to simulate the target as well."
                )
            if item.kind not in kinds:
                told = " or ".join(map(repr, kinds))
                raise InvalidParameter(f"source is of kind {item.kind!r}; this needs {told}.")
        return found


@estimator
class TransferClassifier(FromSources, LinearClassifier):
    """One private model around a released one, where that is expected to gain anything.

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more. Of two classes a forecast from public facts says what the target's
    records would add. Where that is less than .002 of area under the curve, the source is the model
    as it is: nothing is drawn, and nothing charged.

    Parameters
    ----------
    eta : float
        Fit and pay in any case, as SimComb (and PPHTL): shrink towards ``(1 - eta)`` times the
        source's weights, after a paid answer to how far they hold on these records.
    alpha : float, "auto" or array of shape (n_features,)
        As in :class:`PrivateLogisticRegression`. The automatic ridge follows from what the sources'
        records and noise leave unknown.
    geometry : {"auto", "schema", "l2"}
        The sensitivity set that noise is made for: that of the sources, unless ``"l2"`` is asked.

    Attributes
    ----------
    expected_auc_ : ExpectedArea or None
        What is expected of two classes' model, from public facts.
    receipt_ : Receipt or None
        The ledger entry that paid for it; None where the source is the model as it is.

    Notes
    -----
    :Spends: ``epsilon`` of ``budget``, once per ``fit``, before noise is drawn; or nothing
    :Public: n_samples, n_features, the label set, the sources, every parameter
    """

    eta: Weight = None
    alpha: Ridges = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    data_norm: Bound = 1.0

    _kind = "transfer"
    _source_kinds = ("plr", "transfer", "simcomb", "collaborative", "multiparty")
    _sparse = False


class HighLevelModel(NamedTuple):
    """The released combination of meta features ``tanh(score / 2) / sqrt(groups)``."""

    coef: NDArray[np.float64]
    intercept: float


@estimator
class StackingClassifier(PrivateClassifier):
    """What every stacking classifier takes.

    Parameters
    ----------
    n_groups : int
        How many groups, or parts of the rows, to make.
    combiner : {"stack", "vote", "weighted_vote"}
        How low-level models are combined. Votes need no part of the rows for a high level, and are
        weighted by importance for groups of features only.
    alpha : float or "auto"
        Ridge of the low level on the mean loss, for rows in the unit ball.
    split_seed : int or None
        Public seed of the split of rows and of random groups; None splits rows by their index.
    neighbours : "replace-one" or AddRemove
        ``AddRemove(n_samples)`` hides the number of rows, of which that is a public stand-in: every
        row draws its part of the split.
    classes : list
        The public label set. Of more than two labels every low-level model is a softmax
        regression, and the high level weighs groups, the same for all classes.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Released models with their groups or parts, importances and shares.
    high_level_ : HighLevelModel or None
        The released combination; None for votes and for a single model.

    Notes
    -----
    :Releases: ``low_level_``, ``high_level_``
    """

    combiner: Literal["stack", "vote", "weighted_vote"] = "stack"
    split_seed: int | None = 0
    alpha: Ridge = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    purpose: Purpose = "prediction"

    _sparse = False

    @property
    def low_level_(self) -> tuple[LowLevelModel, ...]:
        """Released models with their groups, importances and shares."""
        return tuple(self.model_.groups)

    @property
    def high_level_(self) -> HighLevelModel | None:
        """The released combination; None for votes and for a single group."""
        if self.model_.combine != "stack":
            return None
        return HighLevelModel(self.model_.coef, self.model_.intercept)


@estimator
class SampleStackingClassifier(StackingClassifier):
    """Private stacking over parts of the samples (PST-S, Algorithm 2).

    Rows are split, without looking at them, into ``n_groups`` parts and one more for the high
    level; every part pays for its own model only, so each gets the whole budget.

    Notes
    -----
    :Public: n_samples, n_features, the label set, the split, every parameter
    :Proof: docs/proofs/sample_stacking.md
    """

    n_groups: Count = 5
    combiner: Literal["stack", "vote"] = "stack"
    prior: Experts = "auto"
    geometry: GeometryName = "l2"
    data_norm: Bound = 1.0

    _kind = "pst-s"


@estimator
class FeatureStackingClassifier(StackingClassifier):
    """Private stacking over feature groups (PST-F, Algorithm 3); importances make it PST-F(W).

    One private model per group of features is learned on one part of the rows, and a private
    logistic regression on the other part combines them. Important groups get a larger share of the
    budget, hence less noise.

    Parameters
    ----------
    importance : array of shape (n_features,)
        Public importances, >= 0: features are grouped by them (W). Without them groups are random
        and equal (U). A schema's own importances are taken unless others are given.
    groups : sequence of int arrays or of lists of names
        Declared groups, every column exactly once; by the names of its columns where there is a
        schema.
    alpha : float, "auto" or a sequence of them
        Ridge on the mean loss of the low level; one for all groups in use, or one for each.
    geometry : {"auto", "schema", "l2"}
        As in :class:`PrivateLogisticRegression`. In the schema's, groups are of whole columns of
        the schema, each with a sensitivity set of its own: ``importance`` and ``groups`` then speak
        of these. ``"auto"`` takes the L2 ball if ``importance``, ``groups`` by positions, a
        ``prior`` or a ``delta`` is given.

    Notes
    -----
    :Public: n_samples, n_features, the label set, groups, importances, every parameter
    :Proof: docs/proofs/feature_groups.md
    """

    n_groups: Count = 5
    importance: ArrayLike | None = None
    groups: Sequence[ArrayLike] | None = None
    prior: Experts = "auto"
    alpha: Ridges = "auto"  # type: ignore[assignment]
    data_norm: Bounds = 1.0

    _kind = "pst-f"


@estimator
class TransferStackingClassifier(FromSources, StackingClassifier):
    """A private stack that shrinks, group by group, towards a released one (PST-H, PPTL-FS).

    The source is a release of :class:`FeatureStackingClassifier`; groups of features, their bounds
    and importances come from it, so that both sides mean the same.

    Parameters
    ----------
    eta : float or sequence of float
        Shrink group k towards ``(1 - eta_k)`` times the source's weights.
    alpha : float, "auto" or a sequence of them
        As in :class:`FeatureStackingClassifier`. Automatic ridges follow from what the sources'
        records and noise leave unknown; their high level is where the target's starts.
    geometry : {"auto", "schema", "l2"}
        That of the sources, unless ``"l2"`` is asked for; ``"schema"`` is an error where theirs is
        an L2 ball's.

    Notes
    -----
    :Public: n_samples, n_features, the label set, groups, importances, the sources, every parameter
    """

    eta: Weights = 0.0

    _kind = "pst-h"
    _source_kinds = ("pst-f", "pst-h")
