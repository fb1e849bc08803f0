r"""From a budget to noise: the accountants of perturbed objectives, and the table of theorems.

An objective is a sum over records, :math:`\sum_i \ell_i(W x_i) + \frac{L}{2}\|W - U\|^2 + \langle
B, W\rangle`, in coordinates in which a row has :math:`N(x) \le 1` and :math:`\|x\|_2 \le 1`. A
record moves the noise that a release needs by its gradient :math:`g \otimes x`, and the Jacobian by
its curvature, both at the *same* residual.

**Two classes, pure.** With :math:`p` the residual of the record that goes and :math:`\kappa` the
cap,

.. math:: \varepsilon(\rho) = \rho\kappa + \max_{0 \le p \le \kappa}
          \left[\rho p + \log(1 + p(1-p)/L)\right]

(without the first term under add-remove): N enters through :math:`N(x) \le 1` alone, whatever norm
it is. **K classes, pure**, noise of every class's own, :math:`\sum_c N(B_c)`: with :math:`t = 1 -
\pi_y` the gradient is :math:`\|\pi - e_y\|_1 N(x) \le 2t` long and the trace of the curvature at
most :math:`2t - t^2 K/(K-1)`. One norm of the whole matrix is priced too, for L2, where it needs
less up to three classes. **Several objectives on the same records**, blocks of columns with a
residual and noise of their own: prices add up where each block's rows may be one long (``apart``);
where they share the row's length (``joint``) the worst lengths count.

**Gaussian.** The loss of privacy is convex in the residuals but for the Jacobian: it is largest
where they are extreme, and there it is that of a Gaussian mechanism; see :class:`GaussianLoss`.

**Losses.** :math:`g` is the residual vector of a record's loss. With labels -1 and +1 and margin
:math:`t = y\,w\cdot x` the logistic loss is :math:`\ell(t) = \log(1 + e^{-t})`, its residual
:math:`p = -\ell'(t) = \sigma(-t)` and its curvature :math:`\ell''(t) = p(1 - p) \le 1/4`. A cap
:math:`\kappa < 1` bounds the residual by :math:`\min(p, \kappa)`: below :math:`t_0 = \log((1 -
\kappa)/\kappa)` the loss goes on linearly. It stays convex and once differentiable; the curvature
is 0 there.

Of K classes the loss is :math:`\log\sum_k e^{W_k \cdot x} - W_c \cdot x`, its residual vector
:math:`\pi - e_c` and its curvature :math:`\mathrm{diag}(\pi) - \pi\pi^\top`.

Proofs: docs/proofs/objective_perturbation.md, geometry.md, averaging.md, feature_groups.md and
gaussian.md. What is not in :data:`THEOREMS` does not exist.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_epsilon, check_positive, check_relation

Labels = NDArray[np.float64] | NDArray[np.intp]


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it."""

    n_classes: int  #: How many classes it tells apart
    slope: float  #: The longest residual vector, in L2
    n_scores: int  #: How many weight vectors there are: one tells two classes apart

    @abstractmethod
    def check_labels(self, labels: Labels) -> None:
        """Refuse labels of other classes."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        """Turn scores ``(m, n_scores, n)`` into residual vectors, in place."""

    def errors(self, scores: Floats, labels: Labels) -> Floats:
        """Return every record's residual vector, ``(n, n_scores)``: the slope in its scores."""
        turned = np.array(scores.T[None], dtype=np.float64, order="C")
        return np.asarray(self.residuals(turned, labels)[0].T)

    @abstractmethod
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return every record's curvature, ``(n, n_scores, n_scores)``."""


@dataclass(frozen=True)
class Logistic(Loss):
    """Of two classes, with labels -1 and +1."""

    cap: float = 1.0  #: Largest slope, from one half on; 1 is the logistic loss
    n_classes, n_scores = 2, 1

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        object.__setattr__(self, "slope", float(self.cap))

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels == 1.0) | (labels == -1.0)):
            raise InvalidData("y must be one label, -1 or +1, per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores *= labels
        special.expit(np.negative(scores, out=scores), out=scores)
        if self.cap < 1:
            np.minimum(scores, self.cap, out=scores)
        scores *= -labels
        return scores

    @override
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        p, rare = special.expit(-signs * scores), special.expit(-np.abs(scores))
        # The smaller of p and 1 - p has full relative accuracy; at the cap the curved side counts.
        return np.asarray(np.where(p <= self.cap, rare * (1 - rare), 0.0))[:, :, None]


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on."""

    n_classes: int  #: ``K``, at least three: two have the logistic loss
    #: ``||pi - e_c||`` is at most the root of two.
    slope = math.sqrt(2)

    def __post_init__(self) -> None:
        if self.n_classes < 3:
            raise InvalidParameter("classes must name at least two labels.")
        object.__setattr__(self, "n_scores", self.n_classes)

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels >= 0) & (labels < self.n_classes) & (labels == np.floor(labels))):
            raise InvalidData("codes must be one integer from 0 to n_classes - 1 per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[:, np.asarray(labels, dtype=np.intp), np.arange(scores.shape[2])] -= 1.0
        return scores

    @override
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        shares = special.softmax(scores, axis=1)
        diagonals = np.einsum("nk,kl->nkl", shares, np.eye(self.n_classes))
        return np.asarray(diagonals - shares[:, :, None] * shares[:, None, :])


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)


# --- one record's worst residual ------------------------------------------------------------------


def worst_residual(r: float, m: float, cap: float = 1.0) -> float:
    """Return the maximiser in ``[0, cap]`` of ``r p + log(1 + p(1-p)/m)``.

    It solves ``r p^2 - (r-2) p - (r m + 1) = 0``; of the two forms of the root the one without
    cancellation is taken.
    """
    root = math.sqrt(r * r + 4 + 4 * r * r * m)
    p = (r - 2 + root) / (2 * r) if r > 2 else 2 * (r * m + 1) / (2 - r + root)
    return min(cap, p)


def _worst_logistic(r: float, m: float, cap: float) -> float:
    """Return the largest ``r p + log(1 + p(1-p)/m)``, p up to the cap."""
    p = worst_residual(r, m, cap)
    return r * p + math.log1p(p * (1 - p) / m)


def _worst_classwise(r: float, m: float, n_classes: int) -> float:
    """Return the largest ``r t + (K-1) log(1 + (2t - a t^2)/((K-1) m))``, a = K/(K-1), t up to 1.

    It is concave in ``t``, and its derivative vanishes at the positive root of a quadratic.
    """
    others = n_classes - 1
    a, bend = n_classes / others, r / others
    half, constant = a - bend, r * m + 2
    root = math.sqrt(half * half + a * bend * constant)
    # Of the two forms of the root the one without cancellation.
    t = constant / (half + root) if half > 0 else (root - half) / (a * bend)
    t = min(1.0, t)
    return r * t + others * math.log1p((2 * t - a * t * t) / (others * m))


def _worst_one_norm(r: float, m: float, n_classes: int) -> float:
    """Return the largest ``r x + (K-1) log(1 + T(x)/((K-1) m))`` for x up to sqrt 2.

    ``T(x) = 2 min(1, a x) - x^2`` with ``a = sqrt((K-1)/K)`` is concave, and so is the whole: the
    largest value is where the derivative of one of the two pieces vanishes, or at an end of it.
    ``x`` is the length of the residual vector, and ``1 - pi_c`` at most 1 and at most ``a x``.
    """
    others = n_classes - 1
    a = math.sqrt(others / n_classes)

    def value(x: float) -> float:
        return r * x + others * math.log1p((2 * min(1.0, a * x) - x * x) / (others * m))

    # Both derivatives vanish at the positive root of a quadratic, without cancellation here.
    bend = r / others
    slope, constant = 1 - a * bend, r * m + 2 * a
    root = math.sqrt(slope * slope + bend * constant)
    low = constant / (slope + root) if slope > 0 else (root - slope) / bend
    far = r * m + 2 * bend
    high = far / (1 + math.sqrt(1 + bend * far))
    return max(value(min(low, 1 / a)), value(min(max(high, 1 / a), math.sqrt(2))))


# --- pure noise -----------------------------------------------------------------------------------

#: From so many classes on every class has noise of its own, in L2 too: the first number at which
#: that is less than noise of one norm.
CLASSWISE_FROM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What one record is exposed by: objectives that all see it, as far as privacy is concerned."""

    loss: Loss  #: Of every objective
    #: ``L_k`` of every block's summed objective; infinite for the limit without a Jacobian.
    ridges: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)  #: ``q_k``: pure noise of block k has the rate ``rho q_k``
    #: Whether the blocks' parts of a row share one unit of length; else each may be one long.
    joint: bool = False
    one_norm: bool = False  #: Whether noise of several classes has one norm of the whole matrix
    neighbours: Neighbours = Neighbours.REPLACE_ONE  #: Which change is hidden

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if not len(self.ridges) == len(self.weights) >= 1:
            raise InvalidParameter("ridges and weights must have one entry per block.")
        for ridge, weight in zip(self.ridges, self.weights, strict=True):
            check_positive(ridge, "ridge")
            check_positive(weight, "weight")

    @property
    def reach(self) -> float:
        """How far one record moves the noise at most, in units of its norm at rate one."""
        own = self.loss.n_classes > 2 and not self.one_norm
        slope = 2.0 if own else self.loss.slope
        both = math.hypot(*self.weights) if self.joint else math.fsum(self.weights)
        return slope * both

    def spent(self, rho: float) -> float:
        """Return the loss of privacy of pure noise: of the record that comes, and that goes."""
        coming = rho * self.reach if self.neighbours is Neighbours.REPLACE_ONE else 0.0
        return coming + self._going(rho)

    def _going(self, rho: float) -> float:
        blocks = [(rho * q, ridge) for q, ridge in zip(self.weights, self.ridges, strict=True)]
        k = self.loss.n_classes
        if isinstance(self.loss, Logistic):
            cap = self.loss.cap
            if self.joint:
                return _worst_joint(blocks, cap)
            return math.fsum(_worst_logistic(r, ridge, cap) for r, ridge in blocks)
        if self.joint:
            # Traces add up to that of one row, and Cauchy and Schwarz bound the gradients.
            return rho * self.reach + (k - 1) / (k * min(self.ridges))
        if self.one_norm:
            return math.fsum(_worst_one_norm(r, ridge, k) for r, ridge in blocks)
        return math.fsum(_worst_classwise(2 * r, ridge, k) for r, ridge in blocks)


@lru_cache(maxsize=4096, typed=True)
def pure_rate(epsilon: float, exposure: Exposure) -> float:
    """Return the largest ``rho`` at which pure noise spends at most ``epsilon``.

    The price rises at least as a slope times ``rho``, and is inverted from the safe side. Kept: one
    plan is priced, run and replayed at one, and a checked fit has one per belief.
    """
    spent = exposure.spent
    # Every joint bound is convex in rho, and above its slope times it.
    steepest = exposure.reach * (_records(exposure) if exposure.joint else 1)
    low, high = 0.0, check_epsilon(epsilon) / steepest
    if spent(0.0) >= epsilon:
        raise CalibrationError(
            f"no noise level reaches epsilon={epsilon:g}: at this ridge the Jacobian alone costs "
            f"{spent(0.0):.4g}. Raise alpha (or the ridge floor)."
        )
    # The upper end is often exact (a free Jacobian), so it is tried before halving.
    for candidate in (high, high / 2):
        if spent(candidate) <= epsilon:
            low = candidate
            break
        high = candidate
    if low == high:
        return low
    # Near the zero first; the bracket stays one, whatever the search has found.
    near = float(optimize.brentq(lambda rho: spent(rho) - epsilon, low, high, xtol=1e-300))
    for at in (near * (1 - 1e-14), near * (1 + 1e-14)):
        low, high = (max(low, at), high) if spent(at) <= epsilon else (low, min(high, at))
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)


def _worst_joint(blocks: Sequence[tuple[float, float]], cap: float) -> float:
    """Bound the loss of the record that goes, where blocks share one unit of length.

    The largest of ``sum_k [r_k a_k p_k + log(1 + p_k (1 - p_k) a_k^2 / L_k)]`` over residuals and
    lengths, the sum of ``a_k^2`` at most one. Lagrange's bound with any price ``mu`` of length is
    sound; from ``mu = max 1/(4 L_k)`` on every block's own problem is concave.
    """
    floor = max(1 / (4 * ridge) for _, ridge in blocks)

    def excess(mu: float) -> float:
        return math.fsum(_dear_length(r, ridge, cap, mu)[0] ** 2 for r, ridge in blocks) - 1

    mu = floor
    if excess(floor) > 0:
        dear = 2 * floor or 1.0
        while excess(dear) > 0:
            dear *= 2
        mu = float(optimize.brentq(excess, floor, dear))
    return mu + math.fsum(_dear_length(r, ridge, cap, mu)[1] for r, ridge in blocks)


def _dear_length(r: float, ridge: float, cap: float, mu: float) -> tuple[float, float]:
    """Return the length in [0, 1] that is worth most at the price ``mu``, and its worth at most.

    The worth is ``max_p [r a p + log(1 + p(1-p) a^2 / L)] - mu a^2``, concave in ``a``.
    """

    def slope(a: float) -> float:
        p = _residual_at(a)
        bend = p * (1 - p) / ridge
        return r * p + 2 * bend * a / (1 + bend * a * a) - 2 * mu * a

    def _residual_at(a: float) -> float:
        return worst_residual(r * a, ridge / (a * a), cap) if r > 0 else min(cap, 0.5)

    # Rows of no length are worth nothing, and the worth rises from there.
    nearest = 1e-9
    if slope(1.0) >= 0:
        a = 1.0
    elif slope(nearest) <= 0:
        a = nearest
    else:
        a = float(optimize.brentq(slope, nearest, 1.0, xtol=1e-15))
    p = _residual_at(a)
    worth = r * a * p + math.log1p(p * (1 - p) * a * a / ridge) - mu * a * a
    # A concave function lies below its tangents, and no length is further away than this.
    off = max(0.0, slope(a)) * (1 - a) + max(0.0, -slope(a)) * a
    return a, worth + off


# --- Gaussian noise -------------------------------------------------------------------------------

#: In how many ways the Jacobian is shared between the ends of a residual; any of them is sound.
_SHARINGS = 33
#: Units in the last place by which differences of Mills ratios are raised to the careful side.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
#: Below this the tails of the noise as drawn are no longer negligible beside delta.
SMALLEST_DELTA = 1e-12


def check_delta(delta: float, count: int, unit: str = "record") -> None:
    """Refuse a delta that promises nothing to so many, or one that floats cannot keep."""
    if not SMALLEST_DELTA <= delta < 1 / count:
        name = "n_samples" if unit == "record" else "the number of parties"
        raise InvalidParameter(
            f"delta must be at least {SMALLEST_DELTA:g} and below 1/{name}: whoever publishes "
            f"one {unit} at random satisfies delta = 1/{name}. Use 0 for pure privacy."
        )


def gaussian_delta(epsilon: ArrayLike, mu: float) -> Floats:
    """Return delta at ``epsilon`` of the Gaussian mechanism, rounded up.

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, exact (Balle and Wang, 2018),
    with ``mu`` the sensitivity over sigma. Both terms share a factor ``phi(epsilon/mu - mu/2)``,
    which leaves a difference of Mills ratios: nothing is lost where delta is tiny.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(eps, 0.0)))
    near, far = eps / mu - mu / 2, eps / mu + mu / 2
    density = np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi)
    tail = density * (_mills(near) * (1 + _ROUNDING) - _mills(far))
    # e^eps is at most 1 wherever far is not positive.
    second = np.where(
        far > 0, density * _mills(far), np.exp(np.minimum(eps, 0.0)) * special.ndtr(-far)
    )
    body = special.ndtr(-near) * (1 + _ROUNDING) - second
    return np.clip(np.where(near > 0, tail, body), 0.0, 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity over sigma of (epsilon, delta)-private Gaussian noise.

    The bound was evaluated a hair above what is returned, and does not exceed ``delta`` there.
    """

    def surplus(log_mu: float) -> float:
        found = float(gaussian_delta(epsilon, math.exp(log_mu)))
        return math.log(max(found, 1e-300)) - math.log(delta)

    log_mu = optimize.brentq(
        surplus, math.log(1e-12), math.log(1e3 + 4 * math.sqrt(epsilon)), xtol=1e-13
    )
    return float(math.exp(log_mu) * (1 - 1e-9))


@dataclass(frozen=True, slots=True)
class Move:
    """One of the fixed vectors that ``b`` may move by."""

    reach: float  #: Its largest norm
    #: What the loss may exceed the Gaussian mechanism's by, in every way to share the Jacobian.
    jacobian: Floats
    count: int = 1  #: How many vectors there are of this kind


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Objectives with Gaussian noise that see the same records, as far as privacy is concerned.

    Where residuals are extreme ``b(w)`` moves by one of a few fixed vectors; a residual ``p``
    between the ends also pays ``log(1 + p(1-p)/L)``, which concedes a term to each of them.
    """

    exposure: Exposure  #: What the record is exposed by; its weights are not looked at
    sigmas: tuple[float, ...]  #: Deviation of every block's noise

    def __post_init__(self) -> None:
        if len(self.sigmas) != len(self.exposure.ridges):
            raise InvalidParameter("sigmas must have one entry per block.")
        for sigma in self.sigmas:
            check_positive(sigma, "sigma")
        if self.exposure.joint and len(set(self.sigmas)) > 1:
            raise InvalidParameter("groups that share a row's length must share one sigma.")

    @property
    def reach(self) -> float:
        """How far the records that change move the noise of all blocks, over sigma."""
        one = max(1 / s for s in self.sigmas)
        if not self.exposure.joint:
            one = math.hypot(*(1 / s for s in self.sigmas))
        return _records(self.exposure) * self.exposure.loss.slope * one

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Return a bound on delta at every ``epsilon``, by which noise is calibrated.

        Of one block sums over the moves; of several every corner counts as the worst.
        """
        at = np.asarray(epsilon, dtype=np.float64)
        if len(self.sigmas) > 1:
            count = corners(self.exposure)
            bound = count * gaussian_delta(at - jacobian(self.exposure), self.reach)
            return np.asarray(np.minimum(1.0, bound))
        bounds = sum(
            move.count * gaussian_delta(at[..., None] - move.jacobian, move.reach / self.sigmas[0])
            for move in self.moves()
        )
        return np.asarray(np.minimum(1.0, np.min(bounds, axis=-1)))

    def moves(self) -> list[Move]:
        """Return the moves of the only block, whose deltas sum to a sound bound."""
        loss, (m,) = self.exposure.loss, self.exposure.ridges
        replaced = self.exposure.neighbours is Neighbours.REPLACE_ONE
        if isinstance(loss, Logistic):
            at_cap, at_zero = _sharings(m, loss.cap)
            moves = [Move(loss.cap, at_cap), Move(0.0, at_zero)]
            return moves + [Move(2 * loss.cap, at_cap), Move(loss.cap, at_zero)] * replaced
        k = loss.n_classes
        taken = np.array([(k - 1) * math.log1p(1 / (k * m))])
        if not replaced:
            return [Move(math.sqrt(2), taken, k - 1), Move(0.0, taken)]
        return [
            Move(math.sqrt(8), taken, k - 1),
            Move(math.sqrt(6), taken, (k - 1) * (k - 2)),
            Move(math.sqrt(2), taken, 2 * (k - 1)),
            Move(0.0, taken),
        ]


@lru_cache(maxsize=4096, typed=True)
def gaussian_rate(epsilon: float, delta: float, exposure: Exposure) -> float:
    """Return the largest rate of Gaussian noise that is (epsilon, delta)-private.

    Block k has the deviation that :func:`gaussian_sigmas` says. Of one block by bisection on the
    logarithm, always from the safe side: the bound was evaluated at what is returned, and does not
    exceed ``delta`` there. Kept: a checked fit plans one at every belief.
    """
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise InvalidParameter("delta must lie strictly between 0 and 1.")
    if len(exposure.ridges) > 1:
        taken = jacobian(exposure)
        if epsilon <= taken:
            raise CalibrationError(
                f"no Gaussian noise reaches epsilon={epsilon:g} at these ridges: the Jacobian "
                "alone costs more. Raise alpha."
            )
        mu = gaussian_mu(epsilon - taken, delta / corners(exposure))
        # A row that is one long in all blocks moves their noise by the root of all weights.
        both = 1.0 if exposure.joint else math.sqrt(math.fsum(exposure.weights))
        return mu / (_records(exposure) * exposure.loss.slope * both)

    def enough(sigma: float) -> bool:
        return float(GaussianLoss(exposure, (sigma,)).delta(epsilon)) <= delta

    # Where no sigma suffices the Jacobian alone exceeds epsilon, by far or by a hair.
    high = 1 / epsilon
    for _ in range(200):
        if enough(high):
            break
        high *= 2
    else:
        raise CalibrationError(
            f"no Gaussian noise reaches epsilon={epsilon:g}, delta={delta:g} at this ridge: the "
            "Jacobian alone costs too much. Raise alpha (or the ridge floor)."
        )
    low = high / 2
    while enough(low):
        low, high = low / 2, low
    while high / low > 1 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.nextafter(1 / high, 0.0)  # one over it is no less


def gaussian_sigmas(rate: float, exposure: Exposure) -> tuple[float, ...]:
    """Return the deviation of every block's noise.

    Blocks that may all be one long divide the square of the rate by their weights, which add up to
    one. Where they share the row's length it is the same for all.
    """
    if exposure.joint or len(exposure.weights) == 1:
        return (1 / rate,) * len(exposure.weights)
    return tuple(1 / (rate * math.sqrt(weight)) for weight in exposure.weights)


def jacobian(exposure: Exposure) -> float:
    """Return the most that the Jacobians of all blocks change by with one record."""
    k = exposure.loss.n_classes
    others = k - 1
    bend = 1 / 4 if k == 2 else others / k  # the largest trace of one record
    if exposure.joint:
        return bend / min(exposure.ridges)
    return math.fsum(others * math.log1p(bend / (others * ridge)) for ridge in exposure.ridges)


def corners(exposure: Exposure) -> float:
    """Return in how many ways the changed records' residuals may be extreme in all blocks."""
    return float(exposure.loss.n_classes) ** (_records(exposure) * len(exposure.ridges))


def _records(exposure: Exposure) -> int:
    """Return how many records change: one goes, and under replace-one another comes."""
    return 2 if exposure.neighbours is Neighbours.REPLACE_ONE else 1


def _mills(x: Floats) -> Floats:
    """Return ``(1 - Phi(x)) / phi(x)`` where ``x`` is positive, and its value at 0 elsewhere."""
    scaled = special.erfcx(np.maximum(x, 0.0) / math.sqrt(2))
    return np.asarray(math.sqrt(math.pi / 2) * scaled)


def _sharings(m: float, cap: float) -> tuple[Floats, Floats]:
    """Return what the ends ``p = cap`` and ``p = 0`` pay for the Jacobian of all ``p`` between.

    With ``G(t) = max_p [t p/cap + log(1 + p(1-p)/m)]`` every ``t >= 0`` gives a sound pair,
    ``G(t) - t`` and ``G(t)``. From some ``t`` on the maximum stays at the cap and only the second
    grows.
    """
    if math.isinf(m):
        return np.zeros(1), np.zeros(1)
    largest = cap * (2 * cap - 1) / (m + cap * (1 - cap))
    ends = np.linspace(0.0, largest, _SHARINGS if largest > 0 else 1)
    grown = [_worst_logistic(t / cap, m, cap) for t in ends]
    # At the last t the maximum is at the cap, and what rounding leaves is not a gain.
    return np.maximum(np.array(grown) - ends, 0.0), np.array(grown)


# --- what has a theorem ---------------------------------------------------------------------------

#: What is released, the norm, the law, and the page that proves it, for both losses and relations:
#: an objective of one block of columns, or of blocks that share the row's length or do not; noise
#: on a computed point, whose own page says what moves it.
_PROOFS = (
    ("one", "L2", "pure", "objective_perturbation"),
    ("one", "L1", "pure", "averaging"),
    ("one", "Max", "pure", "geometry"),
    ("one", "L2", "Gaussian", "gaussian"),
    ("one", "Max", "Gaussian", "gaussian"),
    ("apart", "L2", "pure", "feature_groups"),
    ("apart", "L1", "pure", "feature_groups"),
    ("apart", "Max", "pure", "feature_groups"),
    ("apart", "L2", "Gaussian", "feature_groups"),
    ("apart", "Max", "Gaussian", "feature_groups"),
    ("joint", "L2", "pure", "feature_groups"),
    ("joint", "L2", "Gaussian", "feature_groups"),
    ("point", "L2", "pure", "output_step"),
    ("point", "L1", "pure", "output_step"),
    ("point", "L2", "Gaussian", "gaussian"),
)

#: Whatever is released looks here, and nobody else refuses a combination.
THEOREMS = {
    (released, norm, loss, law): f"docs/proofs/{page}.md"
    for released, norm, law, page in _PROOFS
    for loss in ("Logistic", "Softmax")
}

#: Why what is not in the table is not: by what is refused, in the words of whoever asked.
_MISSING = {
    "L1": "delta must be 0 with Laplace noise, which is pure: docs/proofs/averaging.md.",
    "joint": "clipping must be 'separate': a row may be at corners of all bodies at once, see "
    "docs/proofs/feature_groups.md.",
    "point": "delta must be 0 for whole numbers, such as those of method='cells': Gaussian noise "
    "would be more than integer noise, whatever delta below .004 epsilon is given, see "
    "docs/proofs/cells.md.",
}


def theorem(released: str, norm: str, delta: float, loss: str = "Logistic") -> str:
    """Return the page that says why a release is private, or say which one tells why it is not."""
    found = THEOREMS.get((released, norm, loss, "Gaussian" if delta else "pure"))
    if found is None:
        raise InvalidParameter(_MISSING.get(released, _MISSING["L1"]))
    return found


def noise_rate(epsilon: float, delta: float, exposure: Exposure) -> float:
    """Return the largest rate of noise that keeps a promise; with a delta it is Gaussian."""
    if delta:
        return gaussian_rate(epsilon, delta, exposure)
    return pure_rate(epsilon, exposure)
