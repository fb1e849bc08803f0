"""The officer's file: filled from what is declared and recorded, with ten lines left at most."""

import re

import pytest

from confrere.release import load_release
from confrere_federation.studies.running import approve_study, refuse_study
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.wire.signed_run import name_keys

WORDS = {"name": "A. Reuter", "reason": "board of 12 May"}


@pytest.fixture
def page(folder, line):
    """Return a way to write the page, and what is read on it."""

    def read(*more):
        line.json("assessment", "study.toml", *more)
        text = re.sub("<style>.*</style>", "", (folder / "assessment.html").read_text(), flags=re.S)
        return " ".join(re.sub("<[^>]*>", " ", text).split())

    return read


def test_everything_declared_is_on_it_and_what_came_of_it(folder, line, page):
    study, text = read_study("study.toml"), page()
    for fact in (study.sha256, study.purpose, "Glu0", *(one.name for one in study.parties)):
        assert fact in text
    assert "changes their odds by a factor of at most 2.719" in text
    assert "one process reads the tables of 3 organisations" in text
    assert "No record leaves" not in text
    assert text.count("the amount is typed when the study is run") == 3
    assert "Every table is asked for how many records there are; " in text
    done = line.json("fit", "study.toml", "--yes", "--out", "out")
    release = load_release(done["data"]["releases"][0]["folder"])
    text = page("--release", done["data"]["releases"][0]["folder"])
    for fact in (release.card.release_id, *release.card.unprotected):
        assert fact in text
    assert text.count("the amount was typed when the study was run") == 3
    assert f"Approved by {release.card.approvals[0].name}" in text
    assert "waiting" not in text


def test_between_machines_it_says_who_decided_what(folder, page):
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('engine = "local"', 'engine = "line"'))
    name_keys(folder)
    study = read_study(path)
    locals_ = gather_locals(study, path)
    text = page()
    assert text.count("not taken yet") == 3
    assert "No record leaves" in text
    key = folder / "local/main.key"
    approve_study(study, locals_["main"], key=key, approval=folder / "approval-main.json", **WORDS)
    refuse_study(study, locals_["branch-1"], approval=folder / "approval-b.json", **WORDS)
    text = page()
    assert "main is asked for" in text
    assert re.search(r"agreed by A. Reuter, \S+, until \S+: board of 12 May", text)
    assert re.search(r"refused by A. Reuter, \S+: board of 12 May", text)
    assert text.count("not taken yet") == 1
