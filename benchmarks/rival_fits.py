"""Fits of other libraries, for ``bench_rivals``: a program of its own, in an environment of theirs.

``python rival_fits.py FOLDER`` reads jobs from standard input, one JSON object per line, and
answers each with a line. It imports nothing of this project: neither library imports beside the
scikit-learn that the project is tested with.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score


def boosting(job, table, seed):
    """DP-EBM: declared kinds and bounds, so that nothing is read off the data for free."""
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        feature_types=[kind if kind == "continuous" else "nominal" for kind in table["kinds"]],
        privacy_bounds={int(j): tuple(bounds) for j, bounds in table["bounds"].items()},
        epsilon=job["epsilon"],
        delta=job["delta"],
        random_state=seed,
        n_jobs=1,
        **job["setting"],
    )


def regression(job, table, seed):  # noqa: ARG001
    """Private logistic regression of diffprivlib, on rows in the unit ball."""
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(
        epsilon=job["epsilon"], data_norm=1.0, random_state=seed, **job["setting"]
    )


RIVALS = {"boosting": (boosting, "raw"), "regression": (regression, "rows")}


def main(folder):
    tables = {}
    for line in sys.stdin:
        job = json.loads(line)
        name = job["table"]
        if name not in tables:
            tables = {name: read(folder, name)}
        print(json.dumps(fitted(job, tables[name])), flush=True)


def read(folder, name):
    facts = json.loads((folder / f"{name}.json").read_text())
    arrays = np.load(folder / f"{name}.npz")
    raw = {}
    for part in ("train", "test"):
        # Categories as texts: codes would be read as numbers.
        kinds = {c: float if k == "continuous" else str for c, k in facts["columns"].items()}
        table = pd.read_csv(folder / f"{name}-{part}.csv", dtype=kinds, keep_default_na=False)
        raw[part] = table.astype({c: object for c, kind in kinds.items() if kind is str})
    return {
        "kinds": list(facts["columns"].values()),
        "bounds": facts["bounds"],
        "raw": raw,
        "rows": {"train": arrays["X_train"], "test": arrays["X_test"]},
        "y": {"train": arrays["y_train"], "test": arrays["y_test"]},
    }


def fitted(job, table):
    make, which = RIVALS[job["rival"]]
    areas, seconds = [], []
    for seed in job["seeds"]:
        model = make(job, table, seed)
        start = time.process_time()
        model.fit(table[which]["train"], table["y"]["train"])
        seconds.append(time.process_time() - start)
        score = model.predict_proba(table[which]["test"])[:, 1]
        areas.append(float(roc_auc_score(table["y"]["test"], score)))
    return {"auc": areas, "seconds": min(seconds)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
