"""Every method by study file over both engines: quality and epsilon paid, on simulated patients.

Run ``python -m benchmarks.engines``: it prints the table of docs/study.md. The signed protocol runs
with everything but the network between coordinator and parties.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from confrere.catalogue import CATALOGUE, Method
from confrere.estimators.predictions import predict
from confrere.ledger import Ledger
from confrere.release import Release
from confrere_federation.studies.template import write_example
from tests.contracts import test_engines as engines


def main() -> None:
    """Run everything and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        example = engines.make_example(place / "example", rows=None)
        write_example(place / "fresh", seed=1)  # patients whom nobody has learned from
        test = pd.read_csv(place / "fresh" / "local" / "main.csv")
        rows = [row(example, place, method, test) for method in CATALOGUE.values()]
    lines = [
        "| method | releases | paid, local | paid, between machines | AUC, local | AUC, between |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def row(example: Path, place: Path, method: Method, test: pd.DataFrame) -> str:
    """Return one method's line."""
    told = [f"`{method.name}`"]
    scores, paid, count = [], [], 0
    for engine, run in (("here", engines.run_here), ("there", engines.run_between)):
        folder = place / f"{method.name}-{engine}"
        study, found = run(example, folder, method)
        made = found if isinstance(found, list) else found.made
        count = len(made)
        aucs = [auc(one.release, test) for one in made]
        scores.append("/".join(f"{value:.3f}" for value in aucs))
        spent = {
            Ledger(folder / f"local/{party.name}.ledger").spent(party.account)
            for party in study.payers
        }
        paid.append("/".join(f"{value:g}" for value in sorted(spent)))
    told += [str(count), *paid, *scores]
    return "| " + " | ".join(told) + " |"


def auc(release: Release, test: pd.DataFrame) -> float:
    """Return how well a release ranks patients whom it has not seen."""
    found = predict(release, test)
    return float(roc_auc_score(np.asarray(test["diabetes"] == "yes"), found["probability of yes"]))


if __name__ == "__main__":
    main()
