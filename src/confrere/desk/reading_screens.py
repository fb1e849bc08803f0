"""Every address that only shows something: budgets, studies, runs, releases, what if, counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.responses import Response

from confrere.desk import pictures
from confrere.desk.budgets import Book, person_totals
from confrere.desk.finding import Place
from confrere.desk.gathered import Desk
from confrere.desk.runs import changes, last_lines, metrics, run_facts
from confrere.desk.screens import Screens, release_page, study_page

_PAGE = 50

#: What the planner is asked for: default, least and most.
PLANNED = {
    "epsilon": (1.0, 0.01, 100.0),
    "n": (2000, 10, 10_000_000),
    "d": (10, 1, 10_000),
    "parties": (1, 1, 1000),
    "auc": (0.85, 0.51, 0.99),
    "base_rate": (0.5, 0.01, 0.99),
}


def reading_routes(screens: Screens) -> APIRouter:
    """Return every address that only shows something."""
    router, desk = APIRouter(), screens.desk

    @router.get("/")
    def budgets(request: Request) -> Response:
        books = desk.books()
        return screens.page(
            request,
            "budgets.html.j2",
            title="Budgets",
            books=books,
            totals=person_totals(books, desk.units()),
            waiting=sum(map(_waiting, desk.studies())),
        )

    @router.get("/ledger/{name}")
    def ledger(
        request: Request, name: str, page: int = 1, account: str = "", delta: str = ""
    ) -> Response:
        place = desk.place("ledgers", name)
        if place is None:
            return screens.missing(request, "That ledger is not in the desk's folders any more.")
        book = desk.book(place)
        if book.fault is not None:
            return screens.page(request, "broken.html.j2", title=book.name, book=book)
        chosen = next((one for one in book.accounts if one.name == account), None)
        return screens.page(
            request,
            "ledger.html.j2",
            title=book.name,
            book=book,
            chosen=chosen,
            checked=desk.verified(book),
            curve=_curve(book, chosen.name if chosen else None),
            composed=_composed(desk, book, chosen, delta),
            **_rows(desk, book, account if chosen else None, page),
        )

    @router.get("/ledger/{name}/row/{number}")
    def row(request: Request, name: str, number: int) -> Response:
        place = desk.place("ledgers", name)
        book = None if place is None else desk.book(place)
        if book is None or book.fault is not None:
            return screens.missing(request, "That ledger cannot be read.")
        entry = book.reader.entry_at(number)
        if entry is None:
            return screens.missing(request, f"Row {number} of {book.name} is no charge.")
        release = desk.paid_rows().get((book.ledger_id, number))
        study = next((s for s in desk.studies() if s.get("sha256") == entry.study_sha256), None)
        return screens.page(
            request,
            "row.html.j2",
            title=f"Row {number}",
            book=book,
            entry=entry,
            release=release,
            study=study,
        )

    @router.get("/studies")
    def studies(request: Request) -> Response:
        return screens.page(request, "studies.html.j2", title="Studies", studies=desk.studies())

    @router.get("/studies/{name}/{party}")
    def study(request: Request, name: str, party: str) -> Response:
        return study_page(screens, request, name, party)

    @router.get("/runs")
    def runs(request: Request) -> Response:
        return screens.page(request, "runs.html.j2", title="Runs", runs=desk.runs())

    @router.get("/runs/{name}")
    def run(request: Request, name: str) -> Response:
        place = desk.place("runs", name)
        facts = None if place is None else run_facts(place)
        if place is None or facts is None:
            return screens.missing(request, "That run's folder is gone.")
        part = _run_part(screens, place)
        return screens.page(request, "run.html.j2", title="Run", run=facts, part=part)

    @router.get("/runs/{name}/events")
    def events(request: Request, name: str) -> Response:
        place = desk.place("runs", name)
        if place is None:
            return PlainTextResponse("gone\n", status_code=404)
        stream = changes(place, lambda: _run_part(screens, place), request.is_disconnected)
        return StreamingResponse(stream, media_type="text/event-stream")

    @router.get("/releases")
    def releases(request: Request) -> Response:
        return screens.page(request, "releases.html.j2", title="Releases", releases=desk.releases())

    @router.get("/releases/{name}")
    def release(request: Request, name: str) -> Response:
        return release_page(screens, request, name)

    @router.get("/plan")
    def plan(request: Request) -> Response:
        values, wrong = _planned(request.query_params)
        found = desk.clerk.ask("clerk:forecast", values, state=tuple(values.items()))
        return screens.page(
            request,
            "plan.html.j2",
            title="What if",
            values=values,
            limits=PLANNED,
            wrong=wrong,
            found=found,
        )

    @router.get("/metrics")
    def counts(request: Request) -> Response:
        text = metrics(
            _counts(desk), [r for r in desk.runs() if "fault" not in r], request.state.refused
        )
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return router


def _waiting(study: Mapping[str, Any]) -> int:
    return sum(one["state"] == "waiting" for one in study.get("parties", {}).values())


def _counts(desk: Desk) -> dict[str, int]:
    books, contents = desk.books(), desk.contents()
    studies = desk.studies()
    states = [one["state"] for study in studies for one in study.get("parties", {}).values()]
    return {
        "ledgers": len(books),
        "ledgers_not_verified": sum(book.fault is not None for book in books),
        "ledgers_against_witness": sum(book.witness is not None for book in books),
        "accounts": sum(len(book.accounts) for book in books),
        "charges_total": sum(book.charges for book in books),
        "studies": len(studies),
        "studies_waiting": states.count("waiting"),
        "studies_agreed": states.count("agreed") + states.count("answered"),
        "studies_refused": states.count("refused"),
        "releases": len(contents.releases),
        "folders_gone": len(contents.gone),
    }


def _curve(book: Book, account: str | None) -> Any:
    name = account or (book.accounts[0].name if len(book.accounts) == 1 else None)
    one = next((a for a in book.accounts if a.name == name), None)
    if one is None:
        return ""
    return pictures.over_time(book.reader.sampled(one.name), one.epsilon, yearly=bool(one.period))


def _composed(desk: Desk, book: Book, chosen: Any, delta: str) -> dict[str, Any] | None:
    try:
        wanted = float(delta)
    except ValueError:
        return None
    if chosen is None or not 0 < wanted < 1:
        return None
    return desk.composed(book, chosen.name, wanted)


def _rows(desk: Desk, book: Book, account: str | None, page: int) -> dict[str, Any]:
    count = book.charges if account is None else book.reader.count(account)
    pages = max(1, math.ceil(count / _PAGE))
    page = min(max(1, page), pages)
    reader = book.reader
    return {
        "entries": book.rows(account, page, _PAGE),
        "page": page,
        "pages": pages,
        "count": count,
        "paid": desk.paid_rows(),
        "decisions": reader.decisions(),
        "resets": reader.resets(),
    }


def _run_part(screens: Screens, place: Place) -> str:
    facts = run_facts(place) or {"fault": "its folder is gone.", "id": place.id}
    return screens.part("run_part.html.j2", run=facts, lines=last_lines(place.path))


def _planned(params: Mapping[str, str]) -> tuple[dict[str, float], str | None]:
    values: dict[str, float] = {}
    wrong = None
    for name, (usual, least, most) in PLANNED.items():
        try:
            value = float(params.get(name, usual))
            if not least <= value <= most:
                raise ValueError
        except ValueError:
            value, wrong = usual, f"{name} must be a number from {least:g} to {most:g}."
        values[name] = int(value) if isinstance(usual, int) else value
    return values, wrong
