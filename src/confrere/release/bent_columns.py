"""The curves of a released model as pictures for its card: what each number does to the log odds.

Curves are drawn from released weights. The band around them is what noise alone would do to them,
from public facts: two standard deviations of its law, as if records were spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from confrere.maths.geometry import CONSTANT, Factor, weight_noise
from confrere.model import Linear
from confrere.plans.body_plan import curvature_of
from confrere.schema.encoding import NumberColumn

if TYPE_CHECKING:
    from confrere.release.release import Release

Floats = NDArray[np.float64]

#: Deviations on either side of a curve.
BAND = 2.0

_WIDE, _HIGH, _LEFT, _TOP, _BOTTOM = 150.0, 74.0, 24.0, 6.0, 14.0


@dataclass(frozen=True, eq=False)
class BentColumn:
    """What one number does to the log odds of the second class, around its mean over the knots.

    Attributes
    ----------
    column : str
        Its name.
    places : array
        The knots, on the scale that hats are on.
    values : array
        Log odds there.
    deviations : array or None
        Of the noise in them; None where public facts do not tell.
    ends : pair of float
        The first and the last knot as raw values.
    """

    column: str
    places: Floats
    values: Floats
    deviations: Floats | None
    ends: tuple[float, float]

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
    encoding = model.encoder.encoding
    blocks = model.encoder.transformer().blocks()
    start = 0
    for place, (column, block) in enumerate(zip(encoding.columns, blocks, strict=True)):
        hats = slice(start, start + block.smooth)
        start += block.size
        if not block.smooth or not isinstance(column, NumberColumn):
            continue
        around = np.eye(block.smooth) - 1 / block.smooth
        values = around @ (model.coef[0, hats] / encoding.norm)
        noise = _noise(release, place)
        deviations = None
        if noise is not None:
            part = noise[: block.smooth, : block.smooth]
            deviations = np.sqrt(np.diagonal(around @ part @ around))
        knots = np.array(column.knots)
        raw = np.expm1(knots) + column.clip[0] if column.log else knots
        yield BentColumn(column.column, knots, values, deviations, (float(raw[0]), float(raw[-1])))


def _noise(release: Release, place: int) -> Floats | None:
    """Return the covariance of the noise in one column's weights, where public facts tell it.

    Near a prior the ridge depends on how far it was believed: no band is drawn.
    """
    facts, encoder = release.model.facts, release.model.encoder
    if facts.rho is None or facts.ridge is None or facts.n_samples is None or encoder is None:
        return None
    if facts.prior is not None or release.kind != "plr":
        return None
    factors = [Factor(b.size, b.kind, b.spread, b.smooth) for b in encoder.transformer().blocks()]
    return weight_noise(
        [*factors, CONSTANT],
        place,
        n_samples=facts.n_samples,
        rate=facts.rho,
        ridge=facts.ridge,
        curvature=curvature_of(encoder.schema),
    )
