"""The texts of a release that people read: README, the card on a page, and in a notebook.

A curve's band is what noise alone does to it, by public facts: two deviations of its law, as if
records were spread evenly. The README is the same for all, and part of the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from scipy.linalg import block_diag

from confrere.arrays import Floats
from confrere.methods.geometry import curvature_of, expected_of, factors_of
from confrere.model import Linear
from confrere.model.summary import summarised
from confrere.release.card import Card
from confrere.release.signing import NAMESPACE
from confrere.views import Pairs, Panel, Word, cost, share, shown, shown_down

if TYPE_CHECKING:
    from confrere.release.additions import SignedAddition
    from confrere.release.release import Release


#: Deviations on either side of a curve.
BAND = 2.0

_WIDE, _HIGH, _LEFT, _TOP, _BOTTOM = 150.0, 74.0, 24.0, 6.0, 14.0


@dataclass(frozen=True, eq=False)
class BentColumn:
    """What one number does to the log odds of the second class, around its mean over the knots."""

    column: str  #: Its name
    places: Floats  #: The knots, on the scale that hats are on
    values: Floats  #: Log odds there
    deviations: Floats | None  #: Of the noise in them; None where public facts do not tell
    ends: tuple[float, float]  #: The first and the last knot as raw values

    @property
    def picture(self) -> Markup:
        """The curve with its band as one SVG, without script or style of its own."""
        spread = np.zeros_like(self.values) if self.deviations is None else BAND * self.deviations
        low, high = float(np.min(self.values - spread)), float(np.max(self.values + spread))
        low, high = min(low, -0.1), max(high, 0.1)
        first, last = float(self.places[0]), float(self.places[-1])
        x = _LEFT + (self.places - first) / (last - first) * (_WIDE - _LEFT - 4)

        def y(value: Floats | float) -> Floats:
            inside = _HIGH - _TOP - _BOTTOM
            return np.asarray(_TOP + (high - np.asarray(value)) / (high - low) * inside)

        def points(xs: Floats, ys: Floats) -> str:
            return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs, ys, strict=True))

        around = np.concatenate([y(self.values - spread), y(self.values + spread)[::-1]])
        band = points(np.concatenate([x, x[::-1]]), around)
        zero = f"{float(y(0.0)):.1f}"
        return Markup(
            '<svg class="curve" viewBox="0 0 {wide:g} {high:g}" role="img" aria-label="{label}">'
            '<polygon class="band" points="{band}"/>'
            '<line class="zero" x1="{left:g}" x2="{right:g}" y1="{zero}" y2="{zero}"/>'
            '<polyline class="line" points="{line}"/>'
            '<text x="{text:g}" y="{top:g}" text-anchor="end">{most}</text>'
            '<text x="{text:g}" y="{bottom:g}" text-anchor="end">{least}</text>'
            '<text x="{left:g}" y="{under:g}">{begin}</text>'
            '<text x="{right:g}" y="{under:g}" text-anchor="end">{end}</text></svg>'
        ).format(
            wide=_WIDE,
            high=_HIGH,
            label=f"{self.column}: log odds from {self.values[0]:+.2f} to {self.values[-1]:+.2f}",
            band=band,
            line=points(x, y(self.values)),
            zero=zero,
            left=_LEFT,
            right=_WIDE - 4,
            text=_LEFT - 2,
            top=_TOP + 5,
            bottom=_HIGH - _BOTTOM,
            under=_HIGH - 4,
            most=f"{high:+.1f}",
            least=f"{low:+.1f}",
            begin=f"{self.ends[0]:g}",
            end=f"{self.ends[1]:g}",
        )


def bent_columns(release: Release) -> tuple[BentColumn, ...]:
    """Return the curves of a linear model of two classes, in the order of its columns."""
    return tuple(_found(release))


def _found(release: Release) -> Iterator[BentColumn]:
    model = release.model
    if not isinstance(model, Linear) or model.encoder is None or len(model.coef) != 1:
        return
    if model.encoder.form == "standardised":
        return
    encoder, start = model.encoder.transformer(), 0
    for place, (told, block) in enumerate((one.told, one.block) for one in encoder.columns):
        hats = slice(start, start + block.smooth)
        start += block.size
        if not block.smooth:
            continue
        around = np.eye(block.smooth) - 1 / block.smooth
        values = around @ (model.coef[0, hats] / encoder.norm)
        noise = _noise(release, place, block.smooth)
        deviations = None
        if noise is not None:
            part = noise[: block.smooth, : block.smooth]
            deviations = np.sqrt(np.diagonal(around @ part @ around))
        knots = np.array(told["knots"])
        raw = np.expm1(knots) + told["clip"][0] if told["log"] else knots
        yield BentColumn(told["column"], knots, values, deviations, (float(raw[0]), float(raw[-1])))


def _noise(release: Release, place: int, hats: int) -> Floats | None:
    """Return the covariance of the noise in one curve's hats; near a prior nobody knows it."""
    facts, encoder = release.model.facts, release.model.encoder
    if facts.ridges is None or facts.noises is None or facts.n_samples is None or encoder is None:
        return None
    if facts.prior is not None or release.kind != "plr":
        return None
    factors, turns = factors_of(encoder.transformer().blocks())
    found = [
        (noise * np.eye(one.size), ridge * one.kernel[0, 0] * np.linalg.inv(one.kernel))
        for one, noise, ridge in zip(factors, facts.noises, facts.ridges, strict=True)
    ]
    of_block = iter(found[:-1])
    for turn in turns[: place + 1]:
        mine = [next(of_block)]
        if len(mine[0][0]) < len(turn):
            mine.append(next(of_block))
    noise, ridge = (block_diag(*parts) for parts in zip(*mine, found[-1], strict=True))
    # About half of the records lie where a capped loss is straight.
    seen = facts.n_samples * curvature_of(encoder.schema) / 2 * _even_squares(turn, hats)
    moved = np.linalg.inv(seen + ridge)
    return np.asarray(turn.T @ (moved @ noise @ moved.T)[:-1, :-1] @ turn)


def _even_squares(turn: Floats, hats: int) -> Floats:
    """Return mean products of a curve's columns and the constant, by Simpson's rule."""
    knots = np.eye(hats, turn.shape[1])
    middles = (knots[1:] + knots[:-1]) / 2
    places = np.vstack([knots, knots[1:-1], np.repeat(middles, 4, axis=0)]) @ turn.T
    columns = np.hstack([places, np.ones((len(places), 1))])
    return np.asarray(columns.T @ columns / len(columns))


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


def card_page(
    release: Release | Card,  # What to describe; only a release has curves to draw
    additions: Sequence[SignedAddition] = (),  # What was measured later
) -> str:
    """Return one self-contained HTML page: no script, no network, made to be printed."""
    card = release if isinstance(release, Card) else release.card
    return _ENVIRONMENT.get_template("card.html.j2").render(
        card=card,
        curves=() if isinstance(release, Card) else bent_columns(release),
        bar=_widths(card),
        left=_left(card),
        namespace=NAMESPACE,
        additions=additions,
    )


def release_view(release: Release, additions: Sequence[SignedAddition] = ()) -> Panel:
    """Return the promise, against whom it holds, what is not protected, budget and quality."""
    card, model = release.card, release.model
    promise, budget = card.guarantee, card.prior_spend
    against = [
        Word("NOT PROTECTED", "bad", f": {one.who} ({one.sees})")
        if one.epsilon is None
        else f"epsilon {shown(one.epsilon)}: {one.who} ({one.sees})"
        for one in promise.adversaries
    ]
    quality = [
        f"{one.metric}: {one.value:.3f}, measured on {one.measured_on} ({one.basis})"
        for one in card.utility
    ]
    quality += [
        f"{one.name} {one.value:.3f} ({one.low:.3f} to {one.high:.3f}), measured by "
        f"{each.addition.party} on {each.addition.quality.records} records"
        for each in additions
        for one in each.addition.quality.measures
    ]
    area = expected_of(model, experts=card.product.kind in ("plr", "collaborative"))
    hoped = f"; expected AUC {area}, if the best model has {area.best:g}" if area else ""
    told = {
        "status": Word(card.status, "good" if card.status == "released" else "bad"),
        "purpose": card.product.purpose,
        "privacy cost": f"epsilon {cost(promise.epsilon, promise.delta)}, {promise.unit_detail}",
        "in words": card.risk_in_words.text,
        "takes": f"{len(model.features)} columns: {_some(model.features)}",
        "gives": f"one of {', '.join(map(str, model.classes))}; {card.post_processing[0]}",
        "against": against,
        "not protected": card.unprotected,
        "budget": budget and share(budget.after, budget.cap, budget.before),
        "quality": quality or f"not measured: confrere evaluate{hoped}",
        "proof": card.mechanism.theorem,
    }
    note = f"{card.product.kind}, {card.created[:10]}, id {card.release_id}"
    found = summarised(model) if isinstance(model, Linear) else None
    parts = [Pairs(told)] if found is None else [Pairs(told), found.table, found.note]
    return Panel(f"Release: {card.product.title}", parts, note)


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


def _some(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
