"""Studies of what is no class: from kits, through approvals, to a release that all have signed."""

import pytest

from confrere.outcomes import Count, Quantity
from confrere.release import load_release
from confrere_federation.studies.running import CoordinatorSession, approve_study, party_session
from confrere_federation.studies.study_file import read_local, read_study
from tests.methods.test_lives import FEATURES as COLUMNS
from tests.methods.test_lives import OUTCOME, PublicSchema, cohort
from tests.wire.homes import open_kits
from tests.wire.signed_run import Loopback

HOSPITALS = {"north": 1500, "east": 1000, "south": 500}
OTHERS = Quantity("time", bounds=(0, 20)), Count("time", most=20)
STUDY = """schema = 1
study = {{ id = "lives", title = "Who lives", purpose = "whom to see again" }}
privacy = {{ privacy_unit = "record", neighbours = "replace-one", unit = "patient" }}
method = {{ name = "{}", epsilon = 3.0 }}
federation = {{ engine = "line" }}
"""
PARTY = '\n[[party]]\nname = "{0}"\ndataset = "registry"\ncap = {{ epsilon = 3.0 }}\n'
LOCAL = 'party = "{0}"\ndata_path = "{0}.csv"\n\n[policy]\nprivacy_unit = "record"\n'
LOCAL += 'neighbours = "replace-one"\ntrust = "1 of 3"\nlifetime_epsilon = 10.0\n'


def written(folder, outcome, method):
    (folder / "local").mkdir()
    text = STUDY.format(method) + PublicSchema(COLUMNS, outcome=outcome).to_toml()
    (folder / "study.toml").write_text(text + "".join(map(PARTY.format, HOSPITALS)))
    for seed, (name, size) in enumerate(HOSPITALS.items()):
        cohort(size, seed).to_csv(folder / f"local/{name}.csv", index=False)
        (folder / f"local/{name}.toml").write_text(LOCAL.format(name))
    return folder / "study.toml"


@pytest.mark.parametrize("method", ["average", "sums"])
@pytest.mark.parametrize("outcome", [OUTCOME, *OTHERS], ids=lambda one: one.kind)
def test_three_hospitals_go_from_kits_to_a_signed_release(tmp_path, outcome, method):
    written(tmp_path, outcome, method)
    places, sessions = open_kits(tmp_path, HOSPITALS, port=7000), {}
    study = read_study(tmp_path / "study.toml")
    for name, place in places.items():
        local, approval = read_local(place / "local.toml"), place / "approval.json"
        told = {"key": local.key_path, "name": "the officer", "reason": "follow-up"}
        approve_study(study, local, approval=approval, **told)
        sessions[name] = party_session(study, local, approval=approval, out=place / "out")
    desk = tmp_path / "coordinator"
    asked = {"key": desk / "coordinator.key", "folder": desk, "out": desk / "out"}
    finished = CoordinatorSession(study, carrier=Loopback(sessions), **asked).run()
    folder = finished.folders["lives"]
    assert finished.unsigned == {}
    assert {one.stem for one in (folder / "signatures").iterdir()} == set(HOSPITALS)
    release = load_release(folder)
    assert release.guarantee.epsilon == 3.0
    assert ("at half the hazard" in release._repr_html_()) == (outcome is OUTCOME)
