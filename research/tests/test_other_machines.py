"""Seeded records do not depend on the machine: other BLAS kernels and threads, the same numbers."""

import json
import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import json
import numpy as np
from confrere import MultipartyClassifier
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
model = MultipartyClassifier(
    epsilon=1.0, method="statistic", classes=[0, 1], random_state=0, fit_intercept=False
)
model.fit(X, y, party=np.arange(600) // 6, auxiliary=rows)
found["statistic"] = {"coef": model.coef_.ravel().tolist()}
cells = MultipartyClassifier(method="cells", epsilon=3.0, classes=range(3), random_state=0)
cells.fit(X, np.arange(600) % 3, party=np.arange(600) // 6, auxiliary=X[:, ::-1])
found["cells"] = {"coef": cells.coef_.ravel().tolist()}
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
        timeout=250,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels named here are of x86-64")
def test_records_are_the_same_whatever_computes_sums():
    here = _numbers(OPENBLAS_NUM_THREADS="1")
    for other in ({"OPENBLAS_CORETYPE": "Prescott"}, {"OPENBLAS_NUM_THREADS": "2"}):
        there = _numbers(**{"OPENBLAS_NUM_THREADS": "1", **other})
        assert there.keys() == here.keys()
        for name, values in here.items():
            for metric, value in values.items():
                assert there[name][metric] == pytest.approx(value, rel=1e-6, abs=1e-6), name
