"""A simulated main hospital and its sixteen branches, with the published sizes and importances.

The patients of Yao et al. (2019) are private and cannot be had. This world has their centres'
sizes (Table 4) and their doctors' importances (Table 3); the rest is made up, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from confrere.schema.discrete import Flag
from confrere.schema.encoder import standardised_columns
from confrere.schema.label import Label
from confrere.schema.loaders.dataset import LabelledRows, Table
from confrere.schema.number import Number
from confrere.schema.organisations import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE
from confrere.schema.ruijin_features import FACTORS, TRAITS, Trait
from confrere.schema.schema import PublicSchema

SCHEMA = PublicSchema(
    tuple(trait.public for trait in TRAITS),
    Label("diabetes_in_2013", positive=(1,), negative=(0,), base_rate=0.11),
    note="Simulated study: nine importances as published, all other facts made up.",
)
# How much centres differ, in standard deviations of what is shifted.
FACTOR_SHIFT, FEATURE_SHIFT, EFFECT_SHIFT = 0.30, 0.15, 0.05
PREVALENCE = (0.08, 0.15)
# Standard deviation of the log odds within a centre: how predictable diabetes is, everywhere alike.
LOG_ODDS_SPREAD = 1.2


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedHospitals:
    """Patients of the simulated main hospital and branches: none of them exists.

    Parameters
    ----------
    main : LabelledRows
        12,702 simulated patients; the label is 1 for diabetes in 2013.
    branches : dict of str to LabelledRows
        The sixteen branches, "simulated branch 1" to "simulated branch 16".
    schema : PublicSchema
        Public facts about the fifty features: bounds, means, deviations, importances, signs.
    seed : int
        What the world was drawn from.
    simulated : bool
        Always true.
    """

    main: LabelledRows[Table]
    branches: dict[str, LabelledRows[Table]]
    seed: int
    schema: PublicSchema = SCHEMA
    simulated: bool = field(default=True, init=False)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the fifty features."""
        return self.schema.columns

    @property
    def importances(self) -> dict[str, float]:
        """The doctors' importances, which add up to 1."""
        values = self.schema.importances()
        return dict(zip(self.feature_names, map(float, values), strict=True))

    @property
    def signs(self) -> dict[str, int]:
        """Which way the doctors expect each feature to point."""
        return dict(zip(self.feature_names, map(int, self.schema.signs()), strict=True))

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Public bounds; 0 and 1 for flags."""
        return {
            feature.column: feature.bounds if isinstance(feature, Number) else (0.0, 1.0)
            for feature in self.schema.features
        }

    def __repr__(self) -> str:
        patients = len(self.main) + sum(len(branch) for branch in self.branches.values())
        return (
            f"SimulatedHospitals(simulated: main {len(self.main):,} and {len(self.branches)} "
            f"branches, {patients:,} patients who do not exist; seed={self.seed})"
        )


def ruijin_like(seed: int) -> SimulatedHospitals:
    """Simulate the main hospital and the branches of Yao et al. (2019).

    Features go together through shared factors. Every centre has its own patients (shifted
    factors and features), its own prevalence (8% to 15%) and slightly its own effects.

    Parameters
    ----------
    seed : int
        The world; the same seed gives the same patients.

    Returns
    -------
    SimulatedHospitals
        92,007 patients in seventeen centres, 50 features.
    """
    streams = np.random.SeedSequence(seed).spawn(1 + len(RUIJIN_BRANCH_SIZES))
    main, *branches = (
        _centre(size, np.random.default_rng(stream))
        for size, stream in zip((RUIJIN_MAIN_SIZE, *RUIJIN_BRANCH_SIZES), streams, strict=True)
    )
    names = (f"simulated branch {number}" for number in range(1, 1 + len(branches)))
    return SimulatedHospitals(main, dict(zip(names, branches, strict=True)), seed)


def _centre(size: int, rng: np.random.Generator) -> LabelledRows[Table]:
    """Draw one centre: its differences first, then its patients."""
    factor_shift = rng.normal(0, FACTOR_SHIFT, len(FACTORS))
    feature_shift = rng.normal(0, FEATURE_SHIFT, len(TRAITS))
    effects = np.array([trait.effect for trait in TRAITS])
    effects = effects + rng.normal(0, EFFECT_SHIFT, len(TRAITS))
    prevalence = rng.uniform(*PREVALENCE)

    loadings = np.array([[t.loadings.get(name, 0.0) for t in TRAITS] for name in FACTORS])
    factors = rng.normal(size=(size, len(FACTORS))) + factor_shift
    own = rng.normal(size=(size, len(TRAITS))) * np.sqrt(1 - np.sum(loadings**2, axis=0))
    latent = factors @ loadings + own + feature_shift
    frame = pd.DataFrame(
        {t.public.column: _measured(t, latent[:, place]) for place, t in enumerate(TRAITS)}
    )
    score = effects @ standardised_columns(SCHEMA, frame)
    score *= LOG_ODDS_SPREAD / score.std()
    chance = expit(score + _intercept(score, prevalence))
    return LabelledRows(frame, (rng.random(size) < chance).astype(np.int64))


def _measured(trait: Trait, latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn standard deviations into a reading: in the feature's unit, bounded and rounded."""
    public = trait.public
    if isinstance(public, Flag):
        share = 0.5 if public.share is None else public.share
        return (latent > ndtri(1 - share)).astype(np.float64)
    if not isinstance(public, Number) or public.mean is None or public.sd is None:
        raise TypeError(f"{public.column}: a trait is a flag, or a number with a mean and an sd.")
    values = public.mean + public.sd * latent
    if public.log:
        np.expm1(values, out=values)
    return np.clip(values, *public.bounds).round(trait.digits)


def _intercept(score: NDArray[np.float64], prevalence: float) -> float:
    """Return what to add to the scores so that the mean chance is the prevalence."""
    return float(brentq(lambda shift: expit(score + shift).mean() - prevalence, -30, 30))
