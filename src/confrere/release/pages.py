"""The texts of a release that people read: README, the card on a page, and in a notebook.

The README is the same for all, and part of the format: a change of its text is a new version of the
card's schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from confrere.ledger.accounts import shown, shown_down
from confrere.notebook import BAD, GOOD, bar, facts, grid, panel, word
from confrere.release.bent_columns import bent_columns
from confrere.release.card import Card
from confrere.release.signing import NAMESPACE

if TYPE_CHECKING:
    from confrere.release.additions import SignedAddition
    from confrere.release.release import Release

_ENVIRONMENT = Environment(
    loader=PackageLoader("confrere.release", "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["shown"] = shown


#: The text of every release's ``README.md``, with a program that predicts from ``model.json``.
README = files("confrere.release").joinpath("templates", "README.md").read_bytes()


def card_page(release: Release | Card, additions: Sequence[SignedAddition] = ()) -> str:
    """Return one self-contained HTML page: no script, no network, made to be printed.

    Parameters
    ----------
    release : Release or Card
        What to describe; only a release has curves to draw.
    additions : sequence of SignedAddition
        What was measured later.
    """
    card = release if isinstance(release, Card) else release.card
    return _render(
        "card.html.j2",
        card=card,
        curves=() if isinstance(release, Card) else bent_columns(release),
        bar=_widths(card),
        left=_left(card),
        namespace=NAMESPACE,
        additions=additions,
    )


def release_html(release: Release) -> str:
    """Return the promise, against whom it holds, what is not protected, and the budget."""
    card = release.card
    promise = card.guarantee
    delta = f", delta {shown(promise.delta)}" if promise.delta else ""
    told: dict[str, object] = {
        "status": word(card.status, GOOD if card.status == "released" else BAD),
        "price": f"epsilon {shown(promise.epsilon)}{delta}, {promise.unit_detail}",
        "in words": card.risk_in_words.text,
        "takes": f"{len(release.model.features)} columns: {_some(release.model.features)}",
        "gives": f"one of {', '.join(map(str, release.model.classes))}",
        "not protected": list(card.unprotected),
        "proof": card.mechanism.theorem,
    }
    budget = card.prior_spend
    if budget is not None and budget.cap is not None:
        told["budget"] = bar(budget.after / budget.cap, mark=budget.before / budget.cap)
    against = [
        (one.who, one.sees, word("NOT PROTECTED", BAD) if one.epsilon is None else "protected")
        for one in promise.adversaries
    ]
    quality = [(one.metric, f"{one.value:.4g}", one.measured_on) for one in card.utility]
    parts: list[object] = [facts(told), grid(("who", "sees", ""), against)]
    if quality:
        parts.append(grid(("quality", "value", "measured on"), quality, right=("value",)))
    return panel(
        f"Release: {card.product.title}",
        *parts,
        note=f"{card.product.kind}, {card.created[:10]}, id {card.release_id}",
    )


def _left(card: Card) -> str | None:
    """Return what is left of the budget; what can still be spent is rounded down."""
    budget = card.prior_spend
    return None if budget is None or budget.left is None else shown_down(budget.left)


def _widths(card: Card) -> dict[str, float] | None:
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


def _some(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
