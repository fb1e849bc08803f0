"""The tree of commands."""

from __future__ import annotations

import typer

from confrere.cli.commands import (
    audit,
    demo,
    federation,
    fit,
    keys,
    ledgers,
    planning,
    releases,
    reproduce,
    schemas,
    studies,
    version,
)
from confrere.cli.group import Group

#: In the order of the help.
_ROOMS = (
    *(demo, studies, fit, releases, ledgers, schemas),
    *(audit, planning, reproduce, keys, federation, version),
)


def build() -> typer.Typer:
    """Return the application."""
    app = typer.Typer(
        name="confrere",
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Organisations learn a classifier together without giving away their people.",
    )
    for room in _ROOMS:
        room.add_to(app)
    return app


app = build()
