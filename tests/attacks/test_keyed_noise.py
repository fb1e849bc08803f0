"""Noise that follows from a key: what each part of the key is for, as an attack without it.

Equal noise on two values publishes their difference. So whatever enters a value or its law is a
part of the key; left out, the attack finds the exact value. Nobody may draw twice for one charge
either, and who asks again must not learn from equal bytes whether a record has changed.
"""

import hashlib
import os
import pickle
import shutil
import stat
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from confrere import Guarantee, Ledger
from confrere.assurance.cohort import counts
from confrere.data.frame import Frame
from confrere.errors import (
    ConfrereError,
    FederationError,
    InvalidData,
    InvalidParameter,
    LedgerError,
    OperationRefused,
    Unpaid,
    WitnessMismatch,
)
from confrere.kernel import noise as laws
from confrere.kernel import release
from confrere.kernel.measurements import Part, Point, SecureSum
from confrere.kernel.release import NoiseKey, mac, paying
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.masks import Masking, Masks
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy, Snapshots, serve
from confrere_federation.parties.requests import request_for
from tests.wire.conftest import make_data
from tests.wire.summers import FOUR, Summers
from tests.world import ball

SECRET = bytes(range(32))
ONE = Guarantee(1.0)


@pytest.fixture
def ledger():
    book = Ledger()
    book.open_account("a", epsilon=100.0)
    return book


def keyed(*paid, drawn=(), secret=SECRET):
    return NoiseKey(secret, [part.encode() for part in paid], [part.encode() for part in drawn])


def counted(ledger, value, *paid, key=None, epsilon=1.0, **more):
    """One released count, of a charge of its own."""
    made = counts(epsilon, 1)
    with paying(
        ledger, "a", made.guarantee(), purpose="x", key=key, keyed=keyed(*paid, **more)
    ) as ticket:
        return int(ticket.draw(made, np.array([value]))[0][0][0])


def streamed(ledger, *paid, **more):
    """The stream of one booked draw, and the ticket, inside a payment."""
    return paying(ledger, "a", ONE, purpose="x", keyed=keyed(*paid, **more))


class TestTheKey:
    def test_parts_are_told_apart_by_their_lengths(self):
        assert mac(SECRET, b"ab", b"c") != mac(SECRET, b"a", b"bc") != mac(SECRET, b"abc")
        told = [keyed("ab", "c"), keyed("a", "bc"), keyed("abc"), keyed("ab", "c", drawn=["d"])]
        assert len({key.seal(several=False) for key in told}) == 4
        assert len({key.seal(several=True) for key in told}) == 3
        assert keyed("a", drawn=["b"]).of(0, "") != keyed("a", "b").of(0, "")

    def test_same_context_same_words_and_every_part_of_it_counts(self, ledger):
        drawn = []
        for paid, more in [
            (("q", "rows"), {}),
            (("q", "rows"), {}),
            (("Q", "rows"), {}),
            (("q", "Rows"), {}),
            (("q", "rows"), {"drawn": ["try 1"]}),
            (("q", "rows"), {"secret": bytes(32)}),
        ]:
            with streamed(ledger, *paid, **more) as ticket:
                drawn.append(ticket._book(ONE).words(50).tobytes())
        assert drawn[0] == drawn[1]
        assert len(set(drawn)) == 5

    def test_purposes_values_draws_and_equal_parts_have_words_of_their_own(self, ledger):
        with streamed(ledger, "q") as ticket:
            half = Guarantee(0.5)
            first, second = ticket._book(half), ticket._book(half)
            sources = [first, second]
            for stream in (first, second):
                sources += [stream.bound("floor", [0.0]), stream.bound("floor", [0.0])]
                sources += [stream.bound("share", [0.0]), stream.bound("share", [1.0])]
                sources += [stream.bound("share", [0.0, 0.0]), stream.bound("share", [[0.0, 0.0]])]
            words = np.array([source.words(4000) for source in sources])
            assert len(np.unique(words)) == words.size
            bits = np.unpackbits(words.view(np.uint8), axis=1) - 0.5
            between = np.corrcoef(bits)[np.triu_indices(len(bits), 1)]
            assert np.abs(between).max() < 6 / np.sqrt(bits.shape[1])

    def test_a_charge_that_is_drawn_for_again_pays_for_no_further_draw(self, ledger):
        """Attacks: rows dealt before a draw, or one that failed, left a number for another one."""
        more = {"purpose": "x", "key": "k", "keyed": keyed("q"), "resumes": True}
        first, other = counts(0.5, 1), counts(1.0, 1)
        with suppress(KeyboardInterrupt), paying(ledger, "a", ONE, **more) as ticket:
            ticket.draw(other, np.array([3]))
            raise KeyboardInterrupt
        with paying(ledger, "a", ONE, **more) as ticket:
            ticket.deal(5, [0.5, 0.5])
            with pytest.raises(Unpaid):
                ticket.draw(replace(other, sensitivity=2.0), np.array([3]))
        more |= {"key": "l"}
        with paying(ledger, "a", ONE, **more) as ticket:
            with suppress(InvalidData):
                ticket.draw(first, None)
            ticket.draw(first, np.array([3]))
        with pytest.raises(Unpaid), paying(ledger, "a", ONE, **more) as ticket:
            ticket.draw(other, np.array([3]))

    def test_a_share_is_not_drawn_again_of_another_vector(self, ledger):
        """Attack: a charge that does not say that it is for sums, drawn for again by its key."""
        more = {"purpose": "x", "key": "k", "keyed": keyed("q")}
        for entry, refused in ((0.0, nullcontext()), (1.0, pytest.raises(Unpaid))):
            with refused, paying(ledger, "a", SUM.guarantee(), **more) as ticket:
                ticket.draw(SUM.share, np.full(SUM.size, entry))

    def test_what_samplers_make_of_words_is_of_this_version(self, ledger, monkeypatch):
        """Another sampler under equal words is another map: raise ``_NOISE`` with it."""
        monkeypatch.setattr(release, "version", lambda _: "any")
        with streamed(ledger, "q") as ticket:
            stream = ticket._book(ONE)
            drawn = [
                release.RandomSource.uniforms(stream, 5),
                laws.L2(3).draw(1.0, stream, 2),
                laws.product_noise(1.0, (1, 3), stream),
                laws.Gaussian(1.0, 3).draw(stream, 1),
                laws.discrete_laplace(2.0**20, (4,), stream),
                laws.l2_shares(1.0, 3, 4, 2, source=stream),
                laws.integer_shares(2**30, 3, 4, 2, source=stream),
            ]
            held = hashlib.sha256()
            for each in drawn:
                held.update(each.astype("<f4").tobytes())  # the last bits are the machine's
        assert (release._NOISE, held.hexdigest()[:16]) == ("2", "54e70d1b65acfd40")

    def test_a_short_secret_is_refused_and_a_key_stays_where_it_is(self):
        with pytest.raises(InvalidParameter):
            NoiseKey(b"short", [])
        with pytest.raises(Unpaid):
            pickle.dumps(keyed("q"))


class TestTheFence:
    def test_other_rows_under_a_charge_are_refused(self, ledger):
        counted(ledger, 1000, "q", "rows", key="k")
        for other in (("q", "other rows"), ("Q", "rows"), ("q",)):
            with pytest.raises(LedgerError, match="another charge"):
                counted(ledger, 1000, *other, key="k")
        for number in range(3):
            with pytest.raises(LedgerError, match="another charge"):
                counted(ledger, 1000, "q", "rows", key="k", drawn=[str(number)])
        assert ledger.spent("a") == 1.0

    @pytest.mark.parametrize("ended", [True, False], ids=["released", "killed before"])
    def test_who_says_the_same_and_draws_something_else_gets_nothing(self, ledger, ended):
        """Attack: one charge, one key; other rows, another measurement, another version."""
        made = counts(1e-3, 1)  # so much noise that it is not the same by chance
        terms = {"purpose": "x", "key": "k", "resumes": True}

        def draw(value, measurement=made):
            with paying(ledger, "a", made.guarantee(), keyed=keyed("q"), **terms) as ticket:
                found = ticket.draw(measurement, np.array([value]))[0][0]
                if not ended:
                    raise KeyboardInterrupt
            return int(found[0])

        with suppress(KeyboardInterrupt):
            draw(1000)
        other = Point(promise=made.promise, sensitivity=2)
        for attack in (lambda: draw(1001), lambda: draw(1000, other)):
            with pytest.raises(Unpaid, match="something else"):
                attack()
        with patch.object(release, "_NOISE", "another"), pytest.raises(LedgerError):
            draw(1000)
        assert ledger.spent("a") == made.guarantee().epsilon

    def test_without_its_seal_a_charge_that_has_ended_gives_nothing(self, ledger):
        with streamed(ledger, "q") as ticket:
            receipt = ticket.receipt
        for seal in (None, keyed("other").seal(several=False), keyed("q").seal(several=True)):
            with pytest.raises(Unpaid):
                release._Purse(ledger, receipt, seal)
        with pytest.raises(LedgerError), paying(ledger, "a", ONE, purpose="x", key="k"):
            raise LedgerError
        with (
            pytest.raises(LedgerError),
            paying(ledger, "a", ONE, purpose="x", key="k", keyed=keyed("q")),
        ):
            pass

    def test_again_is_not_more(self, ledger):
        counted(ledger, 5, "q", key="k")
        made = counts(1.0, 1)
        again = {"purpose": "x", "key": "k", "keyed": keyed("q")}
        with paying(ledger, "a", made.guarantee(), **again) as ticket:
            ticket.draw(made, np.array([5]))
            with pytest.raises(Unpaid):
                ticket.draw(made, np.array([5]))

    def test_a_part_of_a_stream_ends_with_it(self, ledger):
        kept = []

        class Keeps(type(counts(1.0, 1))):
            def sample(self, rows, stream, count=1):
                kept.append(stream.bound("floor", 1))
                return super().sample(rows, stream, count)

        made = counts(1.0, 1)
        with streamed(ledger, "q") as ticket:
            ticket.draw(Keeps(promise=made.promise, sensitivity=1), np.array([5]))
            with pytest.raises(Unpaid):
                kept[0].words(1)


# -- what each part of a key is for, with it and without ------------------------------------------


@pytest.fixture
def weak(monkeypatch):
    """Leave what a draw is for, its law and its value out of keys: the context is all there is."""
    monkeypatch.setattr(
        NoiseKey, "of", lambda self, number, purpose: mac(self._key, b"%d" % number)
    )

    def bound(self, purpose, *values):
        number = b"%d" % next(self._parts)
        own = release._Drawn(self._purse, None, None if self.key is None else mac(self.key, number))
        own._whole = self._whole
        return own

    monkeypatch.setattr(release._Drawn, "bound", bound)


def point(epsilon):
    promise = Guarantee(epsilon, theorem="docs/proofs/output_perturbation.md")
    return Point(promise=promise, sensitivity=1.0, parts=(Part(3, 10.0),))


def noised(ledger, made, value, *context):
    """What a party that says so much of a question in its key releases of a value."""
    with paying(ledger, "a", made.guarantee(), purpose="x", keyed=keyed(*context)) as ticket:
        return ticket.draw(made, value)[0][0]


VALUE = np.array([1.0, -2.0, 3.0])


def by_two_prices(ledger):
    """Attack: the same question at epsilon 1 and 2; noise of equal words is half as long."""
    one, two = noised(ledger, point(1.0), VALUE, "q"), noised(ledger, point(2.0), VALUE, "q")
    return 2 * two - one - VALUE


def by_another_map(ledger):
    """Attack: the same question before and after an upgrade that computes something else."""
    before, after = (noised(ledger, point(1.0), v, "q") for v in (VALUE, 2 * VALUE))
    return (after - before) - VALUE


def by_a_column(ledger):
    """Attack: the same question with one more record."""
    without, with_it = (noised(ledger, point(1.0), v, "q") for v in (0 * VALUE, VALUE))
    return (with_it - without) - VALUE


ATTACKS = [by_two_prices, by_another_map, by_a_column]


@pytest.mark.parametrize("attack", ATTACKS)
def test_left_out_of_the_key_it_gives_the_exact_value(ledger, weak, attack):
    assert np.abs(attack(ledger)).max() < 1e-6


@pytest.mark.parametrize("attack", ATTACKS)
def test_with_the_whole_key_it_gives_noise(ledger, attack):
    """Even where a question's own words are the same: law and value are the kernel's to bind."""
    assert np.abs(attack(ledger)).max() > 1e-3


def test_an_objective_s_noise_follows_from_version_ridge_centre_and_rows(ledger, monkeypatch):
    """Rows, too: whoever says that others are the same has other noise on them."""
    rows = np.random.default_rng(0).normal(size=(60, 3)) / 6
    signs = np.where(rows[:, 0] > 0, 1.0, -1.0)

    def minimised(rows=rows, signs=signs, **facts):
        made = ball(3, **{"ridge": 5.0} | facts)
        drawn = []
        with monkeypatch.context() as patched:
            law = type(made.act.law)
            patched.setattr(law, "draw", lambda own, *to: drawn.append(real(own, *to)) or drawn[-1])
            noised(ledger, made, ([rows], signs), "q", "rows")
        return drawn[0]

    real = type(ball(3, ridge=5.0).act.law).draw
    first = minimised()
    assert np.array_equal(first, minimised())
    others = [minimised(ridge=5.5), minimised(centre=np.ones(3)), minimised(epsilon=1.1)]
    others += [minimised(rows=np.vstack([-rows[:1], rows[1:]]))]
    others += [minimised(signs=np.append(-signs[:1], signs[1:]))]
    monkeypatch.setattr(release, "version", lambda _: "another")
    others.append(minimised())
    for other in others:
        assert np.abs(first / np.linalg.norm(first) - other / np.linalg.norm(other)).max() > 1e-3


_SHAPE = {"epsilon": 1.0, "size": 3, "sensitivity": 1.0, "largest": 10.0, "releases": 2}
SUM = SecureSum(**_SHAPE, n_parties=4, fewest=3, colluding=1)


def upload(book, party, roster, secret=SECRET):
    """A party's part of a sum before its masks, keyed by party and roster."""
    more = {"secret": secret, "drawn": [party, *roster]}
    terms = {"purpose": "x", "event": SUM.event(), "keyed": keyed("run", "rows", **more)}
    with paying(book, "a", SUM.guarantee(), **terms) as ticket:
        return ticket.draw(SUM.share, VALUE)[0]


def test_a_roster_that_is_left_out_shows_one_party_under_one_share(ledger):
    def apart(*rosters):
        sums = [
            sum(upload(ledger, name, told, mac(SECRET, name.encode())) for name in names)
            for names, told in zip(("abcd", "abc"), rosters, strict=True)
        ]
        return SUM.decode(sums[0] - sums[1])

    alone = SUM.decode(upload(ledger, "d", ["all"], mac(SECRET, b"d")))
    assert np.array_equal(apart(["all"], ["all"]), alone)
    assert np.abs(apart(["a", "b", "c", "d"], ["a", "b", "c"]) - alone).max() > 1e-3


def test_two_parties_with_one_secret_and_equal_rows_know_each_other_s_share(ledger):
    """Attack: one image, started at two organisations, with the secret in it."""
    left_out = [upload(ledger, "", ["a", "b", "c"]) for _ in "ab"]
    assert np.array_equal(*left_out)
    own = [upload(ledger, party, ["a", "b", "c"]) for party in "ab"]
    assert np.abs(SUM.decode(own[0] - own[1])).max() > 1e-3


# -- a party that is asked again, restored or run twice -------------------------------------------


class Clinic:
    """A party in a folder, which can be copied, put back, and lose parts."""

    def __init__(self, folder, *, changed=False, snapshot="1", name="clinic", until=None):
        self.folder, books = folder, folder / "books"
        books.mkdir(parents=True, exist_ok=True)
        X, y = make_data(50)
        if changed:
            X[7], y[7] = -X[7], -y[7]
        ledger = Ledger(books / "ledger", witness=folder / "witness")
        if not ledger.accounts():
            ledger.open_account("study", epsilon=10.0)
        allowed = Policy.anything(unit="record", neighbours="replace-one")
        rows = Snapshots.at(books / "keys" / "noise.secret", books / "rows", snapshot, until)
        told = {"ledger": ledger, "account": "study", "policy": allowed, "snapshots": rows}
        self.party = LocalParty(
            name, X, y, PartyAccounts(**told, answers=Answers(books / "answers"))
        )

    def ask(self, run="run", epsilon=0.5):
        plan = Averaging(frame=Frame(3), epsilon=epsilon)
        asked = request_for(plan.request(Sizes({"clinic": 50}), None))
        return serve(asked, self.party, run=run)

    def weights(self, *about, **asked):
        return self.ask(*about, **asked).arrays["weights"].tobytes()

    @property
    def spent(self):
        return self.party.books.ledger.spent("study")

    def lose(self, *names):
        for name in names:
            place = self.folder / "books" / name
            shutil.rmtree(place) if place.is_dir() else place.unlink()


def copied(folder, to):
    """A copy on another machine, whose witness is its own."""
    shutil.copytree(folder / "books", to / "books")
    return to


def test_restored_volumes_and_two_machines_give_the_same_bytes(tmp_path):
    """Attack: four restores were four draws, and the ledger showed one; so were two copies."""
    Clinic(tmp_path / "first")
    yesterday = [copied(tmp_path / "first", tmp_path / f"copy{k}") for k in range(3)]
    given = {Clinic(place).weights() for place in (tmp_path / "first", *yesterday)}
    assert len(given) == 1
    assert len({Clinic(place).weights("other") for place in yesterday}) == 1
    fresh = Clinic(tmp_path / "new")  # an image has no secret: everybody's first start makes one
    assert fresh.weights() not in given


def test_an_answer_file_that_is_lost_is_made_again_from_the_snapshot(tmp_path):
    first = Clinic(tmp_path).ask().encode()
    for changed in (False, True):
        clinic = Clinic(tmp_path, changed=changed)
        clinic.lose("answers")
        clinic = Clinic(tmp_path, changed=changed)
        assert clinic.ask().encode() == first, "receipt and all"
        assert clinic.spent == 0.5


def told(clinic):
    try:
        return clinic.ask().encode()
    except ConfrereError as error:
        return type(error), str(error), getattr(error, "reason", None)


@pytest.mark.parametrize("lost", [(), ("answers",), ("rows",), ("answers", "rows")], ids=str)
@pytest.mark.parametrize("killed", [False, True])
def test_who_asks_again_does_not_learn_whether_a_record_has_changed(tmp_path, lost, killed):
    seen = []
    Clinic(tmp_path / "start")
    with monkeypatched(killed):
        clinic = Clinic(tmp_path / "start")
        with suppress(KeyboardInterrupt):
            clinic.ask()
    for changed in (False, True):
        clinic = Clinic(copied(tmp_path / "start", tmp_path / f"{changed}"), changed=changed)
        clinic.lose(*lost)
        seen.append(told(Clinic(tmp_path / f"{changed}", changed=changed)))
        assert clinic.spent == 0.5
    if isinstance(seen[0], bytes):
        assert Payload.decode(seen[0]).digest == Payload.decode(seen[1]).digest
    else:
        assert seen[0] == seen[1]
    refuses = "rows" in lost and (killed or "answers" in lost)
    assert (seen[0][-1] == "snapshot") == refuses


@contextmanager
def monkeypatched(killed):
    """Be interrupted between the charge and the answer."""
    if not killed:
        yield
        return
    with patch.object(Answers, "keep", side_effect=KeyboardInterrupt):
        yield


def test_recomputed_of_the_rows_there_are_equal_bytes_tell_that_none_has_changed(tmp_path):
    """The attack that snapshots are for, on a party without: with certainty, at any epsilon."""
    seen = []
    for changed in (False, True):
        Clinic(tmp_path / f"{changed}")
        shutil.copytree(tmp_path / f"{changed}/books/keys", tmp_path / f"keys{changed}")
        first = Clinic(tmp_path / f"{changed}").weights()
        shutil.rmtree(tmp_path / f"{changed}/books")
        shutil.copytree(tmp_path / f"keys{changed}", tmp_path / f"{changed}/books/keys")
        shutil.rmtree(tmp_path / f"{changed}/witness")
        seen.append(Clinic(tmp_path / f"{changed}", changed=changed).weights() == first)
    assert seen == [True, False]


def test_another_snapshot_is_another_charge_and_tells_nothing_of_what_stayed(tmp_path):
    first = Clinic(tmp_path).weights()
    later = Clinic(tmp_path, snapshot="2")
    assert later.weights("next") != first, "though no record has changed"
    assert later.spent == 1.0
    assert Clinic(tmp_path, snapshot="1").weights() == first
    later.lose("answers")
    for changed in (False, True):
        with pytest.raises(LedgerError, match="another charge"):  # it was paid of the first one
            Clinic(tmp_path, snapshot="2", changed=changed).ask()


def test_a_table_of_another_length_needs_another_snapshot_before_anything_is_paid(tmp_path):
    Clinic(tmp_path).ask()
    clinic = Clinic(tmp_path)
    clinic.party = replace(clinic.party, X=clinic.party.X[1:], y=clinic.party.y[1:])
    with pytest.raises(OperationRefused, match="another number of rows"):
        clinic.ask("new")
    assert clinic.spent == 0.5


def test_when_its_approval_has_ended_a_snapshot_is_gone_and_its_name_used(tmp_path):
    soon = datetime.now(UTC) + timedelta(hours=1)
    first = Clinic(tmp_path, until=soon).weights()
    (rows,) = (tmp_path / "books/rows").iterdir()
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600
    assert Clinic(tmp_path, until=soon + timedelta(days=1)).weights("longer") == first
    Clinic(tmp_path)
    assert rows.stat().st_size
    os.utime(rows, (0, 0))
    clinic = Clinic(tmp_path)
    assert not rows.stat().st_size
    assert clinic.weights() == first, "what was sent is still in the answer file"
    with pytest.raises(OperationRefused, match="Name a new snapshot"):
        clinic.ask("new")
    assert Clinic(tmp_path, snapshot="2").ask("new")


def test_the_order_of_rows_and_the_party_s_identity_key_do_not_redraw(tmp_path):
    Clinic(tmp_path / "first")
    other = Clinic(copied(tmp_path / "first", tmp_path / "other"))
    order = np.random.default_rng(1).permutation(50)
    party = other.party
    key = Ed25519PrivateKey.generate()
    other.party = replace(
        party, X=party.X[order], y=party.y[order], masking=Masking("clinic", key, {})
    )
    assert other.weights() == Clinic(tmp_path / "first").weights()
    assert Clinic(tmp_path / "first", name="b").weights("b") != other.weights()


def test_the_secret_is_its_owner_s_alone_and_another_file_is_refused(tmp_path):
    Clinic(tmp_path)
    secret = tmp_path / "books/keys/noise.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    secret.write_bytes(b"x" * 31)
    with pytest.raises(FederationError, match="secret"):
        Clinic(tmp_path)


def test_a_restored_party_of_a_sum_gives_the_same_value_under_fresh_masks(tmp_path, monkeypatch):
    """Never a second draw: of all files, a value under masks that others do not undo."""
    values, hide = [], Masks.hide
    monkeypatch.setattr(Masks, "hide", lambda masks, one: values.append(one) or hide(masks, one))
    (tmp_path / "there").mkdir()
    there = Summers(tmp_path / "there")
    evidence = there.begun()
    shutil.copytree(tmp_path / "there", tmp_path / "yesterday")
    masked = []
    for witness in ("now", "then", "late"):
        (tmp_path / witness).mkdir()
        monkeypatch.setenv("CONFRERE_WITNESS", str(tmp_path / witness))
        shutil.rmtree(tmp_path / "there")
        shutil.copytree(tmp_path / "yesterday", tmp_path / "there")
        for name in FOUR:
            there.restart(name)
        names = FOUR[:3] if witness == "late" else FOUR
        roster = there.announced(evidence, names=names)
        masked.append(there.words(there.share("a", roster, evidence)))
    first, second, third = values
    assert np.array_equal(first, second)
    assert not np.array_equal(masked[0], masked[1])
    apart = there.mechanism().decode(first - third)
    assert np.abs(apart).max() > 1e-3, "another roster is another draw"


def test_a_restored_volume_is_noticed_all_the_same(tmp_path):
    """Its ledger has forgotten other questions: the witness stays."""
    Clinic(tmp_path / "a")
    shutil.copytree(tmp_path / "a/books", tmp_path / "yesterday")
    Clinic(tmp_path / "a").ask()
    shutil.rmtree(tmp_path / "a/books")
    shutil.copytree(tmp_path / "yesterday", tmp_path / "a/books")
    with pytest.raises(WitnessMismatch):
        Clinic(tmp_path / "a").ask()
