"""Loaders of published data sets: found or fetched, verified, and scaled by declared facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from confrere_research.loaders.bank_marketing import load_bank_marketing
from confrere_research.loaders.brfss2015 import load_brfss2015
from confrere_research.loaders.brfss2022 import load_brfss2022
from confrere_research.loaders.credit_default import load_credit_default
from confrere_research.loaders.dataset import DataSet, LabelledRows
from confrere_research.loaders.har import load_har
from confrere_research.loaders.iscx_urls import load_iscx_urls
from confrere_research.loaders.kdd99 import load_kdd99
from confrere_research.loaders.mnist import load_mnist
from confrere_research.loaders.news20 import load_news20
from confrere_research.loaders.phishing import load_phishing
from confrere_research.loaders.published_files import data_directory

#: Every loader by the name of its data set.
LOADERS: Mapping[str, Callable[..., DataSet[Any]]] = MappingProxyType(
    {
        "bank_marketing": load_bank_marketing,
        "brfss2015": load_brfss2015,
        "brfss2022": load_brfss2022,
        "credit_default": load_credit_default,
        "har": load_har,
        "iscx_urls": load_iscx_urls,
        "kdd99": load_kdd99,
        "mnist": load_mnist,
        "news20": load_news20,
        "phishing": load_phishing,
    }
)

__all__ = [
    "LOADERS",
    "DataSet",
    "LabelledRows",
    "data_directory",
    "load_bank_marketing",
    "load_brfss2015",
    "load_brfss2022",
    "load_credit_default",
    "load_har",
    "load_iscx_urls",
    "load_kdd99",
    "load_mnist",
    "load_news20",
    "load_phishing",
]
