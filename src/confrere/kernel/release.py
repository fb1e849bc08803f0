"""Charge, draw, mark: the only place where real randomness is.

Noise for a release is drawn through a ticket, and a ticket comes from a charge that is on disk.
Every mechanism books what it costs itself before it draws; what would cost more than was paid, in
epsilon or in delta, is refused before a single random word is there. Simulations keep the same
books. Between machines noise follows from a key (:class:`NoiseKey`): whoever is asked again,
restored from a copy or run twice gives the same bytes. Else the system gives the key.
"""

from __future__ import annotations

import hmac
import os
import re
import threading
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import count as numbers
from typing import NoReturn, Unpack, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.errors import InvalidParameter, LedgerError, Unpaid
from confrere.kernel.guarantee import Amount, Guarantee, SharedSums, Split, Unit, check_split
from confrere.kernel.ledger import ONE_AT_A_TIME, Origin, Payment, Receipt, Store, Terms, held
from confrere.kernel.noise import Measurement, R, RandomSource, T

#: Who draws for what: a process, its thread, a ledger and a row of it.
_UNDER_WAY: set[tuple[int, int, str, int]] = set()
#: Payments of parties that were drawn for here: their own ledgers cannot say it.
_DRAWN_FOR: set[tuple[str, int]] = set()


def _own(ledger: object) -> Store:
    """Return what writes and reads a ledger's rows, whatever the ledger itself would answer."""
    store = getattr(ledger, "__dict__", {}).get("_store")
    if type(store) is not Store or (store.lasts and store.witness is None):
        raise Unpaid("noise is drawn for a receipt that stands in a ledger; there is none.")
    return store


#: Of samplers and of what is hashed here; a test holds the words that it gives.
_NOISE = "2"


def mac(key: bytes, *parts: bytes) -> bytes:
    """Return HMAC-SHA256 of parts, each after its length: no other parts are the same bytes."""
    told = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, told, "sha256")


class _OfOnePlace:
    def __reduce__(self) -> NoReturn:
        raise Unpaid("what was paid for is drawn in one place: it cannot be copied, saved or sent.")


@final
class NoiseKey(_OfOnePlace):
    """What a party's noise follows from: its secret, what is asked, and of which rows."""

    def __init__(self, secret: bytes, paid: Sequence[bytes], drawn: Sequence[bytes] = ()) -> None:
        if type(secret) is not bytes or len(secret) < 32:
            raise InvalidParameter("secret must be 32 random bytes.")
        made = (_NOISE.encode(), version("confrere").encode())
        told = mac(secret, b"paid", *paid), mac(secret, b"drawn", *drawn)
        self._key = mac(secret, b"noise", *made, *told)
        both = mac(secret, *told), told[0]
        self._seals = [mac(secret, b"seal", *made, one).hex() for one in both]

    def seal(self, *, several: bool) -> str:
        """Return what a charge's row holds; of a charge for several draws, what they share."""
        return self._seals[several]

    def of(self, number: int, purpose: str) -> bytes:
        return mac(self._key, str(number).encode(), purpose.encode())


def _told(found: object) -> list[bytes]:
    """Return parts that tell arrays, or lists of them, apart."""
    if isinstance(found, list | tuple):
        return [mac(b"", *_told(one)) for one in found]
    array = np.asarray(found)
    return [f"{array.dtype.str} {array.shape}".encode(), array.tobytes()]


def _fresh_words(count: int) -> NDArray[np.uint64]:
    return _counted_words(os.urandom(32), 0, count)  # faster than the system's own, by far


def _counted_words(key: bytes, start: int, count: int) -> NDArray[np.uint64]:
    """Return words of AES-256 in counter mode, from one of them on."""
    block = (start // 2).to_bytes(16, "big")
    stream = Cipher(algorithms.AES(key), modes.CTR(block)).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * (count + start % 2))), dtype="<u8")
    return words[start % 2 :].astype(np.uint64)


class _Purse(_OfOnePlace):
    """What may still be drawn for a payment; once it has ended, the same bytes, or nothing."""

    def __init__(
        self, ledger: object, receipt: Receipt, keyed: NoiseKey | None = None, seal: str = ""
    ) -> None:
        if type(receipt) is not Receipt:
            raise Unpaid("noise is drawn for a receipt that stands in a ledger; there is none.")
        self.receipt, self.keyed, self.store = receipt, keyed, (book := _own(ledger))
        who = (os.getpid(), threading.get_ident(), receipt.ledger_id, receipt.row)
        if who in _UNDER_WAY:
            raise Unpaid("this payment has its ticket already.")
        book.payment(receipt)  # it is one of this ledger's
        with ExitStack() as stack:
            stack.enter_context(held(book.path, receipt.row))  # others wait, in whatever process
            _UNDER_WAY.add(who)
            stack.callback(_UNDER_WAY.discard, who)
            payment = book.payment(receipt)
            if not payment.open and payment.sums is None:
                if not seal or payment.noise != seal:
                    raise Unpaid("what this receipt paid for was drawn before.")
                payment = payment._replace(open=True)
            self._held = stack.pop_all()
        self._begin(payment.guarantee, payment)

    #: Of purses that no charge of this ledger is behind, none.
    store: Store | None = None
    receipt: Receipt | None = None
    keyed: NoiseKey | None = None
    #: What keeps others from drawing for the payment.
    _held: ExitStack | None = None

    def _begin(self, promise: Guarantee | None, payment: Payment | None = None) -> None:
        self.promise, self.payment, self.spent = promise, payment, Amount()
        self.draws: dict[str, int] = {}
        #: Of draws, in their order, and of deals of rows, whatever has parts of the payment
        self.numbers: defaultdict[str, Iterator[int]] = defaultdict(numbers)
        self._over, self._process = False, os.getpid()

    @property
    def over(self) -> bool:
        """Whether the payment has ended, or this is a fork of the process that it is good in."""
        return self._over or self._process != os.getpid()

    def end(self) -> None:
        self._over = True
        if self._held is not None:
            self._held.close()

    def book(self, guarantee: Guarantee, several: tuple[str, int] | None = None) -> None:
        """Take what a draw costs, or refuse it; ``several`` as in :class:`Measurement`."""
        paid = self.payment
        with ONE_AT_A_TIME:  # or two threads would take the same rest
            if several is None:
                if paid is not None and (paid.sums is not None or not paid.open):
                    raise Unpaid("what was paid for was drawn before, or it is several sums.")
                self._take(guarantee)
                return
            mechanism, times = several
            if paid is not None and paid.sums not in (None, mechanism):
                raise Unpaid("several draws were paid for, of another mechanism.")
            used = self.draws.get(mechanism, 0 if paid is None else paid.models)
            if used >= times:
                raise Unpaid("every draw that was paid for has been made.")
            if mechanism not in self.draws:
                self._take(guarantee)
            self.draws[mechanism] = used + 1

    def _take(self, guarantee: Guarantee) -> None:
        if self.over:
            raise Unpaid("the payment is over; what is drawn after it has a price of its own.")
        if self.promise is None or self.promise.kind != guarantee.kind:
            raise Unpaid(f"nothing was paid for {guarantee}.")
        if not self.take(guarantee.amount):
            told = f"{guarantee} is more than is left of what was paid, {self.promise}"
            raise Unpaid(f"{told}; nothing was drawn.")

    def take(self, price: Amount) -> bool:
        """Add to what is spent if the promise covers it, and say whether it does."""
        assert self.promise is not None
        more = self.spent.plus(price)
        fits = self.promise.amount.covers(more)
        self.spent = more if fits else self.spent
        return fits


class _Part(_Purse):
    """The purse of a disjoint part; ``largest`` is what the dearest has spent, hence all."""

    def __init__(self, whole: _Purse, largest: list[Amount]) -> None:
        if not isinstance(whole, _Purse):
            raise Unpaid("a part is of something that was paid.")
        self.whole, self.largest = whole, largest
        self._begin(whole.promise, whole.payment)
        self.numbers, self.store = whole.numbers, whole.store
        self.receipt, self.keyed = whole.receipt, whole.keyed
        if whole.payment is not None and whole.payment.sums is not None:
            self.draws = whole.draws

    @property
    @override
    def over(self) -> bool:
        return self.whole.over

    @override
    def take(self, price: Amount) -> bool:
        more, (most,) = self.spent.plus(price), self.largest
        raised = Amount(*map(max, more, most))
        fits = self.whole.take(raised.minus(most))
        if fits:
            self.largest[0], self.spent = raised, more
        return fits


class _OfParties(_Purse):
    """What parties have paid to whoever adds up their answers, and draws the noise for all."""

    def __init__(self, receipts: Sequence[Receipt], promise: Guarantee, real: bool) -> None:
        whole = promise.unit is Unit.PARTY and all(r.guarantee.covers(promise) for r in receipts)
        if not receipts or not whole:
            raise Unpaid("the parties have not paid for what is to be drawn in their name.")
        places = {(one.ledger_id, one.row) for one in receipts if real}
        with ONE_AT_A_TIME:
            if not places.isdisjoint(_DRAWN_FOR):
                raise Unpaid("what these parties paid for was drawn before.")
            _DRAWN_FOR.update(places)
        self._begin(promise)


class _Nothing(_Purse):
    def __init__(self) -> None:
        self._begin(None)


class _Paid(_OfOnePlace, RandomSource):
    """A source that a payment stands behind, or a simulation that keeps its books."""

    def __init__(self, purse: _Purse, simulation: RandomSource | None = None) -> None:
        if not isinstance(purse, _Purse):
            raise Unpaid("what is drawn is paid for.")
        self._purse, self._simulation, self.simulated = purse, simulation, simulation is not None

    @abstractmethod
    def _part(self, simulation: RandomSource | None) -> RandomSource:
        """Return a source of the same payment."""

    @override
    def stream(self, label: str, step: int) -> RandomSource:
        own = self._simulation
        return self if own is None else self._part(own.stream(label, step))


@final
class Ticket(_Paid):
    """What a payment allows to be drawn: a source of randomness that asks for its price first."""

    made: str | None = None  #: What the block's result hashes to, for the charge's mark

    @property
    def receipt(self) -> Receipt:
        if self._purse.receipt is None:
            raise Unpaid("nothing was charged here.")
        return self._purse.receipt

    @override
    def draw(self, made: Measurement[R, T], rows: R, count: int = 1) -> T:
        if not isinstance(made, Measurement):
            raise Unpaid("only a measurement is drawn: what says itself what it costs.")
        if count != 1:
            raise Unpaid("count must be 1: every release of the same data has a price.")
        stream = self._book(made.guarantee(), made.several, type(made).__name__)
        try:
            found = (self._simulation or stream).answer(made, rows, stream)
        finally:
            stream.end()  # whoever keeps it has nothing
        book, payment = self._purse.store, self._purse.payment
        if stream.key is not None and (payment is None or payment.sums is None):
            # The ledger holds what a draw gave before it is handed out: it gives nothing else.
            digest = mac(stream.key, b"given", *_told(found)).hex()
            assert book is not None  # who has a key has a charge
            if not book.note_model(self.receipt, digest, first=f"draw {stream.number} "):
                told = "what was drawn for this charge was something else: other rows, another "
                raise Unpaid(told + "question, or another version of confrere.")
        return found

    def _book(
        self, guarantee: Guarantee, several: tuple[str, int] | None = None, purpose: str = ""
    ) -> _Drawn:
        self._purse.book(guarantee, several)
        told = f"{purpose} {several} {guarantee.to_dict()}"  # with its theorem
        return self._drawn("draw", told)

    def _drawn(self, kind: str, purpose: str) -> _Drawn:
        # What costs nothing has numbers of its own: a draw has the same one however rows are dealt.
        number = next(self._purse.numbers[kind])
        key = None if self._purse.keyed is None else self._purse.keyed.of(number, purpose)
        return _Drawn(self._purse, self._simulation, key, number)

    @override
    def apart(self, split: Split) -> Iterator[RandomSource]:
        if self._purse.promise is not None:
            check_split(split, self._purse.promise.neighbours)
        largest = [Amount()]
        while True:
            yield Ticket(_Part(self._purse, largest), self._simulation)

    @override
    def _dealt(self, n_rows: int) -> NDArray[np.float64]:
        if self._purse.over or self._purse.promise is None:
            raise Unpaid("the payment is over, or there was none: nobody needs parts of the rows.")
        if self._simulation is not None:
            return self._simulation.uniforms(n_rows)
        key = self._drawn("deal", "parts of the rows").key
        return (_fresh_words(n_rows) if key is None else _counted_words(key, 0, n_rows)) / 2.0**64

    @override
    def _part(self, simulation: RandomSource | None) -> RandomSource:
        return Ticket(self._purse, simulation)

    @override
    def _words(self, count: int) -> NoReturn:
        raise Unpaid("a mechanism books its price before it draws; this one has not.")


@final
class _Drawn(_Paid):
    """The stream behind one booked draw: the system's, or what follows from a key."""

    def __init__(
        self,
        purse: _Purse,
        simulation: RandomSource | None,
        key: bytes | None = None,
        number: int = 0,
    ) -> None:
        super().__init__(purse, simulation)
        self.key, self.number, self._whole, self._over = key, number, self, False
        self._drawn, self._parts = 0, numbers()

    def end(self) -> None:
        self._over = True

    @override
    def _words(self, count: int) -> NDArray[np.uint64]:
        if self._whole._over or self._purse.over or not self._purse.spent.epsilon:
            raise Unpaid("nothing was booked, or what was has been drawn, or the payment is over.")
        if self._simulation is not None:
            return self._simulation.words(count)
        if self.key is not None:
            self._drawn += count
            return _counted_words(mac(self.key, b"words"), self._drawn - count, count)
        return _fresh_words(count)

    @override
    def bound(self, purpose: str, *values: ArrayLike | Callable[[], ArrayLike]) -> RandomSource:
        if self.key is None:
            return self
        # Numbered: two parts of one release with equal values have noise of their own.
        number = str(next(self._parts)).encode()
        told = _told([one() if callable(one) else one for one in values])
        return self._part(None, mac(self.key, b"part", number, purpose.encode(), *told))

    @override
    def _part(self, simulation: RandomSource | None, key: bytes | None = None) -> RandomSource:
        part = _Drawn(self._purse, simulation, key)
        part._whole = self._whole  # and ends with it
        return part

    @override
    def draw(self, made: Measurement[R, T], rows: R, count: int = 1) -> NoReturn:
        raise Unpaid("what was booked for one mechanism pays for no other; hand on the ticket.")


@contextmanager
def paying(
    ledger: object,  # as people use it
    account: str | None,
    guarantee: Guarantee,
    *,
    # Where noise is seeded, its stream: nothing is protected then, and nothing can be released.
    simulation: RandomSource | None = None,
    # Whether a block that was interrupted is finished later under its key. An interrupt (what is
    # no Exception, as from Ctrl-C) then leaves the charge open, as a kill would.
    resumes: bool = False,
    # Between machines, what noise follows from; by default it is the system's.
    keyed: NoiseKey | None = None,
    **terms: Unpack[Terms],
) -> Iterator[Ticket]:
    """Charge, let the block draw, and mark the charge released, or failed if the block raised.

    The price stays charged however the block ends; the mark holds what it left in ``ticket.made``.
    The ticket is good until then, for draws that together cost at most ``guarantee``.
    """
    book, several = _own(ledger), isinstance(terms.get("event"), SharedSums)
    seal = "" if keyed is None else keyed.seal(several=several)
    if seal:
        terms["origin"] = replace(terms.get("origin") or Origin(), noise=seal)
    receipt = book.charge(account, guarantee, simulated=simulation is not None, **terms)
    purse = _Purse(ledger, receipt, keyed, seal)
    ticket = Ticket(purse, simulation)
    try:
        try:
            yield ticket
        except BaseException as error:
            if not purse.over and (isinstance(error, Exception) or not resumes):
                _fail(book, receipt, purse, error)
            raise
        if not purse.over and _counted(book, receipt, purse).open:  # and no fork of this process
            book.mark(receipt, digest=ticket.made)
    finally:
        purse.end()  # and not before: who waits finds how it ended


def _counted(book: Store, receipt: Receipt, purse: _Purse) -> Payment:
    """Note draws of several that nobody has noted: a later ticket has what is left."""
    payment = book.payment(receipt)
    made = 0 if payment.sums is None else max(purse.draws.values(), default=0)
    for number in range(payment.models, made):
        book.note_model(receipt, f"draw {number + 1}")
    return payment


def _fail(book: Store, receipt: Receipt, purse: _Purse, error: BaseException) -> None:
    name = type(error).__name__
    code = name if re.fullmatch(r"[A-Za-z]\w{0,63}", name, re.ASCII) else "Error"
    try:
        if _counted(book, receipt, purse).open:
            book.mark(receipt, code=code)
    except LedgerError as second:  # the charge stays open, which counts the same
        error.add_note(f"The ledger could not be told that row {receipt.row} failed: {second}")


@contextmanager
def paid_by_parties(
    receipts: Sequence[Receipt], promise: Guarantee, simulation: RandomSource | None = None
) -> Iterator[Ticket]:
    """Let whoever adds up answers draw the noise that every party has paid for in whole."""
    purse = _OfParties(receipts, promise, simulation is None)
    try:
        yield Ticket(purse, simulation)
    finally:
        purse.end()


def free_ticket(simulation: RandomSource | None = None) -> Ticket:
    """Return a ticket for what only tells public facts: it draws nothing."""
    return Ticket(_Nothing(), simulation)
