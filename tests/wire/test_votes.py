"""Parties vote or upload, a coordinator adds up; averages are priced as promised."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from confrere import CollaborativeClassifier, Ledger
from confrere.data.frame import Frame
from confrere.errors import InvalidParameter, OperationRefused, QuorumMissed
from confrere.kernel.guarantee import Unit
from confrere.kernel.noise import Body
from confrere.methods import PublicFacts
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere.methods.votes import Voting
from confrere.schema import Category, Number, PublicSchema
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import LocalFederation
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy
from tests.wire.conftest import loose_books
from tests.wire.rounds import poll
from tests.world import each

RNG = np.random.default_rng(0)
D, M, N = 3, 9, 12
X = RNG.normal(size=(M * N, D)) / 2
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=M * N) > 0, 1.0, -1.0)
OWNER = np.repeat(np.arange(M), N)
AUXILIARY = RNG.normal(size=(40, D)) / 2
FRAME = Frame(D, data_norm=1.5, constant=0.4)

PARTIES = Policy.anything(unit=Unit.PARTY, neighbours="replace-one")


def plan(epsilon=1.0, method="statistic", **kw):
    auxiliary = None if method == "weights" else AUXILIARY
    asked = {"epsilon": epsilon, "method": method, "auxiliary": auxiliary}
    return Voting(frame=FRAME, n_parties=M, **asked | kw)


CODES = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=M * N), [-0.25, 0.25])


def parties(n_classes=2):
    labels, more = Y if n_classes == 2 else CODES, {"n_classes": n_classes}
    return [
        LocalParty(f"p{k}", X[k == OWNER], labels[k == OWNER], loose_books("party"), **more)
        for k in range(M)
    ]


def test_a_lie_is_worth_no_more_than_a_vote():
    sent, paid = {"weights": np.full(D + 1, 1e300)}, True

    class Liar(LocalFederation):
        def _asked(self, asked):
            answers = super()._asked(asked)
            return answers | {"p0": Payload(answers["p0"].values if paid else {}, sent)}

    settings = {"epsilon": 1e5, "method": "weights"}
    honest = poll(LocalFederation(parties()), plan(**settings), random_state=1).released
    lied = poll(Liar(parties()), plan(**settings), random_state=1).released
    move = np.linalg.norm(lied.weights - honest.weights)
    most = plan(**settings).mechanism.sensitivity
    assert 0 < move <= most * (1 + 1e-4)  # and a step of the grid

    sent = {"ballot": np.ones(39, dtype=bool)}
    assert poll(Liar(parties()), plan(), random_state=1).left_out == {"p0": "InvalidReply:shape"}

    sent, paid = {"ballot": np.ones(40, dtype=bool)}, False
    assert poll(Liar(parties()), plan(), random_state=1).left_out == {"p0": "InvalidReply:receipt"}


def own_books(tmp_path):
    """Return parties with durable books of their own."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account("study", epsilon=100.0, unit="party")
    made = []
    for k in range(M):
        answers = Answers(tmp_path / f"p{k}.answers")
        books = PartyAccounts(ledger=ledger, account="study", policy=PARTIES, answers=answers)
        made.append(LocalParty(f"p{k}", X[k == OWNER], Y[k == OWNER], books))
    return ledger, made


def told(outcome):
    released = outcome.released
    return released.weights.tobytes(), released.alpha, outcome.receipts, outcome.left_out


def test_noise_is_drawn_once_per_run(tmp_path):
    """Two hundred polls under one run were two hundred statistics for one charge."""
    ledger, made = own_books(tmp_path)
    for _ in range(10):
        releases = Answers(tmp_path / "releases")
        last = poll(LocalFederation(made, run="r1"), plan(), releases=releases)
        first = poll(LocalFederation(made, run="r1"), plan(), releases=releases)
        np.testing.assert_array_equal(first.released.statistic, last.released.statistic)
        assert told(first) == told(last)
    assert ledger.spent("study") == M
    other = poll(LocalFederation(made, run="r2"), plan(), releases=releases)
    assert told(other) != told(first)
    assert ledger.spent("study") == 2 * M


@pytest.mark.parametrize(
    "change",
    [
        *each(alpha=(0.3,), local_alpha=(1e-3,), epsilon=(2.0,)),
        *each(method=("soft", "vote", "weights", "cells"), auxiliary=(AUXILIARY[:30],)),
        {"frame": Frame(D, data_norm=1.0, constant=0.4)},
        {"method": "soft", "auxiliary_private": True},
        {"parties": M - 1},
    ],
    ids=lambda change: ", ".join(change),
)
def test_another_plan_under_the_same_run_is_refused(tmp_path, change):
    ledger, made = own_books(tmp_path)
    releases = Answers(tmp_path / "releases")
    poll(LocalFederation(made, run="r1"), plan(), releases=releases)
    kept = {"frame": FRAME, "epsilon": 1.0, "auxiliary": AUXILIARY} | change
    asked = made[: kept.pop("parties", M)]
    if kept.get("method") == "weights":
        kept["auxiliary"] = None
    other = Voting(**kept)
    with pytest.raises(OperationRefused) as caught:
        poll(LocalFederation(asked, run="r1"), other, releases=releases)
    assert caught.value.reason == "changed"
    # A new file of releases does not help: every party was asked about the old one.
    for lost in (other, plan()):
        with pytest.raises(QuorumMissed, match="OperationRefused:changed"):
            poll(LocalFederation(asked, run="r1"), lost, releases=Answers(tmp_path / "new"))
        (tmp_path / "new").unlink()
    assert ledger.spent("study") == M


BODY_SCHEMA = PublicSchema((Number("x", bounds=(-2, 2)), Category("c", values=("a", "b"))))


def shaped(**changed):
    encoder = BODY_SCHEMA.encoder(form="linear")
    settings = {"epsilon": 1.0, "geometry": "schema", "schema": encoder, **changed}
    facts = PublicFacts(n_samples=1000, n_features=3)
    return CollaborativeClassifier(**settings).plan(facts).protocol


def test_a_body_that_cannot_be_one_has_no_price():
    good = shaped().at(Sizes({"a": 60, "b": 45, "c": 15})).frame
    parts = {name: getattr(good.body, name) for name in ("roots", "groups", "shares")}
    first, second, *rest = good.body.roots
    nearly = second.copy()
    nearly[1] = nearly[0] * (1 + 1e-12)
    wrong = {
        "rows outside the unit ball": {"roots": tuple(3 * root for root in good.body.roots)},
        "a singular root": {"roots": (first, np.full_like(second, 0.3), *rest)},
        "one that is nearly singular": {"roots": (first, nearly, *rest)},
        "no number": {"roots": (np.full_like(first, np.nan), second, *rest)},
        "too few roots": {"roots": good.body.roots[:-1]},
        "no size": {"roots": ()},
        "a share of none": {"shares": (0.0,) * len(good.body.shares)},
        "a group of none": {"groups": (7, 7, 7)},
        "a ridge of none": {"ridge": 0.0},
        "a constant of two columns": {"roots": (first, rest[0], second)},
    }

    def made(ridge=good.ridge, **more):
        return replace(good, body=Body(**parts | more), ridge=ridge)

    assert made().arrays()["roots"].tobytes() == good.arrays()["roots"].tobytes()
    for what, change in wrong.items():
        with pytest.raises(InvalidParameter) as refused:
            made(**change)
        assert str(refused.value), what


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 11, 40])
@pytest.mark.parametrize("epsilon", [1.0, 0.3, 2.2])
def test_rounds_never_spend_more_than_epsilon(make_party, rounds, epsilon):
    plan = Averaging(frame=Frame(3), epsilon=epsilon, rounds=rounds)
    part = plan.allowed(Sizes({"a": 10})).epsilon
    assert rounds * Decimal(repr(part)) <= Decimal(repr(epsilon))
    assert rounds * part == pytest.approx(epsilon, rel=1e-12)
