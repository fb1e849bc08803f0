"""What a fit around a released source adds, where it is charged and where it would not be.

``python -m benchmarks transfers``: the largest of several organisations releases, and up to four
others ask. The rule was chosen on other organisations (docs/algorithms/transfer.md).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks.bench_choices import TABLES
from benchmarks.measured import fill, markdown, write_record
from benchmarks.organisations import Organisations
from confrere import PrivateLogisticRegression, TransferClassifier
from confrere.errors import PrivacyWarning
from confrere.methods.geometry import GAIN

EPSILONS, SPLITS, BRANCHES = (0.5, 1.0, 3.0), 3, 4
#: A branch has at least so many records, of which three fifths learn.
FEWEST, LEARN = 250, 0.6


def main() -> None:
    record = {name: _measured(make()) for name, make in TABLES.items()}
    write_record("transfers", record)
    fill("algorithms/transfer.md", "transfers", table_of(record))
    Console().print(table_of(record), markup=False)


def _measured(given: Organisations) -> dict[str, dict[str, Any]]:
    """Return by branch and epsilon what is forecast, and what the fit gains over the source."""
    rows, y, party, schema, _ = given
    schema = replace(
        schema, features=[replace(f, sign=0, importance=None) for f in schema.features]
    )
    assert schema.outcome is not None
    labels = np.where(y, schema.outcome.positive[0], schema.outcome.negative[0])
    sizes = pd.Series(party).value_counts()
    main, *branches = sizes[sizes >= FEWEST].index[: 1 + BRANCHES]
    found: dict[str, dict[str, Any]] = {}
    for epsilon in EPSILONS:
        for split in range(SPLITS):
            generator = np.random.default_rng(split)
            parts = {
                name: np.split(own, [int(LEARN * len(own))])
                for name in (main, *branches)
                for own in [generator.permutation(np.flatnonzero(party == name))]
            }
            how: dict[str, Any] = {"epsilon": epsilon, "schema": schema}
            learn = parts[main][0]
            source = PrivateLogisticRegression(**how, prior=None, random_state=split)
            source.fit(rows.iloc[learn], labels[learn])
            for name in branches:
                learn, test = parts[name]
                seeded = {"source": source.to_release(), "random_state": 100 + split}  # other noise
                near = TransferClassifier(**how, **seeded)
                # Made in any case, so that what is forgone is known.
                with patch("confrere.methods.design.GAIN", -1.0), warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)
                    near.fit(rows.iloc[learn], labels[learn])
                own, theirs = (
                    float(roc_auc_score(y[test], one.decision_function(rows.iloc[test])))
                    for one in (near, source)
                )
                cell = found.setdefault(f"{name}, {epsilon:g}", {"gains": []})
                cell["forecast"] = round(float(near.expected_gain_), 5)
                cell["gains"].append(round(own - theirs, 4))
    return found


def table_of(record: dict[str, Any]) -> str:
    """Return how much is gained where the fit is charged, and how much would be elsewhere."""
    cells = [cell for one in record.values() for cell in one.values()]
    lines = []
    for title, paid in (("charged", True), ("not charged: if it were", False)):
        gains = np.array([np.mean(c["gains"]) for c in cells if (c["forecast"] >= GAIN) == paid])
        error = float(np.std(gains, ddof=1) / len(gains) ** 0.5)
        lines.append([title, str(len(gains)), f"{gains.mean():+.4f} ({error:.4f})"])
    return markdown(["", "cells", "fit minus source (standard error)"], lines)
