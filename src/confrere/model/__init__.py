"""What was learned: a classifier of noised numbers and public facts, and its predictions, once."""

from confrere.model.model_json import read_model
from confrere.model.models import Linear, Model
from confrere.model.public_facts import Encoder, Facts, PriorFacts, StackFacts
from confrere.model.scoring import Clip
from confrere.model.stacks import LowLevelModel, Stack

__all__ = [
    "Clip",
    "Encoder",
    "Facts",
    "Linear",
    "LowLevelModel",
    "Model",
    "PriorFacts",
    "Stack",
    "StackFacts",
    "read_model",
]
