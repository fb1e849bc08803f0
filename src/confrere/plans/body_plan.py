"""Noise shaped like the rows: when it is used, and what the public facts make of a schema.

Proof: docs/proofs/geometry.md. The rules were chosen on some tables and confirmed on others, see
docs/geometry.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from confrere.errors import InvalidParameter
from confrere.maths.geometry import CONSTANT, LOG_ODDS, Factor, choose_geometry
from confrere.plans.linear_plan import Loss, slope_of
from confrere.plans.ridges import noise_budget
from confrere.rows.body import Body, BodyFrame
from confrere.schema import Flag, Number, PublicSchema, SchemaEncoder
from confrere.schema.encoder import Form

#: For which body noise is made: the schema's where that is better, a ball, or the schema's.
Noise = Literal["auto", "ball", "schema"]

#: Curvature of the loss where no base rate is declared; a declared one never implies more.
CURVATURE = 0.2

#: Columns per record, epsilon and curvature: up to how many curves pay, times the squared share of
#: numbers among the raw columns, and from how many on.
PLENTY, SCARCE = 0.15, 1.2

#: Part of the columns that must be one-hot where flags are not centred.
CORNERS = 2 / 3


def curvature_of(schema: PublicSchema) -> float:
    """Return the mean of ``p(1-p)`` that the declared base rate implies."""
    rate = None if schema.outcome is None else schema.outcome.base_rate
    return CURVATURE if rate is None else min(CURVATURE, rate * (1 - rate))


def curves_pay(schema: PublicSchema, n_samples: int, epsilon: float) -> bool:
    """Whether numbers without a word of their own become curves: a rule of public facts.

    Curves make more columns, and so more noise for all others. Where records and epsilon are plenty
    they pay. Where not, it depends on what stands beside them. If numbers are most of the columns,
    lines are better: eight times the columns are more than the noise allows. Beside categories
    hats are cheap, and win always. Beside flags and levels they win where nothing is known of
    numbers but their bounds, between which a line is rarely a good fit, and where records are so
    scarce that little can be learned at all.
    """
    numbers = [f for f in schema.features if isinstance(f, Number) and f.curve == "auto"]
    if not numbers:
        return False
    columns = 1 + sum(block.size for block in schema.encoder(form="curves").blocks())
    crowded = columns / (n_samples * epsilon * curvature_of(schema))
    share = len(numbers) / len(schema.features)
    if crowded <= PLENTY * share**2:
        return True
    if _mostly_numbers(schema):
        return False
    bare = sum(number.mean is None for number in numbers)
    intervals = sum(block.size == 1 for block in schema.encoder(form="linear").blocks())
    return _mostly_corners(schema) or 0 < intervals <= 2 * bare or crowded > SCARCE


def _mostly_numbers(schema: PublicSchema) -> bool:
    return 2 * sum(isinstance(feature, Number) for feature in schema.features) > len(
        schema.features
    )


def _mostly_corners(schema: PublicSchema) -> bool:
    sizes = [block.size for block in schema.encoder(form="linear").blocks()]
    return sum(size for size in sizes if size > 1) >= CORNERS * sum(sizes)


def choose_form(schema: PublicSchema, noise: Noise, n_samples: int, epsilon: float) -> Form:
    """Return how a schema's columns are encoded.

    ``"auto"`` leaves a schema with importances to the ball, whose columns are weighted by them.
    Where most columns are numbers it takes the box of their bounds if these are all that is known,
    and the ball if means and deviations are: a box must be cut at two deviations, a ball must not.
    It leaves flags to the ball whose shares nobody declares, unless most columns are one-hot.
    """
    if noise == "ball" or (noise == "auto" and schema.has_importances):
        return "standardised"
    if curves_pay(schema, n_samples, epsilon):
        return "curves"
    bent = any(block.smooth for block in schema.encoder(form="linear").blocks())
    if noise == "schema" or bent or _mostly_corners(schema):
        return "linear"
    if _mostly_numbers(schema):
        known = [f.mean is not None for f in schema.features if isinstance(f, Number)]
        return "standardised" if 2 * sum(known) >= len(known) else "linear"
    centred = all(f.share is not None for f in schema.features if isinstance(f, Flag))
    return "linear" if centred else "standardised"


def form_for(
    schema: PublicSchema,
    noise: Noise,
    n_samples: int,
    epsilon: float,
    *,
    classes: Any,
    beyond: Mapping[str, bool],
) -> Form:
    """Return how columns are encoded for an estimator with settings that bodies may not know.

    Parameters
    ----------
    schema, noise, n_samples, epsilon
        As in :func:`choose_form`.
    classes : array-like or None
        The label set, where the schema declares none.
    beyond : mapping of str to bool
        By name, what noise shaped like the rows does not know, and whether it is set.
    """
    declared = classes if schema.outcome is None else schema.outcome.classes
    known = {**beyond, "more than two classes": declared is not None and np.size(declared) > 2}
    if noise == "auto" and any(known.values()):
        return "standardised"
    if noise == "schema":
        for name, is_set in known.items():
            if is_set:
                raise InvalidParameter(f"noise='schema' does not know {name}; use noise='ball'.")
    return choose_form(schema, noise, n_samples, epsilon)


def encodes(encoder: SchemaEncoder, features: Sequence[str] | None) -> bool:
    """Whether rows of these columns are an encoder's; without names only a price is asked."""
    return features is None or encoder.names == tuple(features)


def schema_frame(
    encoder: SchemaEncoder,
    n_samples: int,
    *,
    epsilon: float,
    loss: Loss,
    constant: bool = True,
    log_odds: float = LOG_ODDS,
) -> BodyFrame:
    """Return the coordinates of the body that a schema declares, with the ridge that suits it.

    Parameters
    ----------
    encoder : SchemaEncoder
        Of a form for bodies.
    n_samples : int
        Public number of records behind the model.
    epsilon : float
        The whole price.
    loss : {"logistic", "capped"}
        Of the model.
    constant : bool, default=True
        Whether there is an intercept.
    log_odds : float, default=2.0
        Prior variance of a row's log-odds around what is shrunk towards.
    """
    factors = [Factor(b.size, b.kind, b.spread, b.smooth) for b in encoder.blocks()]
    chosen = choose_geometry(
        [*factors, CONSTANT] if constant else factors,
        n_samples=n_samples,
        budget=noise_budget(epsilon),
        curvature=curvature_of(encoder.schema),
        cap=slope_of(loss),
        log_odds=log_odds,
    )
    body = Body(chosen.roots, chosen.groups, chosen.shares)
    return BodyFrame(body, chosen.ridge, encoder.encoding().norm, constant)
