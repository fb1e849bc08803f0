"""ISCX-URL-2016: benign, spam, phishing and malware addresses, by the letters they are made of."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from confrere_research.loaders.dataset import DataSet, LabelledRows, SparseRows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content

PAGE = "https://www.unb.ca/cic/datasets/url-2016.html"


def _list(file: str, sha256: str) -> PublishedFile:
    return PublishedFile("iscx_url2016", file, sha256, page=PAGE)


LISTS = {
    "benign": _list(
        "Benign_list_big_final.csv",
        "deae32db6bba0df6cd6bcc0abaa55c538e094b613920e5d7c65da3c991515280",
    ),
    "malware": _list(
        "Malware_dataset.csv", "a8bc536da32b4f8e2efc92b33f545f8e42be997c0447a95dd7189564a6566007"
    ),
    "phishing": _list(
        "phishing_dataset.csv", "120913888765b861954157fa307a7cd6e1cef1aab284666e4fa27f5f1607fb97"
    ),
    "spam": _list(
        "spam_dataset.csv", "5916f0ab58455757ee78b01e17d0e975cf0561d081ec740a2b49fcb3c240648d"
    ),
}
MARKS = "-_.~/?#&=%+@:;,"
LEXICAL = (
    *(f"share of {mark}" for mark in MARKS),
    "share of digits",
    "share of capitals",
    "share of host",
    "entropy",
    "host is an address",
    "host has a port",
    "host has a hyphen",
    "host has a digit",
    "labels of host",
    "depth of path",
)
_ESCAPED = re.compile("&(amp;)+")
_SCHEME = re.compile("^[a-z]+:/*", re.IGNORECASE)
_DIGIT = re.compile("[0-9]")
_CAPITAL = re.compile("[A-Z]")
_ADDRESS = re.compile(r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$")


def load_iscx_urls(data_dir: DataDir = None, *, n_features: int = 2**12) -> DataSet[SparseRows]:
    """Load ISCX-URL-2016 as hashed runs of three and four characters and lexical shares.

    The lists repeat themselves (the malware list has 11,566 lines and 2,691 addresses):
    addresses are de-duplicated before anyone can split them. Traces of how the lists were
    collected are left out: quotes, the scheme (some lists lack it), escaped ampersands, and the
    length (no benign address is shorter than 83 characters). No address is both benign and
    malicious.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.
    n_features : int, default=4096
        Number of columns to hash the characters to, by a public function.

    Returns
    -------
    DataSet
        Rows in the order benign, malware, phishing, spam, of ``n_features`` hashed columns of
        joint norm 1 and 25 lexical ones in [0, 1]; ``groups`` holds the host; there is no
        official split. Addresses of a host look alike: split by ``groups`` to see how well
        unknown hosts are judged.
    """
    owner: dict[str, str] = {}
    for kind, published in LISTS.items():
        for line in read_content(published, data_dir).decode(errors="replace").splitlines()[1:]:
            owner.setdefault(_cleaned(line), kind)
    owner.pop("", None)
    addresses = list(owner)
    runs = HashingVectorizer(
        analyzer="char", ngram_range=(3, 4), n_features=n_features, dtype=np.float32
    )
    hashed = sparse.csr_array(runs.transform(addresses))
    X = sparse.hstack([hashed, sparse.csr_array(_lexical(addresses))], format="csr")
    return DataSet(
        name="iscx_urls",
        train=LabelledRows(
            X,
            np.array([kind != "benign" for kind in owner.values()], dtype=np.int64),
            np.array([_host(address) for address in addresses]),
        ),
        test=None,
        feature_names=(*(f"hash{column}" for column in range(n_features)), *LEXICAL),
        classes=("benign", "malicious"),
        licence="cite on use",
        source=PAGE,
        description="Benign against spam, phishing and malware addresses, without duplicates.",
    )


def _cleaned(line: str) -> str:
    return _SCHEME.sub("", _ESCAPED.sub("&", line.strip().strip("\"'")))


def _host(address: str) -> str:
    return re.split("[/?#]", address, maxsplit=1)[0].lower()


def _lexical(addresses: list[str]) -> NDArray[np.float32]:
    """Return shares, yes-or-no facts and counts clipped at ten, all in [0, 1]."""
    X = np.empty((len(addresses), len(LEXICAL)), dtype=np.float32)
    for row, address in enumerate(addresses):
        size = len(address)
        host, _, port = _host(address).partition(":")
        chances = [count / size for count in Counter(address).values()]
        X[row] = (
            *(address.count(mark) / size for mark in MARKS),
            len(_DIGIT.findall(address)) / size,
            len(_CAPITAL.findall(address)) / size,
            len(host) / size,
            -sum(chance * math.log2(chance) for chance in chances) / 8,
            bool(_ADDRESS.match(host)),
            bool(port),
            "-" in host,
            bool(_DIGIT.search(host)),
            min(host.count(".") + 1, 10) / 10,
            min(address.count("/"), 10) / 10,
        )
    return X
