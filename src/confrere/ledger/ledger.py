"""The ledger: who may spend, what was spent, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

from confrere.errors import InvalidParameter, LedgerError
from confrere.guarantee import Guarantee, Neighbours, Unit, check_epsilon
from confrere.ledger.accounts import Limit
from confrere.ledger.chain import Kind, canonical, now
from confrere.ledger.decisions import Decision, check_agreed
from confrere.ledger.entries import Receipt
from confrere.ledger.facts import (
    ChargeApproval,
    account_facts,
    change_facts,
    charge_facts,
    check_delta,
    counted_facts,
    decision_facts,
    ended_facts,
    failed_facts,
)
from confrere.ledger.reading import LedgerReader

#: What a charge's row says about its moment, not about what is paid for.
_OF_THE_MOMENT = ("spent", "uncapped", "approval")


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
    Every row is a line and carries the hash of the row before it, so a row that was changed,
    removed, inserted or moved shows when the file is opened. Somebody who may write the file can
    cut rows from its end, restore an older copy, rewrite all of it with fresh hashes, or make it
    anew, and the result is a valid chain: that shows against the witness, at every opening and
    before every charge. Somebody who may write both can still do it; against them, compare with
    the heads that release cards and receipts carry, by ``verify(head=...)``. Nor does a ledger
    stop anyone from using the data without charging.
    """

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
        name : str
        epsilon : float, optional
            The cap on the sum of epsilons; None for an account that only counts.
        delta : float, default=0.0
            The cap on the sum of deltas, for an account that has a cap on epsilon.
        unit : {"record", "party"}, default="record"
            Whose presence the account counts.
        neighbours : {"replace-one", "add-remove", "label-only"}, default="replace-one"
            Which change of the data. A charge for another unit or other neighbours is refused.
        reason : str, optional
            Why, in one line.
        period : "year", optional
            The caps are on what each calendar year (in UTC) may spend, not on all that is ever
            spent: what is not spent in a year is gone, and what a unit pays over years adds up.

        Raises
        ------
        InvalidParameter
            If a fact is out of range, or differs from those the account was opened with.
        """
        facts = account_facts(name, epsilon, delta, unit, neighbours, reason, period)
        with self._store.writing() as log:
            if not log.index.has(name):
                self._store.append(log, Kind.ACCOUNT, facts)
                return
            known = (log.index.opening(name).facts, log.index.balance(name).facts)
            differing = [
                fact
                for fact in ("epsilon", "delta", "unit", "neighbours", "period")
                if facts.get(fact) not in [each.get(fact) for each in known]
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
        """Let an account spend more, on its owner's word, which stays in the chain.

        Parameters
        ----------
        account : str
        epsilon, delta : float, optional
            The caps from now on, on everything that is ever charged, or on every year's charges
            where the account's period is a year; by default as they are.
        reason : str
            Why, in one line.
        """
        epsilon = None if epsilon is None else check_epsilon(epsilon)
        delta = None if delta is None else check_delta(delta)
        facts = change_facts(account, reason)
        with self._store.writing() as log:
            caps = log.index.balance(account).raised(epsilon, delta)
            assert caps.epsilon_cap is not None
            facts |= {"epsilon": float(caps.epsilon_cap), "delta": float(caps.delta_cap)}
            self._store.append(log, Kind.RAISED, facts)

    def freeze(self, account: str, *, reason: str) -> None:
        """Let nothing more be charged to an account, for good."""
        facts = change_facts(account, reason)
        with self._store.writing() as log:
            if log.index.balance(account).frozen is None:
                self._store.append(log, Kind.FROZEN, facts)

    def refuse(
        self, study: tuple[str, str], *, name: str, reason: str, withdrawn: bool = False
    ) -> None:
        """Say no to a study: from now on nothing is charged for it, until :meth:`agree_again`.

        Parameters
        ----------
        study : pair of str
            The study's id, and the sha256 of its text.
        name, reason : str
            Who refuses, and why.
        withdrawn : bool, default=False
            Whether it had been agreed to before.
        """
        facts = decision_facts(study, name, reason) | ({"withdrawn": True} if withdrawn else {})
        with self._store.writing() as log:
            self._store.append(log, Kind.REFUSED, facts)

    def agree_again(self, study: tuple[str, str], approval: ChargeApproval) -> None:
        """Lift the no to a study, if one stands, for what is approved from this approval on."""
        facts = decision_facts(study, approval.name, approval.reason) | {"since": approval.time}
        with self._store.writing() as log:
            earlier = log.index.decisions(study[1])
            if earlier and Decision.of(earlier[-1]).stops:
                self._store.append(log, Kind.AGREED, facts)

    def declare(
        self, account: str, *, unit: Unit | str, neighbours: Neighbours | str, reason: str
    ) -> None:
        """Say what an account of an older file counts: until then nothing can be charged to it."""
        facts = change_facts(account, reason, **counted_facts(unit, neighbours))
        with self._store.writing() as log:
            log.index.balance(account).changed(Kind.DECLARED, facts)
            for row in map(log.row, log.index.charges(account)[-1:]):
                charged = row.facts["guarantee"]
                if any(charged[name] != facts[name] for name in ("unit", "neighbours")):
                    raise InvalidParameter(
                        f"account {account!r} was charged per {charged['unit']} "
                        f"({charged['neighbours']}) before; unit and neighbours must be these."
                    )
            self._store.append(log, Kind.DECLARED, facts)

    def charge(
        self,
        account: str | None,
        guarantee: Guarantee,
        *,
        purpose: str,
        detail: Mapping[str, Any] | None = None,
        simulated: bool = False,
        key: str | None = None,
        study: tuple[str, str] | None = None,
        approval: ChargeApproval | None = None,
        limit: Limit | None = None,
    ) -> Receipt:
        """Pay for a release; when this returns, the price is on disk.

        Parameters
        ----------
        account : str or None
            Who pays. None: the only account there is; in an ephemeral ledger without accounts,
            "default", opened without a cap.
        guarantee : Guarantee
            What is promised about the release.
        purpose : str
            What for, in one line.
        detail : mapping, optional
            More facts, as plain JSON values; never data.
        simulated : bool, default=False
            Whether the noise will be seeded. It is charged all the same: the ledger cannot know
            who will see the result.
        key : str, optional
            Charging again under a key, with the same content, returns the first receipt and
            spends nothing: so that a party asked twice answers twice and pays once.
        study : pair of str, optional
            The id of the study that asks for it, and the sha256 of the study's text.
        approval : ChargeApproval, optional
            Who agreed to it, and why.
        limit : Limit, optional
            A cap on all that was ever spent on the same data, besides the account's own: whoever
            else charges at the same moment, both together keep to it.

        Raises
        ------
        BudgetExceeded
            If the cap on epsilon or delta, or the limit, does not cover the price.
        CompositionError
            If the account counts another unit or other neighbours.
        AccountFrozen
            If its owner lets nothing more be charged.
        StudyRefused
            If somebody said no to the study since it was approved.
        UnknownAccount
            If there is no such account, or None does not say which.
        LedgerError
            If ``key`` was used for a charge of other content.
        """
        facts = charge_facts(guarantee, purpose, detail, simulated, key, study, approval)
        with self._store.writing() as log:
            if study is not None:
                check_agreed([Decision.of(r) for r in log.index.decisions(study[1])], approval)
            name = facts["account"] = self._resolve(log, account)
            if not log.index.has(name):
                told = (guarantee.unit, guarantee.neighbours)
                self._store.append(log, Kind.ACCOUNT, account_facts(name, None, 0.0, *told))
            if key is None or key not in log.index.keys:
                time = now()
                balance = log.index.balance(name).after(guarantee, time)
                if limit is not None:
                    same = {name, *(one for one in limit.over if log.index.has(one))}
                    spent = [log.index.balance(one).epsilon_spent for one in sorted(same)]
                    limit.check(name, spent, guarantee)
                if self.ephemeral or balance.epsilon_cap is None:
                    facts["uncapped"] = True
                facts["spent"] = balance.totals
                row = self._store.append(log, Kind.CHARGE, facts, time=time)
            else:
                row = log.row(log.index.keys[key])
                if _paid_for(facts) != _paid_for(row.facts):
                    raise LedgerError(
                        f"key {key!r} was used for another charge (row {row.seq}); nothing was "
                        "spent."
                    )
                if not self.ephemeral:
                    log.sync()  # Whoever charged may have been killed before the disk had it.
            return Receipt.of(row, log.index.ledger_id)

    def mark_released(self, receipt: Receipt, *, digest: str | None = None) -> None:
        """Note that what was paid for was made, and optionally what it hashes to."""
        self._mark(receipt, Kind.RELEASED, ended_facts(receipt.row, digest=digest))

    def mark_failed(self, receipt: Receipt, *, code: str) -> None:
        """Note that what was paid for was not made; it stays charged."""
        self._mark(receipt, Kind.FAILED, failed_facts(receipt.row, code))

    def note_model(self, receipt: Receipt, *, digest: str) -> None:
        """Note a model that was made of what was paid for, together with others' answers.

        The charge's own mark names the party's answer. With this row :func:`verify_release` can
        tell the model of a run from another one that its receipts are put under.
        """
        facts = ended_facts(receipt.row, digest=digest)
        with self._store.writing() as log:
            charge = log.index.charge_of(receipt)
            if digest not in log.index.entry(charge.seq).models:
                self._store.append(log, Kind.MODEL, facts)

    def _mark(self, receipt: Receipt, kind: Kind, facts: dict[str, Any]) -> None:
        with self._store.writing() as log:
            log.index.charge_of(receipt)
            if receipt.row not in log.index.marks:
                self._store.append(log, kind, facts)
                self.marked_last = receipt.row
                return
            earlier = log.row(log.index.marks[receipt.row])
            if (earlier.kind, earlier.body) != (kind, canonical(facts)):
                raise LedgerError(
                    f"the charge in row {receipt.row} was already marked {earlier.kind} in row "
                    f"{earlier.seq}; how it ended does not change."
                )


def _paid_for(facts: Mapping[str, Any]) -> str:
    return canonical({name: fact for name, fact in facts.items() if name not in _OF_THE_MOMENT})
