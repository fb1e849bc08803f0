"""Plans whose fit follows from a release promise the worst of all that may follow.

Whatever a paid check returns, check and fit together cost at most what was promised, in epsilon
and in delta. Every method of the catalogue is asked; nothing is listed by hand.
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest

from confrere import AddRemove, Ledger, PrivateLogisticRegression, TransferClassifier
from confrere.catalogue import CATALOGUE
from confrere.errors import ConfrereError
from confrere.kernel.guarantee import exact
from confrere.methods import PublicFacts
from confrere.methods.priors import CheckedPlan
from confrere.schema import Category, Flag, Label, PublicSchema
from confrere_federation.studies.running import Learning, cost_of
from confrere_federation.studies.study_file import read_study, write_template
from tests.contracts.catalogue import PRIVATE, parameters
from tests.world import covering

DELTA = 1e-5
#: Where a delta buys something if nothing is known before, and nothing near a source.
FLAGS = PublicSchema(
    [*(Flag(f"f{j}") for j in range(60)), Category("c", values=("a", "b", "c"))],
    outcome=Label("y", positive=1, negative=0),
)
#: At a small budget the law hangs on what is believed; at a large one less.
PRICES = ((0.1, 10_000), (1.0, 400))


@cache
def table(n, sign=1):
    rng = np.random.default_rng(n)
    flags = rng.random((n, 60)) < 0.5
    found = pd.DataFrame(flags, columns=[f"f{j}" for j in range(60)])
    found["c"] = rng.choice(["a", "b", "c"], n)
    score = sign * (flags - 0.5).sum(axis=1)
    found["y"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return found


def answers(check):
    """Return sums that a check can release: a fine grid, and far beyond what is likely."""
    far = check.longest
    return [*np.rint(np.linspace(-far, far, 401)).tolist(), 10 * far, -10 * far]


def outcomes(check, fit):
    """Return the prices of all that may follow a check; what cannot be listed, no one promises."""
    seen = {check.belief(each) for each in answers(check)}
    listed = check.beliefs()
    assert seen <= set(listed)
    assert {min(b.factor for b in listed), max(b.factor for b in listed)} == {-1.5, 1.5}
    return [fit(belief) for belief in listed]


def every_round(averaging, sizes):
    """Return what a party of an average spends, round after round."""
    (n, *_) = sizes.counts.values()
    averaging = averaging.at(sizes)
    request = averaging.request(sizes, averaging.centre)
    return [request.mechanism(n).guarantee()] * averaging.rounds


def costs(plan):
    """Return the price of a plan's check, and what follows it: lists of prices, all to be paid."""
    if isinstance(plan, CheckedPlan):
        return plan.check.guarantee(), outcomes(plan.check, lambda b: [plan.fit(b).guarantee()])
    protocol, sizes = plan.protocol, plan.sizes
    (n, *_) = sizes.counts.values()
    together = protocol.check(sizes)
    check = protocol.prior_question(together, sizes).mechanism(n).guarantee()
    return check, outcomes(together, lambda b: every_round(protocol.after(together, b), sizes))


def assert_within(plan, promise=None):
    promise = promise or plan.guarantee()
    check, fits = costs(plan)
    for paid in fits:
        assert sum(exact(one.epsilon) for one in (check, *paid)) <= exact(promise.epsilon)
        assert sum(exact(one.delta) for one in (check, *paid)) <= exact(promise.delta)
        assert all(one.neighbours == promise.neighbours for one in paid)
    worst = max(sum(one.epsilon for one in (check, *paid)) for paid in fits)
    assert worst >= 0.999 * promise.epsilon


@cache
def source(name, geometry, delta):
    """Return a release that a transfer starts from."""
    made = CATALOGUE[name]
    delta = 0.0 if geometry == "schema" else delta
    model = made.make(epsilon=1.0, geometry=geometry, delta=delta, schema=FLAGS, random_state=0)
    return model.fit(table(20_000)).to_release()


def settings_of(method):
    """Yield price and settings: any two of law, geometry, relation and price there are together."""
    known = parameters(method.estimator)
    hidden = ("neighbours", AddRemove(500))
    for price, *settings in covering(
        product(
            PRICES,
            (("geometry", "l2"), ("geometry", "schema")),
            (("delta", 0.0), ("delta", DELTA)),
            (hidden, ()) if "neighbours" in known else ((),),
        )
    ):
        if {"geometry", "delta"} <= known:
            yield price, dict(filter(None, settings))


def plans_of(method):
    """Yield every plan with a check that the method makes."""
    for (epsilon, n), settings in settings_of(method):
        try:
            if method.shape == "transfer":
                given = {"source": source(method.source, settings["geometry"], settings["delta"])}
                model = method.make(epsilon=epsilon, schema=FLAGS, **settings, **given)
                plan, _ = model.set_params(random_state=0).prepare(table(n, -1), None)
            elif "prior" in parameters(method.estimator):
                shaped = {"schema": FLAGS} if settings["geometry"] == "schema" else {}
                width = len(FLAGS.encoder(form="linear").names) if shaped else 3
                prior = np.linspace(2.0, 0.0, width)
                model = method.make(epsilon=epsilon, prior=prior, **shaped, **settings)
                sizes = dict.fromkeys("abc", n) if method.shape == "together" else None
                plan = model.plan(PublicFacts(n_samples=n, n_features=width, sizes=sizes))
            else:
                continue
            plan.guarantee()
        except ConfrereError:
            continue  # it has no such plan, and says so
        checked = getattr(getattr(plan, "protocol", None), "checked", False)
        if checked or isinstance(plan, CheckedPlan):
            yield plan


@pytest.mark.parametrize("name", PRIVATE)
def test_every_outcome_of_a_check_costs_at_most_what_was_promised(name):
    found = list(plans_of(PRIVATE[name]))
    for plan in found:
        assert_within(plan)
    # A new method with a check is found by itself; these must not vanish unseen.
    assert bool(found) == (name in ("plr", "pst-s", "pst-f", "simcomb", "pst-h", "average"))


def test_a_source_that_does_not_hold_changes_no_law_on_an_account_without_delta(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account("main", epsilon=1.0)
    ledger.open_account("branch", epsilon=0.5)
    model = PrivateLogisticRegression(
        epsilon=1.0, geometry="schema", schema=FLAGS, budget=ledger["main"], random_state=0
    )
    released = model.fit(table(20_000)).to_release()
    for seed in range(5):
        target = TransferClassifier(
            0.1, FLAGS, ledger["branch"], source=released, eta=0.0, delta=DELTA, random_state=seed
        )
        target.fit(table(10_000, -1))
        assert target.model_.facts.prior.factor < 0
        assert target.guarantee_.delta == 0.0
        assert target.model_.facts.sigma is None


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    write_template(place, seed=0)
    return place / "study.toml"


def study_with(example, name, **method):
    text = example.read_text()
    lines = "\n".join(f"{key} = {value}" for key, value in method.items())
    path = example.with_name("asked.toml")
    path.write_text(text.replace('name = "average"', f'name = "{name}"\n{lines}'))
    return read_study(path)


STUDIES = [
    ("simcomb", {"geometry": '"schema"'}),
    ("simcomb", {"geometry": '"schema"', "delta": DELTA}),
    ("simcomb", {"delta": DELTA}),
    ("pst-h", {"geometry": '"schema"'}),
    ("pst-h", {"delta": DELTA}),
    ("plr", {"geometry": '"schema"', "delta": DELTA}),
    ("plr", {"prior": '"experts"', "delta": DELTA}),
    ("pst-f", {"prior": '"experts"'}),
]


@pytest.mark.parametrize(("name", "settings"), STUDIES)
@pytest.mark.parametrize("n_samples", [60, 3000, 60_000])
def test_a_study_says_the_price_of_every_size_and_every_outcome(example, name, settings, n_samples):
    study = study_with(example, name, **settings)
    starts = ()
    if study.method.source:
        made = CATALOGUE[study.method.source]
        first = Learning(study, made)
        rng = np.random.default_rng(0)
        sent = {
            key: rng.normal(size=shape) / np.sqrt(np.prod(shape))
            for key, (shape, _) in first.at(20_000)[1].bounds().items()
        }
        starts = (first.start(20_000, sent),)
        assert first.at(n_samples)[1].guarantee().delta <= cost_of(study).delta
    plan = Learning(study, study.method, starts).at(n_samples)[1]
    promise = cost_of(study)
    if isinstance(plan, CheckedPlan):
        assert_within(plan, promise)
    assert exact(plan.guarantee().epsilon) <= exact(promise.epsilon)
    assert exact(plan.guarantee().delta) <= exact(promise.delta)
