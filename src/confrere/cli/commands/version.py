"""version: what is installed, and which methods it knows."""

from __future__ import annotations

import importlib.metadata
import platform

from confrere.catalogue import CATALOGUE
from confrere.cli.envelope import Answer, command
from confrere.cli.views import listing

_PACKAGES = ("confrere", "numpy", "scipy", "scikit-learn", "pandas", "cryptography", "flwr")


@command("version")
def version() -> Answer:
    """Print versions and the catalogue of methods."""
    versions = {"python": platform.python_version()}
    versions |= {package: _installed(package) for package in _PACKAGES}
    table = listing("Methods", "method", "what", "paper", "proof")
    for method in CATALOGUE.values():
        paper = f"{method.paper}, {method.algorithm}" if method.algorithm else method.paper
        table.add_row(method.name, method.title, paper, method.proof or "spends nothing")
    return Answer(
        ", ".join(f"{name} {number}" for name, number in versions.items()),
        {"versions": versions, "methods": [method.to_dict() for method in CATALOGUE.values()]},
        [table],
    )


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
