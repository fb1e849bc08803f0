"""Every method by study file, over both engines: the same bytes for the same seeds."""

import hashlib
import shutil
from dataclasses import replace
from unittest.mock import patch

import pandas as pd
import pytest

from confrere import PrivateLogisticRegression
from confrere.assurance.inference import infer, shared
from confrere.catalogue import CATALOGUE
from confrere.errors import InvalidRelease
from confrere.ledger import Ledger
from confrere.model import Linear
from confrere.release import CardNotes, generate_key, load_release, verify_release
from confrere.release.card import Quality
from confrere.simulation import SeededSource
from confrere_federation.studies import running
from confrere_federation.studies.running import (
    CoordinatorSession,
    asked_lines,
    described,
    make_approval,
    make_plan,
    party_session,
    prepare,
)
from confrere_federation.studies.study_file import TABLE1, gather_locals, read_local, read_study
from tests.contracts.catalogue import parameters
from tests.examples import write_plain_example
from tests.wire.signed_run import Loopback, confirm_all
from tests.world import rest_slow

PARTIES = ("main", "branch-1", "branch-2")
ROWS = 400


def make_example(place, rows=ROWS, write=write_plain_example):
    """Write parties, keys and public rows; patients who do not exist."""
    write(place)
    main = pd.read_csv(place / "local/main.csv")
    for name in PARTIES:
        file = place / f"local/{name}.csv"
        pd.read_csv(file)[:rows].to_csv(file, index=False)
        generate_key(place / f"local/{name}.key")
    public = main[-200:].drop(columns=["patient_id", "diabetes"])
    public.to_csv(place / "public.csv", index=False)
    generate_key(place / "coordinator.key")
    return place


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return make_example(tmp_path_factory.mktemp("engines"))


def set_up(example, folder, method, engine, *, seeded=True, more="", named=None, rewritten=None):
    """Write the study and the local files of one method for one engine.

    ``rewritten`` is what the study says instead.
    """
    shutil.copytree(example, folder)
    votes = method.shape == "votes"
    named = named or f'name = "{method.name}"'
    if "n_groups" in parameters(method.estimator) and "n_groups" not in named:
        named += "\nn_groups = 2"  # as good as five, and planned in a third of the time
    text = (folder / "study.toml").read_text()
    changes = {
        'name = "average"': named,
        'engine = "local"': f'engine = "{engine}"',
        **(rewritten or {}),
    }
    if seeded:
        changes['mode = "private"'] = 'mode = "simulation"'
        changes["split_seed"] = "noise_seed = 7\nsplit_seed"
    if votes:
        changes['privacy_unit = "record"'] = 'privacy_unit = "party"'
    if method.auxiliary:
        digest = hashlib.sha256((folder / "public.csv").read_bytes()).hexdigest()
        changes["[federation]"] = f'[auxiliary]\nsha256 = "{digest}"\n\n[federation]'
    for name in PARTIES:
        line = (folder / f"local/{name}.key.pub").read_text().strip()
        changes[f'name = "{name}"\n'] = f'name = "{name}"\nkey = "{line}"\n'
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new, 1)
    (folder / "study.toml").write_text(text + more)
    asking = (folder / "coordinator.key.pub").read_text().strip()
    relation = "add-remove" if 'neighbours = "add-remove"' in text else "replace-one"
    for name in PARTIES:
        file = folder / f"local/{name}.toml"
        file.write_text(
            f'party = "{name}"\ndata_path = "{name}.csv"\nkey_path = "{name}.key"\n'
            f'coordinator = "{asking}"\nauxiliary_path = "../public.csv"\n'
            f'[policy]\nprivacy_unit = "{"party" if votes else "record"}"\n'
            f'neighbours = "{relation}"\ntrust = "coordinator"\nlifetime_epsilon = 9.0\n'
        )
    confirm_all(folder, PARTIES)
    return read_study(folder / "study.toml")


def run_here(example, folder, method, **how):
    study = set_up(example, folder, method, "local", **how)
    locals_ = gather_locals(study, folder / "study.toml")
    made = prepare(study, make_plan(study, locals_), locals_).run()
    return study, made


def run_between(example, folder, method, **how):
    """Run the signed protocol, with everything but the network."""
    with patch.object(running, "requests_of", kept_by_study(running.requests_of)):
        return _run_between(example, folder, method, **how)


def kept_by_study(requests_of):
    """What parties work out in a process each, twice, of the same study: here once for all."""
    kept = {}

    def once(study, given, *among):
        if study.sha256 not in kept:
            kept[study.sha256] = requests_of(study, given, *among)
        return kept[study.sha256]

    return once


def _run_between(example, folder, method, **how):
    study = set_up(example, folder, method, "line", **how)
    sessions = {}
    for party in study.payers:
        local = read_local(folder / f"local/{party.name}.toml")
        approval = make_approval(study, local, approved_by="the officer", reason="a test")
        file = folder / f"{party.name}.approval"
        file.write_bytes(approval.document(local.key_path))
        sessions[party.name] = party_session(
            study, local, approval=file, out=folder / f"had/{party.name}"
        )
    finished = CoordinatorSession(
        study,
        key=folder / "coordinator.key",
        folder=folder,
        carrier=Loopback(sessions),
        out=folder / "out",
        auxiliary=folder / "public.csv" if method.auxiliary else None,
    ).run()
    assert finished.unsigned == {}
    assert finished.left_out == {}
    assert all(session.finished for session in sessions.values())
    return study, finished


def charged(folder, study):
    return {
        party.name: [
            (entry.state, entry.spent, entry.origin.step)
            for entry in Ledger(folder / f"local/{party.name}.ledger").entries()
        ]
        for party in study.payers
    }


def negated(model):
    """The same model with its decision turned round."""
    if isinstance(model, Linear):
        return replace(model, coef=-model.coef, intercept=-model.intercept)
    first, *others = model.groups
    return replace(model, groups=(replace(first, coef=-first.coef), *others))


#: Who signs what is a question of the shape: one method of each, all of them with more time.
FIRST = {method.shape: (name,) for name, method in reversed(CATALOGUE.items())}


@pytest.mark.parametrize("name", rest_slow(zip(CATALOGUE), FIRST.values()))
def test_everyone_ends_with_the_releases_and_has_signed_its_own(example, tmp_path, name):
    folder = tmp_path / "there"
    study, finished = run_between(example, folder, CATALOGUE[name[0]], seeded=False)
    for one in finished.made:
        keys = {n: study.party(n).key for n in one.receipts}
        load_release(finished.folders[one.name], require_signature_from=keys)
        for party in study.payers:
            kept = load_release(folder / f"had/{party.name}/{one.name}")
            assert kept.release_id == one.release.release_id
        ledgers = [Ledger(folder / f"local/{name}.ledger") for name in one.receipts]
        verify_release(finished.folders[one.name], ledgers=ledgers)
        forged = replace(one.release, model=negated(one.release.model), _card=None)
        told = CardNotes(study_sha256=study.sha256)
        place = forged.describe(told).save(folder / "forged" / one.name)
        with pytest.raises(InvalidRelease, match="another model"):
            verify_release(place, ledgers=ledgers)


class AtMain(SeededSource):
    """The noise of one party of a study, under its seed."""

    def stream(self, label, step):
        return SeededSource(7).stream(label, step).stream("main", 0)


def test_intervals_are_the_same_over_both_engines_and_in_python(example, tmp_path):
    method, named = CATALOGUE["plr"], 'name = "plr"\npurpose = "inference"'
    here_study, here = run_here(example, tmp_path / "here", method, named=named)
    _, there = run_between(example, tmp_path / "there", method, named=named)
    for one, other in zip(here, there.made, strict=True):
        assert one.release.card.quality == other.release.card.quality
        assert one.release.card.epsilon == other.release.card.epsilon == 1.0
        assert one.release.terms().lines == tuple(one.release.card.quality.terms)
    paid = charged(tmp_path / "here", here_study)
    assert paid == charged(tmp_path / "there", here_study)
    assert [float(rows[-1][1]) for rows in paid.values()] == [1.0] * 3
    table = pd.read_csv(tmp_path / "here/local/main.csv").groupby("patient_id").head(1)
    part, rest = shared(1.0)
    fit = PrivateLogisticRegression(part, here_study.schema, purpose="inference")
    fit.set_params(random_state=AtMain(0).stream("learn", 0)._generator).fit(table)
    found = infer(fit, table, epsilon=rest, random_state=AtMain(0))
    assert fit.model_.coef.tobytes() == here[0].release.model.coef.tobytes()
    told = here[0].release.card.quality
    assert found.quality() == told.model_dump(exclude={"measures", "calibration"})


def test_intervals_are_priced_approved_and_in_the_ledger(example, tmp_path):
    method, named = CATALOGUE["plr"], 'name = "plr"\npurpose = "inference"'
    folder = tmp_path / "there"
    study, there = run_between(example, folder, method, named=named, seeded=False)
    assert study.operations == ("size", "learn", "intervals")
    lines = asked_lines(study, read_local(folder / "local/main.toml"))
    assert ["epsilon 0.12" in line for line in lines].count(True) == 1
    (one, *_) = there.made
    place, ledger = there.folders[one.name], Ledger(folder / f"local/{one.name}.ledger")
    assert verify_release(place, ledgers=[ledger]).release.terms().lines[0].low is None
    quality = one.release.card.quality
    told = quality.model_copy(update={"note": "all of them hold"}).model_dump(mode="json")
    forged = replace(one.release, quality=Quality.of(told), _card=None)
    forged = described(study, forged, ledger=ledger)
    with pytest.raises(InvalidRelease, match="another model"):
        verify_release(forged.save(folder / "forged", study=study.content), ledgers=[ledger])


@pytest.mark.parametrize("trust", ["own noise", "sum"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_table_is_the_same_over_both_engines_and_signed(example, tmp_path, trust, relation):
    named = f'name = "table1"\ntrust = "{trust}"'
    hidden = {'"replace-one"': '"add-remove"\nrecords = 400'} if relation == "add-remove" else {}
    how = {"named": named, "rewritten": hidden}
    study, (one,) = run_here(example, tmp_path / "here", TABLE1, **how)
    _, there = run_between(example, tmp_path / "there", TABLE1, **how)
    (other,) = there.made
    assert one.table.estimates_ == other.table.estimates_
    assert one.table.schema_.features == other.table.schema_.features
    assert not there.unsigned
    assert (there.folders[study.id] / "rehearsal.csv").exists()  # seeded: no table that could leave
    paid = charged(tmp_path / "here", study)
    assert paid == charged(tmp_path / "there", study)
    assert [[float(row[1]) for row in rows] for rows in paid.values()] == [[1.0]] * 3


def test_other_auxiliary_rows_than_the_studys_are_refused(example, tmp_path):
    folder = tmp_path / "x"
    study = set_up(example, folder, CATALOGUE["vote"], "local")
    (folder / "public.csv").write_text("age,bmi,Glu0,smoker\n50,25,5,never\n")
    locals_ = gather_locals(study, folder / "study.toml")
    with pytest.raises(Exception, match=r"auxiliary\.sha256"):
        prepare(study, make_plan(study, locals_), locals_)
