"""MNIST: handwritten digits, 28 x 28 grey levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere_research.loaders.dataset import DataSet, DenseRows, LabelledRows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content

PAGE = "http://yann.lecun.com/exdb/mnist/"
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def _file(name: str, sha256: str) -> PublishedFile:
    return PublishedFile("mnist", name, sha256, page=PAGE, url=f"{MIRROR}{name}.gz")


FILES = {
    "train_images": _file(
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train_labels": _file(
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "test_images": _file(
        "t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    "test_labels": _file(
        "t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
}


def load_mnist(
    data_dir: DataDir = None, *, digits: Sequence[int] = tuple(range(10))
) -> DataSet[DenseRows]:
    """Load MNIST, or some of its digits.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.
    digits : sequence of int, default=0 to 9
        Digits to keep, in the order of the classes: ``(0, 8)`` labels every 8 with 1.

    Returns
    -------
    DataSet
        60,000 and 10,000 rows of 784 grey levels in [0, 1].
    """
    if len(set(digits)) != len(digits) or len(digits) < 2 or not set(digits) <= set(range(10)):
        raise InvalidParameter("digits must be two or more different numbers from 0 to 9.")
    return DataSet(
        name="mnist",
        train=_rows("train", digits, data_dir),
        test=_rows("test", digits, data_dir),
        feature_names=tuple(f"row{r}_column{c}" for r in range(28) for c in range(28)),
        classes=tuple(str(digit) for digit in digits),
        licence="CC BY-SA 3.0",
        source=PAGE,
        description="Handwritten digits; grey levels divided by 255; the official split.",
    )


def _rows(part: str, digits: Sequence[int], data_dir: DataDir) -> LabelledRows[DenseRows]:
    labels = _idx(read_content(FILES[f"{part}_labels"], data_dir))
    images = _idx(read_content(FILES[f"{part}_images"], data_dir))
    kept = np.isin(labels, digits)
    position = np.zeros(10, dtype=np.int64)
    position[list(digits)] = np.arange(len(digits))
    X = images[kept].reshape(-1, 28 * 28).astype(np.float32)
    X /= np.float32(255)
    return LabelledRows(X, position[labels[kept]])


def _idx(content: bytes) -> NDArray[np.uint8]:
    """Read the idx format: two zeros, the type (8: unsigned bytes), the rank, the sizes."""
    rank = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=rank, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape(shape)
