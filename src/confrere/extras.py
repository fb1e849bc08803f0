"""What is not part of every installation: found when used, or how to install it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from confrere.errors import NotInstalled


def extra(name: str, module: str) -> ModuleType:
    """Return a module that an extra of this distribution brings, such as ``plot``."""
    return _imported(module, f"pip install 'confrere[{name}]'")


def research(module: str) -> ModuleType:
    """Return a module of ``confrere_research``, the papers' distribution, by its own name."""
    return _imported(f"confrere_research.{module}", "pip install confrere-research")


def installed(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def _imported(module: str, how: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise NotInstalled(f"it needs {missing}, which is not installed: {how}.") from error
