"""version and methods: what is installed here."""

from __future__ import annotations

import importlib.metadata
import platform

from confrere.catalogue import CATALOGUE
from confrere.cli.app import Answer, command
from confrere.views import Table


@command("version")
def version() -> Answer:
    """Print the versions of what is installed."""
    packages = ("confrere", "confrere-federation", "numpy", "scipy", "scikit-learn", "pandas")
    versions = {"python": platform.python_version()}
    here = {one.name: one.version for one in importlib.metadata.distributions()}
    versions |= {one: here.get(one, "not installed") for one in packages}
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    return Answer(told, {"versions": versions})


@command("methods")
def methods() -> Answer:
    """List every method: its names, the paper and the proof of its guarantee."""
    rows = [
        (
            ", ".join(dict.fromkeys((one.name, *getattr(one, "names", ())))),
            one.title,
            f"{one.paper}, {one.algorithm}" if one.algorithm else one.paper,
            one.proof or "spends nothing",
        )
        for one in CATALOGUE.values()
    ]
    return Answer(
        "",
        {"methods": list(CATALOGUE.values())},
        [Table(("method", "what", "paper", "proof"), rows, title="Methods")],
    )
