"""What was learned: a classifier of noised numbers and public facts, and its predictions, once."""

from confrere.model.model_json import read_model
from confrere.model.models import (
    Encoder,
    Facts,
    Linear,
    Link,
    LowLevelModel,
    Model,
    PriorFacts,
    Stack,
    StackFacts,
)

__all__ = [
    "Encoder",
    "Facts",
    "Linear",
    "Link",
    "LowLevelModel",
    "Model",
    "PriorFacts",
    "Stack",
    "StackFacts",
    "read_model",
]
