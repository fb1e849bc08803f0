"""Table 1: what is counted, how far a record moves it, and error bars that cover."""

import numpy as np
import pandas as pd
import pytest

from confrere import CohortSummary, PublicSchema
from confrere.assurance.cohort import ALL, CohortCounts
from confrere.kernel.guarantee import Neighbours
from confrere.methods.sums import STEPS
from confrere.schema import Category, Label, Number, Ordered

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 100), mean=52, sd=16),
        Number("bmi", bounds=(12, 60)),
        Category("smoker", values=["never", "former", "current"]),
        Ordered("stage", levels=["i", "ii", "iii"]),
    ],
    outcome=Label("ill", positive=["yes"]),
)
SITES = ("north", "south")


def cohort(n, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "site": rng.choice(SITES, n, p=[0.6, 0.4]),
            "age": rng.normal(52, 16, n).round(1),
            "bmi": rng.normal(26, 4, n),
            "smoker": rng.choice(["never", "former", "current"], n),
            "stage": rng.choice(["i", "ii", "iii"], n, p=[0.6, 0.3, 0.1]),
            "ill": np.where(rng.random(n) < 0.3, "yes", "no"),
        }
    )
    table.loc[rng.random(n) < 0.1, "bmi"] = np.nan
    return table


def summary(table, epsilon=1.0, **more):
    return CohortSummary(epsilon, SCHEMA, sites=SITES, site_column="site", **more).fit(table)


def told(estimates):
    return {(e.site, e.group, e.column, e.statistic): e for e in estimates}


def test_without_noise_the_table_is_that_of_the_records():
    table = cohort(3000)
    made = summary(table, 1e9, random_state=0)
    exact, features = told(made.estimates_), made.schema_.features
    assert (features[0], features[1].sd is None) == (
        SCHEMA.features[0],
        False,
    )  # what is declared stays
    age = table["age"].clip(18, 100)
    for site, rows in ((ALL, table.index), *table.groupby("site").groups.items()):
        one = table.loc[rows]
        near = {
            ("", "n"): len(one),
            ("age", "mean"): age[rows].mean(),
            ("bmi", "mean"): one["bmi"].clip(12, 60).mean(),
            ("bmi", "missing"): one["bmi"].isna().mean(),
            ("smoker", "= former"): (one["smoker"] == "former").mean(),
        }
        for (column, statistic), value in near.items():
            found = exact[site, ALL, column, statistic].value
            # Numbers are moved to the nearest of about a thousand points.
            assert found == pytest.approx(value, rel=1e-3), (site, column, statistic)
        assert exact[site, ALL, "age", "sd"].value == pytest.approx(age[rows].std(), rel=0.05)
        for statistic, share in (("quartile 1", 0.25), ("median", 0.5), ("quartile 3", 0.75)):
            band = exact[site, ALL, "age", statistic]
            assert band.low <= age[rows].quantile(share) <= band.high
    assert exact[ALL, "yes", "", "n"].value == pytest.approx((table["ill"] == "yes").sum())


def test_a_record_moves_all_sums_by_what_is_claimed_and_no_more():
    counts = CohortCounts(SCHEMA, SITES, "site")
    table = cohort(40, seed=3)
    table["bmi"] = table["bmi"].fillna(30.0)
    before = counts.sums(table)
    moves = []
    for row in range(20):
        for other in range(20, 40):
            changed = table.copy()
            changed.loc[row] = table.loc[other]
            moves.append(np.abs(counts.sums(changed) - before).sum())
    replaced = counts.point(1.0, Neighbours.REPLACE_ONE).sensitivity
    assert max(moves) == replaced == 2 * STEPS * (len(SCHEMA.features) + 1)
    gone = {int(np.abs(counts.sums(table.drop(index=k)) - before).sum()) for k in range(40)}
    assert gone == {counts.point(1.0, Neighbours.ADD_REMOVE).sensitivity}


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_error_bars_cover(neighbours):
    table = cohort(4000, seed=5)
    truth = told(summary(table, 1e9, random_state=0).estimates_)
    covered = {"n": [], "mean": [], "= former": [], "median": []}
    for seed in range(30):
        made = summary(table, random_state=seed, neighbours=neighbours)
        for key, one in told(made.estimates_).items():
            if one.statistic in covered and one.value is not None:
                covered[one.statistic].append(one.low <= truth[key].value <= one.high)
    for statistic, hits in covered.items():
        assert len(hits) > 250
        assert np.mean(hits) > 0.915, statistic  # 270 of 95%, dependent: 3 deviations below
    assert np.mean(covered["n"]) < 0.999  # a bar that always covers is no 95%
