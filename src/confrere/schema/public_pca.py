"""Principal components of public data."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array

from confrere.errors import InvalidData, InvalidParameter
from confrere.schema.projections import PublicProjection
from confrere.schema.rows import Rows


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
        rows: Rows = "clip",
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
        self.components_ = pca.components_
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
