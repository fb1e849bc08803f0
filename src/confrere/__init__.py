"""Learn a classifier together without giving away your people."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confrere.data.schema import PublicSchema
    from confrere.estimators import (
        CollaborativeClassifier,
        FeatureStackingClassifier,
        MultipartyClassifier,
        PrivateLogisticRegression,
        SampleStackingClassifier,
        TransferClassifier,
        TransferStackingClassifier,
    )
    from confrere.kernel.guarantee import Guarantee
    from confrere.ledger import Ledger

__all__ = [
    "CollaborativeClassifier",
    "FeatureStackingClassifier",
    "Guarantee",
    "Ledger",
    "MultipartyClassifier",
    "PrivateLogisticRegression",
    "PublicSchema",
    "SampleStackingClassifier",
    "TransferClassifier",
    "TransferStackingClassifier",
]

# Loaded when first asked for: a command line that only prints its help need not wait for them.
_HOMES = {"Guarantee": "kernel.guarantee", "Ledger": "ledger", "PublicSchema": "schema"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"confrere.{_HOMES.get(name, 'estimators')}")
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
