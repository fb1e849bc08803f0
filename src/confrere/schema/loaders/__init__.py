"""Loaders of published data sets: found or fetched, verified, and scaled by declared facts."""

from confrere.schema.loaders.bank_marketing import load_bank_marketing
from confrere.schema.loaders.brfss2015 import load_brfss2015
from confrere.schema.loaders.brfss2022 import load_brfss2022
from confrere.schema.loaders.credit_default import load_credit_default
from confrere.schema.loaders.dataset import DataSet, LabelledRows
from confrere.schema.loaders.files import data_directory
from confrere.schema.loaders.har import load_har
from confrere.schema.loaders.iscx_urls import load_iscx_urls
from confrere.schema.loaders.kdd99 import load_kdd99
from confrere.schema.loaders.mnist import load_mnist
from confrere.schema.loaders.news20 import load_news20
from confrere.schema.loaders.phishing import load_phishing
from confrere.schema.loaders.registry import LOADERS

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
