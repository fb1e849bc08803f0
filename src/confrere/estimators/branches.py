"""One source, many targets: fit every branch against the same release, each on its own account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joblib import Parallel, delayed
from sklearn.base import clone


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
    return dict(zip(branches, Parallel(n_jobs=n_jobs)(jobs), strict=True))


def _fit(estimator: Any, X: Any, y: Any) -> Any:
    return estimator.fit(X, y)
