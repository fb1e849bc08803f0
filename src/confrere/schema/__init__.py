"""Public facts: schemas, data-set loaders, organisations and public projections."""

from confrere.schema.category import Category
from confrere.schema.discrete import Flag, Ordered
from confrere.schema.draft import PublicDataOnlyWarning, draft_schema
from confrere.schema.encoder import SchemaEncoder
from confrere.schema.expert import ExpertClassifier
from confrere.schema.label import Label
from confrere.schema.loaders import (
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
from confrere.schema.number import Number
from confrere.schema.organisations import (
    RUIJIN_BRANCH_SIZES,
    RUIJIN_MAIN_SIZE,
    Organisations,
    brfss_organisations,
    split_by_column,
    split_by_sizes,
)
from confrere.schema.packaged import load_schema, schema_names
from confrere.schema.projections import RandomProjection, TopFeatures
from confrere.schema.public_pca import PublicPCA
from confrere.schema.ruijin import (
    SimulatedHospitals,
    ruijin_like,
)
from confrere.schema.schema import PublicSchema

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
