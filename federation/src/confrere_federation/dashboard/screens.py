"""How pages are made, every address that shows something, and what the one form is sent to."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from confrere.errors import ConfrereError
from confrere.ledger.accounts import owner_table
from confrere.views import amount, shown
from confrere_federation.dashboard.auth import AccessControl, Guarded
from confrere_federation.dashboard.state import (
    Book,
    Dashboard,
    Facts,
    Place,
    Run,
    decide,
    last_lines,
    person_totals,
    state_of,
)
from confrere_federation.progress import OPERATION_WORDS, STATUS

_STATIC = Path(__file__).parent / "static"
_PAGE = 50

#: Answers to a study's questions as ledgers call them, and in words.
_ANSWERS = {f"answer {name} in a federation": words for name, words in OPERATION_WORDS.items()}

#: How often a watched run's file is looked at, and how long silence may last on the line.
_TICK_SECONDS = 1.0
_SILENCE_TICKS = 15


def make_app(dashboard: Dashboard, access: AccessControl) -> Guarded:
    screens = Screens(dashboard, access)
    kinds = ("", "studies", "runs", "releases")
    routes: list[BaseRoute] = [Route(f"/{name}", screens.everything) for name in kinds]
    routes += [
        Route("/metrics", screens.metrics),
        Route("/ledger/{name}", screens.ledger),
        Route("/ledger/{name}/row/{number:int}", screens.row),
        Route("/studies/{name}/{party}", screens.study),
        Route("/studies/{name}/{party}", screens.take_decision, methods=["POST"]),
        Route("/runs/{name}", screens.run),
        Route("/runs/{name}/events", screens.events),
        Route("/releases/{name}", screens.release),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    faults: tuple[type[Exception], ...] = (HTTPException, ConfrereError, OSError)
    shown = Starlette(routes=routes, exception_handlers=dict.fromkeys(faults, screens.missing))
    return Guarded(shown, access)


class Screens:
    def __init__(self, dashboard: Dashboard, access: AccessControl) -> None:
        self.dashboard = dashboard
        self.access = access
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("confrere_federation.dashboard", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "shown": shown,
            "left": amount,
            "moment": lambda time: str(time)[:16].replace("T", "\N{NO-BREAK SPACE}"),
            "day": lambda time: str(time)[:10],
            "asked": lambda what: _ANSWERS.get(what, what),
        }
        self._templates.globals |= {"dashboard": dashboard, "person_totals": person_totals}

    def _page(
        self, request: Request, name: str, title: str, *, status: int = 200, **values: object
    ) -> Response:
        """Return a page; what comes from files is escaped, all of it."""
        visitor = _visitor(request)
        text = self._templates.get_template(f"{name}.html.j2").render(
            title=title,
            here=request.url.path,
            visitor=visitor,
            form_key=self.access.form_key(visitor),
            may_decide=self.access.may_decide(visitor),
            year=datetime.now(UTC).year,
            **values,
        )
        return HTMLResponse(text, status_code=status)

    def _place(self, kind: str, request: Request) -> Place:
        """Return what an address names; or say that it is not there any more."""
        found = self.dashboard.place(kind, request.path_params["name"])
        if found is None:
            raise HTTPException(404, "That is not in the dashboard's folders any more.")
        return found

    async def missing(self, request: Request, error: Exception) -> Response:
        status, title, what = 503, "Not readable", " ".join(str(error).split())
        if isinstance(error, HTTPException):
            status, what = error.status_code, error.detail
            title = "Not taken" if status == 403 else "Not here"
            what = "No such page." if what == "Not Found" else what
        elif isinstance(error, OSError):
            what = f"A file or folder cannot be read any more ({error.strerror or 'it is gone'})."
        return self._page(request, "missing", title, status=status, what=what)

    def everything(self, request: Request) -> Response:
        """Show all of a kind: what stands on such a page its template asks the dashboard for."""
        name = request.url.path[1:] or "budgets"
        return self._page(request, name, name.capitalize())

    def ledger(self, request: Request) -> Response:
        book, asked = self.dashboard.book(self._place("ledgers", request)), request.query_params
        if book.fault is not None:
            return self._page(request, "broken", book.name, book=book)
        named = {one.name: one for one in book.accounts}
        chosen = named.get(asked.get("account", ""))
        account, reader = None if chosen is None else chosen.name, book.reader
        count = book.charges if account is None else reader.count(account)
        pages = max(1, math.ceil(count / _PAGE))
        wanted = asked.get("page", "")
        page = min(max(1, int(wanted[:9])), pages) if wanted.isdecimal() else 1
        accounts, resets = ([chosen], []) if chosen else (book.accounts, reader.resets())
        acts = owner_table(accounts, resets, reader.decisions())
        return self._page(
            request,
            "ledger",
            book.name,
            book=book,
            chosen=chosen,
            entries=reader.entries(account, last=_PAGE, skip=_PAGE * (page - 1)),
            page=page,
            pages=pages,
            count=count,
            paid=self.dashboard.paid_rows(),
            acts=acts,
        )

    def row(self, request: Request) -> Response:
        book: Book = self.dashboard.book(self._place("ledgers", request))
        number = request.path_params["number"]
        entry = None if book.fault is not None else book.reader.entry_at(number)
        if entry is None:
            raise HTTPException(404, f"Row {number} of {book.name} is no charge to be read.")
        studies = (s for s in self.dashboard.studies() if s.get("sha256") == entry.study_sha256)
        return self._page(
            request,
            "row",
            f"Row {number}",
            book=book,
            entry=entry,
            release=self.dashboard.paid_rows().get((book.ledger_id, number)),
            study=next(studies, None),
        )

    def study(
        self, request: Request, form: Mapping[str, str] | None = None, fault: str | None = None
    ) -> Response:
        place, party = self._place("studies", request), request.path_params["party"]
        study = self.dashboard.study(place)
        if party not in study.get("parties", {}):
            raise HTTPException(404, "That study is not one of that party's.")
        return self._page(
            request,
            "study",
            study["title"],
            status=200 if fault is None else 422,
            study=study,
            party=party,
            standing=study["parties"][party],
            approval=_approval_name(study, party),
            fault=fault,
            form=form or {},
        )

    def decided(self, request: Request, form: dict[str, str]) -> Response:
        place, visitor = self._place("studies", request), _visitor(request)
        if not self.access.may_decide(visitor):
            raise HTTPException(
                403, "You may look, and are not among those who decide. Nothing was done."
            )
        if visitor:
            form["name"] = visitor  # who signed in is who approves
        fault = self._decide(self.dashboard.study(place), request.path_params["party"], form)
        if fault is not None:
            return self.study(request, form, fault)
        return RedirectResponse(request.url.path, status_code=303)

    def _decide(self, study: Facts, party: str, form: Mapping[str, str]) -> str | None:
        """Write an approval or note a refusal; a locked key is asked for in the terminal."""
        if party not in study.get("parties", {}):
            return "there is no such study here any more."
        agree = form.get("decision") == "approve"
        keys = ("name", "reason", "justification") if agree else ("name", "reason")
        words, passphrase = {key: form.get(key, "").strip() for key in keys}, None
        unsaid = next((key for key in keys if not words[key]), None)
        if unsaid is not None:
            return f"{unsaid}: say it, in one line; it stays in the ledger and on the card."
        typed = _number(form.get("amount", ""))
        if agree and not math.isclose(typed, study["epsilon"], rel_tol=1e-4):
            return "amount: type the epsilon that this study costs, to say that you have read it."
        if agree and study["parties"][party]["key_locked"]:
            # A terminal obeys what is not printable.
            what = f"{words['name']} approves {study['id']} for {party}"
            what = "".join(one for one in what if one.isprintable())
            passphrase = self.dashboard.ask_passphrase(f"{what}, epsilon {study['epsilon']:g}")
            if not passphrase:
                return (
                    "the key has a passphrase, and nobody typed it in the terminal that runs the "
                    "dashboard; nothing was signed. The command below asks for it too."
                )
        file: Path = study["place"].path
        approval = file.parent / _approval_name(study, party)
        told: Facts = {"agree": agree, "words": words, "passphrase": passphrase}
        return decide(file, party, form.get("sha256", ""), approval=approval, **told).get("fault")

    def run(self, request: Request) -> Response:
        place = self._place("runs", request)
        return self._page(request, "run", "Run", place=place, part=self._run_part(place))

    def events(self, request: Request) -> Response:
        stream = self._changes(self._place("runs", request), request)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _changes(self, place: Place, request: Request) -> AsyncIterator[str]:
        """Yield server-sent events: the run's part of the page whenever its file has changed."""
        seen: object = None
        silence = 0
        while not await request.is_disconnected():
            now = state_of(place.path / STATUS, place.path / "line.log")
            silence += 1
            if now != seen:
                seen, silence = now, 0
                text = await asyncio.to_thread(self._run_part, place)
                data = "".join(f"data: {line}\n" for line in text.splitlines())
                yield f"event: run\n{data}\n"
            elif silence >= _SILENCE_TICKS:
                silence = 0
                yield ": nothing new\n\n"
            await asyncio.sleep(_TICK_SECONDS)

    def _run_part(self, place: Place) -> str:
        template = self._templates.get_template("run_part.html.j2")
        return template.render(place=place, run=Run.read(place.path), lines=last_lines(place.path))

    def release(self, request: Request) -> Response:
        release = self.dashboard.release(self._place("releases", request))
        return self._page(
            request,
            "release",
            release["name"],
            release=release,
            books={book.ledger_id: book for book in self.dashboard.books() if book.fault is None},
        )

    def metrics(self, request: Request) -> Response:
        """Return counts in Prometheus' text form; no names, no costs, nothing about data."""
        books, contents = self.dashboard.books(), self.dashboard.contents()
        states = Counter(self.dashboard.states())
        counts = {
            "ledgers": len(books),
            "ledgers_not_verified": sum(book.fault is not None for book in books),
            "ledgers_against_witness": sum(book.witness is not None for book in books),
            "accounts": sum(len(book.accounts) for book in books),
            "charges_total": sum(book.charges for book in books),
            "studies": len(contents.studies),
            "studies_waiting": states["waiting"],
            "studies_agreed": states["agreed"] + states["answered"],
            "studies_refused": states["refused"],
            "releases": len(contents.releases),
            "folders_gone": len(contents.gone),
            "requests_refused_total": request.state.refused,
        }
        counts |= _counts(run for _, run in self.dashboard.runs() if run is not None)
        families = {name: name.partition("{")[0] for name in counts}
        lines = []
        for name, value in counts.items():
            kind = "counter" if families[name].endswith("_total") else "gauge"
            head = f"# TYPE confrere_{families[name]} {kind}"
            lines += [] if head in lines else [head]
            lines.append(f"confrere_{name} {value}")
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    async def take_decision(self, request: Request) -> Response:
        """Take the form of a decision; the last of several fields counts."""
        body = (await request.body()).decode("utf-8", "replace")
        form = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=300))
        if not self.access.holds(_visitor(request), form.pop("form_key", "")):
            what = "That form is not one of this dashboard's, or is older than it is."
            raise HTTPException(403, f"{what} Nothing was done.")
        return await run_in_threadpool(self.decided, request, form)


def _counts(runs: Iterable[Run]) -> dict[str, int]:
    """Count runs by who runs them and how they ended, and parties of coordinators' by state."""
    here = list(runs)
    ended = Counter((run.role, run.ending) for run in here)
    roles, states = ("coordinator", "party"), ("running", "released", "failed")
    found = {
        f'runs{{role="{role}",state="{state}"}}': ended[role, state]
        for role in roles
        for state in states
    }
    asked = [run.counts for run in here if run.party is None]
    return found | {
        f'run_parties{{state="{state}"}}': sum(each[state] for each in asked)
        for state in ("connected", "asked", "answered", "paid", "dropped")
    }


def _visitor(request: Request) -> str:
    return str(getattr(request.state, "visitor", "") or "")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _approval_name(study: Facts, party: str) -> str:
    """Return where an approval goes: beside the study, named for its party among several."""
    return "approval.json" if len(study["parties"]) == 1 else f"approval-{party}.json"
