"""From a budget to noise, and the table of theorems: what is not in it does not exist.

A record moves the noise that a release needs by its gradient, and the Jacobian by its curvature,
both at the same residual; N enters through ``N(x) <= 1`` and ``||x||_2 <= 1`` alone. Prices of
blocks of columns add up where each block's rows may be one long (``apart``); where they share the
row's length (``joint``) the worst lengths count. The table names the proofs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_positive, check_relation
from confrere.kernel.losses import Loss, Move

# --- pure noise -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What one record is exposed by: objectives that all see it, as far as privacy is concerned."""

    loss: Loss  #: Of every objective
    #: ``L_k`` of every block's summed objective; infinite for the limit without a Jacobian.
    ridges: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)  #: ``q_k``: pure noise of block k has the rate ``rho q_k``
    #: Whether the blocks' parts of a row share one unit of length; else each may be one long.
    joint: bool = False
    neighbours: Neighbours = Neighbours.REPLACE_ONE  #: Which change is hidden

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if not len(self.ridges) == len(self.weights) >= 1:
            raise InvalidParameter("ridges and weights must have one entry per block.")
        for one in (*self.ridges, *self.weights):
            check_positive(one, "a ridge or weight")

    @property
    def reach(self) -> float:
        """How far one record moves the noise at most, in units of its norm at rate one."""
        both = math.hypot(*self.weights) if self.joint else math.fsum(self.weights)
        return self.loss.reach * both

    @property
    def records(self) -> int:
        """How many records change: one goes, and under replace-one another comes."""
        return 2 if self.neighbours is Neighbours.REPLACE_ONE else 1

    def spent(self, rho: float, but: float = 0.0) -> float:
        """Return the loss of pure noise, but for so much: of the record that comes, and goes."""
        coming = rho * self.reach if self.neighbours is Neighbours.REPLACE_ONE else 0.0
        return coming + self._going(rho) - but

    def _going(self, rho: float) -> float:
        blocks = [(rho * q, ridge) for q, ridge in zip(self.weights, self.ridges, strict=True)]
        if self.joint:
            # No division of a row costs more than equal parts of it in as many equal blocks: of
            # losses of classes, and no other may share a row (THEOREMS).
            n = len(blocks)
            blocks = [(rho * math.hypot(*self.weights) / n, n * min(self.ridges))] * n
        return math.fsum(self.loss.going(r, ridge) for r, ridge in blocks)


# --- Gaussian noise -------------------------------------------------------------------------------

#: Units in the last place by which differences of Mills ratios are raised to the careful side.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
#: Below this the tails of the noise as drawn are no longer negligible beside delta.
SMALLEST_DELTA = 1e-12


def check_delta(delta: float, count: int, unit: str = "record") -> None:
    """Refuse a delta that promises nothing to so many, or one that floats cannot keep."""
    if not SMALLEST_DELTA <= delta < 1 / count:
        name = "n_samples" if unit == "record" else "the number of parties"
        told = f"delta must be at least {SMALLEST_DELTA:g} and below 1/{name}: whoever publishes "
        told += f"one {unit} at random satisfies delta = 1/{name}. Use 0 for pure privacy."
        raise InvalidParameter(told)


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
class GaussianLoss:
    """Objectives with Gaussian noise that see the same records: moves at extreme residuals."""

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
        return self.exposure.records * self.exposure.loss.slope * one

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Bound delta: of one block by its moves, of several by as many worst corners."""
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
        (ridge,) = self.exposure.ridges
        replaced = self.exposure.neighbours is Neighbours.REPLACE_ONE
        return self.exposure.loss.moves(ridge, replaced=replaced)


def gaussian_sigmas(rate: float, exposure: Exposure) -> tuple[float, ...]:
    """Return the deviation of every block's noise: shared by weights, or the same for all."""
    if exposure.joint or len(exposure.weights) == 1:
        return (1 / rate,) * len(exposure.weights)
    return tuple(1 / (rate * math.sqrt(weight)) for weight in exposure.weights)


def jacobian(exposure: Exposure) -> float:
    """Return the most that the Jacobians of all blocks change by with one record."""
    if exposure.joint:
        return exposure.loss.bend / min(exposure.ridges)
    return math.fsum(map(exposure.loss.jacobian, exposure.ridges))


def corners(exposure: Exposure) -> float:
    """Return in how many ways the changed records' residuals may be extreme in all blocks."""
    return float(exposure.loss.n_classes or 2) ** (exposure.records * len(exposure.ridges))


def _mills(x: Floats) -> Floats:
    """Return ``(1 - Phi(x)) / phi(x)`` where ``x`` is positive, and its value at 0 elsewhere."""
    scaled = special.erfcx(np.maximum(x, 0.0) / math.sqrt(2))
    return np.asarray(math.sqrt(math.pi / 2) * scaled)


# --- what has a theorem ---------------------------------------------------------------------------

#: What is released, the norm, the law, and the page that proves it, of classes and both relations:
#: an objective of one block of columns, or of blocks that share the row's length or do not; noise
#: on a computed point, whose own page says what moves it.
_PROOFS = {
    ("one", "pure"): {"L2": "objective_perturbation", "L1": "averaging", "Max": "geometry"},
    ("one", "Gaussian"): dict.fromkeys(("L2", "Max"), "gaussian"),
    ("apart", "pure"): dict.fromkeys(("L2", "L1", "Max"), "feature_groups"),
    ("apart", "Gaussian"): dict.fromkeys(("L2", "Max"), "feature_groups"),
    ("joint", "pure"): {"L2": "feature_groups"},
    ("joint", "Gaussian"): {"L2": "feature_groups"},
    ("point", "pure"): dict.fromkeys(("L2", "L1"), "output_step"),
    ("point", "Gaussian"): {"L2": "gaussian"},
}

_ROWS = {
    (released, norm, loss, law): f"docs/proofs/{page}.md"
    for (released, law), pages in _PROOFS.items()
    for norm, page in pages.items()
    for loss in ("Logistic", "Softmax")
}

#: Whatever is released looks here, and nobody else refuses a combination.
THEOREMS = MappingProxyType(_ROWS)


def join(loss: type[Loss], page: str, norms: Collection[str] = ("L2", "L1", "Max")) -> None:
    """Give one of the library's own losses the rows that its page proves, of one block.

    Another package's is refused: nothing admits it yet by the ratio, law, certificate and audit
    that each row here has.
    """
    found = getattr(sys.modules.get(loss.__module__), loss.__name__, None)
    if loss.__module__.partition(".")[0] != "confrere" or found is not loss:
        raise InvalidParameter(
            f"loss must be one of confrere's own, not {loss.known_as()}: write its proof page, "
            "audit rows and mutations into the library, see docs/howto/add_a_mechanism.md."
        )
    for law in ("pure", "Gaussian"):
        for norm in _PROOFS["one", law].keys() & set(norms):
            _ROWS["one", norm, loss.known_as(), law] = page


#: Why what is not in the table is not: by what is refused, in the words of whoever asked.
_MISSING = {
    "L1": "delta must be 0 with Laplace noise, which is pure: docs/proofs/averaging.md.",
    "joint": "clipping must be 'separate': a row may be at corners of all bodies at once, see "
    "docs/proofs/feature_groups.md.",
    "numbers": "the loss must be one of classes: of numbers one block of columns has a proof, see "
    "docs/proofs/linear_regression.md.",
    "point": "delta must be 0 for whole numbers, such as those of method='cells': Gaussian noise "
    "would be more than integer noise, whatever delta below .004 epsilon is given, see "
    "docs/proofs/cells.md.",
}


def theorem(released: str, norm: str, delta: float, loss: str = "Logistic") -> str:
    """Return the page that says why a release is private, or say which one tells why it is not."""
    found = THEOREMS.get((released, norm, loss, "Gaussian" if delta else "pure"))
    if found is None:
        known = (released, norm, "Logistic", "Gaussian" if delta else "pure") in THEOREMS
        raise InvalidParameter(_MISSING.get("numbers" if known else released, _MISSING["L1"]))
    return found


def keeps(rate: float, epsilon: float, delta: float, exposure: Exposure) -> bool:
    """Whether noise of a rate, whoever found it, keeps a promise; with a delta it is Gaussian."""
    if not delta:
        return exposure.spent(rate) <= epsilon
    made = GaussianLoss(exposure, gaussian_sigmas(rate, exposure))
    return float(made.delta(epsilon)) <= delta
