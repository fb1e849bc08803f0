"""Every dimension is a value: whatever goes together works, and the rest says which page tells why.

Ten methods by geometry, law, classes, prior and relation, each from a data frame and from a Parquet
file, with equal bits. What a cell means for a method is in docs/matrix.md, whose table is compared
with what is found here.
"""

import functools
import itertools
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from confrere.catalogue import find_method
from confrere.errors import ConfrereError
from confrere.rows import Parquet
from confrere.schema import Category, Label, Number, PublicSchema

METHODS = (
    "plr",
    "pst-s",
    "pst-f",
    "simcomb",
    "pst-h",
    "average",
    "ofpa",
    "ofaa",
    "laplace",
    "sums",
)
ROWS = 120
DOCS = Path(__file__).parents[2] / "docs"


class Cell(NamedTuple):
    """One combination."""

    method: str
    geometry: str
    law: str
    classes: int
    prior: str
    relation: str

    def __str__(self):
        return "-".join(map(str, self))


CELLS = [
    Cell(*each)
    for each in itertools.product(
        METHODS,
        ("ball", "schema"),
        ("pure", "delta"),
        (2, 3),
        ("none", "prior"),
        ("replace-one", "add-remove"),
    )
]

#: Gaussian noise in L1 is not what OFPA is: docs/proofs/averaging.md.
IMPOSSIBLE = {cell for cell in CELLS if cell.method == "ofpa" and cell.law == "delta"}


@functools.cache
def table(classes):
    rng = np.random.default_rng(classes)
    X = rng.uniform(-1, 1, size=(ROWS, 2))
    block = rng.integers(0, 3, size=ROWS)
    score = X[:, 0] + 0.5 * (block == 1) + 0.3 * rng.normal(size=ROWS)
    codes = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.array(["x", "y", "z"])[block]})
    frame["label"] = [f"k{code}" for code in codes]
    plain = np.column_stack([X, block == 1]).astype(float)
    return plain, codes, frame


def schema(classes):
    columns = (
        Number("a", bounds=(-1, 1), curve=False),
        Number("b", bounds=(-1, 1), curve=False),
        Category("c", values=("x", "y", "z")),
    )
    if classes == 2:
        return PublicSchema(columns, outcome=Label("label", positive=("k1",), negative=("k0",)))
    names = tuple(f"k{code}" for code in range(classes))
    return PublicSchema(columns, outcome=Label("label", classes=names))


def settings_of(cell, **more):
    """Return what a method of the catalogue is asked for in a cell."""
    method = find_method(cell.method)
    asked = {"epsilon": 2.0, "random_state": 0} | more
    offered = method.make().get_params()
    if cell.law == "delta":
        asked["delta"] = 1e-4
    if cell.geometry == "schema":
        asked |= {"schema": schema(cell.classes), "noise": "schema"}
    else:
        asked |= {"classes": list(range(cell.classes))}
        asked |= {"data_norm": 2.0} if offered.get("data_norm", 0) is not None else {}
    if cell.relation == "add-remove":
        asked["declared_samples"] = ROWS
        if "neighbours" in offered:
            asked["neighbours"] = "add-remove"
    if method.shape == "transfer":
        asked["prior_check"] = cell.prior == "prior"
    elif cell.prior == "prior":
        width = 5 if cell.geometry == "schema" else 3
        point = np.linspace(-1, 1, width)
        asked["prior"] = point if cell.classes == 2 else np.outer([1.0, 0.0, -1.0], point)
    if "n_groups" in offered:
        asked["n_groups"] = 2
    return method, asked


@functools.cache
def source_of(method, geometry, law, classes):
    kind = find_method(method).source
    return fit(Cell(kind, geometry, law, classes, "none", "replace-one")).to_release()


@functools.cache
def parquet(geometry, classes, folder):
    """Return the same table in a file; of plain numbers, with their labels in a column."""
    X, codes, frame = table(classes)
    if geometry == "ball":
        frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=codes)
    path = Path(folder) / f"{geometry}-{classes}.parquet"
    frame.to_parquet(path, row_group_size=50)
    return Parquet(path)


def fit(cell, folder=None):
    """Return the fitted classifier of a cell, of a data frame or of a file."""
    method, asked = settings_of(cell)
    if method.shape == "transfer":
        asked["source"] = source_of(cell.method, cell.geometry, "pure", cell.classes)
    X, codes, frame = table(cell.classes)
    data = {"X": frame} if cell.geometry == "schema" else {"X": X, "y": codes}
    if folder is not None:
        data["X"] = parquet(cell.geometry, cell.classes, folder)
        data |= {"y": "label"} if cell.geometry == "ball" else {}
    if cell.method in METHODS[5:]:
        data["party"] = np.arange(ROWS) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.make().set_params(**asked).fit(**data)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_combination_works_or_names_the_page_that_says_why_not(cell, folder):
    if cell not in IMPOSSIBLE:
        models = fit(cell), fit(cell, folder)
        for model in models:
            assert model.guarantee_.epsilon <= 2.0
            assert model.guarantee_.delta in (0.0, 1e-4 * (cell.law == "delta"))
            assert model.guarantee_.neighbours == cell.relation
            shaped = cell.geometry == "schema" and cell.method != "pst-s"  # it does not say
            assert (model.model_.facts.body is not None) == shaped
        first, second = (model.model_.arrays() for model in models)
        assert first.keys() == second.keys()
        assert all(np.array_equal(first[name], second[name]) for name in first)
        assert all(np.isfinite(array).all() for array in first.values())
        return
    for place in (None, folder):
        with pytest.raises(ConfrereError) as refused:
            fit(cell, place)
        (page,) = re.findall(r"docs/([\w/]+\.md)", str(refused.value))
        assert (DOCS / page).exists()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("matrix"))


def test_the_page_shows_what_works():
    """Of priors and relations four in every place, or none where the page says why."""
    told = {
        cells[0].strip("` "): [int(cell) for cell in cells[1:9]]
        for line in (DOCS / "matrix.md").read_text().splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 9
        and cells[0].strip("` ") in METHODS
    }
    places = list(itertools.product(("ball", "schema"), ("pure", "delta"), (2, 3)))
    found = {
        method: [
            sum(cell[:4] == (method, *place) and cell not in IMPOSSIBLE for cell in CELLS)
            for place in places
        ]
        for method in METHODS
    }
    assert told == found
