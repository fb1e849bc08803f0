"""CDC BRFSS 2022, complete cases with the state: the real cross-organisation diabetes data."""

from __future__ import annotations

from confrere_research.loaders.dataset import DataSet, Table, labelled_rows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content
from confrere_research.packaged_schemas import load_schema

PAGE = "https://www.kaggle.com/datasets/kamilpytlak/personal-key-indicators-of-heart-disease"
FILE = PublishedFile(
    "brfss2022_state",
    "heart_2022_no_nans.csv",
    "5fd1def8d58feb0469835674c9b52c25eab61939e885f27e15f0f696e920ff33",
    page=PAGE,
)


def load_brfss2022(data_dir: DataDir = None) -> DataSet[Table]:
    """Load BRFSS 2022, complete cases, with the state of every person.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        A table of 246,022 people in 54 states and 39 columns, ``State`` among them; the label
        is ``HadDiabetes`` "Yes" against every other answer; there is no official split.

    See Also
    --------
    confrere.schema.brfss_organisations : States as a main hospital and its branches.
    """
    schema = load_schema("brfss2022")
    rows = labelled_rows(read_content(FILE, data_dir), schema)
    return DataSet(
        name="brfss2022",
        train=rows,
        test=None,
        feature_names=tuple(rows.X.columns),
        classes=("no", "diabetes"),
        licence="public domain",
        source=PAGE,
        description="Telephone survey of adults in the United States, 2022; complete cases.",
        schema=schema,
    )
