"""Every promise of the catalogue audited, and beside it claims that are known to be false."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.audit import (
    Pair,
    audit,
    audit_cases,
    audit_function,
    exact_audit,
    lattice_audit,
)
from confrere.audit.hard_cases import Case
from confrere.audit.result import AuditResult
from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import InvalidData

#: Methods that spend something.
AUDITED = tuple(name for name, method in CATALOGUE.items() if method.proof is not None)

#: Whole fits per data set: enough to hear what only a fit could leave behind.
WHOLE_FITS = 200


@dataclass(frozen=True)
class Fault:
    """A claim of epsilon 1 that is false: an audit that does not find it is no audit.

    Attributes
    ----------
    title : str
        What is claimed, in a few words.
    sample : callable
        As :func:`confrere.audit.audit_function` takes it.
    pair : Pair
        Neighbours that tell.
    runs : int
        Runs per data set that show it.
    at_least : float
        What these runs must find.
    """

    title: str
    sample: Callable[[Any, int, np.random.Generator], NDArray[np.float64]]
    pair: Pair
    runs: int
    at_least: float


@dataclass(frozen=True)
class Audited:
    """One line of the table.

    Attributes
    ----------
    name, title : str
        Of the method, or of the printed claim.
    sound : bool
        Whether the library stands by the promise; faults are there to be found.
    claimed : float
        What is promised.
    counted : int
        Runs per data set that counted the event; as many chose it.
    found : float
        The bound by sampling, at ``confidence``: the largest over the cases.
    attainable : float
        What no epsilon-private mechanism would exceed in so many runs, on average.
    exact : float or None
        The bound by ratios of densities, where there are any.
    whole : float or None
        The bound by whole fits, which read everything that a fit leaves behind.
    fault : str or None
        What is wrong with the lattice that releases are stepped to, or with rows that a mechanism
        refuses: in words, for there is no number.
    confidence : float
    pair, event : str
        On what ``found`` rests.
    seconds, cpu_seconds : float
        What everything took.
    """

    name: str
    title: str
    sound: bool
    claimed: float
    counted: int
    found: float
    attainable: float
    exact: float | None
    whole: float | None
    fault: str | None
    confidence: float
    pair: str
    event: str
    seconds: float
    cpu_seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is shown to be false."""
        found = max(self.found, self.exact or 0.0, self.whole or 0.0)
        return found > self.claimed or self.fault is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "refuted": self.refuted}


def audit_all(
    names: Iterable[str] | None = None,
    *,
    faults: Mapping[str, Fault] = MappingProxyType({}),
    epsilon: float = 1.0,
    runs: int | None = None,
    confidence: float = 0.999,
    random_state: int = 0,
) -> Iterator[Audited]:
    """Yield one line per method of the catalogue, then one per fault.

    Parameters
    ----------
    names : iterable of str, optional
        Of methods and faults; by default all that spend something, and all faults.
    faults : mapping of str to Fault, default=none
        Claims that are known to be false, such as those of the papers.
    epsilon : float, default=1.0
        The claim to test; faults claim 1.
    runs : int, optional
        Per data set, by default what suits each.
    confidence : float, default=0.999
        Of a line: several sampled bounds share its risk.
    random_state : int, default=0
        As in :func:`confrere.audit.audit`.
    """
    for name in (*AUDITED, *faults) if names is None else names:
        if name not in faults:
            yield audit_method(
                name, epsilon=epsilon, runs=runs, confidence=confidence, random_state=random_state
            )
            continue
        fault, start = faults[name], _Clock()
        result = audit_function(
            fault.sample,
            fault.pair,
            claimed=1.0,
            runs=runs or fault.runs,
            confidence=confidence,
            random_state=random_state,
            progress=False,
        )
        yield _line(name, fault.title, result, start, confidence=confidence)


def audit_method(
    name: str,
    *,
    epsilon: float = 1.0,
    runs: int | None = None,
    confidence: float = 0.999,
    random_state: int = 0,
) -> Audited:
    """Audit one method by everything there is: events, densities, lattices and whole fits.

    Parameters
    ----------
    name : str
        One of :data:`AUDITED`.
    epsilon, runs, confidence, random_state
        As in :func:`audit_all`.
    """
    start = _Clock()
    cases = audit_cases(find_method(name).make(epsilon=epsilon))
    common: dict[str, Any] = {
        "confidence": 1 - (1 - confidence) / (len(cases) + 1),
        "random_state": random_state,
        "progress": False,
    }
    sampled, exact, fault = [], [], None
    for case in cases:
        try:
            exact.append(exact_audit(case.estimator, case.pairs).epsilon)
            sampled.append(audit(case.estimator, case.pairs, runs=_runs(case, runs), **common))
            fault = fault or lattice_audit(case.estimator, case.pairs[0]).fault
        except InvalidData as error:
            # Made-up rows are good: a mechanism that refuses them was given others.
            fault = fault or f"refused to run: {error}"
    whole = None
    if fault is None:
        few = min(runs or WHOLE_FITS, WHOLE_FITS)
        pair = cases[0].pairs[0]
        whole = audit(cases[0].estimator, pair, runs=few, whole_fits=True, **common).epsilon
    if not sampled:
        sampled.append(_nothing(epsilon, confidence))
    best = max(sampled, key=lambda result: result.epsilon)
    return _line(
        name,
        CATALOGUE[name].title,
        best,
        start,
        exact=max(exact, default=None),
        whole=whole,
        fault=fault,
        confidence=confidence,
    )


def _runs(case: Case, runs: int | None) -> int | None:
    return case.runs if runs is None else min(runs, case.runs or runs)


class _Clock:
    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def took(self) -> dict[str, float]:
        return {
            "seconds": time.perf_counter() - self._start,
            "cpu_seconds": time.process_time() - self._cpu,
        }


def _nothing(epsilon: float, confidence: float) -> AuditResult:
    """Return the result of an audit whose every run was refused."""
    none = np.zeros(1)
    return AuditResult(
        epsilon=0.0,
        claimed=epsilon,
        confidence=confidence,
        delta=0.0,
        runs=0,
        pair="",
        event="",
        likely=(0, 1),
        rare=(0, 1),
        values=(none, none),
        threshold=0.0,
        above=True,
    )


def _line(
    name: str,
    title: str,
    result: AuditResult,
    start: _Clock,
    *,
    confidence: float,
    exact: float | None = None,
    whole: float | None = None,
    fault: str | None = None,
) -> Audited:
    return Audited(
        name=name,
        title=title,
        sound=name in AUDITED,
        claimed=float(result.claimed or 0.0),
        counted=result.likely[1],
        found=result.epsilon,
        attainable=result.attainable or 0.0,
        exact=exact,
        whole=whole,
        fault=fault,
        confidence=confidence,
        pair=result.pair,
        event=result.event,
        **start.took(),
    )
