"""Reproduced, exceeded or not: the papers' claims and numbers against records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from confrere.errors import InvalidParameter
from confrere_research.results import Point
from confrere_research.spec import Spec

Outcome = Literal["reproduced", "exceeded", "partly reproduced", "not reproduced", "no data"]

#: A published number is reached within this, or within two standard errors if that is more.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Finding:
    """One claim or number, and what the records say.

    ``ours`` marks what this library claims: listed, but no part of the verdict on a paper.
    """

    claim: str
    holds: bool
    numbers: str
    ours: bool = False
    surplus: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The line of one item.

    Attributes
    ----------
    outcome : {"reproduced", "exceeded", "partly reproduced", "not reproduced", "no data"}
        All, some or none of the paper's claims and numbers hold; ``"exceeded"`` if all do and the
        sound methods pass most numbers by more than the tolerance.
    findings : tuple of Finding
        Everything that was compared.
    why : str
        The failed claims with their numbers, and the specification's note.
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
    failed = [finding for finding in findings if not finding.holds]
    why = "; ".join(f"{finding.claim}: {finding.numbers}" for finding in failed)
    if failed:
        why = f"Does not hold: {why}"
    text = ". ".join(filter(None, (why, spec.note)))
    return Verdict(spec.item, _outcome(findings, numbers), tuple(findings), text)


def _outcome(findings: Sequence[Finding], numbers: Sequence[Finding]) -> Outcome:
    theirs = [finding.holds for finding in findings if not finding.ours]
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
            sign * (ours.mean - other.mean) > 0,
            f"{_number(ours.mean)} against {_number(other.mean)} at {where}",
            ours=claim.get("ours", False),
        )


def _within(spec: Spec, claim: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Finding]:
    for where, ours, other in _pairs(claim, points):
        yield Finding(
            f"{_name(ours, spec)} within {claim['margin']:g} of {_name(other, spec)}",
            abs(ours.mean - other.mean) <= claim["margin"],
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
    best = max(line, key=lambda p: sign * p.mean)
    yield Finding(
        f"{_name(line[0])} peaks between the ends",
        best not in (line[0], line[-1]),
        f"best {_number(best.mean)} at {best.setting:g}, ends {_number(line[0].mean)} and "
        f"{_number(line[-1].mean)}",
    )


def _numbers(spec: Spec, points: Sequence[Point]) -> Iterator[Finding]:
    """Compare the sound variant with every published number: reached, or what is missing."""
    for published in spec.published:
        for where, number, ours, error in _published(spec, published.method, points):
            short = number - ours if spec.higher_is_better else ours - number
            yield Finding(
                f"{published.method} (sound) reaches the published {_number(number)} at {where}",
                short <= max(TOLERANCE, 2 * error),
                _number(ours),
                surplus=-short,
            )


def _published(
    spec: Spec, method: str, points: Sequence[Point]
) -> Iterator[tuple[str, float, float, float]]:
    values = next(entry.values for entry in spec.published if entry.method == method)
    if spec.published_at == "branch":
        point = find(points, (method, "sound"), spec.published_epsilon)
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
        point = find(points, (method, "sound"), epsilon)
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
