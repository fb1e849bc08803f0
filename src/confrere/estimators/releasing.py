"""From a fitted estimator to what may leave, and from a release to the model it describes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from confrere.errors import InvalidRelease
from confrere.estimators.stack import HighLevelModel, LowLevelModel
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.release import Clip, Group, Linear, PlainModel, Release, Stack, register_kind
from confrere.schema import PublicSchema

#: A clipping bound below every row's norm: rows of length one.
UNIT = 1e-300

LINEAR_KINDS = ("plr", "simcomb", "collaborative", "multiparty")
STACK_KINDS = ("pst-s", "pst-f", "pst-h")


class Fitted(Protocol):
    """What every fitted private classifier has."""

    classes_: NDArray[Any]
    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool
    n_features_in_: int


class FittedLinear(Fitted, Protocol):
    """A fitted linear model and its public facts."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    _facts: dict[str, Any]


class FittedStack(Fitted, Protocol):
    """A fitted stack and its public facts."""

    low_level_: tuple[LowLevelModel, ...]
    high_level_: HighLevelModel | None
    _facts: dict[str, Any]


def linear_release(
    model: FittedLinear,
    kind: str,
    schema: PublicSchema | None,
    sources: Sequence[Release] = (),
) -> Release:
    """Return the release of a linear model; ``sources`` are other organisations' data in it."""
    check_is_fitted(model)
    return Release(
        kind=kind,
        arrays={"coef": model.coef_, "intercept": model.intercept_},
        facts={**_common_facts(model, schema), **model._facts},
        guarantee=model.guarantee_,
        receipt=model.receipt_,
        simulated=model.simulated_,
        parties=_parties(model, sources),
    )


def stack_release(
    model: FittedStack,
    kind: str,
    schema: PublicSchema | None,
    combiner: str,
    sources: Sequence[Release] = (),
) -> Release:
    """Return the release of a stack; ``sources`` are other organisations' data in it."""
    check_is_fitted(model)
    arrays: dict[str, Any] = {}
    for k, low in enumerate(model.low_level_):
        arrays[f"low_{k}"] = np.append(low.coef, low.intercept)
    if model.high_level_ is not None:
        arrays["high"] = np.append(model.high_level_.coef, model.high_level_.intercept)
    models = [
        {
            "name": low.name,
            "features": low.features.tolist(),
            "importance": low.importance,
            "epsilon": low.epsilon,
            "noise": low.noise,
            "baseline": low.baseline,
            "sharpness": low.sharpness,
        }
        for low in model.low_level_
    ]
    return Release(
        kind=kind,
        arrays=arrays,
        facts={
            **_common_facts(model, schema),
            **model._facts,
            "models": models,
            "combiner": combiner,
        },
        guarantee=model.guarantee_,
        receipt=model.receipt_,
        simulated=model.simulated_,
        parties=_parties(model, sources),
    )


def low_level_models(release: Release) -> tuple[LowLevelModel, ...]:
    """Return the low level of a released stack."""
    try:
        return tuple(
            LowLevelModel(
                name=str(facts["name"]),
                features=np.asarray(facts["features"], dtype=np.intp),
                coef=release.arrays[f"low_{k}"][:-1],
                intercept=float(release.arrays[f"low_{k}"][-1]),
                importance=float(facts["importance"]),
                epsilon=float(facts["epsilon"]),
                noise=float(facts["noise"]),
                baseline=float(facts["baseline"]),
                sharpness=float(facts["sharpness"]),
            )
            for k, facts in enumerate(release.facts["models"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRelease(
            f"a release of kind {release.kind!r} has no feature groups to start from."
        ) from error


def _parties(model: Fitted, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    paid: dict[str, Receipt | Guarantee] = {"target": model.receipt_}
    for k, release in enumerate(sources):
        name = "source" if len(sources) == 1 else f"source {k + 1}"
        paid[name] = release.receipt or release.guarantee
    return paid


def _common_facts(model: Fitted, schema: PublicSchema | None) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    features = (
        [f"x{j}" for j in range(model.n_features_in_)] if names is None else [*map(str, names)]
    )
    return {
        "classes": model.classes_.tolist(),
        "features": features,
        "schema": None if schema is None else schema.to_dict(),
    }


def _plain_linear(release: Release) -> dict[str, Any]:
    coef, intercept = release.arrays["coef"], release.arrays["intercept"]
    binary = len(coef) == 1
    return PlainModel(
        predictor=Linear(coef[0] if binary else coef, intercept[0] if binary else intercept),
        classes=release.facts["classes"],
        features=release.facts["features"],
    ).to_dict()


def _plain_stack(release: Release) -> dict[str, Any]:
    models = low_level_models(release)
    unit = release.facts.get("rows") == "unit"
    jointly = unit and release.facts.get("clipping") == "joint"
    whole = Clip(bound=UNIT) if jointly else None
    if len(models) == 1:
        return _plain_single(release, models[0], whole if jointly or not unit else Clip(bound=UNIT))
    groups = [
        Group(
            features=tuple(low.features.tolist()),
            coef=low.sharpness * low.coef,
            intercept=low.sharpness * (low.intercept - low.baseline),
            clip=Clip(bound=UNIT) if unit and not jointly else None,
        )
        for low in models
    ]
    predictor = _combination(release.arrays, groups, models, str(release.facts["combiner"]))
    return PlainModel(
        predictor=predictor,
        classes=release.facts["classes"],
        features=release.facts["features"],
        clip=whole,
    ).to_dict()


def _plain_single(release: Release, low: LowLevelModel, clip: Clip | None) -> dict[str, Any]:
    """Return one group's model: a linear one, zero elsewhere."""
    coef = np.zeros(len(release.facts["features"]))
    coef[low.features] = low.coef
    return PlainModel(
        predictor=Linear(coef, np.asarray(low.intercept)),
        classes=release.facts["classes"],
        features=release.facts["features"],
        clip=clip,
    ).to_dict()


def _combination(
    arrays: Mapping[str, NDArray[Any]],
    groups: Sequence[Group],
    models: Sequence[LowLevelModel],
    combiner: str,
) -> Stack:
    if "high" in arrays:
        return Stack(
            groups=tuple(groups),
            coef=arrays["high"][:-1],
            intercept=float(arrays["high"][-1]),
            meta_scale=1 / math.sqrt(len(groups)),
        )
    weighted = combiner == "weighted_vote"
    weights = [low.importance if weighted else 1 / len(models) for low in models]
    return Stack(groups=tuple(groups), coef=np.asarray(weights), combine="vote")


for _kind in LINEAR_KINDS:
    register_kind(_kind, _plain_linear)
for _kind in STACK_KINDS:
    register_kind(_kind, _plain_stack)
