r"""Which path to a model: alone, near a source, or together; with what experts know, or without.

A prior ranks with the area :math:`a_0` by itself, the best linear score with :math:`a`. In the log
odds that is a variance :math:`\tau^2 = D^2((D/D_0)^2 - 1)` of what the prior gets wrong, with
:math:`D = \sqrt2\,\Phi^{-1}(a)` and :math:`D_0` the same of :math:`a_0`. Records and noise add
precision to every weight, by the model of :mod:`confrere.maths.prior_ridge`; what stays unknown, V,
leaves the area :math:`\Phi(D/\sqrt{2(1 + V/D^2)})`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import special

from confrere.errors import InvalidParameter
from confrere.guarantee import check_epsilon
from confrere.maths.prior_ridge import DRIFT, mean_curvature, noise_variance, precision_of
from confrere.mechanisms.prior_check import PriorCheck, check_share
from confrere.planning.forecast import plan
from confrere.plans.checked_average import SHARE

Path = Literal["experts alone", "one organisation", "main to branches", "many centres"]

#: Slope of the capped loss, which every path uses.
_CAP = 0.5

#: A path that asks for less is taken if it is expected to be worse by no more than this.
_SAME = 0.002


@dataclass(frozen=True, slots=True)
class ExpectedPath:
    """What one path is expected to bring.

    Attributes
    ----------
    path : {"experts alone", "one organisation", "main to branches", "many centres"}
    auc : float
        Expected area under the curve.
    how : str
        What to run.
    """

    path: Path
    auc: float
    how: str


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Paths compared, from public facts and guesses alone.

    Attributes
    ----------
    expected : tuple of ExpectedPath
        The path that asks least first.
    without_prior : float
        Expected area of one organisation by itself if nothing were declared.
    verifiable : bool or None
        Whether the budget tells a right prior from a wrong one; None without a prior.
    """

    expected: tuple[ExpectedPath, ...]
    without_prior: float
    verifiable: bool | None

    @property
    def best(self) -> ExpectedPath:
        """The path that asks least, of those that are expected to be about as good as any."""
        most = max(one.auc for one in self.expected)
        return next(one for one in self.expected if one.auc >= most - _SAME)

    def __str__(self) -> str:
        lines = [f"{one.path}: expected AUC {one.auc:.3f}, {one.how}" for one in self.expected]
        lines.append(f"one organisation without a prior: expected AUC {self.without_prior:.3f}")
        if self.verifiable is False:
            lines.append("prior not verifiable at this budget: a wrong one would not be noticed")
        return "\n".join([*lines, f"recommended: {self.best.path}, {self.best.how}"])


def recommend(
    *,
    n: int,
    d: int,
    epsilon: float = 1.0,
    auc: float = 0.85,
    prior_auc: float | None = None,
    base_rate: float = 0.5,
    n_source: int | None = None,
    parties: Sequence[int] | None = None,
) -> Recommendation:
    """Recommend a path to a model without touching data, and say what to expect of each.

    Parameters
    ----------
    n, d : int
        Records of the organisation that asks, and features.
    epsilon : float, default=1.0
        What every organisation spends.
    auc : float, default=0.85
        What the best linear model would reach without privacy: a guess, from the literature.
    prior_auc : float, optional
        What experts' signs and importances reach without data, from public data or the literature;
        None if nothing is declared.
    base_rate : float, default=0.5
        Share of positive rows.
    n_source : int, optional
        Records of a main organisation that would release first.
    parties : sequence of int, optional
        Records of every organisation that would take part in an average.

    Returns
    -------
    Recommendation
    """
    check_epsilon(epsilon)
    if min(n, d, *(parties or ()), n_source or 1) < 1:
        raise InvalidParameter("n, d, n_source and parties must be at least 1.")
    if not 0.5 < auc < 1 or (prior_auc is not None and not 0.5 < prior_auc < auc):
        raise InvalidParameter("prior_auc must lie between 0.5 and auc, and auc below 1.")
    if not 0 < base_rate < 1:
        raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
    apart = math.sqrt(2) * float(special.ndtri(auc))
    open_ = _left_open(apart, prior_auc)
    curvature, size = mean_curvature(base_rate), d + 1
    known = prior_auc is not None
    share = check_share(epsilon, n, base_rate=base_rate)

    def told(records: float, spent: float, releases: int = 1) -> float:
        noise = releases * noise_variance(epsilon * (1 - spent), size, _CAP)
        return precision_of(records, size, noise=noise, curvature=curvature)

    def area(precision: float, drift: float = 0.0) -> float:
        unknown = 1 / (1 / open_ + precision) + drift * open_
        return float(special.ndtr(apart / math.sqrt(2 * (1 + unknown / apart**2))))

    alone = told(n, share if known else 0.0)
    near = 'schema=schema, prior="experts", ' if known else ""
    found = (
        [] if prior_auc is None else [ExpectedPath("experts alone", prior_auc, "no data at all")]
    )
    found.append(
        ExpectedPath(
            "one organisation", area(alone), f"PrivateLogisticRegression({near}epsilon=...)"
        )
    )
    if n_source is not None:
        both = told(n, share) + told(n_source, share if known else 0.0)
        how = "TransferClassifier(source=..., epsilon=...)"
        found.append(ExpectedPath("main to branches", area(both, DRIFT), how))
    if parties is not None:
        total = told(sum(parties), SHARE if known else 0.0, len(parties))
        how = f"CollaborativeClassifier({near}epsilon=...)"
        found.append(ExpectedPath("many centres", area(total), how))
    check = PriorCheck(epsilon=share * epsilon, n_samples=n, base_rate=base_rate)
    return Recommendation(
        expected=tuple(found),
        without_prior=plan(n=n, d=d, epsilon=epsilon, auc=auc, base_rate=base_rate).expected_auc(),
        verifiable=check.before.verifiable if known else None,
    )


def _left_open(apart: float, prior_auc: float | None) -> float:
    """Return the variance of the log odds around a prior; as much as there is, without one."""
    if prior_auc is None:
        return apart**2
    alone = math.sqrt(2) * float(special.ndtri(prior_auc))
    return float(apart**2 * ((apart / alone) ** 2 - 1))
