"""A release in a notebook: its card in short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confrere.ledger.accounts import shown
from confrere.notebook import BAD, GOOD, bar, facts, grid, panel, word

if TYPE_CHECKING:
    from confrere.release.release import Release


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


def _some(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
