"""Methods by name: a problem and a run in, metrics out."""

from confrere.experiments.methods.registry import METHODS
from confrere.experiments.methods.run import Run

__all__ = ["METHODS", "Run"]
