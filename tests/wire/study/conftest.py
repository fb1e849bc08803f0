"""A study on disk, with patients who do not exist."""

import re
import shutil

import pytest

from confrere_federation.studies.running import make_plan
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.examples import write_plain_example

PLAIN_POLICY = """[policy]
privacy_unit = "record"
neighbours = "replace-one"
lifetime_epsilon = 30.0
"""


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    place = tmp_path_factory.mktemp("example")
    write_plain_example(place)
    for file in (place / "local").glob("*.toml"):
        file.write_text(re.sub(r"\[policy\](.|\n)*", PLAIN_POLICY, file.read_text()))
    return place


@pytest.fixture
def folder(example, tmp_path):
    return shutil.copytree(example, tmp_path / "study")


@pytest.fixture
def edit(folder):
    """Return a function that changes the study by replacing texts, and gives its path."""

    def change(**replaced):
        return write_study(folder, replaced)

    return change


def write_study(folder, replaced):
    path = folder / "study.toml"
    text = path.read_text()
    for old, new in replaced.items():
        assert OLD[old] in text
        text = text.replace(OLD[old], new)
    path.write_text(text)
    return path


#: What the tests replace, by short names.
OLD = {
    "name": 'name = "average"',
    "mode": 'mode = "private"',
    "epsilon": "epsilon = 1.0   ",
    "unit_rows": "max_rows_per_unit = 1",
    "parties_per_unit": "parties_per_unit = 1",
    "main_cap": "cap = { epsilon = 3.0 }",
    "quorum": "quorum = 1.0",
    "random": "split_seed = 20261115",
    "label": 'positive = ["yes"], base_rate = 0.12',
    "engine": 'engine = "local"',
    "bounds": 'clip_norm = "rms"',
}


def ready(path, **more):
    """Return a study, the parties here and a fresh plan."""
    study = read_study(path)
    locals_ = gather_locals(study, path, **more)
    return study, locals_, make_plan(study, locals_)
