"""version: what is installed here."""

from __future__ import annotations

import importlib.metadata
import platform

from confrere.catalogue import CATALOGUE
from confrere.cli.envelope import Answer, command
from confrere.views import Table


@command("version")
def version() -> Answer:
    """Print versions and the catalogue of methods."""
    packages = ("confrere", "confrere-federation", "numpy", "scipy", "scikit-learn", "pandas")
    versions = {"python": platform.python_version()}
    here = {one.name: one.version for one in importlib.metadata.distributions()}
    versions |= {one: here.get(one, "not installed") for one in packages}
    rows = [
        (
            one.name,
            one.title,
            f"{one.paper}, {one.algorithm}" if one.algorithm else one.paper,
            one.proof or "spends nothing",
        )
        for one in CATALOGUE.values()
    ]
    return Answer(
        ", ".join(f"{name} {number}" for name, number in versions.items()),
        {"versions": versions, "methods": [method.to_dict() for method in CATALOGUE.values()]},
        [Table(("method", "what", "paper", "proof"), rows, title="Methods")],
    )
