"""How good is a model? Answers with a price, and intervals that count sampling and noise."""

from confrere.evaluation.evaluate import evaluate, public_thresholds

__all__ = ["evaluate", "public_thresholds"]
