"""The ledger as people use it: the kernel's, and what it tells."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack, final
from weakref import WeakKeyDictionary

from typing_extensions import override

from confrere.errors import BudgetExceeded, InvalidParameter, LedgerTampered
from confrere.kernel.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    at_least,
    check_delta,
    check_relation,
    plus,
)
from confrere.kernel.ledger import (
    ONE_AT_A_TIME,
    AccountChange,
    Balance,
    Charge,
    ChargeApproval,
    Opened,
    Pages,
    Receipt,
    Store,
    StudyName,
    Terms,
    now,
)
from confrere.kernel.release import Ticket, paying
from confrere.ledger import accounts as views
from confrere.ledger.witness import store_at
from confrere.simulation import Seed, SeededSource
from confrere.views import Panel, Shown

#: Accounts of a view at most; the rest is said to be there.
_MOST = 12


class LedgerReader(Shown):
    """A ledger's file, as far as it is read; see :class:`~confrere.ledger.Ledger`.

    A handle knows which file and nothing about what is in it: a copy, clone or pickle of it is the
    same ledger.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Whether the file goes when the process that made it exits.
        self.ephemeral = not store.lasts

    @staticmethod
    def look(path: str | os.PathLike[str]) -> LedgerReader:
        """Return a ledger that is only looked at: nothing is made, and no witness is asked."""
        return LedgerReader(Store(Path(path).resolve(), None))

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def ledger_id(self) -> str:
        """Which ledger this is: a random name, given when the file was made."""
        with self._store.reading() as log:
            return log.ledger_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.ephemeral else repr(str(self.path))})"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, LedgerReader) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)

    def paid(self, key: str) -> bool:
        """Whether something was charged under a key."""
        with self._store.reading() as log:
            return key in log.keys

    def check_agreed(self, study_sha256: str, approval: ChargeApproval | None) -> None:
        """Refuse a study that its owner has said no to since."""
        with self._store.reading() as log:
            views.check_agreed(log, study_sha256, approval)

    def account_for(self, account: str | None, guarantee: Guarantee | None = None) -> str:
        """Say which account would be charged, and refuse one that counts something else."""
        if guarantee is not None:
            self.affords(account, guarantee)
        with self._store.reading() as log:
            return self._store.payer(log, account)

    def affords(self, account: str | None, guarantee: Guarantee) -> bool:
        """Whether the caps cover it now; an account that counts something else raises."""
        balance = self._balance(account)
        try:
            return balance is None or bool(balance.after(guarantee, now()))
        except BudgetExceeded:
            return False

    def require(self, account: str | None, epsilon: float, delta: float = 0.0) -> None:
        """Refuse what the caps do not cover now, as :meth:`charge` would: for several charges."""
        if (balance := self._balance(account)) is not None:
            counted = (balance.terms.unit, balance.terms.neighbours)
            balance.after(Guarantee(epsilon, delta, *counted), now())

    def spent(self, account: str | None = None) -> float:
        """Return the sum of the epsilons charged, however the charges ended."""
        return 0.0 if (one := self._balance(account)) is None else at_least(one.paid.epsilon)

    def left(self, account: str | None = None) -> float:
        """Return the epsilon that can still be charged; infinite without a cap."""
        return math.inf if (one := self._balance(account)) is None else views.left_of(one)

    def head(self) -> str:
        """Return the hash of the last row; kept elsewhere, it shows a ledger that was cut."""
        with self._store.reading() as log:
            return log.tail.hash

    def verify(self, *, head: str | None = None) -> int:
        """Check every row against its hash, the row before it and the sums of all before it.

        ``head`` is one (or a receipt's hash) kept from an earlier moment: it must be in the chain.
        Returns the number of rows, or raises LedgerTampered, naming the first that is not as it
        was written.
        """
        with self._store.reading(), self.path.open("rb") as file:
            log = Pages(file.fileno())  # of what was read before nothing is believed
            log.catch_up()
            hashes = (log.row(seq).hash for seq in range(1, log.tail.seq + 1))
            if head is not None and head not in hashes:
                raise LedgerTampered(
                    f"{self.path}: the given head is not in the chain: rows were removed from its "
                    "end, or the whole file was rewritten."
                )
            return log.tail.seq

    def _balance(self, account: str | None) -> Balance | None:
        with self._store.reading() as log:
            name = self._store.payer(log, account)
            return log.balance(name) if name in log.balances else None

    def entry(self, receipt: Receipt) -> views.Entry:
        """Return what a receipt was given for, and how it ended so far."""
        with self._store.reading() as log:
            log.charge_of(receipt)
            return views.Entry.read(log, receipt.row)

    def accounts(self) -> list[views.Account]:
        """Return every account with what it has spent, in the order of opening."""
        with self._store.reading() as log:
            return [views.Account.of(log, name) for name in log.balances]

    def entries(
        self,
        account: str | None = None,
        *,
        last: int | None = None,  # Only that many, from the end, and the last one first
        skip: int = 0,  # After leaving out so many from the end
    ) -> list[views.Entry]:
        """Return the charges of one account, or of all, with how they ended."""
        with self._store.reading() as log:
            rows = _charged(log, account)
            if last is not None:
                rows = rows[::-1][skip : skip + last]
            return [views.Entry.read(log, row) for row in rows]

    def entry_at(self, row: int) -> views.Entry | None:
        """Return the charge in a row, with how it ended; None if the row holds none."""
        with self._store.reading() as log:
            found = log.at(row)
            return views.Entry.read(log, row) if found and found.kind == "charge" else None

    def count(self, account: str | None = None) -> int:
        """Return the number of charges of one account, or of all."""
        with self._store.reading() as log:
            return len(_charged(log, account))

    def resets(self) -> list[dict[str, Any]]:
        """Return when and why the owner went on from a file that was not as it was left."""
        with self._store.reading() as log:
            rows = (row for row in map(log.row, log.notes) if row.kind == "witness")
            return [{"since": row.seq, "time": row.time} | row.facts for row in rows]

    def by_study(self) -> dict[tuple[str, str, str], Decimal]:
        """Return the epsilon spent by account, study id and study hash; "" where none."""
        with self._store.reading() as log:
            read, spent = _studies.get(log, (0, {}))
            for seq in (seq for seq in log.paid if seq > read):
                said: Charge = log.said(seq)
                study = ("", "") if said.study is None else (said.study.id, said.study.sha256)
                asked = (said.account, study[0] or "", study[1])
                spent[asked] = plus(spent.get(asked, Decimal(0)), said.guarantee.amount.epsilon)
            _studies[log] = log.tail.seq, spent
            return dict(spent)

    def decisions(self) -> list[views.Decision]:
        """Return who said no to a study, or took that back, and why."""
        with self._store.reading() as log:
            return views.decisions(log)

    def refusal(self, study_sha256: str) -> views.Decision | None:
        """Return the no to a study that stands, if one does."""
        with self._store.reading() as log:
            last = views.decisions(log, study_sha256)[-1:]
        return last[0] if last and last[0].stops else None

    def to_csv(self) -> str:
        """Return every charge as CSV, and every decision about a study."""
        return views.to_csv(self.entries(), self.decisions())

    def to_json(self) -> str:
        """Return accounts, charges and head, all of one moment, as JSON."""
        with self._store.reading() as log:
            return views.to_json(log)

    @override
    def view(self) -> Panel:
        accounts, count = self.accounts(), self.count()
        some = views.account_table(accounts[:_MOST]) if accounts else "no account yet"
        more = f"; {len(accounts) - _MOST} more accounts" if len(accounts) > _MOST else ""
        where = "in memory: it goes with this process" if self.ephemeral else self.path.name
        note = f"{where}; {count} charges{more}; head {self.head()[:12]}"
        return Panel(
            "Ledger", [some, *([views.charge_table(self.entries(last=5))] if count else [])], note
        )


@final
class Ledger(LedgerReader):
    """The append-only record of what was spent, in one file.

    A ledger is a handle: copies, clones, pickles, threads and other processes of the same machine
    all write into the same file, by whatever name they know it, and together they never exceed a
    cap. :meth:`charge` returns once the price is on disk; only then may noise be drawn. What was
    charged stays charged.

    Parameters
    ----------
    path : path-like, optional
        The file, made (readable by its owner only) if it is not there. Not on a network file
        system, whose locks cannot be trusted. None: an ephemeral ledger for notebooks, in a
        private temporary folder that goes when the process that made it exits.
    witness : path-like, optional
        The folder where the head is kept besides; it should not be where a backup of the ledger
        would be put back. By default what the environment variable ``CONFRERE_WITNESS`` names, or
        ``confrere/witness`` in the user's state folder. An ephemeral ledger has none.

    Notes
    -----
    A row that was changed, removed, inserted or moved shows when the file is opened. Rows cut from
    its end, an older copy, or a file made anew show against the witness, at every opening and
    before every charge. Somebody who may write both can still do it; against them, compare with
    the heads that release cards and receipts carry, by ``verify(head=...)``. Nor does a ledger
    stop anyone from using the data without charging.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        witness: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(store_at(path, witness).open())

    def __getitem__(self, account: str) -> Budget:
        return Budget(self, self.account_for(account))

    def charge(
        self,
        account: str | None,
        guarantee: Guarantee,
        *,
        simulated: bool = False,
        **terms: Unpack[Terms],
    ) -> Receipt:
        """Pay for a release: when this returns, the price is on disk, and if it raises, nothing."""
        return self._store.charge(account, guarantee, simulated=simulated, **terms)

    def mark_released(self, receipt: Receipt, *, digest: str | None = None) -> None:
        """Note that what was paid for was made, and optionally what it hashes to."""
        self._store.mark(receipt, digest=digest)

    def note_model(self, receipt: Receipt, *, digest: str) -> None:
        """Note a model that was made of what was paid for, by which releases are verified."""
        self._store.note_model(receipt, digest)

    def open_account(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit | str = Unit.RECORD,
        neighbours: Neighbours | str = Neighbours.REPLACE_ONE,
        reason: str | None = None,
        period: Literal["year"] | None = None,
    ) -> None:
        """Open a budget; opening it again with the same facts changes nothing.

        Parameters
        ----------
        epsilon, delta : float, optional
            The caps on the sums of epsilons and deltas; without them the account only counts.
        unit, neighbours
            Whose presence the account counts ("record", "party"), and which change of the data
            ("replace-one", "add-remove"). A charge for others is refused.
        period : "year", optional
            The caps are on what each calendar year (in UTC) may spend, not on all that is ever
            spent: what is not spent in a year is gone, and what a unit pays over years adds up.
        """
        if period not in (None, "year") or (period is not None and epsilon is None):
            raise InvalidParameter(
                "period must be 'year', for caps on what a calendar year may spend, or None; and "
                "it needs a cap: give epsilon as well."
            )
        if epsilon is None and check_delta(delta) != 0:
            raise InvalidParameter("delta is a cap beside the one on epsilon: give epsilon too.")
        caps = {"epsilon": epsilon, "delta": delta, "period": period}
        counted = {"unit": unit, "neighbours": check_relation(neighbours)}
        asked = Opened.from_dict({"name": name, "reason": reason, **caps, **counted})
        with self._store.writing() as log:
            if name not in log.balances:
                self._store.append(log, "account", asked)
                return
            known = (log.said(log.changes[name][0]), log.balance(name).terms)
        differing = [
            fact
            for fact in ("epsilon", "delta", "unit", "neighbours", "period")
            if getattr(asked, fact) not in [getattr(each, fact) for each in known]
        ]
        if differing:
            raise InvalidParameter(
                f"account {name!r} is already open with another {', '.join(differing)}; what an "
                "account was opened with does not change. Its owner raises a cap with `confrere "
                "ledger raise`."
            )

    def raise_cap(
        self, account: str, *, epsilon: float | None = None, delta: float | None = None, reason: str
    ) -> None:
        """Let an account spend more, in all or every year, on its owner's word in the chain."""
        asked = AccountChange(account, reason, epsilon, delta)
        with self._store.writing() as log:
            caps = log.balance(account).changed("raised", asked).terms
            self._store.append(
                log, "raised", replace(asked, epsilon=caps.epsilon, delta=caps.delta)
            )

    def freeze(self, account: str, *, reason: str) -> None:
        """Let nothing more be charged to an account, for good."""
        asked = AccountChange(account, reason)
        with self._store.writing() as log:
            if log.balance(account).frozen is None:
                self._store.append(log, "frozen", asked)

    def refuse(
        self, study: tuple[str, str], *, name: str, reason: str, withdrawn: bool = False
    ) -> None:
        """Say no to a study: from now on nothing is charged for it, until :meth:`agree_again`.

        ``study`` is the study's id, and the sha256 of its text; ``name`` says who refuses, and
        ``withdrawn`` whether it had been agreed to before.
        """
        named = StudyName(study[0], "".join(study[1:]))  # which refuses what is no hash
        said = views.Verdict(named, name, reason, withdrawn)
        with self._store.writing() as log:
            self._store.append(log, "refused", said)

    def agree_again(self, study: tuple[str, str], approval: ChargeApproval) -> None:
        """Lift the no to a study, if one stands, for what is approved from this approval on."""
        said = views.Verdict(StudyName(*study), approval.name, approval.reason, since=approval.time)
        with self._store.writing() as log:
            if [last.stops for last in views.decisions(log, study[1])[-1:]] == [True]:
                self._store.append(log, "agreed", said)


def _charged(log: Pages, account: str | None) -> Sequence[int]:
    return list(log.paid) if account is None else log.charges[log.known(account)]


def default_ledger() -> Ledger:
    """Return the one that ``CONFRERE_LEDGER`` names, or the process's own, which forks share."""
    path = os.environ.get("CONFRERE_LEDGER")
    if path:
        return Ledger(path)
    with ONE_AT_A_TIME:
        return _session_ledger()


class Budget(NamedTuple):
    """One account of a ledger, to which releases are charged: ``ledger["patients"]``."""

    ledger: Ledger
    account: str | None = None  #: None is the only one

    @property
    def left(self) -> float:
        """The epsilon that can still be charged; infinite without a cap."""
        return self.ledger.left(self.account)


def payer(budget: Budget | Ledger | None, guarantee: Guarantee) -> tuple[Ledger, str]:
    """Return whom to charge, or say that the account does not exist or counts something else."""
    given = default_ledger() if budget is None else budget
    book, account = given if isinstance(given, Budget) else Budget(given)
    if budget is None and book.ephemeral:  # one for each kind: those do not add up
        account = f"per {guarantee.unit}, {guarantee.neighbours}"
        book.open_account(account, unit=guarantee.unit, neighbours=guarantee.neighbours)
    return book, book.account_for(account, guarantee)


def charged(
    budget: Budget | Ledger | None,
    guarantee: Guarantee,
    seed: Seed | SeededSource | None,  # One makes a simulation
    **terms: Unpack[Terms],
) -> AbstractContextManager[Ticket]:
    """Charge whoever pays, and let the block draw."""
    if not (seed is None or isinstance(seed, SeededSource)):  # that one listens
        seed = SeededSource(seed)
    return paying(*payer(budget, guarantee), guarantee, simulation=seed, **terms)


_session_ledger = cache(Ledger)

#: What studies have spent, added up as rows come, and how many rows that is of.
_studies: WeakKeyDictionary[Pages, tuple[int, dict[tuple[str, str, str], Decimal]]]
_studies = WeakKeyDictionary()
