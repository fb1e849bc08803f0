"""A simulated main hospital and its sixteen branches, with the published sizes and importances.

The patients of Yao et al. (2019) are private and cannot be had. This world has their centres'
sizes (Table 4) and their doctors' importances (Table 3); the rest is made up, and says so.

It has fifty features: public facts, and hidden effects. Names and importances of the first nine are
Table 3; the other forty-one, and every other number, are made up to be plausible. Importances add
up to 1. The effects are what the simulated world does, as log odds per standard deviation in
any common unit; doctors' importances and signs follow them only roughly, as opinions do.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

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
    """One feature, a line of ``traits.csv``: what is public, and what only the simulation knows.

    ``loadings`` says how much of the feature's spread comes from which factor; the squares add
    up to less than 1, the rest is its own. Of ``log`` mean and sd are those of log(1 + x).
    """

    public: Feature
    effect: float
    loadings: dict[str, float]
    digits: int

    @classmethod
    def read(cls, line: dict[str, str]) -> Trait:
        name, mean = line["column"], float(line["mean"])
        known: dict[str, Any] = {"importance": float(line["importance"]), "sign": int(line["sign"])}
        if line["kind"] == "flag":
            public: Feature = Flag(name, true=(1,), false=(0,), share=mean, **known)
        else:
            known |= {"bounds": (float(line["low"]), float(line["high"]))}
            public = Number(
                name, mean=mean, sd=float(line["sd"]), log=line["kind"] == "log", **known
            )
        pairs = (one.split("=") for one in line["loadings"].split())
        loadings = {factor: float(share) for factor, share in pairs}
        return cls(public, float(line["effect"]), loadings, int(line["digits"]))


_LINES = files(__package__).joinpath("traits.csv").read_text(encoding="utf-8").splitlines()
TRAITS = tuple(map(Trait.read, csv.DictReader(_LINES)))

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

    main: Patients  #: 12,702 simulated patients
    branches: dict[str, Patients]  #: "simulated branch 1" to "simulated branch 16"
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
