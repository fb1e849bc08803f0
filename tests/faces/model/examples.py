"""One model of every shape."""

import numpy as np

from confrere.model import Linear, Link, LowLevelModel, Stack

FEATURES = ("a", "b", "c", "d")


def groups() -> tuple[LowLevelModel, ...]:
    return (
        LowLevelModel(
            name="group 0",
            features=np.array([0, 3]),
            coef=np.array([2.0, -1.0]),
            intercept=0.25,
            sharpness=1.7,
            baseline=-0.3,
        ),
        LowLevelModel(
            name="group 1",
            features=np.array([1, 2, 0]),
            coef=np.array([0.5, 4.0, -3.0]),
            intercept=-0.5,
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
        "groups": groups(),
        "coef": np.array([3.0, -2.0]),
        "classes": (0, 1),
        "features": FEATURES,
    }
    return Stack(**{**known, **changes})


def class_groups() -> tuple[LowLevelModel, ...]:
    """Groups with one row of weights per class."""
    turned = np.array([[1.0, -1.0], [0.5, 2.0], [-1.5, -1.0]])
    return tuple(
        LowLevelModel(
            name=each.name,
            features=each.features,
            coef=np.outer(turned[:, k], each.coef),
            intercept=turned[:, 1 - k] * each.intercept,
            sharpness=each.sharpness,
        )
        for k, each in enumerate(groups())
    )


MODELS = {
    "binary": linear(),
    "numbers": linear(coef=np.arange(4.0), intercept=0.0, classes=(False, True), link=Link(0.7)),
    "multinomial": linear(
        coef=np.array([[1.0, 0, 0, 2], [0, 3, -1, 0], [-1, -3, 1, -2]]),
        intercept=np.array([0.1, -0.2, 0.1]),
        classes=(1, 2, 3),
    ),
    "shifted": linear(link=Link(1.0, 1.7, -2.25)),
    "stack": stack(intercept=0.4, classes=("no", "yes"), link=Link(0.5)),
    "vote": stack(coef=np.array([0.7, 0.2]), combine="vote"),
    "alone": stack(groups=groups()[:1], coef=np.ones(1), intercept=-0.3, combine="alone"),
    "classes: stack": stack(groups=class_groups(), classes=("a", "b", "c")),
    "classes: vote": stack(
        groups=class_groups(), classes=(1, 2, 3), coef=np.array([0.7, 0.2]), combine="vote"
    ),
    "classes: alone": stack(
        groups=class_groups()[:1], classes=(1, 2, 3), coef=np.ones(1), combine="alone"
    ),
}
