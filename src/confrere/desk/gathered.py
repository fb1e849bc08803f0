"""What a desk shows, gathered from its folders: read again whenever a file has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confrere.desk.budgets import Book, StudyUnit, ledger_names, read_book
from confrere.desk.clerk_process import ClerkProcess
from confrere.desk.finding import Contents, Place, look_through, state_of
from confrere.desk.runs import run_facts
from confrere.errors import StudyError

_LOOK_AGAIN_SECONDS = 2.0
_MOST_FILES = 500

#: Asks for a key's passphrase in the terminal; None if nobody is there to type it.
AskPassphrase = Callable[[str], str | None]


class Desk:
    """The folders of an organisation, and the clerk who reads them.

    Parameters
    ----------
    folders : sequence of Path
    clerk : ClerkProcess, optional
    ask_passphrase : callable, optional
        Is given what is to be signed; returns what was typed in the terminal.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        clerk: ClerkProcess | None = None,
        ask_passphrase: AskPassphrase | None = None,
    ) -> None:
        self.folders = tuple(folders)
        self.clerk = clerk or ClerkProcess()
        self._ask_passphrase = ask_passphrase
        self._lock = threading.Lock()
        self._looked: tuple[float, Contents] | None = None
        self._books: dict[str, tuple[object, Book]] = {}

    def contents(self) -> Contents:
        """Return what lies in the folders, looked at a moment ago at most."""
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked[0] > _LOOK_AGAIN_SECONDS:
                self._looked = (time.monotonic(), look_through(self.folders))
            return self._looked[1]

    def place(self, kind: str, name: str) -> Place | None:
        """Return a ledger, study, release or run by its short name."""
        places: tuple[Place, ...] = getattr(self.contents(), kind)
        return next((one for one in places if one.id == name), None)

    def books(self) -> list[Book]:
        """Return all ledgers."""
        return [self.book(place) for place in self.contents().ledgers]

    def book(self, place: Place) -> Book:
        """Return one ledger, read again if its file or the day has changed."""
        state = (state_of(place.path), datetime.now(UTC).date())
        known = self._books.get(place.id)
        if known is None or known[0] != state:
            known = self._books[place.id] = (state, read_book(place))
        return known[1]

    def verified(self, book: Book) -> dict[str, Any] | None:
        """Return whether every row and sum of a ledger is right; None while that is worked out."""
        if book.verified is not None:
            return {"rows": book.verified}
        return self.clerk.known("clerk:verified", str(book.place.path), state=book.head)

    def composed(self, book: Book, account: str | None, delta: float) -> dict[str, Any]:
        """Return what an account's charges promise together."""
        return self.clerk.ask(
            "clerk:composed", str(book.place.path), account, delta, state=book.head
        )

    def study(self, place: Place) -> dict[str, Any]:
        """Return a study in words, and how it stands at every party here."""
        facts = self.clerk.ask("clerk:study_facts", str(place.path), state=self._around(place.path))
        return {"place": place, "name": place.path.name, **facts}

    def studies(self) -> list[dict[str, Any]]:
        """Return all studies."""
        return [self.study(place) for place in self.contents().studies]

    def report(self, place: Place, party: str) -> dict[str, Any]:
        """Return a party's look at its own table."""
        state = self._around(place.path)
        return self.clerk.ask("clerk:report", str(place.path), party, state=state)

    def release(self, place: Place) -> dict[str, Any]:
        """Return what is shown of a release."""
        inside = sorted(place.path.rglob("*"))[:_MOST_FILES]
        facts = self.clerk.ask(
            "shown_release:release_facts", str(place.path), state=state_of(*inside)
        )
        return {"place": place, "name": place.path.name, **facts}

    def releases(self) -> list[dict[str, Any]]:
        """Return all releases."""
        return [self.release(place) for place in self.contents().releases]

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs that say how far they are."""
        found = (run_facts(place) for place in self.contents().runs)
        return [one for one in found if one is not None]

    def paid_rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return which release a ledger's row paid for, by the ledger's own name and the row."""
        return {
            (receipt["ledger_id"], receipt["row"]): one
            for one in self.releases()
            for receipt in one.get("receipts", ())
        }

    def ledgers(self) -> dict[str, Book]:
        """Return ledgers by the names that receipts call them by."""
        return ledger_names(self.books())

    def units(self) -> dict[str, StudyUnit]:
        """Return whom known studies are about, by their hashes."""
        found = {
            one["sha256"]: StudyUnit(one["unit"], one["rows"])
            for one in self.studies()
            if "fault" not in one
        }
        for one in self.releases():
            card = one.get("card")
            if card is not None and card["study_sha256"]:
                unit = card["guarantee"]["unit_detail"].removeprefix("one ")
                rows = card["guarantee"]["max_rows_per_unit"]
                found.setdefault(card["study_sha256"], StudyUnit(unit, rows))
        return found

    def decide(
        self, place: Place, party: str, sha256: str, *, agree: bool, words: dict[str, str]
    ) -> dict[str, Any]:
        """Write a grant or note a refusal; a locked key is asked for in the terminal."""
        study = self.study(place)
        standing = study.get("parties", {}).get(party)
        if standing is None:
            return {"fault": "there is no such study here any more."}
        passphrase = None
        if agree and standing["key_locked"]:
            try:
                passphrase = self._asked(study, party, words)
            except StudyError as error:
                return {"fault": str(error)}
        return self.clerk.ask(
            "clerk:decide",
            str(place.path),
            party,
            sha256,
            agree=agree,
            words=words,
            grant=str(place.path.parent / self.grant_name(study, party)),
            passphrase=passphrase,
        )

    @staticmethod
    def grant_name(study: dict[str, Any], party: str | None = None) -> str:
        """Return where a grant goes: beside the study, named for the party if several live here."""
        if len(study["parties"]) == 1 or party is None:
            return "grant.json"
        return f"grant-{party}.json"

    def _asked(self, study: dict[str, Any], party: str, words: dict[str, str]) -> str:
        given = None
        if self._ask_passphrase is not None:
            what = f"{words['name']} approves {study['id']} for {party}"
            # A terminal obeys what is not printable.
            shown = "".join(one for one in what if one.isprintable())
            given = self._ask_passphrase(f"{shown}, epsilon {study['epsilon']:g}")
        if not given:
            raise StudyError(
                "the key has a passphrase, and nobody typed it in the terminal that runs the desk; "
                "nothing was signed. The command below asks for it too."
            )
        return given

    def _around(self, path: Path) -> object:
        """Return what changes when a study, what lies beside it, or a ledger does."""
        files: list[Path] = []
        for folder in (path.parent, path.parent / "local"):
            with suppress(OSError):
                files += sorted(folder.iterdir())
        ledgers = [place.path for place in self.contents().ledgers]
        day = datetime.now(UTC).date()
        return day, state_of(path, *files[:_MOST_FILES], *ledgers)
