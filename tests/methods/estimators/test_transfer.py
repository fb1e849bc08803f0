"""Transfer: what a release brings, and which releases are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from confrere import (
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    PublicSchema,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.errors import (
    InvalidParameter,
    InvalidRelease,
    PrivacyWarning,
    SchemaMismatch,
    SignatureError,
    SimulatedRelease,
)
from confrere.estimators import ReleasedClassifier, designed
from confrere.release import CardNotes, generate_key
from confrere.schema import Number

X, Y = make_classification(n_samples=4000, n_features=10, n_informative=6, random_state=5)
X = X / 3
MAIN, BRANCH = slice(0, 3700), slice(3700, 4000)
NAMES = [f"f{j}" for j in range(10)]
SETTINGS = {"epsilon": 1.0, "data_norm": 2.0}
SCHEMA = PublicSchema(tuple(Number(name, bounds=(-2, 2)) for name in NAMES))


@pytest.fixture(scope="module")
def linear():
    return PrivateLogisticRegression(**SETTINGS).fit(X[MAIN], Y[MAIN])


@pytest.fixture(scope="module")
def stack():
    return FeatureStackingClassifier(**SETTINGS, n_groups=3).fit(X[MAIN], Y[MAIN])


def auc(model, rows=slice(0, 3700)):
    return roc_auc_score(Y[rows], model.decision_function(X[rows]))


def test_a_branch_gains_from_the_main_hospital():
    seeded = {**SETTINGS, "random_state": 3}
    linear = PrivateLogisticRegression(**seeded).fit(X[MAIN], Y[MAIN])
    stack = FeatureStackingClassifier(**seeded, n_groups=3).fit(X[MAIN], Y[MAIN])
    alone = np.mean(
        [
            auc(PrivateLogisticRegression(**SETTINGS, random_state=i).fit(X[BRANCH], Y[BRANCH]))
            for i in range(10)
        ]
    )
    near = [
        TransferClassifier(source=linear.to_release(), **seeded).fit(X[BRANCH], Y[BRANCH]),
        TransferStackingClassifier(source=stack.to_release(), random_state=3).fit(
            X[BRANCH], Y[BRANCH]
        ),
    ]
    for model in near:
        assert auc(model) > alone + 0.02
        assert len(model.sources_) == 1


def test_eta_one_forgets_the_source(linear):
    settings = {**SETTINGS, "random_state": 1, "alpha": 0.1}
    forgot = TransferClassifier(source=linear.to_release(), eta=1.0, **settings)
    alone = PrivateLogisticRegression(**settings)
    np.testing.assert_allclose(
        forgot.fit(X[BRANCH], Y[BRANCH]).coef_, alone.fit(X[BRANCH], Y[BRANCH]).coef_, atol=1e-4
    )


def test_without_own_data_the_source_is_what_remains(stack):
    settings = {"alpha": 1e6, "eta": 0.0, "prior_check": False, "random_state": 0}
    stacked = designed(TransferStackingClassifier(source=stack.to_release()), **settings)
    stacked.fit(X[BRANCH], Y[BRANCH])
    for ours, theirs in zip(stacked.low_level_, stack.low_level_, strict=True):
        np.testing.assert_allclose(ours.coef, theirs.coef, atol=1e-2)


def test_weights_are_mapped_to_the_targets_scale(linear):
    """The target may declare another bound and constant: the point is the same."""
    model = designed(
        TransferClassifier(
            source=linear.to_release(), data_norm=7.0, alpha=10000000.0, random_state=0
        ),
        intercept_scale=0.2,
        eta=0.0,
        prior_check=False,
    ).fit(X[BRANCH], Y[BRANCH])
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=1e-2)
    np.testing.assert_allclose(model.intercept_, linear.intercept_, atol=1e-2)


def test_several_sources_are_weighted_by_what_the_noise_left():
    settings = {"data_norm": 2.0, "random_state": 4}
    good = PrivateLogisticRegression(epsilon=4.0, **settings).fit(X[MAIN], Y[MAIN])
    poor = PrivateLogisticRegression(epsilon=0.2, **settings).fit(X[:300], Y[:300])
    sources = [good.to_release(), poor.to_release()]
    how = {"eta": 0.0, "alpha": 1e7, "prior_check": False, "random_state": 0}
    model = designed(TransferClassifier(source=sources), **how).fit(X[BRANCH], Y[BRANCH])
    assert np.linalg.norm(model.coef_ - good.coef_) < 0.2 * np.linalg.norm(good.coef_) + 0.05
    stacks = [
        FeatureStackingClassifier(epsilon=1.0, **settings, n_groups=3).fit(X[part], Y[part])
        for part in (slice(0, 2000), slice(2000, 4000))
    ]
    sources = [stack.to_release() for stack in stacks]
    target = TransferStackingClassifier(source=sources, random_state=5).fit(X[BRANCH], Y[BRANCH])
    assert auc(target) > 0.7
    other = FeatureStackingClassifier(**settings, n_groups=2).fit(X[MAIN], Y[MAIN]).to_release()
    with pytest.raises(SchemaMismatch, match="groups"):
        TransferStackingClassifier(source=[sources[0], other], random_state=5).fit(
            X[BRANCH], Y[BRANCH]
        )


def test_guarantees_are_separate_and_the_card_says_the_sum(linear):
    ledger = Ledger()
    ledger.open_account("branch", epsilon=1.0)
    target = TransferClassifier(
        source=linear.to_release(), eta=0.1, epsilon=0.4, budget=ledger["branch"]
    )
    with pytest.warns(PrivacyWarning, match="expected to add to the source; the source as it is"):
        target.fit(X[BRANCH], Y[BRANCH])
    assert target.guarantee_.epsilon == 0.4
    assert ledger.spent("branch") == 0.4
    release = target.to_release()
    assert release.spending.privacy_cost(parties_per_unit=2)[0] == pytest.approx(1.4)
    card = release.describe(CardNotes(parties_per_unit=2)).card
    assert card.guarantee.epsilon == pytest.approx(1.4)
    assert {"source", "target"} == set(release.parties)


def saved(model, folder, **settings):
    return model.to_release().save(folder, allow_uncapped=True, **settings)


@pytest.fixture(scope="module")
def named():
    frame = pd.DataFrame(X, columns=NAMES)
    return PrivateLogisticRegression(schema=SCHEMA, geometry="l2").fit(frame[:3700], Y[:3700])


def target(folder, **settings):
    frame = pd.DataFrame(X, columns=NAMES)
    return TransferClassifier(source=folder, **settings).fit(frame[3700:], Y[3700:])


def test_what_does_not_fit_is_refused_and_costs_nothing(named, tmp_path):
    folder = saved(named, tmp_path / "release")
    ledger = Ledger()
    settings = {"budget": ledger}
    other = PublicSchema(tuple(Number(name, bounds=(-2, 3)) for name in NAMES))
    with pytest.raises(SchemaMismatch, match="f0"):
        target(folder, schema=other, **settings)
    with pytest.raises(SchemaMismatch, match="columns"):
        TransferClassifier(source=folder, **settings).fit(X[:50, :5], Y[:50])
    swapped = pd.DataFrame(X, columns=NAMES[::-1])
    with pytest.raises(SchemaMismatch, match="column 0: source 'f0', target 'f9'"):
        TransferClassifier(source=folder, **settings).fit(swapped, Y)
    frame = pd.DataFrame(X, columns=NAMES)
    with pytest.raises(SchemaMismatch, match="classes"):
        TransferClassifier(source=folder, classes=[1, 2], **settings).fit(frame, Y + 1)
    generate_key(tmp_path / "key", "somebody")
    with pytest.raises(SignatureError):
        target(folder, source_keys={"main": tmp_path / "key.pub"}, **settings)
    with pytest.raises(InvalidParameter, match="pst-f"):
        TransferStackingClassifier(source=folder, **settings).fit(frame, Y)
    for sourceless in (TransferClassifier(**settings), ReleasedClassifier()):
        with pytest.raises(InvalidParameter, match="source"):
            sourceless.fit(X, Y)
    model = folder / "model.npz"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(bytes(content))
    with pytest.raises(InvalidRelease):
        target(folder, **settings)
    assert ledger.entries() == []


def test_a_simulated_source_is_for_simulations_only():
    source = PrivateLogisticRegression(random_state=0).fit(X, Y).to_release()
    with pytest.raises(SimulatedRelease):
        TransferClassifier(source=source).fit(X[BRANCH], Y[BRANCH])
    assert TransferClassifier(source=source, random_state=1).fit(X[BRANCH], Y[BRANCH]).simulated_


@pytest.fixture(scope="module")
def noisy():
    return PrivateLogisticRegression(epsilon=0.1, data_norm=2.0).fit(X[:300], Y[:300])


def test_nothing_is_charged_where_records_add_nothing(linear, noisy):
    """What is kept is the source's very release; a source that knows little is fitted around."""
    ledger = Ledger()
    ledger.open_account("branch", epsilon=1.0)
    how = {"budget": ledger["branch"], "data_norm": 2.0}
    source = linear.to_release()
    near = TransferClassifier(source=source, **how)
    with pytest.warns(PrivacyWarning, match="that is the model, and nothing is charged"):
        near.fit(X[BRANCH], Y[BRANCH])
    assert near.receipt_ is None
    assert ledger.entries("branch") == []
    assert near.expected_gain_ < 0.002 <= near.expected_auc_.auc
    assert near.to_release() is source
    both = near.set_params(source=[noisy.to_release(), source], random_state=0)
    assert both.fit(X[BRANCH], Y[BRANCH]).to_release() is source
    np.testing.assert_array_equal(near.coef_, linear.coef_)
    own = TransferClassifier(source=noisy.to_release(), **how).fit(X[MAIN], Y[MAIN])
    assert own.expected_gain_ >= 0.002
    assert ledger.spent("branch") == 1.0
    assert own.model_.facts.kept > noisy.model_.facts.kept
