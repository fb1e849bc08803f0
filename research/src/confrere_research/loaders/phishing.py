"""UCI 327, Phishing Websites: thirty rules about a page, each suspicious or not."""

from __future__ import annotations

import numpy as np

from confrere_research.loaders.dataset import DataSet, DenseRows, LabelledRows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content, unzip

PAGE = "https://archive.ics.uci.edu/dataset/327/phishing+websites"
FILE = PublishedFile(
    "uci_phishing_websites",
    "Training_Dataset.arff",
    "0dfcd84ccdedca6e1be2ce26452c1f1089ac3f839b9a1b0ab1cdcf6d895f9a70",
    page=PAGE,
    url="https://archive.ics.uci.edu/static/public/327/phishing+websites.zip",
    convert=unzip("Training Dataset.arff"),
)


def load_phishing(data_dir: DataDir = None) -> DataSet[DenseRows]:
    """Load Phishing Websites.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        11,055 rows of 30 rules with the values -1 (phishing), 0 (suspicious), 1 (legitimate);
        there is no official split.
    """
    declarations, _, rows = read_content(FILE, data_dir).decode("ascii").partition("@data")
    names = tuple(
        line.split()[1] for line in declarations.splitlines() if line.startswith("@attribute")
    )
    table = np.array([line.split(",") for line in rows.split()], dtype=np.float32)
    return DataSet(
        name="phishing",
        # The file says 1 for a legitimate page, as its rules do.
        train=LabelledRows(table[:, :-1].copy(), (table[:, -1] < 0).astype(np.int64)),
        test=None,
        feature_names=names[:-1],
        classes=("legitimate", "phishing"),
        licence="CC BY 4.0",
        source=PAGE,
        description="Web pages judged by thirty rules; values as published.",
    )
