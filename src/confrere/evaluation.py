"""How good is a model, and what does it say? Intervals that count sampling and noise."""

from confrere.assurance.evaluation import evaluate as evaluate
from confrere.assurance.inference import infer as infer
