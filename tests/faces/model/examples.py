"""One model of every shape."""

import numpy as np

from confrere.model import Clip, Linear, Link, LowLevelModel, Stack
from confrere.model.models import UNIT_ROWS

FEATURES = ("a", "b", "c", "d")


def groups(clip: Clip | None, norm_of_second: int = 2) -> tuple[LowLevelModel, ...]:
    second = None if clip is None else Clip(0.3, 0.3, norm_of_second)
    return (
        LowLevelModel(
            name="group 0",
            features=np.array([0, 3]),
            coef=np.array([2.0, -1.0]),
            intercept=0.25,
            clip=clip,
            sharpness=1.7,
            baseline=-0.3,
        ),
        LowLevelModel(
            name="group 1",
            features=np.array([1, 2, 0]),
            coef=np.array([0.5, 4.0, -3.0]),
            intercept=-0.5,
            clip=second,
            importance=0.2,
            epsilon=0.5,
            noise=3.0,
        ),
    )


def linear(**changes: object) -> Linear:
    known: dict = {
        "coef": np.array([1.0, -2.0, 0.3, 7.0]),
        "intercept": 0.1,
        "classes": ("no", "yes"),
        "features": FEATURES,
    }
    return Linear(**{**known, **changes})


def stack(**changes: object) -> Stack:
    known: dict = {
        "groups": groups(Clip(0.5, 0.5)),
        "coef": np.array([3.0, -2.0]),
        "classes": (0, 1),
        "features": FEATURES,
    }
    return Stack(**{**known, **changes})


def class_groups(clip: Clip | None) -> tuple[LowLevelModel, ...]:
    """Groups with one row of weights per class."""
    turned = np.array([[1.0, -1.0], [0.5, 2.0], [-1.5, -1.0]])
    return tuple(
        LowLevelModel(
            name=each.name,
            features=each.features,
            coef=np.outer(turned[:, k], each.coef),
            intercept=turned[:, 1 - k] * each.intercept,
            clip=each.clip,
            sharpness=each.sharpness,
        )
        for k, each in enumerate(groups(clip))
    )


MODELS = {
    "binary": linear(clip=Clip(1.5, np.sqrt(1 - 0.25**2))),
    "L1": linear(clip=Clip(2.0, norm=1), classes=(0, 1), link=Link(0.5)),
    "unclipped": linear(coef=np.arange(4.0), intercept=0.0, classes=(False, True), link=Link(0.7)),
    "multinomial": linear(
        coef=np.array([[1.0, 0, 0, 2], [0, 3, -1, 0], [-1, -3, 1, -2]]),
        intercept=np.array([0.1, -0.2, 0.1]),
        classes=(1, 2, 3),
        clip=Clip(1.0),
    ),
    "shifted": linear(clip=Clip(1.0), link=Link(1.0, 1.7, -2.25)),
    "stack": stack(intercept=0.4, classes=("no", "yes"), clip=Clip(2.0), link=Link(0.5)),
    "stack, both norms": stack(groups=groups(Clip(0.5, 0.5), 1)),
    "stack, one group clipped": stack(groups=(groups(Clip(0.5, 0.5))[0], groups(None)[1])),
    "stack, rows of length one": stack(groups=groups(None), clip=Clip(UNIT_ROWS)),
    "vote": stack(coef=np.array([0.7, 0.2]), combine="vote"),
    "alone": stack(groups=groups(None)[:1], coef=np.ones(1), intercept=-0.3, combine="alone"),
    "classes: stack": stack(
        groups=class_groups(Clip(0.5, 0.5)), classes=("a", "b", "c"), clip=Clip(2.0)
    ),
    "classes: vote": stack(
        groups=class_groups(None), classes=(1, 2, 3), coef=np.array([0.7, 0.2]), combine="vote"
    ),
    "classes: alone": stack(
        groups=class_groups(None)[:1], classes=(1, 2, 3), coef=np.ones(1), combine="alone"
    ),
}
