"""Where nobody may know how many records there are, none at all is a number like any other.

Under add-remove neighbours a data set without rows is the neighbour of one with a single row: what
happens to one must happen to the other. And no error says how many records there are.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from confrere import AddRemove, Ledger, PrivateLogisticRegression
from confrere.data.frame import Frame
from confrere.estimators import designed
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere.methods.priors import Prior
from confrere.rows import Frames, open_table
from confrere.schema import Category, Flag, Label, Number, PublicSchema
from confrere_federation.parties.federation import LocalFederation
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy
from tests.contracts.catalogue import PRIVATE, maker
from tests.contracts.test_matrix import CELLS, IMPOSSIBLE, asked_of
from tests.wire.rounds import collaborate

SCHEMA = PublicSchema(
    [Number("x", bounds=(0, 1)), Category("c", values=("a", "b")), Flag("f")],
    outcome=Label("y", positive="yes", negative="no"),
)
HIDDEN = {"neighbours": AddRemove(50)}


def table(n):
    found = {"x": [0.5] * n, "c": ["a"] * n, "f": [True] * n, "y": ["yes"] * n}
    return pd.DataFrame(found).astype({"x": float, "c": object, "f": object, "y": object})


def arrays(n, width=3):
    return np.full((n, width), 0.1), np.ones(n, dtype=int)


def learned(model, *data):
    """Return what everybody sees of a fit: its price, and the shapes of what it releases."""
    ledger = Ledger()
    ledger.open_account("all", epsilon=10.0, delta=0.1, neighbours="add-remove")
    model = model.set_params(budget=ledger["all"]).fit(*data)
    (entry,) = ledger.entries()
    facts = model.model_.facts
    return {
        "price": str(model.guarantee_),
        "state": entry.state,
        "noted": entry.event,
        "shape": model.coef_.shape,
        "n": facts.n_samples,
        "noise": (facts.rho, facts.sigma, facts.ridge),
        "classes": model.classes_.tolist(),
        "features": model.model_.features,
    }


KINDS = {
    "plain": {},
    "Gaussian": {"delta": 1e-6},
    "logistic": {"purpose": "inference"},
    "three classes": {"classes": [0, 1, 2]},
    "three classes, Gaussian": {"classes": [0, 1, 2], "delta": 1e-6},
    "prior": {"prior": [1.0, 0.0, 0.0], "prior_intercept": -0.3},
    "unchecked prior": {"prior": [1.0, 0.0, 0.0], "prior_check": False},
}


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_fit_on_no_rows_looks_like_one_on_a_single_row(settings, form):
    none, one = (
        learned(designed(PrivateLogisticRegression(), **HIDDEN, **settings), form(X), y)
        for X, y in (arrays(0), arrays(1))
    )
    if "prior" in settings and settings.get("prior_check", True):
        # The fit follows from what was released before: noise, for both.
        none.pop("noise"), one.pop("noise")
    assert none == one


@pytest.mark.parametrize(
    "settings", [{}, {"geometry": "l2"}, {"geometry": "schema", "delta": 1e-6}]
)
@pytest.mark.parametrize("form", ["frame", "batches", "csv", "parquet"])
def test_a_raw_table_without_rows_looks_like_one_with_a_single_row(settings, form, tmp_path):
    if form != "frame" and settings.get("geometry") == "schema":
        settings = {"geometry": "l2", "delta": 1e-6}  # tables read in batches are in a ball
    found = []
    for n in (0, 1):
        rows = table(n)
        if form == "batches":
            rows = Frames(rows)
        elif form == "csv":
            rows.to_csv(tmp_path / f"{n}.csv", index=False)
            rows = open_table(tmp_path / f"{n}.csv")
        elif form == "parquet":
            rows.astype({"f": bool, "c": str, "y": str}).to_parquet(tmp_path / f"{n}.parquet")
            rows = open_table(tmp_path / f"{n}.parquet")
        found.append(learned(PrivateLogisticRegression(schema=SCHEMA, **HIDDEN, **settings), rows))
    assert found[0] == found[1]


def party(name, n):
    ledger = Ledger()
    ledger.open_account("all", epsilon=1.0, delta=1e-3, neighbours="add-remove")
    policy = Policy(operations=("check", "objective"), unit="record", neighbours="add-remove")
    X, y = arrays(n)
    books = PartyAccounts(ledger=ledger, policy=policy, account="all")
    return LocalParty(name, X, 2.0 * y - 1, books=books), ledger


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_party_without_rows_answers_like_one_with_a_single_row(checked, delta):
    near = {"prior": Prior(np.array([1.0, 0.0, 0.0])), "checked": True} if checked else {}
    plan = Averaging(frame=Frame(3), epsilon=1.0, delta=delta, **near)
    seen = []
    for n in (0, 1):
        (own, ledger), (other, _) = party("a", n), party("b", 200)
        federation = LocalFederation([own, other], on_error="raise")
        outcome = collaborate(federation, plan, sizes=Sizes.declared("ab", 200))
        paid = [str(receipt.guarantee) for receipt in outcome.receipts["a"]]
        seen.append((paid, [entry.state for entry in ledger.entries()], outcome.weights.shape))
    assert seen[0] == seen[1]


HIDDEN_CELLS = [
    cell
    for cell in CELLS
    if (cell.classes, cell.relation) == (2, "add-remove") and cell not in IMPOSSIBLE
]


@pytest.mark.parametrize("cell", HIDDEN_CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_nothing_that_is_planned_follows_from_hidden_sizes(cell):
    few = np.append(np.arange(35), np.arange(60, 120))  # of one party fewer than of the others
    for plain in [True, False] if cell.geometry == "ball" else [False]:
        model, data = asked_of(cell, plain=plain)
        plans = []
        for kept in (np.arange(120), few):
            some = {key: getattr(one, "iloc", one)[kept] for key, one in data.items()}
            plan, rows = model.prepare(some.pop("X"), some.pop("y", None), **some)
            form = None if plain else model.encoder_for({"all": len(kept)}).form
            plans.append((form, [repr(term.mechanism) for term in plan.terms(rows)]))
        assert plans[0] == plans[1]
    designed(model, geometry="auto")
    assert len({model.encoder_for({"all": n}).form for n in (35, 10**6)}) == 1


ROWS = 173  # a number that stands in no message


def numbers_of(error):
    return [str(ROWS + k) for k in (-1, 0, 1) if str(ROWS + k) in str(error)]


def wrong_data():
    X, y = np.random.default_rng(0).normal(size=(ROWS, 6)), np.ones(ROWS, dtype=int)
    yield "labels that are one too few", X, y[1:]
    yield "no columns", X[:, :0], y
    yield "one dimension", X[:, 0], y
    yield "no rows", X[:0], y[:0]
    yield "NaN", np.where(np.arange(6) == 2, np.nan, X), y
    yield "infinity", np.where(np.arange(6) == 2, np.inf, X), y
    yield "texts", np.full((ROWS, 6), "S3CRET", dtype=object), y
    yield "other labels", X, np.full(ROWS, 7)


@pytest.mark.parametrize("what", [what for what, *_ in wrong_data()])
@pytest.mark.parametrize("name", PRIVATE)
def test_wrong_data_cost_nothing_and_no_error_says_how_many_records_there_are(name, what):
    ledger = Ledger()
    model = maker(PRIVATE[name], {})(epsilon=1.0, budget=ledger, classes=[0, 1])
    data = next(rest for told, *rest in wrong_data() if told == what)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        model.fit(*data)
    assert not numbers_of(caught.value)
    assert "S3CRET" not in str(caught.value)
    assert what != "texts" or caught.value.__cause__ is None
    assert ledger.entries() == []
