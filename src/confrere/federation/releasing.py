"""The operations by which a party releases weights: objective and output perturbation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage
from confrere.federation.operation import Facts, Operation, check_price, frame_of, framed, install
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, Neighbours
from confrere.mechanisms.hidden_size import HiddenSize, RowCount, largest_count
from confrere.mechanisms.laplace_objective import LaplaceObjectivePerturbation
from confrere.mechanisms.noisy_minimiser import run_parties
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation, PerturbedObjective
from confrere.mechanisms.output_perturbation import OutputPerturbation, run_output_parties
from confrere.noise.sources import RandomSource
from confrere.rows.frame import LARGEST, Frame

Floats = NDArray[np.float64]

#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9

_VALUES = frozenset(
    {"frame", "epsilon", "ridge", "alpha", "cap", "calibration", "neighbours", "declared"}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseRequest:
    """What a coordinator asks for when it asks for weights.

    Parameters
    ----------
    frame : Frame
        The public coordinates.
    epsilon : float
        What one answer may spend.
    ridge : float
        Smallest ridge of a party's summed objective.
    alpha : float, default=0.0
        Ridge per record; a party of ``n`` records uses ``max(ridge, n alpha)``.
    cap : float, default=1.0
        Largest slope of the loss.
    calibration : {"tight", "printed"}
        Of objective perturbation in L2.
    neighbours : str
        The relation that the answer's guarantee speaks of.
    declared : int, default=0
        Under add-remove neighbours: what stands for every party's number of records.
    centre : array, optional
        Public point to shrink towards, in the frame's coordinates.
    """

    frame: Frame
    epsilon: float
    ridge: float
    alpha: float = 0.0
    cap: float = 1.0
    calibration: Any = "tight"
    neighbours: str = "replace-one"
    declared: int = 0
    centre: Floats | None = field(default=None)

    def to_payload(self) -> Payload:
        """Return the message."""
        values = {name: getattr(self, name) for name in _VALUES - {"frame"}}
        floats = {name: float(values[name]) for name in ("epsilon", "ridge", "alpha", "cap")}
        return framed(self.frame, values | floats, centre=self.centre)

    @classmethod
    def from_payload(cls, request: Payload) -> ReleaseRequest:
        """Read a message; what does not fit is refused."""
        values = request.values
        if values.keys() != _VALUES or not request.arrays.keys() <= {"centre", "feature_scale"}:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_price(values["epsilon"])
        for name in ("ridge", "alpha", "cap"):
            if type(values[name]) is not float or not 0 <= values[name] <= LARGEST:
                raise InvalidMessage(f"{name} must be a float from 0 to {LARGEST:g}.")
        if values["calibration"] not in ("tight", "printed"):
            raise InvalidMessage("calibration must be 'tight' or 'printed'.")
        if values["neighbours"] not in tuple(Neighbours):
            raise InvalidMessage("neighbours must be a known relation.")
        hidden = values["neighbours"] == Neighbours.ADD_REMOVE
        if (
            type(values["declared"]) is not int
            or not 0 <= values["declared"] <= LARGEST_DECLARED
            or (values["declared"] > 0) != hidden
        ):
            raise InvalidMessage(
                f"declared must be a number of records up to {LARGEST_DECLARED:g} under "
                "add-remove neighbours, and 0 under others."
            )
        frame = frame_of(request)
        centre = request.arrays.get("centre")
        if centre is not None and (
            centre.dtype != np.float64
            or centre.shape != (frame.size,)
            or float(np.abs(centre).max()) > FARTHEST_PRIOR
        ):
            raise InvalidMessage("centre must be one number per weight, of reasonable length.")
        known = {name: values[name] for name in _VALUES - {"frame"}}
        return cls(frame=frame, centre=centre, **known)

    def ridge_for(self, n_samples: int) -> float:
        """Return the ridge of a party of that size."""
        return max(self.ridge, n_samples * self.alpha)

    def objective(self, facts: Facts) -> PerturbedObjective:
        """Return the mechanism of a party of these sizes, which knows its price."""
        self._check(facts)
        common: dict[str, Any] = {
            "epsilon": self.epsilon,
            "n_samples": self._rows(facts),
            "n_features": self.frame.size,
            "ridge": self.ridge_for(facts.n_samples),
            "cap": self.cap,
            "neighbours": Neighbours(self.neighbours),
            "prior_norm": 0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        }
        if self.frame.norm == "l1":
            if self.calibration != "tight":
                raise InvalidMessage("calibration='printed' is for L2 noise.")
            return LaplaceObjectivePerturbation(**common)
        return ObjectivePerturbation(**common, calibration=self.calibration)

    def output(self, facts: Facts) -> OutputPerturbation:
        """Return the output perturbation of a party of these sizes."""
        self._check(facts)
        if self.frame.norm != "l2" or self.centre is not None or self.calibration != "tight":
            raise InvalidMessage("output perturbation is in L2, tight, without a prior.")
        return OutputPerturbation(
            epsilon=self.epsilon,
            n_samples=self._rows(facts),
            n_features=self.frame.size,
            ridge=self.ridge_for(facts.n_samples),
            cap=self.cap,
            neighbours=Neighbours(self.neighbours),
        )

    def _rows(self, facts: Facts) -> RowCount:
        """Return a party's number of records, or under add-remove what stands for all of them."""
        if self.neighbours == Neighbours.ADD_REMOVE:
            return HiddenSize(self.declared)
        return facts.n_samples

    def _check(self, facts: Facts) -> None:
        if facts.n_features != self.frame.n_features:
            raise InvalidMessage("the request is for rows of another number of columns.")
        if self.alpha > 0 and self.neighbours == Neighbours.ADD_REMOVE:
            raise InvalidMessage("alpha: under add-remove neighbours a ridge must not follow n.")


def longest_weights(mechanism: PerturbedObjective | OutputPerturbation) -> float:
    """Return a bound on the released weights' norm from public facts alone.

    At the minimiser ``L (w - c)`` is the sum of n gradients, each no longer than the cap, and the
    noise: ``||w|| <= (n cap + ||b||)/L + ||c||``. Noise on the output comes on top undivided. The
    output step and the solver's tolerance are far below the last hundredth.
    """
    slopes = largest_count(mechanism.n_samples) * mechanism.cap / mechanism.ridge
    if isinstance(mechanism, OutputPerturbation):
        noise = mechanism.noise.law.longest(mechanism.n_features)
        return 1.01 * (slopes + noise) + 1.0
    noise = mechanism.law.longest(mechanism.n_features) / mechanism.ridge
    return 1.01 * (slopes + noise + mechanism.prior_norm) + 1.0


def _price_objective(request: Payload, facts: Facts) -> Guarantee:
    return ReleaseRequest.from_payload(request).objective(facts).guarantee()


def _run_objective(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = ReleaseRequest.from_payload(request)
    rows = asked.frame.rows(party.X)
    weights = asked.objective(party.facts).run(rows, party.y, source=source, centre=asked.centre)
    return Payload(arrays={"weights": weights})


def _price_output(request: Payload, facts: Facts) -> Guarantee:
    return ReleaseRequest.from_payload(request).output(facts).guarantee()


def _run_output(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = ReleaseRequest.from_payload(request)
    rows = asked.frame.rows(party.X)
    return Payload(arrays={"weights": asked.output(party.facts).run(rows, party.y, source=source)})


def _run_objectives(request: Payload, group: PartyGroup, source: RandomSource) -> Payload:
    asked = ReleaseRequest.from_payload(request)
    acts = {
        size: asked.objective(facts).minimiser for size, facts in group.distinct_facts().items()
    }
    weights = [
        run_parties(acts, asked.frame.rows(X), y, offsets, source=source, centre=asked.centre)
        for X, y, offsets in group.blocks()
    ]
    return Payload(arrays={"weights": np.concatenate(weights)})


def _run_outputs(request: Payload, group: PartyGroup, source: RandomSource) -> Payload:
    asked = ReleaseRequest.from_payload(request)
    mechanisms = {size: asked.output(facts) for size, facts in group.distinct_facts().items()}
    weights = [
        run_output_parties(mechanisms, asked.frame.rows(X), y, offsets, source=source)
        for X, y, offsets in group.blocks()
    ]
    return Payload(arrays={"weights": np.concatenate(weights)})


OBJECTIVE = install(Operation("objective", _price_objective, _run_objective, _run_objectives))
OUTPUT = install(Operation("output", _price_output, _run_output, _run_outputs))
