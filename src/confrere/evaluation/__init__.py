"""How good is a model? Answers with a price, and intervals that count sampling and noise."""

from confrere.evaluation.estimates import CalibrationBin, Estimate, Evaluation
from confrere.evaluation.evaluate import evaluate

__all__ = ["CalibrationBin", "Estimate", "Evaluation", "evaluate"]
