"""How good is a model? Answers with a price, and intervals that count sampling and noise."""

from confrere.assurance.evaluation import evaluate

__all__ = ["evaluate"]
