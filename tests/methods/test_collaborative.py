"""The multiparty paper: its claims are audited and fall; ours are checked to the density."""

import numpy as np
import pytest
from scipy import stats

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.norms import L1
from confrere.methods.average import noised_coefficients
from confrere.simulation import SeededSource
from confrere.solver.descent import curvature, residual
from confrere.solver.quadratic import pack
from confrere_research.as_printed.ofpa_ofaa import noisy_linear_coefficients, ofaa, ofpa
from tests.world import ball, log_density

CONFIDENCE = 0.999
ABOVE = 1 + 1e-9


def lower_bound(hits, other_hits, trials):
    """Clopper and Pearson: epsilon is above this with the confidence, for a fixed event."""
    risk = (1 - CONFIDENCE) / 2
    low = stats.beta.ppf(risk, hits, trials - hits + 1)
    high = stats.beta.ppf(1 - risk, other_hits + 1, trials - other_hits)
    return np.log(low / high)


def labels(positives, n=20):
    return np.where(np.arange(n) < positives, 1.0, -1.0)


class TestPrinted:
    def test_the_intercept_of_ofpa_names_the_data_set(self):
        rng = np.random.default_rng(3)
        X = rng.uniform(-0.5, 0.5, size=(200, 2))
        trials = 4000

        def solves_the_equation(positives, seed):
            run = ofpa(
                [(X, labels(positives, 200))],
                epsilon=1.0,
                rounds=trials,
                rng=np.random.default_rng(seed),
            )
            w = run.uploads[0]
            p = 1 / (1 + np.exp(-(X @ w[:, :2].T + w[:, 2])))
            return int((np.abs(p.sum(axis=0) - 100) < 1e-6).sum())

        hits, other = solves_the_equation(100, 1), solves_the_equation(101, 2)
        assert other == 0
        assert hits > 0.9 * trials
        assert lower_bound(hits, other, trials) > 6

    def test_the_maximum_coefficient_of_ofaa_hides_one_of_many(self):
        """One record of twenty ones, its label flipped; at least 15 coefficients below zero."""
        trials, X = 400_000, np.ones((1, 20))
        hits = [
            int(
                (
                    (
                        noisy_linear_coefficients(
                            X,
                            np.array([label]),
                            epsilon=1.0,
                            count=trials,
                            rng=np.random.default_rng(seed),
                        )
                        < 0
                    ).sum(axis=1)
                    >= 15
                ).sum()
            )
            for seed, label in ((1, 1.0), (2, -1.0))
        ]
        assert lower_bound(*hits, trials) >= 3.0

    @pytest.mark.parametrize(("scale", "spends"), [("maximum", 40 * 7 / 3), ("equation", 8.888)])
    def test_rounds_of_ofaa_add_up(self, scale, spends):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(60, 6))
        run = ofaa(
            [(X, labels(30, 60)), (X, labels(20, 60))], epsilon=1.0, rounds=40, rng=rng, scale=scale
        )
        assert run.spends == pytest.approx(spends, rel=1e-3)
        assert run.uploads.shape == (2, 40, 7)
        np.testing.assert_allclose(run.averages, run.uploads.mean(axis=0))
        assert len({tuple(w) for w in run.uploads[0]}) == 40

    def test_without_noise_both_find_the_signal(self):
        rng = np.random.default_rng(1)
        X = rng.uniform(-1, 1, size=(2000, 3)) / 3
        y = np.where(X[:, 0] - X[:, 1] + 0.05 * rng.normal(size=2000) > 0, 1.0, -1.0)
        for run in (
            ofpa([(X, y)], epsilon=1e6, rounds=1, rng=rng),
            ofaa([(X, y)], epsilon=1e6, rounds=1, rng=rng),
        ):
            accuracy = np.mean((X @ run.averages[0, :3] + run.averages[0, 3] > 0) == (y > 0))
            assert accuracy > 0.9


def l1_log_density(w, X, y, *, rho, ridge, cap):
    """The density of the minimiser under Laplace noise: -rho ||b(w)||_1 + log det A(w)."""
    margins = y * (X @ w)
    b = X.T @ (y * residual(margins, cap)) - ridge * w
    hessian = (X * curvature(margins, cap)[:, None]).T @ X + ridge * np.eye(len(w))
    return -rho * np.abs(b).sum() + np.linalg.slogdet(hessian)[1]


class TestSound:
    @pytest.mark.parametrize(
        ("cap", "epsilon", "ridge"), [(1.0, 1.0, 2.2), (0.5, 1.0, 0.6), (1.0, 3.0, 0.3)]
    )
    def test_laplace_objective_keeps_its_epsilon(self, cap, epsilon, ridge):
        mechanism = ball(3, kind=L1, epsilon=epsilon, n_samples=4, ridge=ridge, cap=cap)
        budget = epsilon * (1 - SOLVER_SHARE)
        rng = np.random.default_rng(0)
        worst = 0.0
        for _ in range(3000):
            X = rng.laplace(size=(4, 3))
            X /= np.abs(X).sum(axis=1, keepdims=True)
            if rng.random() < 0.5:  # rows at the corners of the ball
                X = np.eye(3)[rng.integers(0, 3, 4)] * rng.choice([-1.0, 1.0], size=(4, 1))
            y = rng.choice([-1.0, 1.0], size=4)
            X2, y2 = X.copy(), y.copy()
            X2[0] = np.roll(X[0], int(rng.integers(3))) * rng.choice([-1.0, 1.0])
            y2[0] = rng.choice([-1.0, 1.0])
            w = rng.normal(size=3) * 10 ** rng.uniform(-1, 1.5)
            settings = {"rho": mechanism.rate, "ridge": ridge, "cap": cap}
            loss = abs(l1_log_density(w, X, y, **settings) - l1_log_density(w, X2, y2, **settings))
            worst = max(worst, loss)
        assert 0.8 * budget < worst <= budget * ABOVE

    def test_laplace_objective_draws_the_noise_of_the_proof(self):
        """The released weights solve for b: its coordinates must be Laplace of scale 1/rho."""
        rng = np.random.default_rng(2)
        X = rng.dirichlet(np.ones(3), size=30) * 0.999
        y = rng.choice([-1.0, 1.0], size=30)
        mechanism = ball(3, kind=L1, n_samples=30, ridge=3.0)
        source = SeededSource(4)
        drawn = []
        for _ in range(1500):
            ((w,),) = mechanism.sample(([X], y), source)
            drawn.append(X.T @ (y * residual(y * (X @ w))) - 3.0 * w)
        noise = np.ravel(drawn)
        assert stats.kstest(noise, stats.laplace(scale=1 / mechanism.rate).cdf).pvalue > 1e-4
        assert abs(np.corrcoef(np.array(drawn).T)[0, 1]) < 0.1

    def test_laplace_objective_with_two_over_epsilon_has_a_free_jacobian(self):
        mechanism = ball(3, kind=L1, ridge=2 / 0.99)
        assert 1 / mechanism.rate == pytest.approx(2 / 0.99)

    def test_functional_mechanism_keeps_its_epsilon(self):
        """The log density ratio of (v, M) at any output is at most epsilon."""
        mechanism = noised_coefficients(epsilon=1.0, n_samples=3, n_features=4)
        rng = np.random.default_rng(0)
        worst = 0.0
        for _ in range(2000):
            X = rng.normal(size=(3, 4))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            X2, y, y2 = X.copy(), rng.choice([-1.0, 1.0], size=3), None
            y2 = y.copy()
            X2[0] = rng.normal(size=4)
            X2[0] /= np.linalg.norm(X2[0])
            y2[0] = rng.choice([-1.0, 1.0])
            v, v2 = -0.5 * X.T @ y, -0.5 * X2.T @ y2
            M, M2 = pack(X.T @ X / 8), pack(X2.T @ X2 / 8)
            # Outputs on the line through both statistics, outside the segment: the worst ones.
            out_v, out_M = v + 3 * (v - v2), M + 3 * (M - M2)
            on_v, on_m = (law.rate for law in mechanism.laws)
            loss = on_v * (np.linalg.norm(out_v - v2) - np.linalg.norm(out_v - v))
            loss += on_m * (np.linalg.norm(out_M - M2) - np.linalg.norm(out_M - M))
            worst = max(worst, abs(loss))
        assert 0.95 < worst <= 1.0

    def test_an_intercept_outside_the_bound_would_be_found(self):
        """The frame's rows, constant included, stay in the ball that the accountant takes."""
        frame = Frame(2, constant=0.6)
        rows = frame.rows(np.array([[3.0, 4.0], [-5.0, 0.0]]))
        assert np.linalg.norm(rows, axis=1).max() <= 1
        mechanism_rho = 0.5
        losses = []
        for reach in (1.0, np.sqrt(1 + 0.6**2)):
            first, second = np.array([[reach, 0.0]]), np.array([[-reach, 0.0]])
            w = np.array([0.0, 0.0])
            grid = [w + np.array([s, 0.0]) for s in np.linspace(-8, 8, 161)]
            losses.append(
                max(
                    abs(
                        log_density(g, first, np.ones(1), rho=mechanism_rho, ridge=2.0)
                        - log_density(g, second, np.ones(1), rho=mechanism_rho, ridge=2.0)
                    )
                    for g in grid
                )
            )
        assert losses[0] <= 1.0
        assert losses[1] > losses[0] * 1.1


def problem(seed, n=9000, d=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1.5, 0.5, d)
    w = np.array([2.0, -1.5, 1.0, 0, 0.8, 0, -0.5, 0])[:d]
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-(X @ w) + 0.5))).astype(int)
    party = np.repeat([0, 1, 2], [4500, 3375, 1125])
    X_test = rng.normal(size=(4000, d)) * np.linspace(1.5, 0.5, d)
    y_test = (rng.uniform(size=4000) < 1 / (1 + np.exp(-(X_test @ w) + 0.5))).astype(int)
    return X, y, party, X_test, y_test


@pytest.mark.parametrize(
    ("method", "floor", "norm"),
    [("average", 0.80, 3.5), ("ofpa", 0.80, 8.0), ("ofaa", 0.79, 3.5), ("laplace", 0.78, 3.5)],
)
def test_three_parties_learn_the_signal(method, floor, norm):
    X, y, party, X_test, y_test = problem(0)
    scores = [
        CollaborativeClassifier(method=method, epsilon=0.8, data_norm=norm, random_state=seed)
        .fit(X, y, party=party)
        .score(X_test, y_test)
        for seed in range(5)
    ]
    assert np.mean(scores) > floor


@pytest.mark.parametrize("n_parties", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["average", "ofpa", "laplace"])
def test_thousands_of_parties_in_one_process_pay_once_and_learn(method, n_parties):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 10, size=n_parties) * (20_000 // n_parties)
    X = rng.normal(size=(sizes.sum(), 5)) / np.sqrt(5)
    model = CollaborativeClassifier(method=method, data_norm=2.0, random_state=0)
    model.fit(X, X[:, 0] > 0, party=np.repeat(np.arange(n_parties), sizes))
    assert model.guarantee_.epsilon == 1.0
    assert "disjoint parts, split by organisation" in model.guarantee_.assumptions
    assert len(model.party_weights_) == n_parties
    assert model.score(X, X[:, 0] > 0) > 0.9
