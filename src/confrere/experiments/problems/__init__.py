"""The data of an item, split as its paper says; the same split for every method."""

from confrere.experiments.problems.registry import PROBLEMS, make_problem

__all__ = ["PROBLEMS", "make_problem"]
