"""The texts of a release that people read: its README, and its card as one printed page.

The README is part of the format: whoever has card and model writes it again and compares, so a
change of its text is a new version of the card's schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from confrere.ledger.accounts import shown, shown_down
from confrere.model import Clip, Linear, Model, Stack
from confrere.model.model_json import TOLERANCE
from confrere.model.scoring import LARGEST
from confrere.release.card import Card
from confrere.release.signing import NAMESPACE

if TYPE_CHECKING:
    from confrere.release.additions import SignedAddition
    from confrere.release.release import Release

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~!])")
_ENVIRONMENT = Environment(
    loader=PackageLoader("confrere.release", "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["shown"] = shown


def readme(card: Card, model: Model) -> str:
    """Return the text of ``README.md``."""
    return _render(
        "README.md.j2",
        card=card,
        recipe="\n".join(recipe(model)),
        two_classes=len(model.classes) == 2,
        share=isinstance(model, Stack) and model.combine == "vote",
        namespace=NAMESPACE,
        tolerance=TOLERANCE,
        plain=lambda text: _MARKDOWN.sub(r"\\\1", text),
    )


def recipe(model: Model) -> list[str]:
    """Return about ten lines of Python, standard library alone, that define ``decision(x)``."""
    return [
        "import json, math",
        'm = json.load(open("model.json"))["model"]',
        "def dot(a, b, s=0.0):",
        "    for u, v in zip(a, b): s += u * v",
        "    return s",
        *_clip_lines(model),
        "def decision(x):",
        f"    x = [max(-{LARGEST:g}, min({LARGEST:g}, v)) for v in x]",
        *(['    x = clip(x, m["clip"])'] if model.clip else []),
        *_decision_lines(model),
    ]


def _clip_lines(model: Model) -> list[str]:
    groups = model.groups if isinstance(model, Stack) else ()
    clips: list[Clip | None] = [model.clip, *(group.clip for group in groups)]
    norms = {clip.norm for clip in clips if clip is not None}
    mixed = len({group.clip is None for group in groups}) == 2
    if not norms:
        return []
    euclidean, absolute = "math.sqrt(dot(u, u))", "dot(map(abs, u), [1.0] * len(u))"
    norm = f'{euclidean} if c["norm"] == 2 else {absolute}'
    if norms == {2}:
        norm = euclidean
    return [
        "def clip(u, c):",
        *(["    if c is None: return u"] if mixed else []),
        f"    n = {norm}",
        '    return [v * (c["radius"] / max(c["bound"], n)) for v in u]',
    ]


def _decision_lines(model: Model) -> list[str]:
    if isinstance(model, Linear):
        if len(model.classes) == 2:
            return ['    return dot(x, m["coef"], m["intercept"])']
        return ['    return [dot(x, w, b) for w, b in zip(m["coef"], m["intercept"])]']
    assert isinstance(model, Stack)
    part = '[x[j] for j in g["features"]]'
    if any(group.clip for group in model.groups):
        part = f'clip({part}, g["clip"])'
    low = {
        "vote": "    t = [(v > 0) - (v < 0) for v in z]",
        "alone": "    t = z",
        "stack": "    t = [math.tanh(v / 2) / math.sqrt(len(z)) for v in z]",
    }
    return [
        f'    s = [dot({part}, g["coef"], g["intercept"]) for g in m["groups"]]',
        '    z = [g["sharpness"] * (v - g["baseline"]) for v, g in zip(s, m["groups"])]',
        low[model.combine],
        '    return dot(t, m["coef"], m["intercept"])',
    ]


def card_page(release: Release | Card, additions: Sequence[SignedAddition] = ()) -> str:
    """Return one self-contained HTML page: no script, no network, made to be printed.

    Parameters
    ----------
    release : Release or Card
        What to describe.
    additions : sequence of SignedAddition
        What was measured later.
    """
    card = release if isinstance(release, Card) else release.card
    return _render(
        "card.html.j2",
        card=card,
        bar=_bar(card),
        left=_left(card),
        namespace=NAMESPACE,
        additions=additions,
    )


def _left(card: Card) -> str | None:
    """Return what is left of the budget; what can still be spent is rounded down."""
    budget = card.prior_spend
    return None if budget is None or budget.left is None else shown_down(budget.left)


def _bar(card: Card) -> dict[str, float] | None:
    """Return the widths of the budget's bar, in percent."""
    budget = card.prior_spend
    if budget is None or budget.cap is None:
        return None
    before = 100 * budget.before / budget.cap
    after = 100 * budget.after / budget.cap
    return {"before": min(before, 100.0), "now": max(0.0, min(after, 100.0) - before)}


def _render(name: str, **values: Any) -> str:
    """Fill in a template; a value that is missing is an error."""
    return _ENVIRONMENT.get_template(name).render(**values)
