"""A classifier of a party's own, where a study has parties vote: whatever it has installed.

What votes is a party's business: all of its data are protected together, whatever it computes of
them. So its name stands in the party's local file and never in a study, and it is imported and
trained before anything is asked: code of others may fail on anything, and then nothing is spent.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from confrere.errors import StudyError
from confrere.study.typed_files import Table


class OwnClassifier(Table):
    """``[classifier]`` of a local file.

    Attributes
    ----------
    name : str
        ``package.module:Class`` of what has ``fit`` and ``predict``, as scikit-learn's have.
    settings : mapping
        What it is made with.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)]
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)

    def votes(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        auxiliary: NDArray[np.float64],
        n_classes: int = 2,
    ) -> NDArray[np.bool_] | NDArray[np.int64]:
        """Train on a party's rows, and return what it takes the public rows for.

        Parameters
        ----------
        X, y
            The party's encoded rows, and their labels -1 and +1, or codes of more classes.
        auxiliary : (N, d) array
            The study's public rows.
        n_classes : int, default=2
            How many labels are declared. Of two, what is returned says which rows are positive; of
            more it holds codes.

        Raises
        ------
        StudyError
            If there is no such classifier, or if it fails: to be said to the party alone.
        """
        if np.all(y == y[0]):
            # Of one class: it votes for it.
            return _ballot(np.full(len(auxiliary), y[0]), n_classes)
        try:
            found = np.asarray(self._made().fit(X, y.astype(np.intp)).predict(auxiliary))
        except StudyError:
            raise
        except Exception as error:
            raise StudyError(
                f"classifier.name: {self.name} failed on this party's rows "
                f"({type(error).__name__}). Nothing was spent; correct its settings, or leave it "
                "out for logistic regression."
            ) from error
        labels = (-1, 1) if n_classes == 2 else range(n_classes)
        if found.shape != (len(auxiliary),) or not np.all(np.isin(found, list(labels))):
            raise StudyError(
                f"classifier.name: {self.name} does not predict one of its labels for every row."
            )
        return _ballot(found, n_classes)

    def _made(self) -> Any:
        module, _, name = self.name.partition(":")
        try:
            made = getattr(import_module(module), name)(**self.settings)
        except Exception as error:
            raise StudyError(
                f"classifier.name: {self.name} cannot be made here ({type(error).__name__}); is it "
                "installed, and does it take these settings?"
            ) from error
        if not (hasattr(made, "fit") and hasattr(made, "predict")):
            raise StudyError(f"classifier.name: {self.name} has no fit or no predict.")
        return made


def _ballot(labels: NDArray[Any], n_classes: int) -> NDArray[np.bool_] | NDArray[np.int64]:
    return np.asarray(labels > 0) if n_classes == 2 else labels.astype(np.int64)
