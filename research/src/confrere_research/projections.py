"""Fewer columns by public facts: the common part, random signs and public importances."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from confrere.arrays import Floats
from confrere.data.encoding import check_clip_norm
from confrere.errors import InvalidData, InvalidParameter

#: Rows that are too long are shortened, or all have length one.
RowRule: TypeAlias = Literal["clip", "unit"]


class PublicProjection(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A map that is fixed by public parameters; ``fit`` looks at the number of columns only."""

    n_components: int
    rows: RowRule
    clip_norm: float | Literal["rms"]

    @abstractmethod
    def _prepare(self, n_features: int) -> None:
        """Set the fitted attributes from the parameters and the number of columns."""

    @abstractmethod
    def _project(self, X: Any) -> NDArray[np.float64]:
        """Return the projected columns, shape (components, rows)."""

    @abstractmethod
    def _definition(self) -> dict[str, Any]:
        """Return what fixes the map, as plain values."""

    def _rms_norm(self) -> float:
        raise InvalidParameter('clip_norm="rms" needs public data; give a number.')

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Take the number of columns of ``X``, nothing else, and prepare the public map."""
        check_rows(self.rows)
        check_clip_norm(self.clip_norm)
        whole = isinstance(self.n_components, int | np.integer) and self.n_components is not True
        if not whole or self.n_components < 1:
            raise InvalidParameter("n_components must be a whole number of at least 1.")
        _refuse_texts(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        self._prepare(X.shape[1])
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Project rows and bound their norm by 1.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Numbers, such as a :class:`SchemaEncoder` gives.

        Returns
        -------
        array of shape (rows, n_components)
            Every row has Euclidean norm at most 1.
        """
        check_is_fitted(self)
        _refuse_texts(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        asked = check_clip_norm(self.clip_norm)
        clip_norm = self._rms_norm() if asked == "rms" else asked
        return bounded_rows(self._project(X), self.rows, clip_norm)

    def fingerprint(self) -> str:
        """Return the SHA-256 of what fixes the map: equal at all parties that use the same one."""
        facts = {"format": type(self).__name__, "n_components": int(self.n_components)}
        bound = {"rows": self.rows, "clip_norm": check_clip_norm(self.clip_norm)}
        text = json.dumps(facts | bound | self._definition(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RandomProjection(ClassNamePrefixFeaturesOutMixin, PublicProjection):  # type: ignore[misc]
    r"""Multiply by random signs over the square root of ``n_components``, from a public seed.

    The signs are the bits of SHAKE-256 over the seed and the shape: the same on every machine and
    with every version of every library. Squared norms are kept on average.

    Parameters
    ----------
    n_components : int
        How many columns to make.
    seed : int
        Public; must not be chosen after looking at the data.
    rows : {"clip", "unit"}, default="clip"
        ``"clip"``: divide by ``clip_norm``, then shrink what is still longer than 1.
        ``"unit"``: give every row norm 1; rows of zeros stay so.
    clip_norm : float, default=1.0
        Public norm beyond which projected rows are shrunk.

    Attributes
    ----------
    components_ : array of shape (n_components, columns)
        The scaled signs.
    """

    def __init__(
        self, n_components: int, seed: int, *, rows: RowRule = "clip", clip_norm: float = 1.0
    ) -> None:
        self.n_components = n_components
        self.seed = seed
        self.rows = rows
        self.clip_norm = clip_norm

    def _prepare(self, n_features: int) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise InvalidParameter("seed must be a whole number.")
        count = n_features * self.n_components
        name = f"confrere-random-projection-1:{int(self.seed)}:{self.n_components}:{n_features}"
        stream = hashlib.shake_256(name.encode()).digest(-(-count // 8))
        bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=count)
        signs = 2.0 * bits.reshape(self.n_components, n_features) - 1
        self.components_ = signs / np.sqrt(self.n_components)
        self._n_features_out = self.n_components

    def _project(self, X: Any) -> NDArray[np.float64]:
        return np.ascontiguousarray((X @ self.components_.T).T)

    def _definition(self) -> dict[str, Any]:
        return {"seed": int(self.seed)}


class TopFeatures(OneToOneFeatureMixin, PublicProjection):  # type: ignore[misc]
    """Keep the columns of largest public importance, in their order.

    Parameters
    ----------
    importance : array of shape (columns,)
        Public importances >= 0, such as ``schema.importances()``; of equal ones the first is kept.
    n_components : int
        How many columns to keep.
    rows : {"clip", "unit"}, default="clip"
        ``"clip"``: divide by ``clip_norm``, then shrink what is still longer than 1.
        ``"unit"``: give every row norm 1; rows of zeros stay so.
    clip_norm : float, default=1.0
        Public norm beyond which the kept part of a row is shrunk.

    Attributes
    ----------
    kept_ : array of shape (n_components,)
        Positions of the kept columns.
    """

    def __init__(
        self,
        importance: ArrayLike,
        n_components: int,
        *,
        rows: RowRule = "clip",
        clip_norm: float = 1.0,
    ) -> None:
        self.importance = importance
        self.n_components = n_components
        self.rows = rows
        self.clip_norm = clip_norm

    def _prepare(self, n_features: int) -> None:
        importance = self._importance()
        if len(importance) != n_features:
            raise InvalidData(
                f"X has {n_features} columns, but {len(importance)} importances are given."
            )
        if self.n_components > n_features:
            raise InvalidParameter(f"n_components must be at most {n_features}.")
        self.kept_ = np.sort(np.argsort(-importance, kind="stable")[: self.n_components])

    def _project(self, X: Any) -> NDArray[np.float64]:
        kept = X[:, self.kept_]
        is_sparse = sparse.issparse(kept)
        return np.array((kept.toarray() if is_sparse else kept).T, dtype=np.float64, order="C")

    def _definition(self) -> dict[str, Any]:
        return {"importance": self._importance().tolist()}

    def _importance(self) -> NDArray[np.float64]:
        importance = np.asarray(self.importance, dtype=np.float64)
        if importance.ndim != 1 or not np.isfinite(importance).all() or (importance < 0).any():
            raise InvalidParameter("importance must be a list of finite numbers >= 0.")
        return importance

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the kept columns."""
        names: NDArray[np.object_] = super().get_feature_names_out(input_features)[self.kept_]
        return names


def _refuse_texts(X: Any) -> None:
    """Refuse a text that is no number here: scikit-learn's own message would print it."""
    if not sparse.issparse(X) and (values := np.asarray(X)).dtype.kind in "OUS":
        try:
            values.astype(np.float64)
        except ValueError:
            raise InvalidData("X must hold numbers only; encode it by a schema first.") from None


#: Variances that differ by less than this share of the largest are one, as far as floats can tell.
_SAME_VARIANCE = 1e-9


def canonical_components(
    components: NDArray[np.float64], variances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return principal components whose signs do not depend on how sums were rounded.

    A component may be turned round, and those of one variance may be turned into each other:
    which of them a solver returns is decided by its last bits, so by the machine. The space that
    they span is not. So fixed vectors are projected into it and made orthonormal, one variance
    after the other; a single component points to the side of its fixed vector.

    Parameters
    ----------
    components : (k, d) array
        Orthonormal rows, largest variance first.
    variances : (k,) array
    """
    fixed = np.random.default_rng(0).normal(size=components.shape)
    turned = np.empty_like(components)
    apart = -np.diff(variances) > _SAME_VARIANCE * variances[0]
    for same in np.split(np.arange(len(components)), np.flatnonzero(apart) + 1):
        span = components[same]
        basis, corner = np.linalg.qr(span.T @ (span @ fixed[same].T))
        turned[same] = (basis * np.where(np.diag(corner) < 0, -1.0, 1.0)).T
    return turned


class PublicPCA(ClassNamePrefixFeaturesOutMixin, PublicProjection):  # type: ignore[misc]
    """Principal components of public data; nothing is learned from what ``fit`` is given.

    Parameters
    ----------
    public_X : array or sparse matrix of shape (rows, columns)
        Data that everyone may see, with the columns of the data to be projected.
    n_components : int
        How many components to keep.
    whiten : bool, default=False
        Divide each component by its standard deviation in the public data.
    rows : {"clip", "unit"}, default="clip"
        ``"clip"``: divide by ``clip_norm``, then shrink what is still longer than 1.
        ``"unit"``: give every row norm 1; rows of zeros stay so.
    clip_norm : float or "rms", default="rms"
        ``"rms"`` is the root-mean-square norm of the projected public data.

    Attributes
    ----------
    components_ : array of shape (n_components, columns)
        Orthonormal rows.
    centre_ : array of shape (columns,)
        Public mean.
    deviations_ : array of shape (n_components,)
        Public standard deviation of each component.
    """

    def __init__(
        self,
        public_X: ArrayLike,
        n_components: int,
        *,
        whiten: bool = False,
        rows: RowRule = "clip",
        clip_norm: float | Literal["rms"] = "rms",
    ) -> None:
        self.public_X = public_X
        self.n_components = n_components
        self.whiten = whiten
        self.rows = rows
        self.clip_norm = clip_norm

    def _prepare(self, n_features: int) -> None:
        public = self._public()
        if public.shape[1] != n_features:
            raise InvalidData(
                f"X has {n_features} columns, but the public data have {public.shape[1]}."
            )
        if self.n_components > min(public.shape):
            raise InvalidParameter(
                f"n_components must be at most {min(public.shape)}: the public data have no more."
            )
        is_sparse = sparse.issparse(public)
        if is_sparse and self.n_components == min(public.shape):
            public, is_sparse = public.toarray(), False  # the sparse solver cannot give them all
        # A fixed state where the solver starts at random: the map is a public fact.
        pca = PCA(self.n_components, svd_solver="arpack" if is_sparse else "auto", random_state=0)
        pca.fit(public)
        self.components_ = canonical_components(pca.components_, pca.explained_variance_)
        self.centre_ = pca.mean_
        self.deviations_ = np.sqrt(pca.explained_variance_)
        if self.whiten and self.deviations_.min() <= 1e-12 * self.deviations_.max():
            raise InvalidParameter("n_components: a component of the public data has no variance.")
        self._n_features_out = self.n_components

    def _project(self, X: Any) -> NDArray[np.float64]:
        matrix = self.components_ / self.deviations_[:, None] if self.whiten else self.components_
        columns = (X @ matrix.T).T - (matrix @ self.centre_)[:, None]
        return np.ascontiguousarray(columns)

    def _rms_norm(self) -> float:
        scales = np.ones(self.n_components) if self.whiten else self.deviations_
        return float(np.linalg.norm(scales))

    def _definition(self) -> dict[str, Any]:
        public = self._public()
        digest = hashlib.sha256(repr(public.shape).encode())
        parts = [public]
        is_sparse = sparse.issparse(public)
        if is_sparse:
            public = public.copy()
            public.sum_duplicates()
            public.eliminate_zeros()
            parts = [public.indptr.astype(np.int64), public.indices.astype(np.int64), public.data]
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        return {"whiten": bool(self.whiten), "public_X": digest.hexdigest()}

    def _public(self) -> Any:
        return check_array(self.public_X, accept_sparse="csr", dtype=np.float64)


def check_rows(rows: object) -> None:
    """Refuse what is no rule for a row's length."""
    if rows not in ("clip", "unit"):
        raise InvalidParameter('rows must be "clip" or "unit".')


def bounded_rows(columns: Floats, rows: RowRule, clip_norm: float) -> Floats:
    """Return the table whose transpose is ``columns``, every row of norm at most 1.

    ``"clip"``: a row is divided by ``clip_norm``, then shrunk to norm 1 if it is longer.
    ``"unit"``: a row is divided by its norm; a row of zeros stays so.

    The bound holds in floating point: rows that touch it are shorter by a few roundings. Only
    operations on single entries are used, so a row's result does not depend on its neighbours,
    to the last bit. ``columns`` is overwritten.
    """
    check_rows(rows)
    margin = 1 + (len(columns) + 8) * float(np.finfo(np.float64).eps)
    # Dividing by the largest entry first keeps squares from overflowing or vanishing.
    peaks = np.zeros(columns.shape[1])
    for column in columns:
        np.maximum(peaks, np.abs(column), out=peaks)
    peaks[peaks == 0] = 1.0
    squares = np.zeros_like(peaks)
    for column in columns:
        share = column / peaks
        squares += share * share
    lengths = np.sqrt(squares) * margin
    if rows == "unit":
        lengths[lengths == 0] = 1.0
        columns /= peaks
        columns /= lengths
    else:
        columns /= np.maximum(peaks * lengths, clip_norm)
    return np.ascontiguousarray(columns.T)
