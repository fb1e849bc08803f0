"""Public facts: schemas, data-set loaders, organisations and public projections."""

from confrere.data.category import Category
from confrere.data.discrete import Flag, Ordered
from confrere.data.draft import PublicDataOnlyWarning, draft_schema
from confrere.data.encoder import SchemaEncoder
from confrere.data.expert import ExpertClassifier
from confrere.data.label import Label
from confrere.data.loaders import (
    LOADERS,
    DataSet,
    LabelledRows,
    data_directory,
    load_bank_marketing,
    load_brfss2015,
    load_brfss2022,
    load_credit_default,
    load_har,
    load_iscx_urls,
    load_kdd99,
    load_mnist,
    load_news20,
    load_phishing,
)
from confrere.data.number import Number
from confrere.data.organisations import (
    RUIJIN_BRANCH_SIZES,
    RUIJIN_MAIN_SIZE,
    Organisations,
    brfss_organisations,
    split_by_column,
    split_by_sizes,
)
from confrere.data.packaged import load_schema, schema_names
from confrere.data.projections import RandomProjection, TopFeatures
from confrere.data.public_pca import PublicPCA
from confrere.data.ruijin import (
    SimulatedHospitals,
    ruijin_like,
)
from confrere.data.schema import PublicSchema

__all__ = [
    "LOADERS",
    "RUIJIN_BRANCH_SIZES",
    "RUIJIN_MAIN_SIZE",
    "Category",
    "DataSet",
    "ExpertClassifier",
    "Flag",
    "Label",
    "LabelledRows",
    "Number",
    "Ordered",
    "Organisations",
    "PublicDataOnlyWarning",
    "PublicPCA",
    "PublicSchema",
    "RandomProjection",
    "SchemaEncoder",
    "SimulatedHospitals",
    "TopFeatures",
    "brfss_organisations",
    "data_directory",
    "draft_schema",
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
    "load_schema",
    "ruijin_like",
    "schema_names",
    "split_by_column",
    "split_by_sizes",
]
