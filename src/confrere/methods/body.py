"""Noise shaped like the rows: when it is used, and what the public facts make of a schema.

Proof: docs/proofs/geometry.md. The rules were chosen on some tables and confirmed on others, see
docs/geometry.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.norms import Body
from confrere.maths.geometry import (
    BELIEF,
    BELIEF_OF_MANY,
    CONSTANT,
    JACOBIAN,
    LOG_ODDS,
    ExpectedSignal,
    Factor,
    NoiseModel,
    choose_geometry,
    expected_signal,
    gaussian_noise,
    least_ridge,
    pure_noise,
)
from confrere.maths.prior_ridge import free_ridge, noise_variance
from confrere.methods.design import Allowance
from confrere.rows.body import BodyFrame, l1_reach
from confrere.schema import Number, PublicSchema, SchemaEncoder
from confrere.schema.encoding import SPREAD, BodyBlock, Form

#: For which body noise is made: the schema's where that is known, a ball, or the schema's.
Noise = Literal["auto", "ball", "schema"]

#: What noise is made for in a schema's coordinates: the body itself, or a ball there.
Leaf = Literal["Max", "L2", "L1"]

#: Curvature of the loss where no base rate is declared; a declared one never implies more.
CURVATURE = 0.2

#: Hats stay whole, in one body with everything else, where they are at least half of the raw
#: columns and so much of the signal is expected to survive: then noise is short as it is, and a
#: curve needs no line to lean on.
PLENTY = 0.6

#: Numbers in all roots of a body at the most: more would be too long for a message, and a category
#: of a stranger's schema could fill any memory.
LARGEST_ROOTS = 1 << 22

#: A delta is spent where by so much more of the signal is expected to survive.
WORTH = 1.2


def curvature_of(schema: PublicSchema, n_classes: int = 2) -> float:
    """Return the mean of ``p(1-p)`` that the declared base rate, or the classes' number, implies.

    Of K classes that are alike one has ``(K-1)/K^2``; they are not, and the larger ones see more.
    """
    if n_classes > 2:
        return min(CURVATURE, 1.2 * (n_classes - 1) / n_classes**2)
    rate = None if schema.outcome is None else schema.outcome.base_rate
    return CURVATURE if rate is None else min(CURVATURE, rate * (1 - rate))


def fits(blocks: Sequence[BodyBlock]) -> bool:
    """Whether a body of these blocks is small enough to be written down."""
    return sum(block.size**2 for block in blocks) <= LARGEST_ROOTS


def factors_of(
    blocks: Sequence[BodyBlock], *, whole: bool = False
) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors of a body, the constant among them, and the maps that lead to them.

    A curve is a line, and what is between the first knot and the last: its hats become a factor
    of one column and a factor of bends. A missing value's corner is one of the bends', or stands
    beside the line where there are none. If they stay ``whole``, all share one rate.
    """
    if not fits(blocks):
        raise InvalidParameter(
            f"noise='schema' takes a category of up to {math.isqrt(LARGEST_ROOTS)} values, or "
            "several shorter ones; use noise='ball'."
        )
    factors: list[Factor] = []
    turns: list[Floats] = []
    for block in blocks:
        hats = block.smooth
        if not hats:
            kind: Any = block.kind
            factors.append(Factor(block.size, kind, block.spread))
            turns.append(np.eye(block.size))
            continue
        if whole and hats > 2:
            factors.append(Factor(block.size, "hats", block.spread, hats))
            turns.append(np.eye(block.size))
            continue
        line = np.zeros((1, block.size))
        line[0, :hats] = block.line
        others = [*range(1, hats - 1), *range(hats, block.size)]
        turns.append(np.vstack([line, np.eye(block.size)[others]]))
        if hats > 2:
            factors.append(Factor(1, "number", SPREAD))
            factors.append(Factor(len(others), "bend", block.spread, hats - 2, block.known))
        else:
            factors.append(Factor(1 + len(others), "number", SPREAD))
    factors.append(CONSTANT)
    if whole:
        factors = [replace(factor, together=True) for factor in factors]
    bent = any(block.smooth for block in blocks)
    return factors, tuple(turns) if bent else ()


def divided(
    blocks: Sequence[BodyBlock], n_samples: int, curvature: float, noise: NoiseModel
) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors and maps that are used: hats whole where that is better, or divided."""
    whole = factors_of(blocks, whole=True)
    hats = sum(factor.kind == "hats" for factor in whole[0])
    if noise.gaussian or 2 * hats < len(blocks):
        return factors_of(blocks)
    found = expected_signal(whole[0], n_samples=n_samples, curvature=curvature, noise=noise)
    return whole if found.kept >= PLENTY else factors_of(blocks)


def noises(allowed: Allowance) -> list[NoiseModel]:
    """Return the laws that a price may pay for: the body's own, and with a delta the Gaussian."""
    found = [pure_noise(allowed.budget, allowed.reach, allowed.changed)]
    return [*found, gaussian_noise(allowed.sigma)] if allowed.delta else found


def expect(
    schema: PublicSchema, form: Form, allowed: Allowance
) -> tuple[ExpectedSignal, NoiseModel]:
    """Return what lines or curves in a schema's body are expected to learn, and by which noise.

    Of one and the same log-odds, those of curves, so that forms can be compared.
    """
    n_samples, curvature = allowed.records, curvature_of(schema, allowed.loss.n_classes)
    laws = noises(allowed)
    blocks = schema.encoder(form=form).blocks()
    among, _ = divided(schema.encoder(form="curves").blocks(), n_samples, curvature, laws[0])

    def expected(noise: NoiseModel) -> ExpectedSignal:
        factors, _ = divided(blocks, n_samples, curvature, noise)
        return expected_signal(
            factors, n_samples=n_samples, curvature=curvature, noise=noise, among=among
        )

    return _better([(expected(law), law) for law in laws])


def _better(
    found: Sequence[tuple[ExpectedSignal, NoiseModel]],
) -> tuple[ExpectedSignal, NoiseModel]:
    """Return what is expected of the law that is used."""
    pure, *others = found
    return next((pair for pair in others if pair[0].signal > WORTH * pure[0].signal), pure)


def choose_form(
    schema: PublicSchema, noise: Noise, allowed: Allowance, *, each: bool = False
) -> Form:
    """Return how a schema's columns are encoded: a rule of public facts.

    ``"auto"`` leaves to the ball a schema with importances, whose columns are weighted by them, and
    what is given column by column (``each``), which speaks of standardised ones. Otherwise noise is
    shaped like the rows, and of two classes numbers without a word of their own become curves where
    more of the signal is expected to survive than with straight lines. Of several lines are better,
    or as good, on all tables that were tried.
    """
    return _chosen_form(
        replace(schema, paid=()), noise, allowed, each
    )  # whoever paid for its facts


@lru_cache(maxsize=64)  # asked while one fit is planned, encoded, priced and kept
def _chosen_form(schema: PublicSchema, noise: Noise, allowed: Allowance, each: bool) -> Form:
    if noise == "auto" and (schema.has_importances or each):
        return "standardised"
    if noise == "ball" or (noise == "auto" and not fits(schema.encoder(form="curves").blocks())):
        return "standardised"
    undecided = any(isinstance(f, Number) and f.curve == "auto" for f in schema.features)
    if allowed.loss.n_classes > 2 or not undecided:
        return "linear"
    lines, curves = (expect(schema, form, allowed)[0].signal for form in ("linear", "curves"))
    return "curves" if curves > lines else "linear"


def form_for(
    schema: PublicSchema,
    noise: Noise,
    allowed: Allowance,
    *,
    beyond: Mapping[str, bool],
    grouped: bool = False,
) -> Form:
    """Return how columns are encoded for an estimator with settings that bodies may not know.

    Parameters
    ----------
    schema, noise, allowed
        As in :func:`choose_form`.
    beyond : mapping of str to bool
        By name, what noise shaped like the rows does not know, and whether it is set.
    grouped : bool, default=False
        Whether importances deal out epsilon to groups of columns, in bodies as in a ball.
    """
    if noise == "auto" and (any(beyond.values()) or allowed.loss.n_classes > 2):
        return "standardised"
    if noise == "schema":
        refuse_beyond(beyond)
    return choose_form(schema, "schema" if noise == "auto" and grouped else noise, allowed)


def declared_number(schema: PublicSchema, classes: Any) -> int:
    """Return how many classes are declared, by the schema or beside it; two unless told."""
    declared = classes if schema.outcome is None else schema.outcome.classes
    return 2 if declared is None else max(2, int(np.size(declared)))


def refuse_beyond(settings: Mapping[str, bool]) -> None:
    """Raise if anything is set, by its name, that noise shaped like the rows does not know."""
    for name, is_set in settings.items():
        if is_set:
            raise InvalidParameter(f"noise='schema' does not know {name}; use noise='ball'.")


def encodes(encoder: SchemaEncoder, features: Sequence[str] | None) -> bool:
    """Whether rows of these columns are an encoder's; without names only a price is asked."""
    return features is None or encoder.names == tuple(features)


def spent_delta(
    encoder: SchemaEncoder,
    allowed: Allowance,
    *,
    constant: bool = True,
    log_odds: float = LOG_ODDS,
) -> float:
    """Return what of a delta is spent in a schema's body: all of it, or nothing.

    A choice of public facts, made once: a fit that follows from a release must have the law that
    was promised, whatever the release has shown. Parameters are those of :func:`schema_frame`.
    """
    if not allowed.delta:
        return 0.0
    n_samples, blocks = allowed.records, encoder.blocks()
    curvature = curvature_of(encoder.schema, allowed.loss.n_classes)
    found = []
    for law in noises(allowed):
        factors, _ = _division(blocks, n_samples, curvature, law, constant)
        signal = expected_signal(
            factors, n_samples=n_samples, curvature=curvature, noise=law, log_odds=log_odds
        )
        found.append((signal, law))
    return allowed.delta if _better(found)[1].gaussian else 0.0


def _division(
    blocks: Sequence[BodyBlock],
    n_samples: int,
    curvature: float,
    noise: NoiseModel,
    constant: bool,
) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors and maps that are used, without the constant where there is none."""
    factors, turns = divided(blocks, n_samples, curvature, noise)
    return factors if constant else factors[:-1], turns


def schema_frame(
    encoder: SchemaEncoder,
    allowed: Allowance,
    *,
    constant: bool = True,
    log_odds: float = LOG_ODDS,
    columns: Sequence[int] | None = None,
    leaf: Leaf = "Max",
) -> BodyFrame:
    """Return the coordinates of the body that a schema declares, with the ridge that suits it.

    Parameters
    ----------
    encoder : SchemaEncoder
        Of a form for bodies.
    allowed : Allowance
        Of the fit; its delta is what is spent, see :func:`spent_delta`.
    constant : bool, default=True
        Whether there is an intercept.
    log_odds : float, default=4.0
        Prior variance of a row's log-odds around what is shrunk towards.
    columns : sequence of int, optional
        Positions of the schema's columns that rows consist of; all unless given.
    leaf : {"Max", "L2", "L1"}, default="Max"
        What noise is made for: the body itself, or a ball in its coordinates.
    """
    n_classes, blocks = allowed.loss.n_classes, encoder.blocks()
    curvature = curvature_of(encoder.schema, n_classes)
    if columns is not None:
        blocks = tuple(blocks[j] for j in columns)
    *_, law = noises(allowed)
    if leaf != "Max" and not allowed.delta:  # alike in all coordinates, as normal noise is
        size = sum(block.size for block in blocks) + constant
        law = gaussian_noise(math.sqrt(noise_variance(allowed.budget, size, allowed.reach)))
    factors, turns = _division(blocks, allowed.records, curvature, law, constant)
    chosen = choose_geometry(
        factors,
        least=least_ridge(JACOBIAN * allowed.budget, n_classes),
        noise=law,
        n_samples=allowed.records,
        curvature=curvature,
        log_odds=log_odds,
        belief=BELIEF if n_classes == 2 else BELIEF_OF_MANY,
    )
    body, scale = Body(chosen.roots, chosen.groups, chosen.shares), encoder.encoding().norm
    if leaf != "L1":
        return BodyFrame(body, chosen.ridge, scale, constant, turns)
    # Rows of sums of magnitudes up to one are shorter, and weights as much longer.
    short = (1 - 1e-9) / l1_reach(body.roots)
    body = replace(body, roots=tuple(short * root for root in body.roots))
    ridge = max(short**2 * chosen.ridge, free_ridge(allowed.budget))
    return BodyFrame(body, ridge, scale, constant, turns, "l1")
