"""How pages are made, every address that shows something, and what forms are sent to.

Trying a release keeps nothing; deciding about a study writes one grant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import jinja2
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from confrere.views import amount, shown
from confrere_federation.desk import pictures
from confrere_federation.desk.gathered import (
    Book,
    Desk,
    Place,
    changes,
    last_lines,
    metrics,
    person_totals,
    run_facts,
    share,
)
from confrere_federation.desk.guarding import Doorkeeper


class Screens:
    """Makes pages from what a desk knows; the keeper knows what a form must carry."""

    def __init__(self, desk: Desk, keeper: Doorkeeper) -> None:
        self.desk = desk
        self.keeper = keeper
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("confrere_federation.desk", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "shown": shown,
            "left": amount,
            "moment": lambda time: str(time)[:16].replace("T", " "),
            "day": lambda time: str(time)[:10],
        }
        self._templates.globals |= {"pictures": pictures, "share": share}

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        """Return a page; what comes from files is escaped, all of it."""
        text = self._templates.get_template(name).render(
            here=request.url.path,
            visitor=visitor(request),
            form_key=self.keeper.form_key(visitor(request)),
            may_decide=self.keeper.may_decide(visitor(request)),
            contents=self.desk.contents(),
            year=datetime.now(UTC).year,
            **values,
        )
        return HTMLResponse(text, status_code=status)

    def part(self, name: str, **values: Any) -> str:
        """Return a part of a page."""
        return self._templates.get_template(name).render(**values)

    def place(self, kind: str, name: str) -> Place:
        """Return a ledger, study, release or run; or say that it is not there any more."""
        found = self.desk.place(kind, name)
        if found is None:
            raise gone(f"That {_SINGULAR[kind]} is not in the desk's folders any more.")
        return found


_SINGULAR = {"ledgers": "ledger", "studies": "study", "releases": "release", "runs": "run"}


def gone(what: str) -> HTTPException:
    """Return what says that something is not there, or not any more."""
    return HTTPException(404, what)


def visitor(request: Request) -> str:
    """Return who is there: a name that the organisation's front gave, or "" by a cookie."""
    return str(getattr(request.state, "visitor", "") or "")


def study_page(
    screens: Screens,
    request: Request,
    name: str,
    party: str,
    *,
    fault: str | None = None,
    form: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Return a study in words, as it stands at one party, with a way to decide."""
    desk, place = screens.desk, screens.place("studies", name)
    study = desk.study(place)
    if party not in study.get("parties", {}):
        raise gone("That study is not one of that party's.")
    return screens.page(
        request,
        "study.html.j2",
        status,
        title=study["title"],
        study=study,
        party=party,
        standing=study["parties"][party],
        report=desk.report(place, party),
        grant=desk.grant_name(study, party),
        fault=fault,
        form=form or {},
    )


def release_page(
    screens: Screens, request: Request, name: str, tried: dict[str, str] | None = None
) -> Response:
    """Return a release with its card, and what it says of somebody if that was asked."""
    desk, place = screens.desk, screens.place("releases", name)
    release = desk.release(place)
    outcome = None
    if tried is not None and "fault" not in release:
        outcome = desk.clerk.ask("tried", str(place.path), tried)
    return screens.page(
        request,
        "release.html.j2",
        title=release["name"],
        release=release,
        books=desk.ledgers(),
        tried=tried or {},
        outcome=outcome,
    )


def writing_routes(screens: Screens) -> APIRouter:
    """Return every address that takes a form."""
    router = APIRouter()

    @router.post("/releases/{name}")
    async def tried(request: Request, name: str) -> Response:
        form = await own_form(screens, request)
        return await run_in_threadpool(release_page, screens, request, name, form)

    @router.post("/studies/{name}/{party}")
    async def decided(request: Request, name: str, party: str) -> Response:
        form = await own_form(screens, request)
        return await run_in_threadpool(_decide, screens, request, name, party, form)

    return router


def _decide(
    screens: Screens, request: Request, name: str, party: str, form: dict[str, str]
) -> Response:
    desk, place = screens.desk, screens.place("studies", name)
    if not screens.keeper.may_decide(visitor(request)):
        raise HTTPException(
            403, "You may look, and are not among those who decide. Nothing was done."
        )
    if visitor(request):
        form["name"] = visitor(request)  # who signed in is who approves
    agree = form.get("decision") == "approve"
    wrong = _form_fault(desk.study(place), form, agree=agree)
    if wrong is None:
        words = {key: form[key].strip() for key in ("name", "reason")}
        if agree:
            words["justification"] = form["justification"].strip()
        facts = desk.decide(place, party, form.get("sha256", ""), agree=agree, words=words)
        wrong = facts.get("fault")
    if wrong is not None:
        return study_page(screens, request, name, party, fault=wrong, form=form, status=422)
    return RedirectResponse(f"/studies/{name}/{party}", status_code=303)


async def own_form(screens: Screens, request: Request) -> dict[str, str]:
    """Return the fields of a form, the last of several counts; turn away what is not the desk's."""
    body = (await request.body()).decode("utf-8", "replace")
    form = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=300))
    if not screens.keeper.holds(visitor(request), form.pop("form_key", "")):
        raise HTTPException(
            403, "That form is not one of this desk's, or is older than it is. Nothing was done."
        )
    return form


def _form_fault(study: Mapping[str, Any], form: Mapping[str, str], *, agree: bool) -> str | None:
    """Say what is missing before anything is done."""
    needed = ["name", "reason", *(["justification"] if agree else [])]
    for field in needed:
        if not form.get(field, "").strip():
            return f"{field}: say it, in one line; it stays in the ledger and on the card."
    if agree:
        try:
            typed = float(form.get("amount", ""))
        except ValueError:
            typed = math.nan
        if not math.isclose(typed, study.get("epsilon", math.inf), rel_tol=1e-4):
            return "amount: type the epsilon that this study costs, to say that you have read it."
    return None


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
        book = desk.book(screens.place("ledgers", name))
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
        book = desk.book(screens.place("ledgers", name))
        entry = None if book.fault is not None else book.reader.entry_at(number)
        if entry is None:
            raise gone(f"Row {number} of {book.name} is no charge that can be read.")
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
        place = screens.place("runs", name)
        facts, part = run_facts(place), _run_part(screens, place)
        if facts is None:
            raise gone("That run's folder is gone.")
        return screens.page(request, "run.html.j2", title="Run", run=facts, part=part)

    @router.get("/runs/{name}/events")
    def events(request: Request, name: str) -> Response:
        place = screens.place("runs", name)
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
        found = desk.clerk.ask("forecast", values, state=tuple(values.items()))
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
