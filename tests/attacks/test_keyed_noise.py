"""Noise that follows from a key: what each part of the key is for, as an attack without it.

Equal noise on two values publishes their difference. So whatever enters a value or its law is a
part of the key; left out, the attack finds the exact value. Nobody may draw twice for one charge
either, and who asks again must not learn from equal bytes whether a record has changed.
"""

import hashlib
import pickle
from contextlib import suppress
from unittest.mock import patch

import numpy as np
import pytest

from confrere import Guarantee, Ledger
from confrere.errors import InvalidParameter, LedgerError, Unpaid
from confrere.kernel import release, streams
from confrere.kernel.release import NoiseKey, mac, paying
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.noised import counts

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

    def test_words_do_not_depend_on_how_many_are_asked_for_at_once(self, ledger):
        found = []
        for pieces in ([100], [1, 2, 3, 4, 90], [33, 67]):
            with streamed(ledger, "q") as ticket:
                stream = ticket._book(ONE)
                found.append(np.concatenate([stream.words(n) for n in pieces]))
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[0], found[2])

    def test_what_samplers_make_of_words_is_of_this_version(self, ledger, monkeypatch):
        """Another sampler under equal words is another map: raise ``_NOISE`` with it."""
        monkeypatch.setattr(release, "version", lambda _: "any")
        with streamed(ledger, "q") as ticket:
            stream = ticket._book(ONE)
            drawn = [
                release.RandomSource.uniforms(stream, 5),
                streams.l2_noise(1.0, 3, stream, 2),
                streams.product_noise(1.0, (1, 3), stream),
                streams.gaussian_noise(1.0, 3, stream),
                streams.discrete_laplace(2.0**20, (4,), stream),
                streams.l2_shares(1.0, 3, 4, 2, source=stream),
                streams.laplace_shares(1.0, 3, 4, 2, source=stream),
                streams.integer_shares(2**30, 3, 4, 2, source=stream),
            ]
            held = hashlib.sha256()
            for each in drawn:
                held.update(each.astype("<f4").tobytes())  # the last bits are the machine's
        assert (release._NOISE, held.hexdigest()[:16]) == ("1", "504a3696104f0bf8")

    def test_a_short_secret_is_refused_and_a_key_stays_where_it_is(self):
        with pytest.raises(InvalidParameter):
            NoiseKey(b"short", [])
        with pytest.raises(Unpaid):
            pickle.dumps(keyed("q"))


class TestTheFence:
    def test_what_was_paid_once_is_the_same_ever_after(self, ledger):
        values = {counted(ledger, 1000, "q", "rows", key="k") for _ in range(5)}
        assert len(values) == 1
        assert ledger.spent("a") == 1.0

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
        made = counts(1.0, 1)
        terms = {"purpose": "x", "key": "k", "resumes": True}

        def draw(value, measurement=made):
            with paying(ledger, "a", made.guarantee(), keyed=keyed("q"), **terms) as ticket:
                found = ticket.draw(measurement, np.array([value]))[0][0]
                if not ended:
                    raise KeyboardInterrupt
            return int(found[0])

        with suppress(KeyboardInterrupt):
            draw(1000)
        again = counts(1.0, 1)
        other = Point(promise=again.promise, sensitivity=2)
        for attack in (lambda: draw(1001), lambda: draw(1000, other)):
            with pytest.raises(Unpaid, match="something else"):
                attack()
        with patch.object(release, "_NOISE", "2"), pytest.raises(LedgerError):
            draw(1000)
        assert ledger.spent("a") == 1.0

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
