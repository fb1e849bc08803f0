"""UCI 240, Human Activity Recognition Using Smartphones, from the raw inertial signals."""

from __future__ import annotations

import io
import zipfile

import numpy as np
from numpy.typing import NDArray

from confrere.schema.loaders.dataset import DataSet, DenseRows, LabelledRows
from confrere.schema.loaders.fetch import unzip
from confrere.schema.loaders.files import DataDir, PublishedFile, read_arrays
from confrere.schema.loaders.har_features import features

PAGE = "https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones"
ACTIVITIES = (
    "walking",
    "walking upstairs",
    "walking downstairs",
    "sitting",
    "standing",
    "laying",
)
ARRAYS = ("X_train", "y_train", "subject_train", "X_test", "y_test", "subject_test")
CHANNELS = tuple(
    f"{sensor}_{axis}" for sensor in ("total_acc", "body_acc", "body_gyro") for axis in "xyz"
)
HALF = 64


def _half_windows(content: bytes) -> bytes:
    """Keep the second half of every window: the first half is the one before's second."""
    arrays: dict[str, NDArray[np.generic]] = {}
    inner = unzip("UCI HAR Dataset.zip")(content)
    with zipfile.ZipFile(io.BytesIO(inner)) as archive:

        def table(part: str, name: str) -> NDArray[np.float64]:
            path = f"UCI HAR Dataset/{part}/{name}_{part}.txt"
            return np.loadtxt(io.BytesIO(archive.read(path)))

        for part in ("train", "test"):
            signals = [table(part, f"Inertial Signals/{name}")[:, HALF:] for name in CHANNELS]
            arrays[f"X_{part}"] = np.stack(signals, axis=2).astype(np.float32)
            arrays[f"y_{part}"] = table(part, "y").astype(np.int8)
            arrays[f"subject_{part}"] = table(part, "subject").astype(np.int8)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()


FILE = PublishedFile(
    "uci_har_inertial",
    "uci_har_inertial_halfwindows.npz",
    "b7b5463c9f4e13ee7f7e4f817725ba2b7ad3de49cca286f093b52bee8f42fbf3",
    page=PAGE,
    url=(
        "https://archive.ics.uci.edu/static/public/240/"
        "human+activity+recognition+using+smartphones.zip"
    ),
    convert=_half_windows,
)


def load_har(data_dir: DataDir = None) -> DataSet[DenseRows]:
    """Load Human Activity Recognition: features computed from 1.28 seconds of raw signals.

    Each row is a function of its own window alone and is scaled by declared bounds, so nothing
    is learned across rows. These are not the 561 features that the data set comes with.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        7,352 and 2,947 windows, values in [-1, 1], six activities; ``groups`` holds the person
        (1 to 30; nobody is in both parts).
    """
    arrays = read_arrays(FILE, data_dir, ARRAYS)

    def rows(part: str) -> tuple[LabelledRows[DenseRows], tuple[str, ...]]:
        X, names = features(arrays[f"X_{part}"])
        labels = arrays[f"y_{part}"].astype(np.int64) - 1
        return LabelledRows(X, labels, arrays[f"subject_{part}"].astype(np.int64)), names

    train, names = rows("train")
    test, _ = rows("test")
    return DataSet(
        name="har",
        train=train,
        test=test,
        feature_names=names,
        classes=ACTIVITIES,
        licence="CC BY 4.0",
        source=PAGE,
        description=(
            "A telephone on the waist of thirty people; time- and frequency-domain features of "
            "the second half of every published window; the official split by person."
        ),
    )
