"""How pages are made: templates, what every page has, and the two pages that forms come back to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from confrere.desk import pictures
from confrere.desk.budgets import share
from confrere.desk.gathered import Desk
from confrere.desk.guarding import Doorkeeper
from confrere.ledger.accounts import shown, shown_down


class Screens:
    """Makes pages from what a desk knows.

    Parameters
    ----------
    desk : Desk
    keeper : Doorkeeper
        Knows what a form must carry.
    """

    def __init__(self, desk: Desk, keeper: Doorkeeper) -> None:
        self.desk = desk
        self.keeper = keeper
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("confrere.desk", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "shown": shown,
            "left": _left,
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

    def missing(self, request: Request, what: str) -> Response:
        """Say that something is not there, or not any more."""
        return self.page(request, "missing.html.j2", 404, title="Not here", what=what)


def visitor(request: Request) -> str:
    """Return who is there: a name that the organisation's front gave, or "" by a cookie."""
    return str(getattr(request.state, "visitor", "") or "")


def _left(value: float | None) -> str:
    if value is None or math.isinf(value):
        return "no limit"
    return shown_down(value) if value >= 0 else f"{value:.4g}"


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
    desk = screens.desk
    place = desk.place("studies", name)
    study = None if place is None else desk.study(place)
    if place is None or study is None or party not in study.get("parties", {}):
        return screens.missing(request, "That study is not in the desk's folders any more.")
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
    desk = screens.desk
    place = desk.place("releases", name)
    if place is None:
        return screens.missing(request, "That release is not in the desk's folders any more.")
    release = desk.release(place)
    outcome = None
    if tried is not None and "fault" not in release:
        outcome = desk.clerk.ask("shown_release:tried", str(place.path), tried)
    books = desk.ledgers()
    return screens.page(
        request,
        "release.html.j2",
        title=release["name"],
        release=release,
        books=books,
        tried=tried or {},
        outcome=outcome,
    )
