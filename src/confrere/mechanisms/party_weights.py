"""Objective and output perturbation of thousands of parties at once.

Every party's noise is its own, so what docs/proofs/objective_perturbation.md,
docs/proofs/averaging.md and docs/proofs/output_perturbation.md prove holds for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from confrere.maths.perturbed_parties import minimise_parties
from confrere.mechanisms.laplace_objective import LaplaceObjectivePerturbation, certify_rows_l1
from confrere.mechanisms.objective_perturbation import SOLVER_PART, ObjectivePerturbation
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.noise.samplers import discrete_laplace, l2_noise, laplace_noise
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

Floats = NDArray[np.float64]
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class PartyObjectives:
    """Objective perturbation, a noise vector and an output step for every party.

    Parameters
    ----------
    mechanisms : mapping of int to ObjectivePerturbation or LaplaceObjectivePerturbation
        The mechanism of a party of that many records; all of one kind, for two classes.
    """

    mechanisms: Mapping[int, ObjectivePerturbation | LaplaceObjectivePerturbation]

    @cached_property
    def _facts(self) -> dict[int, tuple[float, ...]]:
        return {
            size: (m.rho, m.ridge, m.tolerance, m.output_step.spacing, m.output_step.scale)
            for size, m in self.mechanisms.items()
        }

    def run(
        self,
        X: Floats,
        y: Floats,
        offsets: Offsets,
        *,
        source: RandomSource,
        centre: Floats | None = None,
    ) -> Floats:
        """Return every party's released weights, one per row.

        Parameters
        ----------
        X, y : arrays
            Rows in the mechanisms' unit ball and labels -1 and +1, party by party.
        offsets : (n_parties + 1,) array
            Where each party's rows begin.
        source : RandomSource
            Where all noise comes from; every party has draws of its own.
        centre : (d,) array, optional
            Public point to shrink towards.
        """
        one = next(iter(self.mechanisms.values()))
        in_l1 = isinstance(one, LaplaceObjectivePerturbation)
        (certify_rows_l1 if in_l1 else certify_rows)(X)
        rho, ridge, tolerance, spacing, scale = _by_party(self._facts, offsets)
        # Noise of rate one, divided by the rate, has that rate.
        draw = laplace_noise if in_l1 else l2_noise
        noise = draw(1.0, X.shape[1], source, count=len(rho)) / rho[:, None]
        points = minimise_parties(
            X,
            y,
            offsets,
            ridge=ridge,
            linear=noise,
            centre=centre,
            cap=one.cap,
            tolerance=SOLVER_PART * tolerance,
        )
        steps = np.rint(points / spacing[:, None])
        steps += discrete_laplace(scale[:, None], points.shape, source)
        return np.asarray(steps * spacing[:, None])


@dataclass(frozen=True)
class PartyOutputs:
    """Output perturbation for every party.

    Parameters
    ----------
    mechanisms : mapping of int to OutputPerturbation
        The mechanism of a party of that many records, for two classes.
    """

    mechanisms: Mapping[int, OutputPerturbation]

    @cached_property
    def _facts(self) -> dict[int, tuple[float, ...]]:
        return {
            size: (m.epsilon / m.sensitivity, m.ridge, m.tolerance, m.spacing)
            for size, m in self.mechanisms.items()
        }

    def run(self, X: Floats, y: Floats, offsets: Offsets, *, source: RandomSource) -> Floats:
        """Return every party's noised minimiser, one per row; see :class:`PartyObjectives`."""
        certify_rows(X)
        rho, ridge, tolerance, spacing = _by_party(self._facts, offsets)
        cap = next(iter(self.mechanisms.values())).cap
        points = minimise_parties(X, y, offsets, ridge=ridge, cap=cap, tolerance=tolerance)
        points += l2_noise(1.0, X.shape[1], source, count=len(rho)) / rho[:, None]
        return np.asarray(np.rint(points / spacing[:, None]) * spacing[:, None])


def _by_party(facts: Mapping[int, tuple[float, ...]], offsets: Offsets) -> Floats:
    """Return one row per fact, one column per party."""
    sizes, kind = np.unique(np.diff(offsets), return_inverse=True)
    return np.array([facts[size] for size in sizes.tolist()]).T[:, kind]
