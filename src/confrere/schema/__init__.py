"""Public facts: schemas and what encodes rows by them."""

from typing import NoReturn

from confrere.schema.data_report import DataReport, data_report
from confrere.schema.encoding import SchemaEncoder
from confrere.schema.feature import Category, Flag, Label, Number, Ordered
from confrere.schema.public_schema import (
    ExpertClassifier,
    PublicDataOnlyWarning,
    PublicSchema,
    draft_schema,
)

__all__ = [
    "Category",
    "DataReport",
    "ExpertClassifier",
    "Flag",
    "Label",
    "Number",
    "Ordered",
    "PublicDataOnlyWarning",
    "PublicSchema",
    "SchemaEncoder",
    "data_report",
    "draft_schema",
]

#: Where names went that were here before the papers' data got a distribution of their own.
_MOVED = {
    "confrere.demo": "SimulatedHospitals ruijin_like",
    "confrere_research.loaders": "LOADERS DataSet LabelledRows data_directory load_bank_marketing "
    "load_brfss2015 load_brfss2022 load_credit_default load_har load_iscx_urls load_kdd99 "
    "load_mnist load_news20 load_phishing",
    "confrere_research.organisations": "Organisations brfss_organisations split_by_column "
    "split_by_sizes",
    "confrere_research.packaged_schemas": "load_schema schema_names",
    "confrere_research.projections": "PublicPCA RandomProjection TopFeatures",
}


def __getattr__(name: str) -> NoReturn:
    for place, names in _MOVED.items():
        if name in names.split():
            install = "" if place == "confrere.demo" else " (pip install confrere-research)"
            raise ImportError(f"{name} is now in {place}: from {place} import {name}{install}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
