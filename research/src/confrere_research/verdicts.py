"""Reproduced, exceeded, undecided or not: the papers' claims and numbers against records.

Two methods are compared repeat by repeat, on the same split. A difference that is smaller than what
as many repeats can tell, at 95% and by Student's t, decides nothing, in neither direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from confrere.errors import InvalidParameter
from confrere_research.results import Point
from confrere_research.spec import Spec

Outcome = Literal[
    "reproduced", "exceeded", "partly reproduced", "not reproduced", "undecided", "no data"
]

#: A published number is reached within this, or within two standard errors if that is more.
TOLERANCE = 0.01

#: How sure a comparison of two methods has to be.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Finding:
    """One claim or number, and what the records say.

    ``holds`` is None where the repeats are too few to tell. ``ours`` marks what this library
    claims: listed, but no part of the verdict on a paper.
    """

    claim: str
    holds: bool | None
    numbers: str
    ours: bool = False
    surplus: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The line of one item.

    Attributes
    ----------
    outcome : {"reproduced", "exceeded", "partly reproduced", "not reproduced", ...}
        All, some or none of the paper's claims and numbers hold, of those that the repeats can
        tell; ``"undecided"`` if that is none, ``"no data"`` without records. ``"exceeded"`` if all
        hold and the sound methods pass most numbers by more than the tolerance.
    findings : tuple of Finding
        Everything that was compared.
    why : str
        The failed and the undecided claims with their numbers, and the specification's note.
    """

    item: str
    outcome: Outcome
    findings: tuple[Finding, ...]
    why: str


def judge(spec: Spec, points: Sequence[Point]) -> Verdict:
    """Compare an item's points with what its paper says."""
    if not points:
        return Verdict(spec.item, "no data", (), "not run")
    claims = [finding for claim in spec.claims for finding in _claim(spec, claim, points)]
    numbers = list(_numbers(spec, points)) if spec.comparable else []
    findings = [*claims, *numbers]
    parts = (
        _listed("Does not hold", [finding for finding in findings if finding.holds is False]),
        _listed("Too few repeats to tell", [f for f in findings if f.holds is None]),
        spec.note,
    )
    outcome = _outcome(findings, numbers)
    return Verdict(spec.item, outcome, tuple(findings), ". ".join(filter(None, parts)))


def _listed(words: str, findings: Sequence[Finding]) -> str:
    told = "; ".join(f"{finding.claim}: {finding.numbers}" for finding in findings)
    return f"{words}: {told}" if told else ""


def _outcome(findings: Sequence[Finding], numbers: Sequence[Finding]) -> Outcome:
    theirs = [f.holds for f in findings if not f.ours and f.holds is not None]
    if findings and not theirs:
        return "undecided"
    if not any(theirs):
        return "not reproduced"
    if not all(theirs):
        return "partly reproduced"
    passed = sum(finding.surplus > TOLERANCE for finding in numbers)
    return "exceeded" if numbers and passed > len(numbers) / 2 else "reproduced"


def find(
    points: Sequence[Point],
    method: Sequence[str],
    epsilon: float | None,
    setting: float | None = None,
) -> Point | None:
    """Return the point of a (name, variant) pair; references without noise have no epsilon."""
    for point in points:
        same = (point.method, point.variant) == tuple(method)
        if same and point.epsilon in (epsilon, None) and point.setting == setting:
            return point
    return None


def _claim(spec: Spec, claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Finding]:
    kinds = {"above": _above, "within": _within, "peak": _peak}
    if claim["kind"] not in kinds:
        raise InvalidParameter(f"kind must be one of {', '.join(kinds)}.")
    yield from kinds[claim["kind"]](spec, claim, points)


def _pairs(claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[tuple[str, Point, Point]]:
    """Yield where, and the two points that a claim compares there."""
    for epsilon in claim["at"]:
        ours = find(points, claim["method"], epsilon, claim.get("setting"))
        other = find(points, claim["than"], epsilon, claim.get("than_setting"))
        if ours is not None and other is not None:
            yield f"epsilon {epsilon:g}", ours, other


def _above(spec: Spec, claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Finding]:
    """Judge "better than" at every epsilon named."""
    sign = 1 if spec.higher_is_better else -1
    for where, ours, other in _pairs(claim, points):
        yield Finding(
            f"{_name(ours, spec)} better than {_name(other, spec)}",
            _told(sign * _difference(ours, other)),
            f"{_number(ours.mean)} against {_number(other.mean)} at {where}",
            ours=claim.get("ours", False),
        )


def _within(spec: Spec, claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Finding]:
    for where, ours, other in _pairs(claim, points):
        yield Finding(
            f"{_name(ours, spec)} within {claim['margin']:g} of {_name(other, spec)}",
            _told(claim["margin"] - np.sign(ours.mean - other.mean) * _difference(ours, other)),
            f"{_number(ours.mean)} against {_number(other.mean)} at {where}",
            ours=claim.get("ours", False),
        )


def _peak(spec: Spec, claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Finding]:
    """Judge a best value between the ends of the axis."""
    line = [p for p in points if (p.method, p.variant) == tuple(claim["method"])]
    line = sorted((p for p in line if p.setting is not None), key=lambda p: p.setting or 0.0)
    if len(line) < 3:
        return
    sign = 1 if spec.higher_is_better else -1
    first, *inner, last = line
    end = max((first, last), key=lambda p: sign * p.mean)
    best = max(inner, key=lambda p: sign * p.mean)
    top = max((end, best), key=lambda p: sign * p.mean)
    yield Finding(
        f"{_name(first)} peaks between the ends",
        _told(sign * _difference(best, end)),
        f"best {_number(top.mean)} at {top.setting:g}, ends {_number(first.mean)} and "
        f"{_number(last.mean)}",
    )


def _difference(first: Point, second: Point) -> NDArray[np.float64]:
    """Return what each repeat says that both have: its two points share a split."""
    count = min(first.n, second.n)
    return np.subtract(first.repeats[:count], second.repeats[:count])


def _told(differences: NDArray[np.float64]) -> bool | None:
    """Whether a mean is above zero; None if it is too near for so few repeats."""
    count, mean = len(differences), float(np.mean(differences))
    if count < 2:
        return None
    error = float(np.std(differences, ddof=1)) / math.sqrt(count)
    if abs(mean) <= error * student.ppf((1 + CONFIDENCE) / 2, count - 1):
        return None
    return mean > 0


def _numbers(spec: Spec, points: Sequence[Point]) -> Iterator[Finding]:
    """Compare the sound variant with every published number: reached, or what is missing."""
    for published in spec.published:
        for where, number, ours, error in _published(spec, published.method, points):
            short = number - ours if spec.higher_is_better else ours - number
            yield Finding(
                f"{published.method} (corrected) reaches published {_number(number)} at {where}",
                short <= max(TOLERANCE, 2 * error),
                _number(ours),
                surplus=-short,
            )


def _published(
    spec: Spec, method: str, points: Sequence[Point]
) -> Iterator[tuple[str, float, float, float]]:
    values = next(entry.values for entry in spec.published if entry.method == method)
    if spec.published_at == "branch":
        point = find(points, (method, "corrected"), spec.published_epsilon)
        if point is not None:
            mean = math.fsum(values) / len(values)
            yield (
                f"epsilon {point.epsilon:g}, mean of branches",
                mean,
                point.mean,
                (point.standard_error),
            )
        return
    for epsilon, number in zip(spec.epsilons, values, strict=True):
        point = find(points, (method, "corrected"), epsilon)
        if point is not None:
            yield f"epsilon {epsilon:g}", number, point.mean, point.standard_error


def _name(point: Point, spec: Spec | None = None) -> str:
    """Return what a point is called, with its place on the specification's axis."""
    name = f"{point.method} ({point.variant})"
    if spec is None or spec.axis is None or point.setting is None:
        return name
    return f"{name} at {spec.axis.name} {point.setting:g}"


def _number(value: float) -> str:
    return f"{value:.4f}".lstrip("0") if 0 < value < 1 else f"{value:.3g}"
