"""20 Newsgroups: science against talk, as hashed words."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from confrere_research.loaders.dataset import DataSet, LabelledRows, SparseRows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_archive

PAGE = "http://qwone.com/~jason/20Newsgroups/"
FILE = PublishedFile(
    "20newsgroups",
    "20news-bydate.tar",
    "9b7fb75e35b006e61fc49f4f0db8878a3de350a438c73a4a67a64d41fc6f6147",
    page=PAGE,
    url=f"{PAGE}20news-bydate.tar.gz",
)


def load_news20(data_dir: DataDir = None, *, n_features: int = 2**14) -> DataSet[SparseRows]:
    """Load the sci.* and talk.* groups of 20 Newsgroups, "bydate" version.

    Words are hashed to columns by a public function: no vocabulary and no document frequency
    is learned from anybody's messages.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.
    n_features : int, default=16384
        Number of columns to hash to.

    Returns
    -------
    DataSet
        4,325 and 2,880 messages; rows of Euclidean norm 1 (0 for an empty message), made of
        signed ``log(1 + count)``; ``groups`` holds the newsgroup.
    """
    messages = read_archive(FILE, data_dir)
    words = HashingVectorizer(
        n_features=n_features, norm=None, stop_words="english", decode_error="replace"
    )
    return DataSet(
        name="news20",
        train=_rows("20news-bydate-train", messages, words),
        test=_rows("20news-bydate-test", messages, words),
        feature_names=tuple(f"hash{column}" for column in range(n_features)),
        classes=("talk", "sci"),
        licence="research use",
        source=PAGE,
        description=(
            "Messages of sci.* (1) and talk.* (0) as published, headers included; words hashed, "
            "counts damped by a logarithm, rows of norm 1; the official split by date."
        ),
    )


def _rows(
    part: str, messages: dict[str, bytes], words: HashingVectorizer
) -> LabelledRows[SparseRows]:
    chosen = [
        (group, text)
        for (folder, group, _), text in ((name.split("/"), text) for name, text in messages.items())
        if folder == part and group.startswith(("sci.", "talk."))
    ]
    X = words.transform([text.decode("latin-1") for _, text in chosen]).astype(np.float32)
    X.data = np.sign(X.data) * np.log1p(np.abs(X.data))
    groups = np.array([group for group, _ in chosen])
    return LabelledRows(
        sparse.csr_array(normalize(X, copy=False)),
        np.char.startswith(groups, "sci.").astype(np.int64),
        groups,
    )
