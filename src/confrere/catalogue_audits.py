"""Every promise of the catalogue audited, and beside it claims that are known to be false."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.audit import Pair, audit, audit_function, exact_audit, hardest_case
from confrere.audit.result import AuditResult
from confrere.catalogue import CATALOGUE, find_method

#: Methods that spend something.
AUDITED = tuple(name for name, method in CATALOGUE.items() if method.proof is not None)


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
        The bound by sampling, at ``confidence``.
    attainable : float
        What no epsilon-private mechanism would exceed in so many runs, on average.
    exact : float or None
        The bound by ratios of densities, where there are any.
    confidence : float
    pair, event : str
        On what ``found`` rests.
    seconds, cpu_seconds : float
        What the sampling took.
    """

    name: str
    title: str
    sound: bool
    claimed: float
    counted: int
    found: float
    attainable: float
    exact: float | None
    confidence: float
    pair: str
    event: str
    seconds: float
    cpu_seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is shown to be false."""
        return max(self.found, self.exact or 0.0) > self.claimed

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
    confidence, random_state
        As in :func:`confrere.audit.audit`.
    """
    for name in (*AUDITED, *faults) if names is None else names:
        start, cpu = time.perf_counter(), time.process_time()
        if name in faults:
            fault = faults[name]
            result = audit_function(
                fault.sample,
                fault.pair,
                claimed=1.0,
                runs=runs or fault.runs,
                confidence=confidence,
                random_state=random_state,
                progress=False,
            )
            took = time.perf_counter() - start, time.process_time() - cpu
            yield _line(name, fault.title, result, None, took)
            continue
        method = find_method(name)
        case = hardest_case(method.make(epsilon=epsilon))
        result = audit(
            case.estimator,
            case.pairs,
            runs=runs,
            confidence=confidence,
            random_state=random_state,
            progress=False,
        )
        took = time.perf_counter() - start, time.process_time() - cpu
        exact = exact_audit(case.estimator, case.pairs).epsilon
        yield _line(name, method.title, result, exact, took)


def _line(
    name: str, title: str, result: AuditResult, exact: float | None, took: tuple[float, float]
) -> Audited:
    return Audited(
        name=name,
        title=title,
        sound=name in CATALOGUE,
        claimed=float(result.claimed or 0.0),
        counted=result.likely[1],
        found=result.epsilon,
        attainable=result.attainable or 0.0,
        exact=exact,
        confidence=result.confidence,
        pair=result.pair,
        event=result.event,
        seconds=took[0],
        cpu_seconds=took[1],
    )
