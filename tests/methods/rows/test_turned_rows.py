"""Curves in a body's coordinates: hats turned into a line and bends, and back."""

import numpy as np
import pytest

from confrere.methods.allowance import allowance
from confrere.methods.geometry import SchemaGeometry
from tests.methods.schema.test_curves import SCHEMA, random_table


def framed(constant=True):
    encoder = SCHEMA.encoder(form="curves")
    frame = SchemaGeometry(encoder, constant).frame(allowance(1.0, 3000))
    return encoder, frame


def encoded(encoder, n=400):
    return encoder.transform(random_table(np.random.default_rng(0), n))


def test_scores_are_the_same_in_both_languages():
    encoder, frame = framed()
    rows = encoded(encoder)
    weights = np.random.default_rng(1).normal(size=frame.size)
    coef, intercept = frame.coefficients(weights)
    turned = frame.rows(rows)
    assert turned.shape == (len(rows), frame.size)
    assert turned @ weights == pytest.approx(rows @ coef + intercept, abs=1e-9)
    # Back again: what the frame released, it also starts from.
    assert frame.weights(coef, intercept) == pytest.approx(weights, abs=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_every_row_is_mapped_into_the_body_whatever_it_holds(bad):
    encoder, frame = framed()
    rows = np.vstack([encoded(encoder, 5), np.full(frame.n_features, bad)])
    for j in range(frame.n_features):
        broken = encoded(encoder, 1)
        broken[0, j] = bad
        rows = np.vstack([rows, broken])
    inside = frame.rows(rows)
    frame.body.certify(inside)
    assert np.linalg.norm(inside, axis=1).max() <= 1
