"""From a main hospital to a branch: one private model near another's release (SimComb).

Released models are a starting point: loaded, checked that they fit, and brought to one point; or
taken as a classifier that learns nothing more (SourceD).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from confrere.arrays import Floats
from confrere.errors import (
    InvalidData,
    InvalidParameter,
    InvalidRelease,
    SchemaMismatch,
    SimulatedRelease,
)
from confrere.estimators.base import LinearClassifier, Predicting, sorted_labels
from confrere.estimators.constraints import Bound, Delta, Epsilon, Ridges, Weight
from confrere.maths.prior_ridge import (
    MISSED,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.methods.body import Noise
from confrere.methods.checked import CheckedPlan
from confrere.methods.design import allowance, row_count
from confrere.methods.linear import LinearPlan, design_linear
from confrere.methods.plan import PublicFacts
from confrere.methods.priors import Prior
from confrere.model import Encoder, Linear, Model
from confrere.release import Release, load_rehearsal, load_release
from confrere.schema.cells import is_table
from confrere.schema.encoding import Form
from confrere.views import progress_bar

SourceLike: TypeAlias = Release | str | os.PathLike[str]


def open_sources(
    source: SourceLike | Sequence[SourceLike] | None,
    *,
    kinds: Sequence[str],
    keys: Mapping[str, Any] | None,
    simulation: bool,
) -> tuple[Release, ...]:
    """Return the releases to start from, verified.

    Parameters
    ----------
    source : release, path, or a sequence of them
        What the other organisations released.
    kinds : sequence of str
        Kinds that can be started from.
    keys : mapping of party to public key, optional
        Signatures to require of releases that are read from disk.
    simulation : bool
        Whether the target is itself a simulation; only then may a source be simulated.
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


def check_same_meaning(
    releases: Sequence[Release],
    *,
    features: Sequence[str] | None,
    classes: NDArray[Any] | None,
    encoder: Encoder | None,
) -> None:
    """Refuse sources that do not speak of the same features, in the same order, and labels.

    Without features and classes there is nothing to compare: only a price is asked.
    """
    if features is None or classes is None:
        return
    for release in releases:
        theirs = release.model.encoder
        if encoder is not None and theirs is not None:
            encoder.schema.require_same(theirs.schema)
        if release.model.features != tuple(features):
            raise SchemaMismatch(
                "source and target have different features:\n"
                + _difference(release.model.features, features)
            )
        if list(release.model.classes) != classes.tolist():
            raise SchemaMismatch(
                f"source has classes {list(release.model.classes)}, the target declares "
                f"{classes.tolist()}."
            )
        if encoder is None:
            continue
        if theirs is None:
            raise SchemaMismatch(
                "source carries no encoder to compare with; ask for a release of a model that was "
                "fitted with schema=..."
            )
        if not encoder.same_encoding(theirs):
            raise SchemaMismatch("source encodes its rows in another way; rows and weights differ.")


def form_of(releases: Sequence[Release]) -> Form:
    """Return how sources encode columns: whoever starts from them does the same."""
    encoders = [release.model.encoder for release in releases]
    forms = {encoder.form for encoder in encoders if encoder is not None}
    return forms.pop() if len(forms) == 1 else "standardised"


def check_classes(releases: Sequence[Release], n_classes: int) -> None:
    """Refuse sources of another number of classes."""
    if any(len(release.model.classes) != n_classes for release in releases):
        raise SchemaMismatch("source has another number of classes than the target.")


def precisions(releases: Sequence[Release], size: int, base_rate: float) -> NDArray[np.float64]:
    """Return how precisely each release tells a weight: of the noise, and of its records.

    All of it is public, so combining releases costs nothing; see
    :func:`confrere.maths.prior_ridge.precision_of`. An average of parties has noise from each.
    """
    found = []
    for release in releases:
        facts = release.model.facts
        if facts.sigma is not None:
            noise = facts.sigma**2
        elif facts.rho is not None:
            noise = (size + 1) / facts.rho**2
        else:
            # Noise of a capped loss at that price, for every party whose model is averaged.
            noise = (facts.parties or 1) * noise_variance(release.guarantee.epsilon, size, 0.5)
        records = known(facts.n_samples, "n_samples")
        curvature = mean_curvature(base_rate)
        found.append(precision_of(records, size, noise=noise, curvature=curvature))
    return np.asarray(found)


def known(fact: float | None, name: str) -> float:
    """Return a fact that a source must state to be started from."""
    if fact is None:
        raise InvalidRelease(f"source does not state its {name}; it cannot be started from.")
    return fact


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    if len(theirs) != len(ours):
        return f"  source has {len(theirs)} columns, target {len(ours)}"
    pairs = [(j, a, b) for j, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b]
    lines = [f"  column {j}: source {a!r}, target {b!r}" for j, a, b in pairs[:10]]
    if len(pairs) > 10:
        lines.append(f"  and {len(pairs) - 10} more")
    return "\n".join(lines)


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
    ) -> None:
        self.source = source
        self.source_keys = source_keys

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


@dataclass(kw_only=True, eq=False, repr=False)
class TransferClassifier(LinearClassifier):
    """One private model that shrinks towards a released one (SimComb; PPHTL is the same idea).

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more.

    Parameters
    ----------
    source : Release, path, or a sequence of them
        What the main organisation (or several) released; required by ``fit``.
    eta : float, default=0.0
        Shrink towards ``(1 - eta)`` times the source's weights.
    epsilon, delta, data_norm, alpha, fit_intercept, intercept_scale, noise
        As in :class:`PrivateLogisticRegression`, for the target's own fit. The automatic ridge
        follows from what the sources' records and noise leave unknown, and noise is shaped like
        theirs.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping.
    prior_check : bool, default=True
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far the sources
        hold on these records; without, a wrong source is believed.
    declared_samples : int, optional
        Public stand-in for the number of rows: given, neighbours are add-remove.
    schema : PublicSchema or SchemaEncoder, optional
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    classes : list, optional
        The public label set, that of the sources.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`; the guarantee is the target's.
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
    declared_samples: int | None = None
    source_keys: Mapping[str, Any] | None = None

    _kind = "simcomb"
    _sparse = False

    def plan(self, facts: PublicFacts) -> LinearPlan | CheckedPlan:
        """Return everything that is decided before the data are touched; reads the sources."""
        sources = self._open_sources()
        encoder = self._encoder(facts.n_samples)
        check_same_meaning(
            sources,
            features=facts.features,
            classes=facts.classes,
            encoder=None if encoder is None else Encoder.of(encoder),
        )
        check_classes(sources, facts.n_classes)
        count = row_count(facts.n_samples, self._relation, self.declared_samples)
        return design_linear(
            allowance(self.epsilon, count, delta=self.delta, n_classes=facts.n_classes),
            self._geometry(facts),
            self._known(facts, sources),
            alpha=self.alpha,
            check=self.prior_check,
            sources=sources,
        )

    def _open_sources(self) -> tuple[Release, ...]:
        return open_sources(
            self.source,
            kinds=LINEAR_KINDS,
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )

    def _form(self, n_samples: int) -> Form:  # noqa: ARG002
        """Return how the sources encode columns."""
        return form_of(self._open_sources())

    def _known(self, facts: PublicFacts, sources: Sequence[Release]) -> Prior:
        """Return ``(1 - eta)`` times the sources' combined model, and what it leaves unknown."""
        models = [source.model for source in sources if isinstance(source.model, Linear)]
        intercepts = np.array([model.intercept for model in models])
        coefs = np.array([model.coef for model in models])
        scale = self.feature_scale

        def around(coef: Floats, intercept: Floats, variance: float = 0.0) -> Prior:
            known = Prior(
                coef,
                variance=variance,
                data_norm=self.data_norm,
                feature_scale=None if scale is None else np.asarray(scale, dtype=np.float64),
                most=1.0,
                released=intercept,
                encoder=self._body_encoder(facts),
            )
            return known.with_shares()

        size = facts.n_features + self.fit_intercept
        rate = around(coefs.mean(axis=0), intercepts.mean(axis=0)).base_rate
        precise = precisions(sources, size, rate)
        keep = (1 - self.eta) * precise / precise.sum()
        missed = MISSED if facts.n_classes == 2 else 0.0
        left = variance_near(precise, missed=missed)
        return around(np.tensordot(keep, coefs, 1), keep @ intercepts, left)


def fit_branches(
    estimator: Any, branches: Mapping[str, tuple[Any, Any]], *, n_jobs: int | None = None
) -> dict[str, Any]:
    """Fit a clone of ``estimator`` for every branch, charged to the account of its name.

    Parameters
    ----------
    estimator : TransferClassifier, TransferStackingClassifier or any private classifier
        Its ``ledger`` must have one account per branch.
    branches : mapping of name to (X, y)
        Disjoint records of the branches.
    n_jobs : int, optional
        Branches at once; joblib's ``parallel_config`` chooses the backend.

    Returns
    -------
    dict
        Name to fitted estimator, in the order given.
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
