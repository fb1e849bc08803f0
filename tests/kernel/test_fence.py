"""Every way that we could think of to draw noise without paying for it, tried."""

import ast
import copy
import os
import pickle
import select
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import confrere
from confrere import Guarantee, Ledger, PrivateLogisticRegression
from confrere.assurance.cohort import counts
from confrere.errors import CompositionError, InvalidData, InvalidParameter, LedgerError, Unpaid
from confrere.kernel import release
from confrere.kernel.guarantee import Neighbours, SharedSums, Split, Unit
from confrere.kernel.ledger import Payment, Receipt, Store, lock
from confrere.kernel.measurements import Part, Point, SecureSum
from confrere.kernel.noise import L2, HiddenSize, Measurement, RandomSource, integer_shares
from confrere.kernel.release import Ticket, free_ticket, paid_by_parties, paying
from confrere.ledger import LedgerReader
from confrere.ledger.witness import store_at
from confrere.simulation import SeededSource
from tests.world import ball, paid

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) / 6
Y = (X[:, 0] > 0).astype(int)
ONE = Guarantee(1.0)
HALF = Guarantee(0.5)
SUM = {"epsilon": 1.0, "size": 1, "sensitivity": 1.0, "n_parties": 3, "fewest": 3, "colluding": 1}


@pytest.fixture
def ledger():
    book = Ledger()
    book.open_account("a", epsilon=1.0)
    return book


def count(epsilon=1.0):
    return counts(epsilon, 1)


def draw(mechanism, source):
    return source.draw(mechanism, np.array([3]))[0][0]


class TestWithoutPaying:
    def test_fifty_models_for_nothing(self, ledger):
        """0.2 drew fifty real models here: ``prepare``, then ``plan.run`` with a system source."""
        model = PrivateLogisticRegression(epsilon=1.0, budget=ledger["a"])
        plan, data = model.prepare(X, Y)
        model.fit(X, Y)
        for source in (free_ticket(), ticket_after(ledger)):
            with pytest.raises(Unpaid):
                plan.run(data, source)
        assert ledger.spent("a") == 1.0

    def test_a_source_of_ones_own_is_a_simulation(self):
        words = {"_words": lambda self, count: np.zeros(count, np.uint64)}
        assert type("Mine", (RandomSource,), {"simulated": True, **words})().words(1) == 0
        for said in ({}, {"simulated": False}):
            with pytest.raises(TypeError):
                type("Mine", (RandomSource,), said | words)

    def test_what_is_only_looked_at_takes_no_charge(self, tmp_path):
        """A handle without a witness would charge a copy that was put back, unnoticed."""
        path = Ledger(tmp_path / "l").path
        with pytest.raises(Unpaid), paying(Ledger.look(path), None, ONE, purpose="x"):
            pass

    def test_a_mechanism_and_a_sampler_refuse_what_was_not_booked(self):
        ticket = free_ticket()
        rows, signs = X, 2.0 * Y - 1
        objective = ball(3, ridge=5.0)
        for act in (
            lambda: draw(count(), ticket),
            lambda: objective.sample(([rows], signs), ticket),
            lambda: ticket.draw(objective, ([rows], signs)),
            lambda: objective.act.law.draw(ticket, 1),
            lambda: L2(3).draw(1.0, ticket, 1),
            lambda: integer_shares(5, 2, 2, 1, source=ticket),
            lambda: ticket.words(1),
            lambda: ticket.uniforms(1),
            lambda: ticket.signs(1),
            lambda: ticket._words(1),
        ):
            with pytest.raises(Unpaid):
                act()

    def test_parts_of_the_fence_cannot_be_put_together_by_hand(self, ledger):
        receipt = ledger.charge("a", ONE, purpose="x")
        ledger.mark_released(receipt)
        for act in (
            lambda: Ticket(None, receipt),
            lambda: Ticket(receipt, receipt),
            lambda: release._Drawn(None, None),
            lambda: release._Drawn(release._Nothing(), None).words(1),
            lambda: Ticket(release._Nothing(), receipt)._book(ONE),
            lambda: Ticket(release._Part(release._Nothing(), [ONE]), receipt)._book(ONE).words(1),
            lambda: release._Part(None, [ONE]),
            lambda: release._Purse(ledger, receipt),
            lambda: release._Purse(None, receipt),
            lambda: release._Purse(ledger, None),
            lambda: release._Purse(Ledger(), receipt),
            lambda: release._Purse(ledger, replace(receipt, row=receipt.row + 1)),
        ):
            with pytest.raises(LedgerError):
                act()

    def test_one_payment_has_one_ticket(self, ledger):
        with paying(ledger, "a", HALF, purpose="x", key="k") as ticket:
            draw(count(0.5), ticket)
            with pytest.raises(Unpaid, match="already"):
                release._Purse(ledger, ticket.receipt)
            with (
                pytest.raises(Unpaid, match="already"),
                paying(ledger, "a", HALF, purpose="x", key="k"),
            ):
                pass
        assert ledger.spent("a") == 0.5

    def test_parties_must_have_paid_for_what_is_drawn_in_their_name(self):
        party = replace(HALF, unit=Unit.PARTY)
        receipts = [book.charge(None, party, purpose="x") for book in (Ledger(), Ledger())]
        record = Ledger().charge(None, HALF, purpose="x")
        for those, promise in (
            ([], party),
            (receipts, replace(party, epsilon=1.0)),
            (receipts, replace(party, delta=1e-6)),
            (receipts, HALF),
            ([record], HALF),
            ([record], party),
        ):
            with pytest.raises(Unpaid), paid_by_parties(those, promise):
                pass
        with paid_by_parties(receipts, party) as ticket:
            ticket._book(party).words(1)
            with pytest.raises(Unpaid):
                ticket._book(party)
        with pytest.raises(Unpaid, match="before"), paid_by_parties(receipts[:1], party):
            pass
        seeded = SeededSource(0)
        with paid_by_parties(receipts, party, seeded) as ticket:
            ticket._book(party)


RECEIPT = {"ledger_id": "other", "row": 1, "account": "a", "guarantee": ONE, "purpose": "x"}
RECEIPT |= {"time": "now", "hash": "", "simulated": False}


class Silent(LedgerReader):
    """A ledger that says yes to everything and writes nothing."""

    def __init__(self):
        super().__init__(store_at(None).open())

    def charge(self, account, guarantee, **_):
        return Receipt(**RECEIPT | {"guarantee": guarantee})

    def payment(self, receipt):
        return Payment(receipt.guarantee, open=True, sums=None, models=0)

    def mark_released(self, receipt, **_):
        pass


class TestSubclasses:
    def test_a_ledger_that_overrides_what_a_payment_asks_is_charged_all_the_same(self):
        book = Silent()
        with paying(book, None, HALF, purpose="x") as ticket:
            draw(count(0.5), ticket)
        real = Ledger(book.path)
        assert (real.spent(), real.entries()[0].state) == (0.5, "released")

    def test_a_receipt_that_a_subclass_made_up_is_in_no_file(self):
        nowhere = Silent.__new__(Silent)
        for book in (Silent(), nowhere):
            with pytest.raises(LedgerError):
                release._Purse(book, book.charge("a", ONE))
        with pytest.raises(Unpaid), paying(nowhere, None, ONE, purpose="x"):
            pass

    def test_a_store_that_answers_for_the_file(self):
        book = Silent()
        book._store = type("Yes", (Store,), {})(book.path, None)
        with pytest.raises(Unpaid), paying(book, None, ONE, purpose="x"):
            pass
        with pytest.raises(AttributeError):
            Ledger()._store.writing = None

    def test_a_guarantee_with_two_prices(self, ledger):
        cheap = type("Cheap", (Guarantee,), {"to_dict": lambda self: ONE.to_dict()})(0.01)
        with pytest.raises(InvalidParameter), paying(ledger, "a", cheap, purpose="x"):
            pass
        assert ledger.spent("a") == 0

    def test_a_receipt_that_equals_every_other(self, ledger):
        with paying(ledger, "a", ONE, purpose="x") as ticket:
            mine = ticket.receipt
            equal = {"__eq__": lambda self, other: True, "__hash__": None}
            twin = type("AnyReceipt", (Receipt,), equal)(**RECEIPT | {"row": mine.row})
            with pytest.raises(Unpaid):
                release._Purse(ledger, twin)


class Coin(Measurement):
    """Some random words, from a stream that it keeps."""

    several = None

    def __init__(self, price=HALF, several=None):
        self.price, self.several = price, several

    def guarantee(self):
        return self.price

    def sample(self, rows, stream, count=1):
        self.stream, self.part = stream, stream.stream("part", 0)
        return stream.words(count, rows)


class TestOneSampleForOnePrice:
    def test_a_stream_ends_with_its_sample(self):
        made = Coin()
        with paid(ONE) as ticket:
            assert ticket.draw(made, 3).shape == (1, 3)
            for act in (
                lambda: made.stream.words(1),
                lambda: made.sample(3, made.stream),
                lambda: made.stream.draw(made, 3),
            ):
                with pytest.raises(Unpaid):
                    act()
            ticket.draw(made, 3)
            with pytest.raises(Unpaid):
                ticket.draw(made, 3)
            assert ticket._purse.spent == (1.0, 0.0)

    @pytest.mark.parametrize("seed", [None, 0])
    def test_a_stream_that_it_hands_on_ends_with_it(self, seed):
        """Seeded ones went on after their draw."""
        made = Coin()
        simulation = None if seed is None else SeededSource(seed)
        with paying(Ledger(), None, ONE, purpose="x", simulation=simulation) as ticket:
            ticket.draw(made, 3)
            with pytest.raises(Unpaid):
                made.part.words(1)

    def test_what_a_sum_is_computed_from_sees_no_stream(self):
        sums = SecureSum(**SUM, largest=1.0)
        seen = []

        def vector(picked):
            seen.append(picked)
            return np.zeros(1)

        with paid(sums.guarantee()) as ticket:
            ticket.draw(sums.share, vector)
            assert not isinstance(seen[0], RandomSource)
            assert not any(isinstance(held, Ticket) for held in vars(seen[0]).values())
            with pytest.raises(Unpaid):
                seen[0](HiddenSize(5), 5)
            for way in (
                lambda: ticket.draw(sums.share, np.zeros(1)),
                lambda: ticket.draw(sums, np.zeros((3, 1))),
                lambda: sums.share.sample(np.zeros(1), ticket),
                lambda: sums.uploads(np.zeros((1, 1)), source=ticket),
            ):
                with pytest.raises(Unpaid):
                    way()

    def test_a_party_has_one_share_and_every_number_noise_of_its_own(self):
        """Attacks: a thousand shares at the price of one; three numbers under one draw."""
        sums = SecureSum(**SUM, largest=1.0)
        point = Point(promise=ONE, sensitivity=1.0, parts=(Part(1, 9.0),))
        for made, rows in (
            (sums.share, np.ones((1000, 1))),
            (sums, [("a", np.ones((1000, 1)))]),
            (sums, [("a", np.ones(1)), ("b", np.ones(1))]),
            (sums, [("a", np.ones(1))] * 3),
            (point, np.array([1.0, 2.0, 5.0])),
        ):
            with paid(made.guarantee()) as ticket, pytest.raises(InvalidData):
                ticket.draw(made, rows)

    def test_a_sample_that_fails_has_had_its_stream(self):
        made = Coin()
        with paid(ONE) as ticket:
            with pytest.raises((TypeError, ValueError)):
                ticket.draw(made, "three")
            with pytest.raises(Unpaid):
                made.stream.words(1)
            assert ticket._purse.spent == (0.5, 0.0)

    def test_what_does_not_say_its_price_or_has_several_of_them(self):
        with paid(ONE) as ticket:
            for act in (
                lambda: ticket.draw(lambda source: source.words(1), 1),
                lambda: ticket.draw(Coin(), 1, count=2),
                lambda: ticket.draw(Coin(replace(ONE, delta=1e-9)), 1),
            ):
                with pytest.raises(Unpaid):
                    act()
            assert ticket._purse.spent == (0.0, 0.0)
            made = Coin(ONE, ("a", 2))
            ticket.draw(made, 1), ticket.draw(made, 1)
            with pytest.raises(Unpaid):
                ticket.draw(made, 1)


class TestMoreThanWasPaid:
    @pytest.mark.parametrize(
        "dearer",
        [
            Guarantee(np.nextafter(1.0, 2)),
            Guarantee(1.0, 1e-300),
            replace(ONE, neighbours=Neighbours.ADD_REMOVE),
            replace(ONE, unit=Unit.PARTY),
        ],
        ids=["epsilon", "delta", "neighbours", "unit"],
    )
    def test_one_draw(self, dearer):
        with paid(ONE) as ticket:
            with pytest.raises(Unpaid):
                ticket._book(dearer)
            assert ticket._purse.spent == (0.0, 0.0)
            ticket._book(ONE).words(1)

    def test_in_sequence_to_the_last_bit(self):
        """Amounts add as in ledgers: as the decimals that they print as."""
        with paid(Guarantee(0.3)) as ticket:
            for _ in range(3):
                ticket._book(Guarantee(0.1))
            with pytest.raises(Unpaid):
                ticket._book(Guarantee(5e-324))

    def test_disjoint_parts_cost_what_the_dearest_does(self):
        with paid(ONE) as ticket:
            parts = ticket.apart(Split.BY_INDEX)
            first, second = next(parts), next(parts)
            first._book(HALF)
            second._book(ONE)
            first._book(HALF)
            assert ticket._purse.spent == (1.0, 0.0)
            for each in (first, second, next(parts).apart(Split.BY_INDEX), ticket):
                source = each if isinstance(each, Ticket) else next(each)
                if source is not ticket and source not in (first, second):
                    source._book(ONE)
                with pytest.raises(Unpaid):
                    source._book(HALF)

    def test_parts_need_a_split_that_cannot_look(self):
        with paid(ONE) as ticket, pytest.raises(CompositionError):
            next(ticket.apart("stratified"))
        with (
            paid(replace(ONE, neighbours=Neighbours.ADD_REMOVE)) as ticket,
            pytest.raises(CompositionError),
        ):
            next(ticket.apart(Split.BY_INDEX))

    def test_several_draws_of_one_mechanism_and_no_other(self):
        sums = SecureSum(**SUM, largest=5.0, releases=2)
        other = replace(sums, largest=6.0)
        with paid(sums.guarantee()) as ticket:
            ticket.draw(sums.share, np.zeros(1))
            with pytest.raises(Unpaid):
                ticket.draw(other.share, np.zeros(1))
            ticket.draw(sums.share, np.zeros(1))
            with pytest.raises(Unpaid):
                ticket.draw(sums.share, np.zeros(1))

    def test_many_releases_for_one_price(self):
        with paid(ONE) as ticket, pytest.raises(Unpaid, match="count"):
            ticket.draw(count(), np.array([3]), 2)

    def test_what_was_booked_pays_for_no_other_mechanism(self):
        with paid(ONE) as ticket:
            stream = ticket._book(HALF)
            with pytest.raises(Unpaid):
                draw(count(0.5), stream)


SUMS = {"purpose": "x", "key": "k", "event": SharedSums(1.0, 0.0, "a", 2, 5.0)}


class TestSeveralDrawsOfOneCharge:
    """What a run of sums has paid for goes on in later tickets: never with more than was paid."""

    @pytest.fixture
    def once(self, ledger):
        with paying(ledger, "a", ONE, **SUMS) as ticket:
            ticket._book(ONE, several=("a", 2)).words(1)
        return ledger

    def test_a_draw_that_nobody_notes_is_counted(self, once):
        with paying(once, "a", ONE, **SUMS) as ticket:
            ticket._book(ONE, several=("a", 2)).words(1)
        with paying(once, "a", ONE, **SUMS) as ticket, pytest.raises(Unpaid):
            ticket._book(ONE, several=("a", 2))
        assert once.spent("a") == 1.0

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_a_draw_before_a_failure_is_counted(self, once, error):
        with suppress(error), paying(once, "a", ONE, **SUMS) as ticket:
            ticket._book(ONE, several=("a", 2)).words(1)
            raise error
        with paying(once, "a", ONE, **SUMS) as ticket, pytest.raises(Unpaid):
            ticket._book(ONE, several=("a", 2))

    def test_they_pay_for_nothing_else_before_or_after(self, ledger):
        """A later ticket has all of the price again, for sums: what else it paid for was free."""
        with paying(ledger, "a", ONE, **SUMS) as ticket, pytest.raises(Unpaid):
            draw(count(), ticket)

    def test_a_part_of_it_is_no_new_payment(self, once):
        with paying(once, "a", ONE, **SUMS) as ticket:
            part = next(ticket.apart(Split.BY_INDEX))
            with pytest.raises(Unpaid):
                part._book(ONE)
            part._book(ONE, several=("a", 2)).words(1)
            with pytest.raises(Unpaid):
                part._book(ONE, several=("a", 2))

    def test_another_mechanism_is_another_charge(self, once):
        with paying(once, "a", ONE, **SUMS) as ticket, pytest.raises(Unpaid):
            ticket._book(ONE, several=("b", 2))


class TestElsewhereAtOnce:
    def test_threads_share_one_purse(self):
        """Tried often and switched often: two threads that book at once took all of it each."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(50):
                with paid(ONE) as ticket:
                    gate, taken = threading.Barrier(4), []

                    def take(ticket=ticket, gate=gate, taken=taken):
                        gate.wait()
                        with suppress(Unpaid):
                            taken.append(ticket._book(ONE))

                    threads = [threading.Thread(target=take) for _ in range(4)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    assert len(taken) == 1
        finally:
            sys.setswitchinterval(before)

    def test_a_forked_process_has_no_ticket(self):
        with paid(ONE) as ticket:
            stream = ticket._book(HALF)
            child = os.fork()
            if child == 0:
                drawn = 0
                for act in (lambda: ticket._book(HALF), lambda: stream.words(1)):
                    with suppress(Unpaid):
                        act()
                        drawn += 1
                os._exit(drawn)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            ticket._book(HALF)


def ticket_after(ledger):
    """A ticket whose payment has ended, with all of its price left."""
    ledger.open_account("after", epsilon=1.0)
    with paying(ledger, "after", ONE, purpose="x") as ticket:
        pass
    return ticket


class TestAfterwards:
    def test_a_ticket_ends_with_its_payment(self, ledger):
        with paying(ledger, "a", ONE, purpose="x") as ticket:
            stream = ticket._book(HALF)
            part = next(ticket.apart(Split.BY_INDEX))
        for act in (
            lambda: ticket._book(HALF),
            lambda: part._book(HALF),
            lambda: ticket.stream("x", 0)._book(HALF),
            lambda: stream.words(1),
        ):
            with pytest.raises(Unpaid):
                act()

    @pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_tickets_and_streams_are_in_one_place(self, how):
        with paid(ONE) as ticket:
            for each in (ticket, ticket._book(HALF), ticket._purse):
                with pytest.raises(Unpaid):
                    how(each)

    def test_a_key_that_was_released_draws_no_more(self, ledger):
        with paying(ledger, "a", HALF, purpose="x", key="k") as ticket:
            draw(count(0.5), ticket)
        with (
            pytest.raises(Unpaid, match="drawn before"),
            paying(ledger, "a", HALF, purpose="x", key="k"),
        ):
            pass
        assert ledger.spent("a") == 0.5

    def test_a_failed_charge_draws_no_more(self, ledger):
        with pytest.raises(ValueError, match="x"), paying(ledger, "a", HALF, purpose="x", key="k"):
            raise ValueError("x")
        with pytest.raises(Unpaid), paying(ledger, "a", HALF, purpose="x", key="k"):
            pass


def test_simulations_keep_the_same_books():
    with paying(Ledger(), None, HALF, purpose="x", simulation=SeededSource(0)) as ticket:
        assert ticket.simulated
        draw(count(0.5), ticket)
        with pytest.raises(Unpaid):
            draw(count(0.5), ticket)


SOURCE = Path(confrere.__file__).parent


def files_that_name(*names, called=False):
    """Files of the package in which a name stands, or is called."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if called:
                node = node.func if isinstance(node, ast.Call) else None
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            if name in names:
                found.add(path.relative_to(SOURCE).as_posix())
    return found


def test_randomness_of_the_system_is_in_one_file():
    assert files_that_name("urandom") == {"kernel/release.py"}
    assert files_that_name("SystemRandom", "getrandbits") == set()


def test_only_the_fence_makes_tickets():
    makers = ("Ticket", "_Purse", "_OfParties", "_Part", "_Drawn")
    assert files_that_name(*makers, called=True) == {"kernel/release.py"}


RESUMED = {"purpose": "x", "key": "k", "resumes": True}


class TestProcessesThatResume:
    """Two processes of one party find the same open charge: one of them draws."""

    @pytest.fixture
    def book(self, tmp_path):
        book = Ledger(tmp_path / "l")
        book.open_account("a", epsilon=1.0)
        with suppress(KeyboardInterrupt), paying(book, "a", HALF, **RESUMED):
            raise KeyboardInterrupt
        return book

    def child(self, book, gate):
        """Draw in another process, say so, and wait at the gate; it ends with what it drew."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            drawn = 0
            with suppress(Unpaid), paying(book, "a", HALF, **RESUMED) as ticket:
                drawn = len(ticket._book(HALF).words(1))
                os.write(tell, b"x")
                os.read(gate[0], 1)
            os._exit(drawn)
        return child, told

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_fork_that_leaves_the_block_ends_nothing(self, book, fails):
        """It freed its parent's lock, and marked what was still drawn for: another drew as well."""
        with suppress(ValueError), paying(book, "a", HALF, **RESUMED) as ticket:
            child = os.fork()
            if child == 0 and fails:
                raise ValueError("of the child")
            if child:
                os.waitpid(child, 0)
                with book.path.open("rb+") as other, pytest.raises(BlockingIOError):
                    lock(other.fileno(), ticket.receipt.row)
                assert book.entries()[0].state == "open"
                ticket._book(HALF).words(1)
        if child == 0:
            os._exit(0)
        assert book.entries()[0].state == "released"

    @pytest.mark.parametrize("killed", [False, True])
    @pytest.mark.parametrize("bytewise", [False, True])
    def test_who_comes_second_waits_and_draws_if_the_first_was_killed(
        self, book, killed, bytewise, monkeypatch
    ):
        if not bytewise:  # as where locks are of whole files
            monkeypatch.setattr(sys, "platform", "darwin")
        gate = os.pipe()
        (first, told), (second, other) = self.child(book, gate), self.child(book, gate)
        (who,) = select.select([told, other], [], [], 60)[0]
        first, second, other = (first, second, other) if who == told else (second, first, told)
        assert not select.select([other], [], [], 0.3)[0]  # it waits
        os.kill(first, signal.SIGKILL) if killed else os.write(gate[1], b"x")
        os.waitpid(first, 0)
        os.write(gate[1], b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == killed
        assert (book.spent("a"), book.entries()[0].state) == (0.5, "released")
