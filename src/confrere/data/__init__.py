"""Public facts: schemas, data-set loaders, organisations and public projections."""

from confrere.data.category import Category
from confrere.data.discrete import Flag, Ordered
from confrere.data.draft import PublicDataOnlyWarning, draft_schema
from confrere.data.encoder import SchemaEncoder
from confrere.data.expert import ExpertClassifier
from confrere.data.label import Label
from confrere.data.number import Number
from confrere.data.packaged import load_schema, schema_names
from confrere.data.projections import RandomProjection, TopFeatures
from confrere.data.public_pca import PublicPCA
from confrere.data.schema import PublicSchema

__all__ = [
    "Category",
    "ExpertClassifier",
    "Flag",
    "Label",
    "Number",
    "Ordered",
    "PublicDataOnlyWarning",
    "PublicPCA",
    "PublicSchema",
    "RandomProjection",
    "SchemaEncoder",
    "TopFeatures",
    "draft_schema",
    "load_schema",
    "schema_names",
]
