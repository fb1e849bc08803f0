"""What forms are sent to: trying a release, which keeps nothing, and deciding about a study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from confrere.desk.screens import Screens, release_page, study_page, visitor


def writing_routes(screens: Screens) -> APIRouter:
    """Return every address that takes a form."""
    router = APIRouter()

    @router.post("/releases/{name}")
    async def tried(request: Request, name: str) -> Response:
        form = await form_of(request)
        if not screens.keeper.holds(visitor(request), form.pop("form_key", "")):
            return _foreign(screens, request)
        return await run_in_threadpool(release_page, screens, request, name, form)

    @router.post("/studies/{name}/{party}")
    async def decided(request: Request, name: str, party: str) -> Response:
        form = await form_of(request)
        if not screens.keeper.holds(visitor(request), form.pop("form_key", "")):
            return _foreign(screens, request)
        return await run_in_threadpool(_decide, screens, request, name, party, form)

    return router


def _decide(
    screens: Screens, request: Request, name: str, party: str, form: dict[str, str]
) -> Response:
    desk = screens.desk
    place = desk.place("studies", name)
    if place is None:
        return screens.missing(request, "That study is not in the desk's folders any more.")
    if not screens.keeper.may_decide(visitor(request)):
        what = "You may look, and are not among those who decide. Nothing was done."
        return screens.page(request, "missing.html.j2", 403, title="Not taken", what=what)
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


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; the last of several counts."""
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=300))


def _foreign(screens: Screens, request: Request) -> Response:
    """Turn away a form that is not the desk's own, or of before it was started again."""
    what = (
        "That form is not one of this desk's, or is from before it was started. Nothing was done."
    )
    return screens.page(request, "missing.html.j2", 403, title="Not taken", what=what)


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
