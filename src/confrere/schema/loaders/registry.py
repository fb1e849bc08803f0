"""Every loader by the name of its data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from confrere.schema.loaders.bank_marketing import load_bank_marketing
from confrere.schema.loaders.brfss2015 import load_brfss2015
from confrere.schema.loaders.brfss2022 import load_brfss2022
from confrere.schema.loaders.credit_default import load_credit_default
from confrere.schema.loaders.dataset import DataSet
from confrere.schema.loaders.har import load_har
from confrere.schema.loaders.iscx_urls import load_iscx_urls
from confrere.schema.loaders.kdd99 import load_kdd99
from confrere.schema.loaders.mnist import load_mnist
from confrere.schema.loaders.news20 import load_news20
from confrere.schema.loaders.phishing import load_phishing

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
