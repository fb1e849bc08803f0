"""From a main hospital to a branch: one private model near another's release (SimComb).

Released models are a starting point: loaded, checked that they fit, and brought to one point; or
taken as a classifier that learns nothing more (SourceD).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from confrere.data.cells import is_table
from confrere.errors import (
    InvalidData,
    InvalidParameter,
    SimulatedRelease,
)
from confrere.estimators.base import (
    Bound,
    Declared,
    Delta,
    Epsilon,
    KnownParameters,
    LinearClassifier,
    Predicting,
    Ridges,
    Weight,
    estimator,
    sorted_labels,
)
from confrere.methods.geometry import Noise
from confrere.model import Model
from confrere.release import Release, load_rehearsal, load_release
from confrere.views import progress_bar

SourceLike: TypeAlias = Release | str | os.PathLike[str]


def open_sources(
    source: SourceLike | Sequence[SourceLike] | None,
    *,
    kinds: Sequence[str],
    keys: Mapping[str, Any] | None,
    simulation: bool,
) -> tuple[Release, ...]:
    """Return the releases to start from, verified: only a simulation may start from a simulated.

    Those that are read from disk must carry signatures of the parties of these ``keys``.
    """
    if source is None:
        raise InvalidParameter("source must be given: the release to start from, or its path.")
    refuse_model(source)
    single = isinstance(source, Release | str | os.PathLike)
    items: Sequence[Any] = [source] if single else list(source)  # type: ignore[arg-type]
    if not items:
        raise InvalidParameter("source must be a release, a path to one, or several of them.")
    releases = []
    for item in items:
        if isinstance(item, Release):
            release = item
        elif isinstance(item, str | os.PathLike):
            read = load_rehearsal if simulation else load_release
            release = read(item, require_signature_from=keys)
        else:
            raise InvalidParameter("source must be a confrere.release.Release or a path to one.")
        if release.simulated and not simulation:
            raise SimulatedRelease(
                "source was made with seeded noise, which protects nobody; ask for a real release, "
                "or give random_state to simulate the target as well."
            )
        if release.kind not in kinds:
            raise InvalidParameter(
                f"source is of kind {release.kind!r}; this needs {' or '.join(map(repr, kinds))}."
            )
        releases.append(release)
    return tuple(releases)


def refuse_model(source: object) -> None:
    """Say what to give instead of a fitted classifier, which is not a release."""
    if hasattr(source, "to_release"):
        raise InvalidParameter(
            "source is a classifier; give what it released: source=model.to_release(), or the "
            "folder that its save() wrote."
        )
    if not isinstance(source, Release | str | os.PathLike | Sequence):
        raise InvalidParameter(
            f"source must be a confrere.release.Release or a path to one, got a "
            f"{type(source).__name__}."
        )


@estimator
class ReleasedClassifier(KnownParameters, Predicting, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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

    Attributes
    ----------
    classes_ : array
        The source's label set.
    """

    source: SourceLike | None = None
    source_keys: Mapping[str, Any] | None = None

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
        return load_release(self.source, require_signature_from=self.source_keys).model

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


#: Kinds of releases that hold a linear model.
LINEAR_KINDS = ("plr", "simcomb", "collaborative", "multiparty")


@estimator
class TransferClassifier(LinearClassifier):
    """One private model that shrinks towards a released one (SimComb; PPHTL is the same idea).

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more.

    Parameters
    ----------
    eta : float, default=0.0
        Shrink towards ``(1 - eta)`` times the source's weights.
    alpha : float, "auto" or array of shape (n_features,), default="auto"
        As in :class:`PrivateLogisticRegression`. The automatic ridge follows from what the sources'
        records and noise leave unknown.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for: that of the sources, unless a ball is asked for.

    Attributes
    ----------
    sources_ : tuple of Release
        What was started from, each with its own guarantee.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of the target's ``(X, y)``; with ``declared_samples`` one row
        comes or goes
    :Guarantee: ``epsilon``-DP, pure, for the target's records (with a ``delta``
        ``(epsilon, delta)``-DP); the sources' hold as released
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, the sources, every parameter
    :Releases: ``coef_``, ``intercept_``
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    eta: Weight = 0.0
    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    data_norm: Bound = 1.0
    alpha: Ridges = "auto"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    prior_check: bool = True
    noise: Noise = "auto"
    feature_scale: ArrayLike | None = None
    declared_samples: Declared = None
    source_keys: Mapping[str, Any] | None = None

    _kind = "simcomb"
    _sparse = False

    def _sources(self) -> tuple[Release, ...]:
        return open_sources(
            self.source,
            kinds=LINEAR_KINDS,
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )


def fit_branches(
    estimator: Any, branches: Mapping[str, tuple[Any, Any]], *, n_jobs: int | None = None
) -> dict[str, Any]:
    """Fit a clone of ``estimator`` for every branch, charged to the account of its name.

    Its ``ledger`` must have one account per branch; branches map a name to its own ``(X, y)``.
    ``n_jobs`` branches are fitted at once; joblib's ``parallel_config`` chooses the backend.
    """
    jobs = (
        delayed(_fit)(clone(estimator).set_params(account=name), X, y)
        for name, (X, y) in branches.items()
    )
    fitted = {}
    with progress_bar("branches", len(branches)) as step:
        for name, model in zip(
            branches, Parallel(n_jobs=n_jobs, return_as="generator")(jobs), strict=True
        ):
            fitted[name] = model
            step(len(fitted))
    return fitted


def _fit(estimator: Any, X: Any, y: Any) -> Any:
    return estimator.fit(X, y)
