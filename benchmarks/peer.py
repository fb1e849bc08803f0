"""Private logistic regression here and in diffprivlib, on the same rows.

diffprivlib does not import beside the scikit-learn that this library is tested with, so the two
sides run in environments of their own::

    python -m benchmarks.peer prepare peer.npz
    python -m benchmarks.peer confrere peer.npz
    python benchmarks/peer.py diffprivlib peer.npz     # pip install diffprivlib "scikit-learn<1.6"
    python -m benchmarks.peer table                    # from the records to the README

The peer gets its default C, and the C of seven that does best on the *test* rows: an advantage that
nobody has in practice. Times are CPU seconds of one fit with one thread, the least of all.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

EPSILONS = (0.1, 0.5, 1.0)
REPEATS = 20
RECORDS = Path(__file__).parent.parent / "docs" / "measured"
TITLES = {
    "mnist": "MNIST 0 against 8, 3000 × 100",
    "brfss": "BRFSS, one branch, 3467 × 50",
    "normal": "normal, 200,000 × 50",
}
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)


def prepare(path):
    from confrere_research.problems import make_problem

    digits = {"digits": [0, 8], "n_train": 3000, "n_test": 2000, "n_components": 100}
    mnist = make_problem("digits apart", digits | {"projection": "public"}, 0)
    states = make_problem("states as hospitals", {"encoding": "public"}, 0)
    branch = states.targets[0]
    tables = {
        "mnist": (mnist.train, mnist.test, mnist.rms_norm),
        "brfss": (branch.train, branch.test, states.norm),
    }
    arrays = {}
    for name, (train, test, norm) in tables.items():
        # Rows in the unit ball by a public bound, so that both get the same guarantee's rows.
        for part, rows in (("train", train), ("test", test)):
            scaled = rows.X / norm
            lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
            arrays[f"{name}_X_{part}"] = scaled / np.maximum(1.0, lengths)
            arrays[f"{name}_y_{part}"] = rows.y
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210_000, 50)) / 8
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = (X @ rng.normal(size=50) + 0.3 * rng.logistic(size=len(X)) > 0).astype(int)
    for part, rows in (("train", slice(0, 200_000)), ("test", slice(200_000, None))):
        arrays[f"normal_X_{part}"], arrays[f"normal_y_{part}"] = X[rows], y[rows]
    np.savez(path, **arrays)


def ours(epsilon, seed, **settings):
    from confrere import PrivateLogisticRegression

    return PrivateLogisticRegression(epsilon=epsilon, random_state=seed, **settings)


def theirs(epsilon, seed, **settings):
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed, **settings)


SIDES = {
    "confrere": (ours, {"default": [{}], "capped": [{"loss": "capped"}]}),
    "diffprivlib": (theirs, {"default": [{}], "best C": [{"C": C} for C in STRENGTHS]}),
}


def measure(side, path):
    make, variants = SIDES[side]
    tables, results = np.load(path), []
    for data in TITLES:
        parts = ("X_train", "y_train", "X_test", "y_test")
        X, y, X_test, y_test = (tables[f"{data}_{part}"] for part in parts)
        for name, settings in variants.items():
            for epsilon in EPSILONS:
                tried = [scores(make, epsilon, s, X, y, X_test, y_test) for s in settings]
                areas, seconds = max(tried, key=lambda found: np.mean(found[0]))
                found = {
                    "data": data,
                    "variant": name,
                    "epsilon": epsilon,
                    "auc": round(float(np.mean(areas)), 4),
                    "sd": round(float(np.std(areas)), 4),
                    "milliseconds": round(1e3 * seconds, 1),
                }
                print(side, found)
                results.append(found)
    record = RECORDS / f"peer-{side}.json"
    record.write_text(json.dumps({"results": results}, indent=1) + "\n", encoding="utf-8")


def table_of(ours, theirs):
    """Return the README's table."""
    found = {
        (side, one["data"], one["variant"], one["epsilon"]): one
        for side, record in (("confrere", ours), ("diffprivlib", theirs))
        for one in record["results"]
    }
    columns = [(side, variant) for side, (_, variants) in SIDES.items() for variant in variants]
    lines = [["rows", "epsilon", "confrere", "capped loss", "diffprivlib", "its best C"]]
    lines.append(["---"] * len(lines[0]))
    for data, title in TITLES.items():
        for epsilon in EPSILONS:
            cells = [found[side, data, variant, epsilon] for side, variant in columns]
            best = max(cell["auc"] for cell in cells)
            lines.append([title, f"{epsilon:g}", *(_cell(cell, best) for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell, best):
    area = f"{cell['auc']:.3f}".lstrip("0")
    area = f"**{area}**" if f"{best:.3f}" == f"{cell['auc']:.3f}" else area
    return f"{area} ± {cell['sd']:.3f}".replace("0.", ".") + f", {cell['milliseconds']:.0f} ms"


def fill_table():
    from benchmarks.measured import fill, read_record

    fill(
        "peers.md",
        "peer",
        table_of(read_record("peer-confrere"), read_record("peer-diffprivlib")),
    )


def scores(make, epsilon, settings, X, y, X_test, y_test):
    areas, seconds = [], []
    for seed in range(REPEATS):
        model = make(epsilon, seed, **settings)
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
        areas.append(roc_auc_score(y_test, model.decision_function(X_test)))
    return areas, min(seconds)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2])
    elif sys.argv[1] == "table":
        fill_table()
    else:
        measure(sys.argv[1], sys.argv[2])
