"""The card as one printed page, for people."""

from __future__ import annotations

from confrere.release.card import Card
from confrere.release.model import Release
from confrere.release.risk import shown_down
from confrere.release.sshsig import NAMESPACE
from confrere.release.templates import render


def card_page(release: Release | Card) -> str:
    """Return one self-contained HTML page: no script, no network, made to be printed.

    Parameters
    ----------
    release : Release or Card
        What to describe.
    """
    card = release.card if isinstance(release, Release) else release
    return render("card.html.j2", card=card, bar=_bar(card), left=_left(card), namespace=NAMESPACE)


def _left(card: Card) -> str | None:
    """Return what is left of the budget; what can still be spent is rounded down."""
    budget = card.prior_spend
    return None if budget is None or budget["left"] is None else shown_down(budget["left"])


def _bar(card: Card) -> dict[str, float] | None:
    """Return the widths of the budget's bar, in percent."""
    budget = card.prior_spend
    if budget is None or budget["cap"] is None:
        return None
    before = 100 * budget["before"] / budget["cap"]
    after = 100 * budget["after"] / budget["cap"]
    return {"before": min(before, 100.0), "now": max(0.0, min(after, 100.0) - before)}
