"""Every promise of the catalogue audited, and beside it claims that are known to be false."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.assurance.audit.estimator import audit
from confrere.assurance.audit.exact import exact_audit
from confrere.assurance.audit.function import audit_function
from confrere.assurance.audit.hard_cases import audit_cases
from confrere.assurance.audit.lattice import lattice_audit
from confrere.assurance.audit.pairs import Pair
from confrere.assurance.audit.result import AuditResult
from confrere.assurance.table import ROWS, RowAudit, audit_row
from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import InvalidData

#: Methods that spend something.
AUDITED = tuple(name for name, method in CATALOGUE.items() if method.proof is not None)

#: All that has a row in the table: facts of a schema and totals of releases are no methods.
IN_TABLE = tuple(dict.fromkeys(row.method for row in ROWS))

#: Whole fits per data set: enough to hear what only a fit could leave behind.
WHOLE_FITS = 200

#: Runs per data set that count events: exact ratios say how near a promise is, events that nothing
#: was forgotten which has no density.
RUNS = 10_000


@dataclass(frozen=True)
class Fault:
    """A claim of epsilon 1 that is false: an audit that does not find it is no audit."""

    title: str  #: What is claimed, in a few words
    #: As :func:`confrere.audit.audit_function` takes it.
    sample: Callable[[Any, int, np.random.Generator], NDArray[np.float64]]
    pair: Pair  #: Neighbours that tell
    runs: int  #: Runs per data set that show it
    at_least: float  #: What these runs must find


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One line of the table."""

    #: ``name``, ``title``: of the method, or of the printed claim.
    name: str
    title: str
    sound: bool  #: Whether the library stands by the promise; faults are there to be found
    claimed: float  #: What is promised
    confidence: float  #: Of a line
    #: The largest bound by sampling over the cases; None where no fit was sampled.
    sampled: AuditResult | None
    #: The bound by ratios of densities, where there are any: on the cases, and in the table.
    exact: float | None = None
    whole: float | None = None  #: The bound by whole fits, which read all that a fit leaves behind
    #: What is wrong with the lattice that releases are stepped to, or with rows that a mechanism
    #: refuses: in words, for there is no number.
    fault: str | None = None
    rows: tuple[RowAudit, ...] = ()  #: What was found in the table's rows
    #: ``seconds``, ``cpu_seconds``: what everything took.
    seconds: float
    cpu_seconds: float

    @property
    def found(self) -> float:
        """The bound by sampling."""
        return 0.0 if self.sampled is None else self.sampled.epsilon

    @property
    def refuted(self) -> bool:
        """Whether the claim is shown to be false."""
        found = max(self.found, self.exact or 0.0, self.whole or 0.0)
        # A ratio that is all of the claim may be a rounding above it.
        return found > self.claimed * (1 + 1e-9) or self.fault is not None

    def to_dict(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        names = ("name", "title", "sound", "claimed", "found", "exact", "whole", "fault")
        told = {one: getattr(self, one) for one in (*names, "confidence", "seconds", "cpu_seconds")}
        told |= {"counted": 0, "attainable": 0.0, "pair": "", "event": ""}
        if self.sampled is not None:
            told |= {one: getattr(self.sampled, one) for one in ("attainable", "pair", "event")}
            told["counted"] = self.sampled.likely[1]
        return told | {"rows": [row.to_dict() for row in self.rows], "refuted": self.refuted}


def audit_all(
    # Of what is in the table, and of faults; by default everything.
    names: Iterable[str] | None = None,
    *,
    # Claims that are known to be false, such as those of the papers.
    faults: Mapping[str, Fault] = MappingProxyType({}),
    epsilon: float = 1.0,  # The claim to test; faults claim 1
    runs: int | None = None,  # Of events, per data set: by default 10,000, or what suits a fault
    confidence: float = 0.999,  # Of a line: several sampled bounds share its risk
    random_state: int = 0,  # As in :func:`confrere.audit.audit`
) -> Iterator[Audited]:
    """Yield one line per method of the catalogue, then one per fault."""
    common: dict[str, Any] = {"confidence": confidence, "random_state": random_state}
    for name in (*IN_TABLE, *faults) if names is None else names:
        if name not in faults:
            yield audit_method(name, epsilon=epsilon, runs=runs, **common)
            continue
        fault, start = faults[name], (time.perf_counter(), time.process_time())
        told = {"runs": runs or fault.runs, "progress": False, **common}
        result = audit_function(fault.sample, fault.pair, claimed=1.0, **told)
        yield Audited(
            name=name,
            title=fault.title,
            sound=False,
            claimed=1.0,
            confidence=confidence,
            sampled=result,
            **_took(start),
        )


def audit_method(
    name: str,
    *,
    epsilon: float = 1.0,
    runs: int | None = None,
    confidence: float = 0.999,
    random_state: int = 0,
) -> Audited:
    """Audit one method by everything there is: its rows, events, lattices and whole fits."""
    start = time.perf_counter(), time.process_time()
    rows = tuple(audit_row(row, epsilon, random_state) for row in ROWS if row.method == name)
    exact = [epsilon * row.shares["ratio"] for row in rows if "ratio" in row.shares]
    wrong = [row for row in rows if row.refuted]
    fault = f"{wrong[0].row}: {wrong[0].where}" if wrong else None
    sampled, whole = [], None
    if name in AUDITED:
        cases = audit_cases(find_method(name).make(epsilon=epsilon))
        common: dict[str, Any] = {
            "confidence": 1 - (1 - confidence) / (len(cases) + 1),
            "random_state": random_state,
            "progress": False,
        }
        for case in cases:
            try:
                exact.append(exact_audit(case.estimator, case.pairs).epsilon)
                most = min(runs or RUNS, case.runs or runs or RUNS)
                sampled.append(audit(case.estimator, case.pairs, runs=most, **common))
                fault = fault or lattice_audit(case.estimator, case.pairs[0]).fault
            except InvalidData as error:
                # Made-up rows are good: a mechanism that refuses them was given others.
                fault = fault or f"refused to run: {error}"
        if fault is None:
            few = min(runs or WHOLE_FITS, WHOLE_FITS)
            pair = cases[0].pairs[0]
            whole = audit(cases[0].estimator, pair, runs=few, whole_fits=True, **common).epsilon
    return Audited(
        name=name,
        title=CATALOGUE[name].title if name in CATALOGUE else _OTHERS[name],
        sound=True,
        claimed=epsilon,
        confidence=confidence,
        sampled=max(sampled, key=lambda result: result.epsilon, default=None),
        exact=max(exact, default=None),
        whole=whole,
        fault=fault,
        rows=rows,
        **_took(start),
    )


_OTHERS = {
    "table1": "who the records are about, in counts",
    "evaluate": "how good a model is, in counts",
    "infer": "what intervals of coefficients ask of the records",
    "linear": "private linear regression",
    "poisson": "private Poisson regression",
    "survival": "private survival regression",
    "curve": "survival curves, in counts",
    "total": "what several releases promise together",
}


def _took(start: tuple[float, float]) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - start[0],
        "cpu_seconds": time.process_time() - start[1],
    }
