"""Noise shaped like the rows: exact ratios in every relation, the law drawn, and what breaks it."""

import numpy as np
import pytest
from scipy import stats

from confrere.assurance.audit.adversary import worst_loss
from confrere.assurance.audit.densities import norms_of
from confrere.data import frame as rows_body
from confrere.data.frame import BodyFrame
from confrere.errors import InvalidParameter
from confrere.kernel import accountants
from confrere.kernel import noise as samplers
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.noise import FARTHEST, LEAST_SHARE, Body, Pure
from confrere.methods.allowance import allowance
from confrere.methods.geometry import SchemaGeometry, coordinate_variance
from confrere.schema import Category, Flag, Label, Number, PublicSchema
from confrere.simulation import SeededSource
from tests.world import forget, objective, row_count

ABOVE = 1 + 1e-9

#: Sizes of factors, groups, shares: in one to five dimensions, as one product or as several bodies.
BODIES = {
    "interval": ((1,), (0,), (1.0,)),
    "cross-polytope": ((2,), (0,), (1.0,)),
    "square": ((1, 1), (0, 0), (1.0,)),
    "prism": ((1, 2), (0, 0), (1.0,)),
    "two": ((1, 2), (0, 1), (0.3, 0.7)),
    "box and two": ((1, 1, 2), (0, 0, 1), (2.0, 1.0)),
    "two crosses": ((2, 2), (0, 1), (1.0, 1.0)),
    "three": ((1, 2, 2), (0, 1, 2), (0.2, 0.5, 0.3)),
}


def body_of(name, *, block=True):
    """Return a body whose ridge is a full block in every factor, scaled to the unit ball."""
    sizes, groups, shares = BODIES[name]
    generator = np.random.default_rng(1)
    roots = []
    for size in sizes:
        mixed = generator.normal(size=(size, size)) if block else np.eye(size)
        roots.append(np.linalg.cholesky(mixed @ mixed.T + 0.2 * np.eye(size)).T)
    reach = np.sqrt(sum(np.square(root).sum(axis=0).max() for root in roots))
    return Body(tuple(root / reach * (1 - 1e-12) for root in roots), groups, shares)


def mechanism_of(body, *, epsilon=1.0, ridge=0.4, cap=0.5, neighbours=Neighbours.REPLACE_ONE):
    return objective(
        epsilon=epsilon,
        n_samples=row_count(10, neighbours),
        norm=body,
        ridge=ridge,
        loss=accountants.Logistic(cap),
    )


def worst_of(mechanism, draws=2):
    """The exact loss over corners of the body that a mechanism of one block says it has."""
    act, change = mechanism.act, mechanism.exposure.neighbours
    known = {"rho": act.law.rate, "ridge": act.ridge, "change": change, "draws": draws}
    return worst_loss(act.norm, act.loss, **known)


def keeps_its_promise(name="box and two"):
    """Check rows, ridge and noise of the code that runs; raise AssertionError where one is wrong.

    The audit builds corners of the *declared* factors itself, so a body that is smaller than what
    rows may be, or a ridge that is weaker than it is said to be, shows up as a ratio.
    """
    body = body_of(name)
    mechanism = mechanism_of(body)
    assert worst_of(mechanism, draws=4) <= (1 - SOLVER_SHARE) * ABOVE
    frame = BodyFrame(body, 0.4, constant=False)
    wild = np.random.default_rng(0).normal(size=(200, body.size)) * 10.0 ** np.arange(
        -1, body.size - 1
    )
    made = np.asarray(frame.rows(wild))
    assert body.factor_norms(made).max() <= 1
    assert np.linalg.norm(made, axis=1).max() <= 1
    drawn = mechanism.act.law.draw(SeededSource(1), 4000)
    gauges = stats.gamma(body.size, scale=1 / mechanism.rate)
    assert stats.kstest(norms_of(body, drawn), gauges.cdf).pvalue > 1e-4
    assert_groups_have_their_law(drawn, body, mechanism.rate)
    norms = body.factor_norms(drawn)
    for k, (size, group) in enumerate(zip(body.sizes, body.groups, strict=True)):
        dimension = sum(s for s, g in zip(body.sizes, body.groups, strict=True) if g == group)
        rate = mechanism.rate * body.shares[group]
        # The sum of magnitudes of a uniform point of a cross-polytope is Beta(size, 1).
        mean = (dimension + 1) * size / (size + 1) / rate
        assert abs(norms[:, k].mean() / mean - 1) < 0.06
    turned = drawn @ np.linalg.inv(_whole(body)).T
    for j, (size, group) in enumerate(_columns(body)):
        dimension = sum(s for s, g in zip(body.sizes, body.groups, strict=True) if g == group)
        rate = mechanism.rate * body.shares[group]
        variance = coordinate_variance(dimension, size) / rate**2
        assert abs(turned[:, j].var() / variance - 1) < 0.15


def assert_groups_have_their_law(drawn, body, rho):
    """A group's part of the gauge is Gamma of its own columns, at its own share of the rate."""
    norms, groups = body.factor_norms(drawn), np.array(body.groups)
    for group, share in enumerate(body.shares):
        mine = groups == group
        law = stats.gamma(np.array(body.sizes)[mine].sum(), scale=1 / (rho * share))
        assert stats.kstest(norms[:, mine].max(axis=1), law.cdf).pvalue > 1e-4


def _whole(body):
    whole = np.zeros((body.size, body.size))
    for part, root in zip(body.parts, body.roots, strict=True):
        whole[part, part] = root
    return whole


def _columns(body):
    for size, group in zip(body.sizes, body.groups, strict=True):
        yield from [(size, group)] * size


@pytest.mark.parametrize("name", ["box and two", "prism", "two crosses", "three"])
def test_the_code_that_runs_keeps_its_promise(name):
    keeps_its_promise(name)


def schema_body(numbers, flags, categories, n_samples, epsilon, curve=False):
    """Return the body that the rules make of a schema."""
    features = [Number(f"x{j}", bounds=(0, 1), curve=curve) for j in range(numbers)]
    features += [Flag(f"f{j}") for j in range(flags)]
    for j, size in enumerate(categories):
        features.append(Category(f"c{j}", values=tuple(f"v{i}" for i in range(size))))
    schema = PublicSchema(features, outcome=Label("y", positive=1, negative=0))
    encoder = schema.encoder(form="curves" if curve else "linear")
    return SchemaGeometry(encoder).frame(allowance(epsilon, n_samples)).body


#: Lines, one-hot blocks and bends: three groups.
BENT = (3, 2, (4,), 300, 1.0, True)


#: Bodies that rules make; in the gauge's unit ball there are vectors up to eleven times a row.
RULED = [
    (10, 0, (5,), 1000, 1.0),
    (0, 38, (3, 3), 100_000, 1.0),
    (0, 60, (30,), 1000, 1.0),
    (0, 200, (10,), 10_000, 0.1),
    (200, 0, (50,), 1000, 1.0),
    (5, 0, (300, 300), 100_000, 1.0),
    BENT,
]


def group_corners(body):
    """Return, for every group, a vector of gauge one that is as long as any of that group alone."""
    found = np.zeros((len(body.shares), body.size))
    for part, root, group in zip(body.parts, body.roots, body.groups, strict=True):
        longest = part.start + int(np.argmax(np.square(root).sum(axis=0)))
        found[group, longest] = 1 / body.shares[group]
    return body.coordinates(found)


@pytest.mark.parametrize("facts", RULED, ids=str)
def test_no_noise_is_longer_than_a_certificate_reckons_with(facts):
    body = schema_body(*facts)
    law = Pure(body, 1.0)
    far = np.concatenate([group_corners(body), law.draw(SeededSource(0), 200)])
    lengths, gauges = np.linalg.norm(far, axis=1), norms_of(body, far)
    assert (lengths <= body.longest * gauges * ABOVE).all()
    # It is attained, and was above one wherever there is more than one group.
    corner = float(np.max(lengths[: len(body.shares)] / gauges[: len(body.shares)]))
    assert corner == pytest.approx(body.longest)
    assert corner > 1.0
    # The gauge is Gamma of all columns: its quantile in that direction is what is reckoned with.
    quantile = stats.gamma(body.size).isf(FARTHEST)
    assert law.longest >= corner * quantile * (1 - 1e-9)


def _wrong_shape(rho, dimension, count, source):
    return -np.log(source.uniforms(count, dimension - 1)).sum(axis=1) / rho


def _rate_for_scale(rho, dimension, count, source):
    return -np.log(source.uniforms(count, dimension)).sum(axis=1) * rho


def _box_points(size, count, source):
    return source.uniforms(count, size) * source.signs(count, size)


def _surface_points(size, count, source):
    exponentials = -np.log(source.uniforms(count, size))
    corner = exponentials / exponentials.sum(axis=1, keepdims=True)
    return corner * source.signs(count, size)


def _unclipped(X, sizes, inside=1.0):
    return np.nan_to_num(np.asarray(X, dtype=np.float64)) * inside


def _boxed(X, sizes, inside=1.0):
    return np.clip(X, -1, 1) * inside


MUTANTS = {
    "Gamma of shape d, not d + 1": (samplers, "gamma_norm", _wrong_shape),
    "Gamma rate for scale": (samplers, "gamma_norm", _rate_for_scale),
    "a box for the cross-polytope": (samplers, "cross_polytope_points", _box_points),
    "the surface for the body": (samplers, "cross_polytope_points", _surface_points),
    "no Jacobian": (accountants.math, "log1p", lambda x: 0.0),
    "rows not clipped": (rows_body, "into_factors", _unclipped),
    "rows clipped as a box": (rows_body, "into_factors", _boxed),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_broken_rule_is_found(monkeypatch, fault):
    monkeypatch.setattr(*MUTANTS[fault])
    forget()
    with pytest.raises(AssertionError):
        keeps_its_promise()
    forget()


@pytest.mark.parametrize("share", [LEAST_SHARE * (1 - 1e-9), 1e-6, 1e-9, 1e-12])
def test_a_share_so_small_that_runs_could_fail_is_refused_before_a_price_is_said(share):
    with pytest.raises(InvalidParameter, match="shares must each be at least"):
        Body(body_of("two").roots, (0, 1), (share, 1 - share))


@pytest.mark.parametrize(
    ("epsilon", "ridge"), [(0.01, 26.0), (0.01, 1e5), (1.0, 0.2), (1.0, 1e4), (20.0, 1e-6)]
)
@pytest.mark.parametrize("rows", [1, 100, 3000])
def test_at_the_least_share_every_run_is_certified_and_within_its_length(epsilon, ridge, rows):
    """What is paid for is answered: no draw is so long that rounding hides the gradient."""
    rng = np.random.default_rng(rows)
    body = Body((np.array([[0.5**0.5]]), np.array([[0.7]])), (0, 1), (LEAST_SHARE, 1 - LEAST_SHARE))
    X = body.coordinates(rng.uniform(-0.999, 0.999, (rows, 2)))
    y = rng.choice([-1.0, 1.0], rows)
    mechanism = objective(
        epsilon=epsilon, n_samples=rows, norm=body, ridge=ridge, loss=accountants.Logistic(0.5)
    )
    (answers,) = mechanism.sample(([X], y), SeededSource(4), 300)
    assert np.linalg.norm(answers, axis=1).max() <= mechanism.act.longest
