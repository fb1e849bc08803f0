"""Same words, same model and price: in Python, by study file, between machines; all are seeded."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import SimulatedRelease
from confrere.model.strict_json import json_bytes
from confrere.release import Release
from confrere.simulation import SeededSource
from confrere_federation.studies.study_file import estimator_for, write_template
from tests.contracts.test_engines import PARTIES, charged, make_example, run_between, run_here
from tests.world import rest_slow


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return make_example(tmp_path_factory.mktemp("doors"), write=partial(write_template, seed=0))


#: What columns mean to a schema decides how they are encoded: with importances, and without any.
SCHEMAS = {
    "ball": {},
    "body": {f", importance = 0.0{k}": "" for k in ("18", "43", "60", "10")},
    "hidden": {'neighbours = "replace-one"': 'neighbours = "add-remove"\nrecords = 90'},
}


#: What a card says of a run, and not of the model: who was asked, where and when, by what words.
OF_THE_RUN = {
    *("release_id", "created", "implementation", "files", "study_sha256", "accounting"),
    *("approvals", "trust", "ledger_head", "prior_spend"),
}


def card_of(release):
    """Return what a card says but for that; who sees what depends on where the data are."""
    told = {key: one for key, one in release.card.to_dict().items() if key not in OF_THE_RUN}
    del told["guarantee"]["adversaries"]
    return told


def together(study, method, tables, auxiliary):
    party = np.repeat(PARTIES, [len(table) for table in tables])
    more = {"auxiliary": auxiliary} if method.auxiliary else {}
    return {
        study.id: estimator_for(study, method).fit(pd.concat(tables), party=party, **more).model_
    }


def each(study, method, tables, _):
    """One model of every organisation, drawn from the stream that it has in a study."""
    made, sources = {}, []
    for name, table in zip(PARTIES, tables, strict=True):
        first = study.sources and study.party(name).role == "source"
        used = find_method(method.source) if first else method
        more = {} if not sources else {"source": sources}
        model = estimator_for(study, used, **more)
        plan, rows = model.prepare(table, None)
        if getattr(plan, "instead", None) is not None:  # the source's release is its own
            continue
        stream = SeededSource(7).stream("learn", 1 if sources else 0).stream(name, 0)
        made[name] = model._encoding_model(plan.run(rows, stream))
        if first:
            sources.append(Release(used.name, made[name], plan.guarantee(), None))
        if study.method.shape == "as-is":
            break
    return made


#: Who votes hides whole parties: the number of a party's records is nobody's business there.
DOORS = [
    (name, schema)
    for schema in SCHEMAS
    for name in CATALOGUE
    if (schema, CATALOGUE[name].shape) != ("hidden", "votes")
]
#: Each method once, and every schema for one method of each shape: which rows there are, is a
#: question of the schema, and what is asked of them one of the shape.
FIRST = {(CATALOGUE[name].shape, schema): (name, schema) for name, schema in reversed(DOORS)}
KEPT = {*FIRST.values(), *((name, "ball") for name in CATALOGUE)}


@pytest.mark.parametrize("door", rest_slow(DOORS, KEPT))
def test_every_door_opens_on_the_same_model(example, tmp_path, door):
    method, schema = CATALOGUE[door[0]], door[1]
    how = {"rewritten": SCHEMAS[schema]}
    study, here = run_here(example, tmp_path / "here", method, **how)
    _, there = run_between(example, tmp_path / "there", method, **how)
    tables = [pd.read_csv(example / f"local/{name}.csv") for name in PARTIES]
    fit = together if method.shape in ("together", "votes") else each
    models = fit(study, method, tables, pd.read_csv(example / "public.csv"))
    for one, other in zip(here, there.made, strict=True):
        assert one.name == other.name
        written = json_bytes(models.pop(one.name).to_dict())
        for release in (one.release, other.release):
            assert json_bytes(release.model.to_dict()) == written
            with pytest.raises(SimulatedRelease):
                release.save(tmp_path / "never")
        assert card_of(one.release) == card_of(other.release)
    assert not models
    paid = charged(tmp_path / "here", study)
    assert paid == charged(tmp_path / "there", study)
    free = set(there.as_released)
    assert free == ({name for name, rows in paid.items() if not rows} if method.source else set())
    for rows in (rows for name, rows in paid.items() if name not in free):
        # where experts are checked, for that and for the model
        assert {row[0] for row in rows} == {"released"}
        # All that was spent: parts of a price are added up, never above it.
        assert 1.0 - 1e-12 < rows[-1][1] <= 1.0
