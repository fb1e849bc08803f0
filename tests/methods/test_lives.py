"""Survival: against independent fits, what leaves, and whether bands cover."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy import optimize

from confrere import Ledger, PublicSchema
from confrere.errors import InvalidData, InvalidParameter
from confrere.evaluation import evaluate
from confrere.methods.allowance import SOLVER, problem
from confrere.outcomes import Count, PrivateLinearRegression, PrivatePoissonRegression, Quantity
from confrere.outcomes.curve import SurvivalCounts
from confrere.outcomes.pieces import PiecewiseExponential
from confrere.outcomes.survival import concordance
from confrere.release import load_release
from confrere.schema import Category, Flag, Label, Number
from confrere.survival import PrivateSurvivalRegression, SurvivalCurve, TimeToEvent
from tests.world import RELATIONS

PIECES = (2.0, 5.0, 7.0, 10.0)
OUTCOME = TimeToEvent("time", event="how", happened="died", pieces=PIECES, base_rate=0.4)
FEATURES = [
    Number("age", bounds=(20, 90)),
    Flag("treated", true="yes", false="no", share=0.5),
    Number("noise", bounds=(-3, 3), missing="center"),
]
SCHEMA = PublicSchema(FEATURES, outcome=OUTCOME)


def cohort(n, seed=0):
    """Hazards of .04 a unit of time at 55, untreated; ratios of e per 20 years, and of a half."""
    generator = np.random.default_rng(seed)
    age, treated = generator.normal(55, 15, n).clip(20, 90), generator.random(n) < 0.5
    hazard = 0.04 * np.exp((age - 55) / 20 - math.log(2) * treated)
    lived, seen = generator.exponential(1 / hazard), generator.uniform(1, 20, n)
    table = {"age": age, "treated": np.where(treated, "yes", "no"), "noise": np.zeros(n)}
    how = np.where(lived <= seen, "died", "left")
    return pd.DataFrame(table | {"time": np.minimum(lived, seen), "how": how})


def test_without_noise_and_cap_it_is_the_piecewise_exponential_likelihood():
    """Every piece a Poisson count with an offset, one row a piece: written out, and minimised."""
    table, k = cohort(3000), 0.4
    signed = OUTCOME.encode(OUTCOME.column_of(table))
    X = np.column_stack([(table["age"] - 55) / 70, table["treated"] == "yes", np.full(3000, k)])
    made = problem(X * [0.6, 0.6, 1], signed, PiecewiseExponential(PIECES, k**2, 50.0), 1e-9)
    lengths, begins = np.diff([0, *PIECES]), np.array([0, *PIECES[:-1]])
    spent = np.clip(np.abs(signed)[:, None] - begins, 0, lengths)
    met = (signed[:, None] > begins) & (signed[:, None] <= PIECES)
    columns = np.repeat(X[:, None, :2] * 0.6, 4, axis=1)
    levels = np.broadcast_to(k * np.eye(4), (3000, 4, 4))
    rows = np.concatenate([columns, levels], axis=2)[spent > 0]
    events, offset = met[spent > 0], np.log(spent[spent > 0] / PIECES[-1])

    def minus_log_likelihood(w):
        means = np.exp(rows @ w + offset)
        return means.sum() - (rows @ w)[events].sum(), rows.T @ (means - events)

    found = optimize.minimize(minus_log_likelihood, np.zeros(6), jac=True, method="BFGS").x
    for _ in range(5):  # Newton's steps from there
        mean = np.exp(rows @ found + offset)
        found -= np.linalg.solve(rows.T * mean @ rows, rows.T @ (mean - events))
    np.testing.assert_allclose(SOLVER.solve(made, 1e-5)[0], found, atol=1e-6)


def test_concordance_is_that_of_all_pairs():
    # The first event before all others, the second before whoever stays at its time and later.
    assert concordance([1.0, 2.0, -2.0, 2.0, -0.5, -3.0], [3, 2, 1, 1, 9, 2]) == 6 / 8
    with pytest.raises(InvalidData, match="pairs"):
        concordance([-1.0, -2.0], [0.0, 0.0])


def test_a_model_is_paid_for_leaves_and_says_the_same_elsewhere(tmp_path):
    table, ledger = cohort(3000), Ledger()
    ledger.open_account("people", epsilon=2.0)
    model = PrivateSurvivalRegression(1.0, SCHEMA, ledger["people"]).fit(table)
    assert ledger.spent("people") == 1.0
    model.to_release().save(tmp_path / "out", allow_uncapped=True)
    card = json.loads((tmp_path / "out/card.json").read_text())
    assert card["product"]["title"] == "A model of kind survival"
    assert any("predictions: " in one for one in card["post_processing"])
    release = load_release(tmp_path / "out")
    u = release.model.decision_function(release.model.encoded(table))
    np.testing.assert_array_equal(u, model.predict(table))
    there, here = release.model.link.staying(u, [1, 3]), model.predict_survival(table, [1, 3])
    np.testing.assert_array_equal(there, here)
    assert release.model.encoder.schema.outcome == OUTCOME
    with pytest.raises(InvalidParameter, match="classes"):
        evaluate(model, table, epsilon=0.5)


AMOUNT, COUNT = Quantity("time", bounds=(0, 20)), Count("time", most=20)
LEARNED = {
    PrivateSurvivalRegression: OUTCOME,
    PrivateLinearRegression: AMOUNT,
    PrivatePoissonRegression: COUNT,
}


@pytest.mark.parametrize("estimator", LEARNED)
def test_the_program_in_every_readme_predicts_what_is_no_class(estimator, tmp_path, monkeypatch):
    schema, ledger, scope = PublicSchema(FEATURES, outcome=LEARNED[estimator]), Ledger(), {}
    ledger.open_account("people", epsilon=1.0)
    release = estimator(1.0, schema, ledger["people"]).fit(cohort(400)).to_release()
    release.save(tmp_path / "out", allow_uncapped=True)
    cells = [("age", np.float64), ("treated", object), ("noise", np.float64)]
    given = {name: cohort(40)[[name]].to_numpy(dtype=kind) for name, kind in cells}
    session = onnxruntime.InferenceSession(release.to_onnx())
    (told,) = session.run(["predicted"], given)
    own = release.model.predict_proba(release.model.encoded(cohort(40)))
    np.testing.assert_allclose(told[:, 0], own, rtol=1e-9)
    monkeypatch.chdir(tmp_path / "out")
    exec(Path("README.md").read_text().partition("```python")[2].partition("```")[0], scope)
    for told in json.loads(Path("model.json").read_text())["test_vectors"]:
        predicted = scope["predict"](told["row"])
        assert predicted == (None, pytest.approx(told["probability"], rel=1e-12))


def test_what_cannot_be_learned_is_refused_before_anything_is_spent():
    ledger = Ledger()
    ledger.open_account("people", epsilon=1.0)
    table = cohort(2).astype({"how": object})

    def refused(told, X, y=None, schema=SCHEMA, error=InvalidParameter, **how):
        with pytest.raises(error, match=told):
            PrivateSurvivalRegression(1.0, schema, ledger["people"], **how).fit(X, y)
        assert ledger.spent("people") == 0

    for wrong in ({"time": [-1.0, 2.0]}, {"time": [None, 2.0]}, {"how": [None, "x"]}):
        refused(*wrong, table.assign(**wrong), error=InvalidData)
    refused("schema", np.zeros((2, 2)), [0, 1], schema=None)
    label = PublicSchema(FEATURES, outcome=Label("how", positive="died"))
    refused("TimeToEvent", table, schema=label)
    one = TimeToEvent("time", event="how", happened="died", pieces=(5.0,))
    refused("pieces", table, schema=PublicSchema(FEATURES, outcome=one))
    refused("cap", table, cap=0.5)
    assert PublicSchema.from_toml(SCHEMA.to_toml()) == SCHEMA


ENDS = tuple(np.linspace(0, 10, 21)[1:].tolist())
COUNTED = TimeToEvent("t", event="e", pieces=ENDS)
ARM = Category("arm", values=("a", "b"), unknown="zeros", missing="center")


def people(n, seed):
    generator = np.random.default_rng(seed)
    lived, seen = generator.exponential(10, n), generator.uniform(0, 15, n)
    return pd.DataFrame({"t": np.minimum(lived, seen), "e": lived <= seen, "arm": n * ["a"]})


def test_a_person_is_one_count():
    counted, table = SurvivalCounts(COUNTED, ARM), people(50, 0).astype({"arm": object})
    before = counted.sums(table)
    assert before.sum() == 50
    for record in ((0.0, True, "a"), (1e9, True, "b"), (10.0, False, None), (5.0, False, "c")):
        table.iloc[0] = record
        assert np.abs(counted.sums(table) - before).sum() == 2
    assert [counted.point(1.0, relation).sensitivity for relation in RELATIONS] == [2, 1]


def test_without_noise_and_by_fine_pieces_it_is_kaplan_and_meiers():
    table = people(4000, 1).sort_values("t")
    fine = TimeToEvent("t", event="e", pieces=tuple(np.linspace(0, 10, 2001)[1:].tolist()))
    counted = SurvivalCounts(fine)
    found = [one.survival for one in counted.estimates(counted.sums(table), 1e-9)]
    steps = np.cumprod(1 - table["e"].to_numpy() / np.arange(4000, 0, -1))
    exact = np.append(1.0, steps)[np.searchsorted(table["t"], fine.pieces)]
    assert np.abs(np.array(found) - exact).max() < 1e-3


@pytest.mark.parametrize(("n", "epsilon"), [(600, 1.0), (3000, 0.5)])
def test_bands_cover(n, epsilon):
    truth, inside, whole = np.exp(-np.array(ENDS) / 10), [], []
    for seed in range(120):
        made = SurvivalCurve(epsilon, COUNTED, random_state=seed).fit(people(n, seed))
        found = [asdict(one) for one in made.estimates_]
        one, true = pd.DataFrame(found), truth[: len(found)]
        inside += [*((one["low"] <= true) & (true <= one["high"]))]
        whole.append(bool(np.all((one["band_low"] <= true) & (true <= one["band_high"]))))
    assert 0.92 <= np.mean(inside) <= 0.99
    assert 0.89 <= np.mean(whole) <= 1.0  # of 120 draws, .95 within three deviations


def test_any_noise_gives_curves_and_they_are_paid_for_once():
    ledger, counted = Ledger(), SurvivalCounts(COUNTED, ARM)
    ledger.open_account("people", epsilon=1.0)
    made = SurvivalCurve(1.0, COUNTED, ledger["people"], by=ARM).fit(people(2000, 0))
    assert ledger.spent("people") == made.privacy_cost().epsilon == 1.0
    assert len(made.to_csv().splitlines()) == 1 + len(made.estimates_)
    assert "without the event" in made._repr_html_()
    assert list(counted.estimates(np.zeros(counted.shape), 2.0)) == []
    noised = 300 * np.random.default_rng(0).normal(size=(50, *counted.shape))
    for one in (each for noise in noised for each in counted.estimates(noise, 2.0)):
        assert 0 <= one.band_low <= one.low + 1e-9 <= one.high + 2e-9 <= one.band_high + 3e-9
    two = [SurvivalCurve(1.0, COUNTED, random_state=k).fit(people(500, k)) for k in (1, 2)]
    assert np.array_equal(SurvivalCurve.pooled(two).counts_, two[0].counts_ + two[1].counts_)
    assert SurvivalCurve.pooled(two).deviation_ == pytest.approx(2**0.5 * two[0].deviation_)
    hidden = [SurvivalCurve(1.0, COUNTED, neighbours="add-remove", random_state=k) for k in (1, 2)]
    hidden = [each.fit(people(500, 1)) for each in hidden]
    assert SurvivalCurve.pooled(hidden).privacy_cost() == hidden[0].privacy_cost()
    with pytest.raises(InvalidParameter, match="neighbours"):
        SurvivalCurve.pooled([*two, *hidden])
