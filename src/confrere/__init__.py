"""Learn a classifier together without giving away your people."""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confrere.assurance.cohort import CohortSummary
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
    from confrere.methods.design import AddRemove

__all__ = [
    "AddRemove",
    "CohortSummary",
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
_HOMES |= {"AddRemove": "methods.design", "CohortSummary": "assurance.cohort"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version(__name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"confrere.{_HOMES.get(name, 'estimators')}")
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
