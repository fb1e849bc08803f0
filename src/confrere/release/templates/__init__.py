"""The texts of a release that people read."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from confrere.release.risk import shown

_ENVIRONMENT = Environment(
    loader=PackageLoader("confrere.release", "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["shown"] = shown


def render(name: str, **values: Any) -> str:
    """Fill in a template of this folder; a value that is missing is an error."""
    return _ENVIRONMENT.get_template(name).render(**values)
