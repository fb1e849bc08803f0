"""UCI 222, Bank Marketing: whether a client subscribes a term deposit."""

from __future__ import annotations

from typing import Literal

from confrere.data.features import Category, Flag, Label, Number
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere_research.loaders.dataset import DataSet, Table, labelled_rows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content, unzip

PAGE = "https://archive.ics.uci.edu/dataset/222/bank+marketing"
URL = "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip"
FILES = {
    "full": PublishedFile(
        "bank_marketing",
        "bank-full.csv",
        "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
        page=PAGE,
        url=URL,
        convert=unzip("bank.zip", "bank-full.csv"),
    ),
    "additional": PublishedFile(
        "bank_marketing",
        "bank-additional-full.csv",
        "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        page=PAGE,
        url=URL,
        convert=unzip("bank-additional.zip", "bank-additional/bank-additional-full.csv"),
    ),
}
NOTE = "Bank Marketing by hand: values from its documentation, round numbers for bounds."
LABEL = Label("y", positive=("yes",), negative=("no",))


def _category(column: str, values: str) -> Category:
    return Category(column, values=tuple(values.split()))


JOB = _category(
    "job",
    "admin. blue-collar entrepreneur housemaid management retired self-employed services student "
    "technician unemployed unknown",
)
MONTH = _category("month", "jan feb mar apr may jun jul aug sep oct nov dec")
AGE = Number("age", bounds=(18, 95))
DURATION = Number("duration", bounds=(0, 3_600), log=True)
CAMPAIGN = Number("campaign", bounds=(1, 50), log=True)

SCHEMAS = {
    "full": PublicSchema(
        (
            AGE,
            JOB,
            _category("marital", "divorced married single"),
            _category("education", "primary secondary tertiary unknown"),
            Flag("default", true=("yes",), false=("no",)),
            Number("balance", bounds=(-2_000, 10_000)),
            Flag("housing", true=("yes",), false=("no",)),
            Flag("loan", true=("yes",), false=("no",)),
            _category("contact", "cellular telephone unknown"),
            Number("day", bounds=(1, 31)),
            MONTH,
            DURATION,
            CAMPAIGN,
            Number("pdays", bounds=(-1, 400)),
            Number("previous", bounds=(0, 20), log=True),
            _category("poutcome", "failure other success unknown"),
        ),
        LABEL,
        note=NOTE,
    ),
    "additional": PublicSchema(
        (
            AGE,
            JOB,
            _category("marital", "divorced married single unknown"),
            _category(
                "education",
                "illiterate basic.4y basic.6y basic.9y high.school professional.course "
                "university.degree unknown",
            ),
            _category("default", "no unknown yes"),
            _category("housing", "no unknown yes"),
            _category("loan", "no unknown yes"),
            _category("contact", "cellular telephone"),
            MONTH,
            _category("day_of_week", "mon tue wed thu fri"),
            DURATION,
            CAMPAIGN,
            Number("pdays", bounds=(0, 999)),
            Number("previous", bounds=(0, 20), log=True),
            _category("poutcome", "failure nonexistent success"),
            Number("emp.var.rate", bounds=(-4, 2)),
            Number("cons.price.idx", bounds=(92, 95)),
            Number("cons.conf.idx", bounds=(-51, -26)),
            Number("euribor3m", bounds=(0, 6)),
            Number("nr.employed", bounds=(4_900, 5_300)),
        ),
        LABEL,
        note=NOTE,
    ),
}


def load_bank_marketing(
    data_dir: DataDir = None, *, version: Literal["full", "additional"] = "full"
) -> DataSet[Table]:
    """Load Bank Marketing.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.
    version : {"full", "additional"}, default="full"
        45,211 clients with 16 features, or 41,188 with 20, among them economic indicators.

    Returns
    -------
    DataSet
        A table in the order of the calls; there is no official split.
    """
    if version not in FILES:
        raise InvalidParameter('version must be "full" or "additional".')
    schema = SCHEMAS[version]
    rows = labelled_rows(read_content(FILES[version], data_dir), schema, separator=";")
    return DataSet(
        name="bank_marketing",
        train=rows,
        test=None,
        feature_names=tuple(rows.X.columns),
        classes=("no", "yes"),
        licence="CC BY 4.0",
        source=PAGE,
        description="Telephone calls of a Portuguese bank, 2008 to 2010: was a deposit subscribed?",
        schema=schema,
    )
