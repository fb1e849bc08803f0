"""Everybody's tests try the same examples; ``make test-slow`` looks for new ones."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
