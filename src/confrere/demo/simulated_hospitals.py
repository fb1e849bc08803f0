"""A simulated main hospital and its sixteen branches, with the published sizes and importances.

The patients of Yao et al. (2019) are private and cannot be had. This world has their centres'
sizes (Table 4) and their doctors' importances (Table 3); the rest is made up, and says so.

It has fifty features: public facts, and hidden effects. Names and importances of nine of them are
Table 3; the other forty-one, and every other number here, are made up to be plausible. Importances
add up to 1. The effects are what the simulated world does, as log odds per standard deviation in
any common unit; doctors' importances and signs follow them only roughly, as opinions do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from confrere.data.features import Feature, Flag, Label, Number
from confrere.data.schema import PublicSchema

# Table 4 of Yao et al. (2019): patients of the main hospital and of branches 1 to 16.
RUIJIN_MAIN_SIZE = 12_702
RUIJIN_BRANCH_SIZES = (
    *(4_334, 4_739, 6_121, 2_327, 5_619, 6_360, 4_966, 5_793),
    *(6_215, 3_659, 5_579, 2_316, 4_285, 6_017, 6_482, 4_493),
)

# What makes features go together.
FACTORS = ("sugar", "fat", "lipids", "pressure", "liver", "kidney", "years", "habits")


@dataclass(frozen=True, slots=True)
class Trait:
    """One feature: what is public, and what only the simulation knows.

    ``loadings`` says how much of the feature's spread comes from which factor; the squares add
    up to less than 1, the rest is the feature's own.
    """

    public: Feature
    effect: float
    loadings: dict[str, float]
    digits: int = 0


def _number(
    name: str,
    importance: float,
    sign: int,
    law: tuple[float, float],
    bounds: tuple[float, float],
    effect: float,
    digits: int = 0,
    log: bool = False,
    **loadings: float,
) -> Trait:
    mean, sd = law
    public = Number(
        name, bounds=bounds, mean=mean, sd=sd, log=log, importance=importance, sign=sign
    )
    return Trait(public, effect, loadings, digits)


#: A number with a long tail: its law holds mean and sd of log(1 + x).
_skewed = partial(_number, log=True)


def _flag(
    name: str, importance: float, sign: int, share: float, effect: float, **loadings: float
) -> Trait:
    public = Flag(name, true=(1,), false=(0,), share=share, importance=importance, sign=sign)
    return Trait(public, effect, loadings)


TRAITS: tuple[Trait, ...] = (
    # Table 3: names and importances as published.
    _number("mchild", 0.010, 1, (1.7, 1.0), (0, 8), 0.03, years=0.5),
    _number("weight", 0.012, -1, (3200, 450), (1000, 5500), -0.13),
    _number("bone", 0.013, -1, (2.6, 0.5), (0.8, 4.5), 0.08, 1, fat=0.4, years=-0.4),
    _number("eggw", 0.005, 1, (4.0, 2.5), (0, 21), -0.02, habits=0.2),
    _number("Glu120", 0.055, 1, (7.2, 2.0), (2, 25), 0.39, 1, sugar=0.7, years=0.2),
    _number("Glu0", 0.060, 1, (5.5, 0.7), (3, 18), 0.20, 1, sugar=0.75),
    _number("age", 0.018, 1, (57, 9.5), (35, 90), 0.25, years=0.8),
    _number("bmi", 0.043, 1, (24.6, 3.5), (14, 50), 0.05, 1, fat=0.85),
    _number("HDL", 0.045, -1, (1.35, 0.34), (0.4, 3.5), -0.04, 2, lipids=-0.6, fat=-0.3),
    # Blood, body and urine.
    _number("HbA1c", 0.058, 1, (5.6, 0.5), (3.5, 14), 0.27, 1, sugar=0.75, years=0.15),
    _number("waist", 0.048, 1, (84, 9.8), (50, 140), 0.12, fat=0.85, years=0.15),
    _number("hip", 0.012, 1, (95, 7.5), (65, 150), -0.13, fat=0.75),
    _number("SBP", 0.034, 1, (131, 18), (80, 220), 0.06, pressure=0.8, years=0.3),
    _number("DBP", 0.022, 1, (78, 10.5), (45, 130), -0.04, pressure=0.8),
    _number("pulse", 0.010, 1, (75, 10.5), (40, 130), 0.13, pressure=0.2, habits=0.3),
    _skewed("TG", 0.042, 1, (0.90, 0.30), (0, 15), 0.07, 2, lipids=0.65, fat=0.3),
    _number("TC", 0.018, 1, (5.0, 1.0), (2, 12), -0.07, 2, lipids=0.6),
    _number("LDL", 0.024, 1, (2.9, 0.85), (0.5, 8), -0.05, 2, lipids=0.6),
    _skewed("ALT", 0.022, 1, (3.0, 0.45), (0, 400), 0.17, liver=0.75, fat=0.3),
    _skewed("AST", 0.012, 1, (3.1, 0.32), (0, 400), -0.10, liver=0.75),
    _skewed("GGT", 0.028, 1, (3.3, 0.60), (0, 600), 0.18, liver=0.7, habits=0.3),
    _number("uric_acid", 0.024, 1, (305, 80), (100, 800), 0.03, kidney=0.5, fat=0.3),
    _number("creatinine", 0.010, 1, (70, 15), (25, 250), -0.08, kidney=0.8),
    _number("eGFR", 0.012, -1, (95, 15), (15, 150), 0.02, kidney=-0.75, years=-0.4),
    _skewed("UACR", 0.014, 1, (2.3, 0.80), (0, 1000), 0.14, kidney=0.4, pressure=0.3),
    _skewed("insulin0", 0.048, 1, (2.1, 0.50), (0, 150), 0.08, 1, fat=0.5, sugar=0.4),
    _skewed("CRP", 0.014, 1, (0.80, 0.55), (0, 60), 0.10, 1, fat=0.4),
    _number("hemoglobin", 0.006, 1, (138, 15), (70, 200), 0.05, habits=0.2),
    _number("WBC", 0.010, 1, (6.0, 1.5), (2, 20), 0.15, 1, fat=0.2, habits=0.3),
    _number("platelets", 0.004, 1, (215, 55), (50, 600), 0.02),
    _number("albumin", 0.006, -1, (46, 3.0), (25, 60), -0.08, liver=-0.2),
    _skewed("TSH", 0.004, 1, (1.1, 0.45), (0, 30), 0.00, 1),
    # History and treatment.
    _flag("family_diabetes", 0.048, 1, 0.16, 0.24),
    _flag("gestational_diabetes", 0.022, 1, 0.02, 0.07, sugar=0.2),
    _flag("hypertension", 0.028, 1, 0.28, 0.08, pressure=0.6, years=0.3),
    _flag("heart_disease", 0.014, 1, 0.06, -0.03, years=0.4, lipids=0.2),
    _flag("stroke", 0.010, 1, 0.03, 0.02, years=0.3, pressure=0.2),
    _flag("lipid_drug", 0.012, 1, 0.07, 0.12, lipids=0.3, years=0.2),
    _flag("pressure_drug", 0.020, 1, 0.20, 0.10, pressure=0.5, years=0.3),
    # Questionnaire.
    _flag("smoking", 0.014, 1, 0.22, 0.10, habits=0.5),
    _flag("alcohol", 0.008, 1, 0.28, -0.08, habits=0.5),
    _number("exercise_hours", 0.020, -1, (4.0, 2.8), (0, 30), -0.03, habits=-0.4),
    _number("sitting_hours", 0.010, 1, (4.5, 2.2), (0, 16), 0.13, habits=0.4),
    _number("sleep_hours", 0.008, -1, (7.4, 1.2), (3, 13), 0.07, 1),
    _number("vegetables", 0.007, -1, (3.0, 1.4), (0, 10), -0.05, habits=-0.4),
    _number("fruit", 0.006, -1, (1.2, 0.8), (0, 6), 0.04, 1, habits=-0.3),
    _number("red_meat", 0.007, 1, (3.5, 2.0), (0, 21), 0.10, habits=0.4),
    _number("sugary_drinks", 0.009, 1, (1.5, 1.4), (0, 20), 0.03, habits=0.4),
    _number("education", 0.008, -1, (9, 3.4), (0, 20), -0.18, years=-0.4),
    _number("depression", 0.006, 1, (4.0, 3.5), (0, 27), 0.08, habits=0.2),
)


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
class Patients:
    """One centre's table, and the label of every row: 1 for diabetes in 2013."""

    X: pa.Table
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedHospitals:
    """Patients of the simulated main hospital and branches: none of them exists."""

    main: Patients  #: 12,702 simulated patients; the label is 1 for diabetes in 2013
    #: The sixteen branches, "simulated branch 1" to "simulated branch 16".
    branches: dict[str, Patients]
    seed: int  #: What the world was drawn from
    #: Public facts about the fifty features: bounds, means, deviations, importances, signs.
    schema: PublicSchema = SCHEMA
    simulated: bool = field(default=True, init=False)  #: Always true

    def __repr__(self) -> str:
        patients = len(self.main) + sum(len(branch) for branch in self.branches.values())
        return (
            f"SimulatedHospitals(simulated: main {len(self.main):,} and {len(self.branches)} "
            f"branches, {patients:,} patients who do not exist; seed={self.seed})"
        )


def ruijin_like(seed: int) -> SimulatedHospitals:
    """Simulate the main hospital and the branches of Yao et al. (2019): 92,007 patients.

    Features go together through shared factors. Every centre has its own patients (shifted
    factors and features), its own prevalence (8% to 15%) and slightly its own effects. The same
    seed gives the same patients.
    """
    streams = np.random.SeedSequence(seed).spawn(1 + len(RUIJIN_BRANCH_SIZES))
    main, *branches = (
        _centre(size, np.random.default_rng(stream))
        for size, stream in zip((RUIJIN_MAIN_SIZE, *RUIJIN_BRANCH_SIZES), streams, strict=True)
    )
    names = (f"simulated branch {number}" for number in range(1, 1 + len(branches)))
    return SimulatedHospitals(main, dict(zip(names, branches, strict=True)), seed)


def _centre(size: int, rng: np.random.Generator) -> Patients:
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
    table = pa.table(
        {t.public.column: _measured(t, latent[:, place]) for place, t in enumerate(TRAITS)}
    )
    score = SCHEMA.encoder().standardised(table).times(effects[None])[0]
    score *= LOG_ODDS_SPREAD / score.std()
    chance = expit(score + _intercept(score, prevalence))
    return Patients(table, (rng.random(size) < chance).astype(np.int64))


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
