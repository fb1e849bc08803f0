"""Sums that are broken: parties that vanish, fail or send nonsense, and faults in our own code."""

import hashlib
import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import InvalidMessage, OperationRefused, QuorumMissed, Unpaid
from confrere.kernel.accountants import gaussian_delta
from confrere.kernel.measurements import SecureSum
from confrere.kernel.release import paying
from confrere.methods.sums import GradientRounds, check_try
from confrere.simulation import SeededSource
from confrere_federation.parties import masks as masks_module
from confrere_federation.parties import party as serving
from confrere_federation.parties import requests
from confrere_federation.parties.masks import Masking, Masks, add_masked
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.party import Policy
from tests.wire.summers import FOUR, ONE, ROUNDS, Summers, asked_for, carrier_with

# What a party does on purpose or by accident.


def test_a_party_gone_after_its_upload_is_in_that_sum_and_left_out_of_the_next(tmp_path):
    """Its bytes are there: nothing is lost, nobody pays twice, and the others go on."""
    there = Summers(tmp_path, plan=ROUNDS)
    gone = []

    def vanish(exchange, questions):
        asked = {name: c for name, c in questions.items() if name not in gone}
        replies = exchange(asked) if asked else {}
        if (
            asked_for(next(iter(questions.values())), there) == GradientRounds.operation
            and not gone
        ):
            gone.append("d")
        return {name: replies.get(name, "Timeout") for name in questions}

    federation = there.federation(carrier=carrier_with(there, vanish))
    outcome = there.learn(federation)
    assert federation._tries == {GradientRounds.operation: ROUNDS.rounds}, "no try was lost"
    assert set(outcome.sizes) == {"a", "b", "c"}
    assert [there.spent(name) for name in FOUR] == [1.0] * 4
    assert "d" in outcome.receipts, "it has paid for the sum that it was in"


def test_an_upload_that_makes_the_sum_wrap_is_refused_and_tells_nothing(tmp_path):
    """Modulo 2^64 a liar can turn the sum round; everybody sees that it is too long."""
    there = Summers(tmp_path)
    mechanism = there.mechanism()
    rng = np.random.default_rng(0)
    uploads = mechanism.uploads(np.zeros((4, mechanism.size)), source=SeededSource(0))
    for words in (1 << 63, (1 << 64) - (1 << 61), int(rng.integers(1 << 60, 1 << 63))):
        lied = uploads.copy()
        lied[3] += np.uint64(words)
        answers = {
            name: Payload(arrays={"masked": upload.view(np.int64)})
            for name, upload in zip(FOUR, lied, strict=True)
        }
        with pytest.raises(InvalidMessage, match="longer than honest parties"):
            requests.added(mechanism, answers)


@pytest.mark.parametrize("plan", [ONE, ROUNDS])
def test_a_restored_answer_file_draws_no_noise_again_for_what_was_paid_once(tmp_path, plan):
    """Attack: sizes were asked for yesterday, of which everybody's file is; a sum is, twice."""
    there = Summers(tmp_path, plan=plan)
    evidence = there.begun()
    copies = {file: file.read_bytes() for file in tmp_path.glob("*.answers*")}
    roster = there.announced(evidence)
    for name in FOUR:
        there.words(there.share(name, roster, evidence))
    for file, yesterday in copies.items():
        file.unlink()  # another inode: a file that is open notices that it has lost rows
        file.write_bytes(yesterday)
    for name in FOUR:
        there.restart(name)
    for step in range(there.mechanism().releases):
        again = there.announced(evidence, step)
        told = {there.share(name, again, evidence, step) for name in FOUR}
        assert told == {"OperationRefused:repeated"}
    assert [there.spent(name) for name in FOUR] == [1.0] * 4


# Faults in our own code: each is found by an attack on what runs.


def two_tries(there, evidence):
    """Return everyone's uploads in two tries of the same sum."""
    uploads = []
    for step in (0, 1):
        roster = there.announced(evidence, step)
        uploads.append([there.words(there.share(n, roster, evidence, step)) for n in FOUR])
    return uploads


def shows_a_party(there):
    """Attack: the difference of one party's two uploads, if their masks are the same."""
    first, second = two_tries(there, there.begun())
    apart = there.mechanism().decode(first[0] - second[0])
    return bool(np.abs(apart).max() < 1e3 * there.mechanism().deviation)


def noise_is_reused(there):
    """Attack: the difference of two sums of the same vectors, if noise is not drawn again."""
    sums = [
        there.mechanism().decode(add_masked(uploads)) for uploads in two_tries(there, there.begun())
    ]
    return bool(np.abs(sums[0] - sums[1]).min() < 1e-6 * there.mechanism().deviation)


def is_paid_back(there, monkeypatch):
    """Attack: make a try fail after the vector was computed, and look whether it was charged."""
    evidence = there.begun()
    roster = there.announced(evidence)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Masks, "hide", fail)
        assert there.share("a", roster, evidence) == "InternalError"
    return there.spent("a") == 0.0


def test_sound_code_withstands_all_three(tmp_path, monkeypatch):
    for k, attack in enumerate((shows_a_party, noise_is_reused)):
        (tmp_path / str(k)).mkdir()
        assert not attack(Summers(tmp_path / str(k), plan=ROUNDS))
    (tmp_path / "paid").mkdir()
    assert not is_paid_back(Summers(tmp_path / "paid", plan=ROUNDS), monkeypatch)


def test_streams_that_two_tries_share_are_found(tmp_path, monkeypatch):
    """Mutation: one key for all tries, and streams bound to nothing but the pair."""
    made, real = {}, Masking.ready

    def ready(self, context):
        real(self, context)
        secret = made.setdefault(self.party, self._waiting[context.key][1])
        public = secret.public_key().public_bytes_raw()
        signature = self.identity.sign(masks_module._announced(context, self.party, public))
        self._waiting[context.key] = context, secret, public + signature
        return public + signature

    monkeypatch.setattr(Masking, "ready", ready)
    there = Summers(tmp_path, plan=ROUNDS)
    assert not shows_a_party(there), "a key that is used twice is bound to its context all the same"
    (tmp_path / "unbound").mkdir()
    monkeypatch.setattr(masks_module, "_roster_digest", lambda context, keys: bytes(32))
    assert shows_a_party(Summers(tmp_path / "unbound", plan=ROUNDS))


def test_a_noised_vector_that_is_masked_again_is_found(tmp_path, monkeypatch):
    """Mutation: what was noised once is cached, and masked for every try that asks for it."""
    real, cache = SecureSum.uploads, {}

    def uploads(self, vectors, *, source):
        key = hashlib.sha256(np.asarray(vectors).tobytes()).hexdigest()
        if key not in cache:
            cache[key] = real(self, vectors, source=source)
        return cache[key]

    monkeypatch.setattr(SecureSum, "uploads", uploads)
    assert noise_is_reused(Summers(tmp_path, plan=ROUNDS))


def test_a_refund_is_found(tmp_path, monkeypatch):
    """Mutation: a try is charged once it has succeeded, so that a failed one costs nothing."""

    @contextmanager
    def late(ledger, account, price, **facts):
        class Later:
            hash = "0" * 64

            def to_dict(self):
                return {}

        yield Later()
        with paying(ledger, account, price, **facts):
            pass

    monkeypatch.setattr(serving, "paying", late)
    assert is_paid_back(Summers(tmp_path, plan=ROUNDS), monkeypatch)


# As many sums leave a party as its price was calculated for, and not one more.


def uploads_in_a_run(there, most=9):
    """Return how often a party uploads in a run in which it is asked again and again.

    By itself, without an approval or a protocol that says what is next: it counts its own tries.
    """
    own = {}
    for name in FOUR:
        party = there.local(name, there.approval(name))
        policy = Policy.anything(unit="record", neighbours="replace-one")
        masking = Masking(name, there.keys[name], there.public)
        own[name] = replace(party, masking=masking, books=replace(party.books, policy=policy))
    request, given = there.asked(), 0
    for step in range(most):
        asked = {"run": there.run, "step": step}

        def served(name, roster, asked=asked):
            told = {"roster": {one: word.hex() for one, word in roster.items()}, **asked}
            return serving.serve(request, own[name], **told)

        try:
            served("a", {n: served(n, {}).arrays["announcement"].tobytes() for n in FOUR})
        except OperationRefused:
            continue
        given += 1
    return given


def price_of_uploads(mechanism, count):
    """Return epsilon (and delta) of so many sums with the noise that each of them has."""
    rounded = count * mechanism._moved(mechanism.spacing) / mechanism.scale
    if mechanism.delta:
        mu = math.sqrt(count) * mechanism.sensitivity * mechanism.rate
        return mechanism.epsilon, float(gaussian_delta(mechanism.epsilon - rounded, mu))
    return count * mechanism.sensitivity * mechanism.rate + rounded, 0.0


def pays_for_every_try(folder, plan):
    there = Summers(folder, plan=plan)
    mechanism = there.mechanism()
    given = uploads_in_a_run(there)
    assert given == plan.rounds + plan.max_retries, "no try that was promised is refused"
    epsilon, delta = price_of_uploads(mechanism, given)
    assert epsilon <= plan.epsilon * (1 + 1e-9)
    assert delta <= plan.delta * (1 + 1e-6)
    assert epsilon >= 0.99 * plan.epsilon, "nothing that nobody can ask for is paid for"
    assert delta >= 0.99 * plan.delta, "nor with a delta, at the same epsilon"
    more_epsilon, more_delta = price_of_uploads(mechanism, given + 1)
    assert more_epsilon > plan.epsilon or more_delta > plan.delta
    assert there.spent("a") == plan.epsilon


TRIED = {
    "one message": ONE,
    "one message and a reserve": replace(ONE, max_retries=2),
    "rounds": replace(ROUNDS, max_retries=0),
    "rounds and a reserve": ROUNDS,
}


@pytest.mark.parametrize("plan", TRIED.values(), ids=TRIED)
def test_a_party_uploads_as_often_as_was_priced_however_often_it_is_asked(tmp_path, plan):
    pays_for_every_try(tmp_path, plan)


@pytest.mark.parametrize("plan", TRIED.values(), ids=TRIED)
def test_one_try_more_than_was_priced_is_not_drawn(tmp_path, monkeypatch, plan):
    """Where the protocol has forgotten to count, the ticket has not."""
    real = check_try
    monkeypatch.setattr(serving, "check_try", lambda made, step: real(made, max(0, step - 1)))
    with pytest.raises(Unpaid):
        pays_for_every_try(tmp_path, plan)


@pytest.mark.parametrize("length", [0, 2, 5000])
def test_an_upload_of_the_wrong_length_loses_the_try_and_is_not_kept(tmp_path, length):
    there = Summers(tmp_path)
    local = there.sessions["d"]._local

    class Wrong(Masking):
        def agree(self, *args, **more):
            masks = super().agree(*args, **more)
            masks.hide = lambda vector: np.zeros(length, dtype=np.uint64)
            return masks

    local.masking.__class__ = Wrong
    federation = there.federation()
    with pytest.raises(QuorumMissed, match="no try is left"):
        there.learn(federation)
    assert federation.left_out["d"] == "InvalidReply:shape"
    assert [there.spent(name) for name in FOUR] == [1.0] * 4, "who has uploaded has paid"


def test_vectors_at_their_bound_do_not_wrap_and_longer_ones_are_cut(tmp_path):
    for more in ({}, {"delta": 1e-6}, {"law": "integer"}):
        given = {"epsilon": 1.0, "size": 2, "sensitivity": 1.0, "largest": 2.0**30}
        sums = SecureSum(**given, n_parties=200, fewest=200, colluding=99, **more)
        most = np.full((200, 2), 2.0**30)
        for vectors in (most, 1e290 * most, -most):
            ((value,),) = sums.sample(vectors, SeededSource(0))
            wanted = 200 * np.clip(vectors[0], -(2.0**30), 2.0**30)
            assert np.all(np.abs(value - wanted) <= sums.longest_noise + 1)
