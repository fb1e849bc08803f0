"""Asking, gathering, quorum; and the engines of one process agree with each other."""

import numpy as np
import pytest
from joblib import parallel_config

from confrere.errors import BudgetExceeded, InvalidMessage, InvalidParameter, QuorumMissed
from confrere.federation import (
    Averaging,
    Books,
    Frame,
    LocalFederation,
    PartyError,
    PartyGroup,
    Payload,
    Policy,
    average,
)
from confrere.federation.protocols import ObjectiveWeights, OutputWeights
from confrere.ledger import Ledger
from tests.unit.federation.conftest import make_data

ANYTHING = Policy.anything(unit="record", neighbours="replace-one")


@pytest.fixture
def three(make_party):
    return [
        make_party(name, n, seed=k, random_state=k)
        for k, (name, n) in enumerate([("a", 60), ("b", 45), ("c", 15)])
    ]


def plan(**changes):
    return Averaging(**{"frame": Frame(3), "epsilon": 1.0} | changes)


def test_everyone_is_asked_or_those_named(three):
    federation = LocalFederation(three)
    assert federation.parties() == ["a", "b", "c"]
    answers = federation.ask("size", Payload())
    assert {name: int(a.arrays["size"]) for name, a in answers.items()} == {
        "a": 60,
        "b": 45,
        "c": 15,
    }
    assert list(federation.ask("size", Payload(), to=["c"])) == ["c"]
    with pytest.raises(InvalidParameter):
        federation.ask("size", Payload(), to=["nobody"])


def test_errors_are_codes_without_words(make_party):
    allowed = make_party("a")
    poor = make_party("b", cap=0.1)
    strict = make_party("c", operations={"size"})
    federation = LocalFederation([allowed, poor, strict])
    request = ObjectiveWeights.of(plan().request(1.0, sizes_of(federation), None))
    answers = federation.ask("objective", request.write())
    assert isinstance(answers["a"], Payload)
    assert answers["b"] == PartyError("BudgetExceeded")
    assert answers["c"] == PartyError("OperationRefused:operation")
    with pytest.raises(QuorumMissed, match=r"1 of 3.*b: BudgetExceeded"):
        federation.gather(request, dict.fromkeys("abc", 20), quorum=0.5)
    assert list(federation.gather(request, dict.fromkeys("abc", 20), quorum=0.3)) == ["a"]
    with pytest.raises(BudgetExceeded):
        LocalFederation([poor], on_error="raise").ask("objective", request.write())


def sizes_of(federation):
    from confrere.federation.protocols import ask_sizes

    return ask_sizes(federation)


@pytest.mark.parametrize("code", ["", "two words", "x" * 65, 7, None])
def test_a_code_is_a_code(code):
    with pytest.raises(InvalidMessage):
        PartyError(code)


@pytest.mark.parametrize("quorum", [0, -1, 1.1, True])
def test_a_quorum_is_a_share_of_parties_that_have_names_of_their_own(three, quorum):
    with pytest.raises(InvalidParameter):
        LocalFederation(three).gather("size", Payload(), quorum=quorum)
    for parties in ([three[0], three[0]], []):
        with pytest.raises(InvalidParameter):
            LocalFederation(parties)


def test_jobs_and_backends_change_nothing(make_party, three):
    alone = average(LocalFederation(three, run="one"), plan()).weights
    threaded = average(LocalFederation(three, run="two", n_jobs=2), plan()).weights
    with parallel_config(backend="loky", n_jobs=2):
        elsewhere = average(LocalFederation(three, run="three"), plan()).weights
    np.testing.assert_array_equal(alone, threaded)
    np.testing.assert_array_equal(alone, elsewhere)
    assert [party.books.ledger.spent("study") for party in three] == [3.0] * 3


def group_of(sizes, *, ledger, random_state=0, d=3):
    blocks = [make_data(n, d, seed=k) for k, n in enumerate(sizes)]
    return PartyGroup(
        tuple(f"p{k}" for k in range(len(sizes))),
        np.vstack([X for X, _ in blocks]),
        np.concatenate([y for _, y in blocks]),
        np.concatenate([[0], np.cumsum(sizes)]),
        Books(ledger=ledger, account="all", policy=ANYTHING),
        random_state,
    )


@pytest.fixture
def ledger():
    book = Ledger()
    book.open_account("all", epsilon=2.0)
    return book


@pytest.mark.parametrize("settings", [{}, {"perturb": "output", "cap": 1.0}, {"perturb": "output"}])
def test_a_group_is_its_members_paid_for_once(ledger, make_party, settings):
    sizes = [30, 12, 12, 5]
    group = group_of(sizes, ledger=ledger)
    generous = plan(epsilon=1e6, alpha=0.1, **settings)
    ledger.open_account("generous")
    rich = PartyGroup(
        group.names,
        group.X,
        group.y,
        group.offsets,
        Books(ledger=ledger, account="generous", policy=ANYTHING),
        0,
    )
    members = [
        make_party(f"p{k}", n, seed=k, cap=None, random_state=k) for k, n in enumerate(sizes)
    ]
    together = average(LocalFederation(rich), generous)
    apart = average(LocalFederation(members), generous)
    # Nearly without noise both are the same minimisers, solved by different solvers.
    np.testing.assert_allclose(together.weights, apart.weights, atol=1e-3)
    assert together.sizes == apart.sizes == {"p0": 30, "p1": 12, "p2": 12, "p3": 5}

    outcome = average(LocalFederation(group), plan(epsilon=1.5, **settings))
    assert ledger.spent("all") == 1.5
    (entry,) = ledger.entries("all")
    assert "disjoint parts, split by organisation" in entry.guarantee.assumptions
    assert outcome.guarantee == entry.guarantee
    assert outcome.simulated


def test_members_of_a_group_have_noise_of_their_own(ledger):
    group = group_of([10] * 6, ledger=ledger)
    same = PartyGroup(
        group.names, np.tile(group.X[:10], (6, 1)), np.tile(group.y[:10], 6), group.offsets,
        group.books, None,
    )  # fmt: skip
    request = plan(perturb="output", epsilon=0.5)
    federation = LocalFederation(same)
    answers = federation.ask(
        "output", OutputWeights.of(request.request(0.5, sizes_of(federation), None)).write()
    )
    assert len({answer.arrays["weights"].tobytes() for answer in answers.values()}) == 6


def test_a_group_is_asked_as_a_whole(ledger):
    federation = LocalFederation(group_of([5, 5], ledger=ledger))
    with pytest.raises(InvalidParameter):
        federation.ask("size", Payload(), to=["p0"])
    assert set(
        LocalFederation(group_of([5, 5], ledger=ledger)).ask("steal", Payload()).values()
    ) == {PartyError("OperationRefused:operation")}
