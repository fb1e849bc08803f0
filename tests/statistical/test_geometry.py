"""Noise shaped like the rows: exact ratios in every relation, the law drawn, and what breaks it."""

import numpy as np
import pytest
from scipy import special, stats

from confrere.audit.adversary import worst_body_loss
from confrere.errors import InvalidData
from confrere.federation import Payload
from confrere.federation.averaging import ReleaseRequest
from confrere.guarantee import Neighbours
from confrere.maths import calibration
from confrere.maths.geometry import coordinate_variance
from confrere.mechanisms import body_objective
from confrere.mechanisms.body_objective import BodyObjectivePerturbation
from confrere.mechanisms.hidden_size import HiddenSize
from confrere.mechanisms.laws import BodyNoise, L2Noise
from confrere.mechanisms.noisy_minimiser import SOLVER_SHARE
from confrere.noise import samplers
from confrere.noise.sources import SeededSource
from confrere.rows import body as rows_body
from confrere.rows.body import Body, BodyFrame

ABOVE = 1 + 1e-9

#: Sizes of factors, groups, shares: in one to four dimensions, as one product and as two bodies.
BODIES = {
    "interval": ((1,), (0,), (1.0,)),
    "cross-polytope": ((2,), (0,), (1.0,)),
    "square": ((1, 1), (0, 0), (1.0,)),
    "prism": ((1, 2), (0, 0), (1.0,)),
    "two": ((1, 2), (0, 1), (0.3, 0.7)),
    "box and two": ((1, 1, 2), (0, 0, 1), (2.0, 1.0)),
    "two crosses": ((2, 2), (0, 1), (1.0, 1.0)),
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
    rows = HiddenSize(10) if neighbours is Neighbours.ADD_REMOVE else 10
    return BodyObjectivePerturbation(
        epsilon=epsilon,
        n_samples=rows,
        n_features=body.size,
        ridge=ridge,
        cap=cap,
        neighbours=neighbours,
        body=body,
    )


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("relation", [str(relation) for relation in Neighbours])
@pytest.mark.parametrize(("epsilon", "ridge"), [(1.0, 0.4), (4.0, 0.05)])
def test_never_above_epsilon_and_nothing_wasted(name, cap, relation, epsilon, ridge):
    body, change = body_of(name), Neighbours(relation)
    mechanism = mechanism_of(body, epsilon=epsilon, ridge=ridge, cap=cap, neighbours=change)
    budget = epsilon * (1 - SOLVER_SHARE)
    worst = worst_body_loss(body, rho=mechanism.rho, ridge=ridge, cap=cap, change=change, draws=2)
    assert worst <= budget * ABOVE
    # On a line two badly fitted records cannot pull opposite ways.
    if body.size > 1 or cap == 0.5 or change is not Neighbours.REPLACE_ONE:
        assert worst >= 0.95 * epsilon


def keeps_its_promise(name="box and two"):
    """Check rows, ridge and noise of the code that runs; raise AssertionError where one is wrong.

    The audit builds corners of the *declared* factors itself, so a body that is smaller than what
    rows may be, or a ridge that is weaker than it is said to be, shows up as a ratio.
    """
    body = body_of(name)
    mechanism = mechanism_of(body)
    worst = worst_body_loss(
        body, rho=mechanism.rho, ridge=mechanism.ridge, cap=mechanism.cap, draws=4
    )
    assert worst <= (1 - SOLVER_SHARE) * ABOVE
    frame = BodyFrame(body, 0.4, constant=False)
    wild = np.random.default_rng(0).normal(size=(200, body.size)) * 10.0 ** np.arange(
        -1, body.size - 1
    )
    made = frame.rows(wild)
    assert body.factor_norms(made).max() <= 1
    assert np.linalg.norm(made, axis=1).max() <= 1
    drawn = mechanism.law.draw(SeededSource(1), 4000, body.size)
    gauges = stats.gamma(body.size, scale=1 / mechanism.rho)
    assert stats.kstest(body.gauge(drawn), gauges.cdf).pvalue > 1e-4
    norms = body.factor_norms(drawn)
    for k, (size, group) in enumerate(zip(body.sizes, body.groups, strict=True)):
        dimension = sum(s for s, g in zip(body.sizes, body.groups, strict=True) if g == group)
        rate = mechanism.rho * body.shares[group]
        # The sum of magnitudes of a uniform point of a cross-polytope is Beta(size, 1).
        mean = (dimension + 1) * size / (size + 1) / rate
        assert abs(norms[:, k].mean() / mean - 1) < 0.06
    turned = drawn @ np.linalg.inv(_whole(body)).T
    for j, (size, group) in enumerate(_columns(body)):
        dimension = sum(s for s, g in zip(body.sizes, body.groups, strict=True) if g == group)
        rate = mechanism.rho * body.shares[group]
        variance = coordinate_variance(dimension, size) / rate**2
        assert abs(turned[:, j].var() / variance - 1) < 0.15


def _whole(body):
    whole = np.zeros((body.size, body.size))
    for part, root in zip(body.parts, body.roots, strict=True):
        whole[part, part] = root
    return whole


def _columns(body):
    for size, group in zip(body.sizes, body.groups, strict=True):
        yield from [(size, group)] * size


@pytest.mark.parametrize("name", ["box and two", "prism", "two crosses"])
def test_the_code_that_runs_keeps_its_promise(name):
    keeps_its_promise(name)


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
    "no Jacobian": (calibration.math, "log1p", lambda x: 0.0),
    "rows not clipped": (rows_body, "into_factors", _unclipped),
    "rows clipped as a box": (rows_body, "into_factors", _boxed),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_broken_rule_is_found(monkeypatch, fault):
    monkeypatch.setattr(*MUTANTS[fault])
    with pytest.raises(AssertionError):
        keeps_its_promise()


def test_a_ridge_that_is_weaker_than_said_is_found(monkeypatch):
    """``s`` understated: roots that are three times too long pass a reach that is not looked at."""
    sound = body_of("prism")
    monkeypatch.setattr(Body, "squared_reach", 1.0)
    broken = Body(tuple(3 * root for root in sound.roots), sound.groups)
    mechanism = mechanism_of(broken, ridge=2.0)
    worst = worst_body_loss(broken, rho=mechanism.rho, ridge=2.0, cap=0.5, draws=2)
    assert worst > 1.1


def test_rates_that_add_up_to_more_are_found(monkeypatch):
    """Two bodies, each with the whole rate: a row is one in both gauges."""
    body = body_of("two")
    mechanism = mechanism_of(body)
    object.__setattr__(body, "shares", (1.0, 1.0))
    worst = worst_body_loss(body, rho=mechanism.rho, ridge=mechanism.ridge, cap=0.5, draws=2)
    assert worst > 1.3


def test_the_density_that_is_audited_is_the_one_drawn():
    """Ratios of densities at two points are ratios of how often the law comes near them."""
    body = body_of("two", block=False)
    law = mechanism_of(body).law
    drawn = law.draw(SeededSource(3), 200_000, body.size)
    scale = np.median(np.abs(drawn), axis=0)
    points = scale * np.array([[0.3, 0.3, 0.3], [1.3, 0.3, 0.3], [0.3, 0.9, 0.8]])
    near = [
        np.mean(np.all(np.abs(np.abs(drawn) - point) < 0.25 * scale, axis=1)) for point in points
    ]
    expected = [np.exp(law.log_density(point) - law.log_density(points[0])) for point in points]
    assert np.array(near) / near[0] == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("bad", [np.nan, 1.5, -2.0])
def test_rows_outside_are_refused_before_any_draw(bad):
    body = body_of("prism", block=False)
    rows = np.zeros((10, 3))
    rows[4] = body.coordinates(np.array([[0.0, bad, 0.0]]))[0]
    with pytest.raises(InvalidData, match="body"):
        mechanism_of(body).run(rows, np.ones(10), source=SeededSource(0))


def test_any_row_at_all_is_mapped_inside():
    body = body_of("box and two")
    frame = BodyFrame(Body((*body.roots[2:], *body.roots[:2]), (1, 0, 0), body.shares), 0.4)
    wild = np.array(
        [
            [np.nan, np.inf, -np.inf],
            [1e308, -1e308, 1e308],
            [5e-324, 1e-300, -0.0],
            [1.0, 1.0, 1.0],
            [-1.0, 0.0, -1.0],
        ]
    )
    rows = frame.rows(wild)
    frame.body.certify(rows)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    # What lies inside is what it was, and coefficients read rows as given.
    coef, intercept = np.array([0.3, -2.0, 0.7]), 0.25
    weights = frame.weights(coef, intercept)
    assert rows[4] @ weights == pytest.approx(wild[4] @ coef + intercept)
    back, constant = frame.coefficients(weights)
    assert back == pytest.approx(coef)
    assert constant == pytest.approx(intercept)


def asked_by_others(name, shares=None):
    """Return the request for a party's weights in a body of somebody else's, as the wire has it."""
    body = body_of(name)
    asked = ReleaseRequest(
        frame=BodyFrame(body, 0.4, constant=False), epsilon=1.0, ridge=0.4, cap=0.5
    ).to_payload()
    frame = dict(asked.values["frame"])
    if shares is not None:  # a coordinator may ask for what no plan would
        frame["shares"] = list(shares)
    return Payload.decode(Payload({**asked.values, "frame": frame}, asked.arrays).encode())


def answer_is_private(name, shares=None):
    """Check what a party runs when it is asked: ratios of corners, its rows, and its noise."""
    asked = ReleaseRequest.from_payload(asked_by_others(name, shares))
    declared, mechanism = body_of(name), asked.objective(10)
    body = mechanism.body
    worst = worst_body_loss(
        body, rho=mechanism.rho, ridge=mechanism.ridge, cap=mechanism.cap, draws=4
    )
    assert 0.95 <= worst <= (1 - SOLVER_SHARE) * ABOVE
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(10, declared.size)) * 30, generator.choice([-1.0, 1.0], 10)
    rows = asked.frame.rows(X)
    assert body.factor_norms(rows).max() <= 1
    assert np.linalg.norm(rows, axis=1).max() <= 1
    # The noise of answers, read back off them: the gradient is zero where it is minus the noise.
    answers = mechanism.run_many(rows, y, source=SeededSource(2), count=400)
    margins = answers @ (rows * y[:, None]).T
    slopes = np.minimum(special.expit(-margins), mechanism.cap)
    noise = slopes @ (rows * y[:, None]) - mechanism.ridge * answers
    law = stats.gamma(body.size, scale=1 / mechanism.rho)
    assert stats.kstest(body.gauge(noise), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("name", "shares"),
    [("box and two", None), ("box and two", (0.999, 0.001)), ("box and two", (40.0, 2.0))],
)
def test_an_answer_in_a_body_that_others_chose_is_private(name, shares):
    answer_is_private(name, shares)


def _unshared(monkeypatch):
    real = Body.__post_init__

    def broken(self):
        real(self)
        object.__setattr__(self, "shares", (1.0,) * len(self.shares))

    monkeypatch.setattr(Body, "__post_init__", broken)


def _quieter(monkeypatch):
    real = BodyNoise.draw
    monkeypatch.setattr(BodyNoise, "draw", lambda *a: real(*a) / 3)


def _of_the_ball(monkeypatch):
    """A party that forgets the body draws noise of the same rate, in a ball."""

    def round_noise(self, source, count, size):
        return L2Noise(self.rho).draw(source, count, size)

    monkeypatch.setattr(BodyNoise, "draw", round_noise)


def _louder(monkeypatch):
    real = body_objective.calibrate
    monkeypatch.setattr(body_objective, "calibrate", lambda *a: 2 * real(*a))


def _unbounded(monkeypatch):
    monkeypatch.setattr(rows_body, "into_factors", lambda X, sizes, inside=1.0: inside * X)


@pytest.mark.parametrize("fault", [_unshared, _quieter, _of_the_ball, _louder, _unbounded])
def test_faults_in_what_a_party_answers_are_found(monkeypatch, fault):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        answer_is_private("box and two")
