"""Seeded records do not depend on the machine: other BLAS kernels and threads, the same numbers."""

import json
import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import json
from types import SimpleNamespace
import numpy as np
from confrere import MultipartyClassifier
from confrere.estimators import designed
from confrere_research.loaders.dataset import LabelledRows
from confrere_research.problems import customers_and_devices
from confrere_research.projections import PublicPCA
from confrere_research.runner import _run_cell
from confrere_research.spec import load_spec

found = {}
spec = load_spec("T2-simulated")
wanted = {cell.method: cell for cell in spec.cells(quick=True) if cell.repeat == 0}
for name, cell in sorted(wanted.items())[::4]:
    found[name] = _run_cell(spec, cell).values
# White rows: the directions of their ellipsoid are as long as each other, so that nothing but
# rounding picks one basis of them.
rng = np.random.default_rng(0)
rows = np.linalg.qr(rng.normal(size=(600, 6)))[0]
X = rng.normal(size=(600, 6)) / 4
y = (X[:, 0] > 0).astype(int)
model = MultipartyClassifier(epsilon=1.0, method="statistic", classes=[0, 1], random_state=0)
designed(model, fit_intercept=False)
model.fit(X, y, party=np.arange(600) // 6, auxiliary=rows)
found["statistic"] = {"coef": model.coef_.ravel().tolist()}
cells = MultipartyClassifier(method="cells", epsilon=3.0, classes=range(3), random_state=0)
cells.fit(X, np.arange(600) % 3, party=np.arange(600) // 6, auxiliary=X[:, ::-1])
found["cells"] = {"coef": cells.coef_.ravel().tolist()}
# Rows of few whole numbers: many are as far from one centre as from another.
flags = (X[:, :5] > 0.1).astype(float)
cells = MultipartyClassifier(method="cells", epsilon=3.0, classes=[0, 1], random_state=0)
cells.fit(flags, y, party=np.arange(600) // 2, auxiliary=flags[::-1])
found["cells of flags"] = {"coef": cells.coef_.ravel().tolist()}
# Devices as the experiments have them: components of public rows, then votes or cells.
table = np.tanh(rng.normal(size=(1500, 8)) @ rng.normal(size=(8, 40)))
rows = LabelledRows(table, table[:, :3].argmax(axis=1))
customers_and_devices.LOADERS["made"] = lambda: SimpleNamespace(train=rows, test=rows)
data = {"table": "made", "n_test": 200, "n_parties": 200, "rows_each": 5, "n_auxiliary": 300}
for whiten in (False, True):
    made = customers_and_devices.devices({**data, "n_components": 12, "whiten": whiten}, 0)
    for method in ("statistic", "cells"):
        model = MultipartyClassifier(
            method=method, epsilon=3.0, classes=range(3), random_state=0
        ).fit(made.train.X, made.train.y, party=made.party, auxiliary=made.auxiliary)
        scores = model.decision_function(made.test.X)
        found[f"devices, {method}, white: {whiten}"] = {"scores": scores.ravel().tolist()}
# Columns that mirror each other: no entry of a component is its largest, but for rounding; and
# four columns that are alike, whose components are any turn of each other.
mirrored = np.hstack([X, -X])
alike = np.hstack([3 * X, np.kron(np.eye(4), np.ones((150, 1)))])
for name, public in {"mirrored": mirrored, "alike": alike}.items():
    pca = PublicPCA(public, 6).fit(public)
    found[name] = {"rows": pca.transform(public[:5]).ravel().tolist()}
print(json.dumps(found))
"""


def _numbers(**environment: str) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels named here are of x86-64")
def test_records_are_the_same_whatever_computes_sums():
    """Sums are rounded in another order, so numbers agree to what a solver's tolerance leaves."""
    here = _numbers(OPENBLAS_NUM_THREADS="1")
    for kernels, threads in (("Prescott", "1"), ("Haswell", "1"), ("Sandybridge", "2")):
        there = _numbers(OPENBLAS_CORETYPE=kernels, OPENBLAS_NUM_THREADS=threads)
        assert there.keys() == here.keys()
        for name, values in here.items():
            for metric, value in values.items():
                assert there[name][metric] == pytest.approx(value, rel=1e-6, abs=1e-6), name
