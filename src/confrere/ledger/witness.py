"""What a witness remembers beside what the file says, and how an owner goes on from there."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from confrere.errors import InvalidParameter, NotALedger, WitnessMismatch
from confrere.kernel.guarantee import Amount, Guarantee, Line, Record, at_least
from confrere.kernel.ledger import Charge, End, Head, LedgerPlace, Pages, Spent, Store, Witness, now
from confrere.ledger.accounts import agreed


class Reset(Record):
    """The owner went on from a file that was not as the witness remembers it."""

    reason: Line
    ledger_id: Line | None = None
    row: int | None = None
    hash: Line | None = None


def witness_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return where heads are kept.

    ``folder`` if given; else what the environment variable ``CONFRERE_WITNESS`` names; else
    ``confrere/witness`` in the user's state folder (``XDG_STATE_HOME``, or ``~/.local/state``).
    """
    chosen = os.fspath(folder) if folder is not None else os.environ.get("CONFRERE_WITNESS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "confrere" / "witness"


def store_at(
    path: str | os.PathLike[str] | None, witness: str | os.PathLike[str] | None = None
) -> Store:
    """Return the store of a file, which is not opened, or of an ephemeral one."""
    if path is None:
        folder = tempfile.mkdtemp(prefix="confrere-")
        # Unlike atexit this runs where workers of a pool end, too, and not in forked children.
        Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
        path = Path(folder).resolve() / "ephemeral.ledger"
        return Store(path, None, lasts=False, agreed=agreed)
    try:
        return Store(Path(path).resolve(), Witness(witness_folder(witness)), agreed=agreed)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"path must be a file's name or None: {error}.") from error


def witnessed(
    path: str | os.PathLike[str], *, witness: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Show what a witness remembers of a ledger, beside what the file says; nothing is refused."""
    kept = Witness(witness_folder(witness))
    store = Store(Path(path).resolve(), kept)
    found: Head | None = None
    complaint: str | None = None
    try:
        if store.path.exists():
            with store.reading() as log:
                found = Head(log.ledger_id, log.tail.seq, log.tail.hash, log.tail.time)
                kept.check(log, store.path)
        kept.check_place(None if found is None else found.ledger_id, store.path)
    except WitnessMismatch as error:
        complaint = str(error).removeprefix(f"{store.path}: ")
    before = kept.ledger_at(store.path) or (None if found is None else found.ledger_id)
    return {
        "folder": str(kept.folder),
        "kept": None if before is None else kept.head_of(before),
        "found": found,
        "complaint": complaint,
    }


def reset_witness(
    path: str | os.PathLike[str], *, reason: str, witness: str | os.PathLike[str] | None = None
) -> dict[str, float]:
    """Go on from the file as it is, on the owner's word, which stays in the chain.

    What the witness knows as spent and the file does not show is booked as spent, whatever the cap:
    what it paid for has left. A ledger that is not there is made anew. Returned is the epsilon that
    was booked, by account.
    """
    kept = Witness(witness_folder(witness))
    store = Store(Path(path).resolve(), kept)
    said = Reset(reason)
    store.create()
    with store.writing(checked=False) as log:
        for ledger_id in {log.ledger_id, kept.ledger_at(store.path) or log.ledger_id}:
            head = kept.head_of(ledger_id)
            if head is not None:
                said = replace(said, ledger_id=head.ledger_id, row=head.row, hash=head.hash)
        lost = _lost(kept, log, store.path)
        store.append(log, "witness", said)
        for one in lost:
            _book(store, log, one)
        kept.keep(log, log.balances)
        kept.keep_place(log, store.path)
    return {one.account: one.epsilon for one in lost}


def _book(store: Store, log: Pages, lost: Spent) -> None:
    """Charge an account, above its cap too, with what it had spent in rows that are gone."""
    if lost.account not in log.balances:
        store.append(log, "account", lost.facts)
    before = log.balance(lost.account)
    counted = (before.terms.unit, before.terms.neighbours)
    price, time = Guarantee(lost.epsilon, lost.delta, *counted), now()
    spent = before.booked(price, time).totals
    what = Charge(lost.account, price, "spent in rows that are gone", False, spent, booked=True)
    row = store.append(log, "charge", what, time=time)
    store.append(log, "failed", End(row.seq, code="LostRows"))


def _lost(kept: Witness, log: Pages, path: Path) -> list[Spent]:
    """Return what accounts had spent that the file does not show, as far as is known.

    Of a file that is shorter than it was, the difference. Of a chain that was rebuilt, or a
    ledger that another one was put in the place of, all of it: nothing says that what the file
    shows is the same.
    """
    own, before = log.ledger_id, kept.ledger_at(path)
    found = [] if before is None or before == own else _spent_of(kept, before)
    head = kept.head_of(own)
    row = None if head is None else log.at(head.row)
    if head is None or (row is not None and row.hash == head.hash):
        return found
    for one in _spent_of(kept, own):
        rest = Amount.of(one.epsilon, one.delta)
        if row is None and one.account in log.balances:
            balance = log.balance(one.account)
            rest = rest.minus(Amount.of(*map(at_least, balance.paid)))
        if rest.epsilon > 0:
            delta = max(0.0, at_least(rest.delta))
            found.append(replace(one, epsilon=at_least(rest.epsilon), delta=delta))
    return found


def _spent_of(kept: Witness, ledger_id: str) -> list[Spent]:
    """Return what accounts of a ledger had spent."""
    files = sorted(kept.folder.glob(kept.file("*.spent", ledger_id).name))
    return [one for one in (kept.read(file, Spent) for file in files) if one is not None]


def check_source(source: str, ledger_id: str | None, path: Path) -> None:
    """Refuse data that are counted in another ledger; ``source`` tells them from others."""
    kept = Witness(witness_folder())
    known = kept.read(kept.file("data", source), LedgerPlace)
    if known is not None and known.ledger_id != ledger_id and known.path != str(path):
        raise WitnessMismatch(
            f"these data are counted in another ledger already, {known.path}: a second one "
            "would forget what was spent there. Nothing was spent."
        ).hinting("name the home that they are in: CONFRERE_HOME=FOLDER, and see confrere home")


def keep_source(source: str, ledger_id: str, path: Path) -> None:
    """Keep in which ledger data are counted."""
    Witness(witness_folder()).tell(LedgerPlace(ledger_id, path=str(path)), "data", source)


def no_ledger(path: Path) -> NotALedger:
    """Return the error of a ledger that is looked at and is not there."""
    return NotALedger(f"there is no ledger {path.name}.").hinting(
        f"give the path of one, or make it: confrere ledger open {path} ACCOUNT --epsilon CAP "
        "--unit record --neighbours replace-one --reason WHY"
    )
