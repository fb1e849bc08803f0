"""Every dimension is a value: whatever goes together works, and the rest says which page tells why.

Ten methods by geometry, law, classes, prior and relation, each from a data frame and from a Parquet
file, with equal bits: any three values together, all of them in ``make test-slow``. What a cell
means for a method is in docs/matrix.md, whose table is compared with what is found here.
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

from confrere import AddRemove
from confrere.catalogue import find_method
from confrere.errors import ConfrereError
from confrere.estimators import designed
from confrere.rows import Parquet
from confrere.schema import Category, Label, Number, PublicSchema
from tests.world import covering, rest_slow

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


def settings_of(cell, plain):
    """Return what a method is asked for in a cell, of a table or of plain numbers."""
    method = find_method(cell.method)
    asked = {"epsilon": 2.0, "random_state": 0}
    offered = method.make().get_params()
    if cell.law == "delta":
        asked["delta"] = 1e-4
    if not plain:
        geometry = "l2" if cell.geometry == "ball" else "schema"
        asked |= {"schema": schema(cell.classes), "geometry": geometry}
    else:
        asked |= {"classes": list(range(cell.classes))}
        asked |= {"data_norm": 2.0} if "data_norm" in offered else {}
    if cell.relation == "add-remove":
        asked["neighbours"] = AddRemove(ROWS)
    if method.shape == "transfer":
        asked["prior_check"] = cell.prior == "prior"
    elif cell.prior == "prior":
        width = 3 if plain else 5
        point = np.linspace(-1, 1, width)
        asked["prior"] = point if cell.classes == 2 else np.outer([1.0, 0.0, -1.0], point)
    if "n_groups" in offered:
        asked["n_groups"] = 2
    return method, asked


@functools.cache
def source_of(method, geometry, classes, plain):
    kind = find_method(method).source
    return fit(
        Cell(kind, geometry, "pure", classes, "none", "replace-one"), plain=plain
    ).to_release()


@functools.cache
def parquet(classes, folder):
    """Return the same table in a file."""
    path = Path(folder) / f"{classes}.parquet"
    table(classes)[2].to_parquet(path, row_group_size=50)
    return Parquet(path)


def asked_of(cell, folder=None, *, plain=False):
    """Return the classifier of a cell and its data: a data frame, a file or plain numbers."""
    method, asked = settings_of(cell, plain)
    if method.shape == "transfer":
        asked["source"] = source_of(cell.method, cell.geometry, cell.classes, plain)
    X, codes, frame = table(cell.classes)
    data = {"X": X, "y": codes} if plain else {"X": frame}
    if folder is not None:
        data["X"] = parquet(cell.classes, folder)
    if cell.method in METHODS[5:]:
        data["party"] = np.arange(ROWS) % 3
    return designed(method.make(), **asked), data


def fit(cell, folder=None, *, plain=False):
    model, data = asked_of(cell, folder, plain=plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(**data)


@pytest.mark.parametrize("cell", rest_slow(CELLS, covering(CELLS, 3)))
def test_a_combination_works_or_names_the_page_that_says_why_not(cell, folder):
    if cell not in IMPOSSIBLE:
        models = [fit(cell), fit(cell, folder)]
        models += [fit(cell, plain=True)] if cell.geometry == "ball" else []
        for model in models:
            assert model.guarantee_.epsilon <= 2.0
            assert model.guarantee_.delta in (0.0, 1e-4 * (cell.law == "delta"))
            assert model.guarantee_.neighbours == cell.relation
            shaped = cell.geometry == "schema" and cell.method != "pst-s"  # it does not say
            assert (model.model_.facts.body is not None) == shaped
        first, second = (model.model_.arrays() for model in models[:2])
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
