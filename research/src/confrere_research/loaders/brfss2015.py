"""UCI 891, CDC Diabetes Health Indicators: BRFSS 2015, cleaned."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from confrere_research.loaders.dataset import DataSet, Table, labelled_rows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content
from confrere_research.packaged_schemas import load_schema

PAGE = "https://archive.ics.uci.edu/dataset/891/cdc+diabetes+health+indicators"
_COLUMNS = """
    Diabetes_binary HighBP HighChol CholCheck BMI Smoker Stroke HeartDiseaseorAttack PhysActivity
    Fruits Veggies HvyAlcoholConsump AnyHealthcare NoDocbcCost GenHlth MentHlth PhysHlth DiffWalk
    Sex Age Education Income
"""
COLUMNS = _COLUMNS.split()


def _reordered(content: bytes) -> bytes:
    """Drop the archive's ID and write every number with one decimal, as first published."""
    frame = pd.read_csv(io.BytesIO(content), usecols=COLUMNS)[COLUMNS]
    text = frame.astype(np.float64).to_csv(index=False, float_format="%.1f", lineterminator="\n")
    return text.encode()


FILE = PublishedFile(
    "brfss2015_diabetes",
    "diabetes_binary_health_indicators_BRFSS2015.csv",
    "19f367e3e3350768f0c144c5d73ee5b355f67a57eaaa86ca7bd8aec594d8b1d0",
    page=PAGE,
    url="https://archive.ics.uci.edu/static/public/891/data.csv",
    convert=_reordered,
)


def load_brfss2015(data_dir: DataDir = None) -> DataSet[Table]:
    """Load CDC Diabetes Health Indicators (BRFSS 2015).

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        A table of 253,680 people and 21 numeric features; there is no official split.
    """
    schema = load_schema("brfss2015")
    rows = labelled_rows(read_content(FILE, data_dir), schema)
    return DataSet(
        name="brfss2015",
        train=rows,
        test=None,
        feature_names=tuple(rows.X.columns),
        classes=("no diabetes", "diabetes or prediabetes"),
        licence="public domain",
        source=PAGE,
        description="Telephone survey of adults in the United States, 2015; values as published.",
        schema=schema,
    )
