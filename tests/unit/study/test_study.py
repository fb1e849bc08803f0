"""The study file: what is accepted, and the key that every refusal names."""

import hashlib
import os
import re
from importlib.resources import files

import pytest

from confrere.catalogue import CATALOGUE
from confrere.errors import SchemaError, StudyError
from confrere.release import generate_key
from confrere_federation.studies.study_file import read_study, study_from_bytes

TEMPLATE = files("confrere_federation.studies").joinpath("templates", "study.toml").read_text()
STUDIED = [n for n, m in CATALOGUE.items() if m.shape in ("alone", "transfer", "together")]


def read(text):
    return study_from_bytes(text.encode())


def changed(old, new):
    assert old in TEMPLATE
    return TEMPLATE.replace(old, new)


def test_the_template_is_a_valid_study_and_its_hash_is_of_its_bytes():
    study = read(TEMPLATE)
    assert (study.id, study.method.name, study.epsilon) == ("diabetes-2026", "average", 1.0)
    assert [party.cap.epsilon for party in study.parties] == [3.0, 2.0, 2.0]
    assert study.sha256 == hashlib.sha256(TEMPLATE.encode()).hexdigest()
    assert not study.simulated


@pytest.mark.parametrize("name", STUDIED)
def test_every_method_of_the_catalogue_has_a_study(name):
    study = read(changed('name = "average"', f'name = "{name}"'))
    assert study.method.name == name
    assert study.weighted == study.method.weighted


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("schema = 1", "schema = 2", "schema: must be 1"),
        ("schema = 1", "", "schema: is missing"),
        ('protects = "record" ', "", "privacy.protects: is missing"),
        ('relation = "replace-one" ', "", "privacy.relation: is missing"),
        ('unit = "patient" ', "", "privacy.unit: is missing"),
        ('protects = "record" ', 'protects = "patient" ', "privacy.protects: must be one of"),
        ('relation = "replace-one" ', 'relation = "add-remove" ', "privacy.records: where"),
        ("# records = 2000", "records = 2000", "privacy.records: where"),
        ('protects = "record" ', 'protects = "party" ', "privacy: average promises"),
        ('role = "source"', 'role = "source"\nkey = "ssh-rsa AAAA"', "key: must be a line"),
        ("schema = 1", 'schema = "1"', "schema: must be a whole number"),
        ('id = "diabetes-2026"', 'id = "../up"', "study.id: must be letters"),
        ('id = "diabetes-2026"', "", "study.id: is missing"),
        ('title = "Dia', 'subtitle = "x"\ntitle = "Dia', r"\[study\] does not know 'subtitle'"),
        ("not for denying care", "anonymous", "study.purpose: says anonymous"),
        ('mode = "private"', 'mode = "public"', "study.mode: must be one of"),
        ('unit = "patient"', 'unit = "a\\nb"', "privacy.unit: must be one line"),
        ("max_rows_per_unit = 1", "max_rows_per_unit = 0", "privacy.max_rows_per_unit"),
        ("parties_per_unit = 1", "parties_per_unit = 4", "privacy.parties_per_unit: is more"),
        ("[privacy]", "[privacy]\nmagic = 1", r"\[privacy\] does not know 'magic'"),
        ('name = "average"', 'name = "magic"', "method.name: name must be one of plr"),
        ('name = "average"', "name = 3", "method.name: must be one line"),
        ('name = "average"', 'name = "pst-s"\nn_groups = 100000000000', "n_groups: is too large"),
        ('name = "average"', 'name = "vote"', "auxiliary: vote learns from a file of public rows"),
        (
            "[encoding]\nrows",
            f'[auxiliary]\nsha256 = "{64 * "0"}"\n[encoding]\nrows',
            "auxiliary: average has",
        ),
        (
            "[encoding]\nrows",
            '[auxiliary]\nsha256 = "x"\n[encoding]\nrows',
            "auxiliary.sha256: must be a SHA",
        ),
        (
            "[encoding]\nrows",
            "[evaluation]\nepsilon = 0\n[encoding]\nrows",
            "evaluation.epsilon: must be",
        ),
        ("epsilon = 1.0   ", "epsilon = 0   ", "method.epsilon: must be a number above 0"),
        ("epsilon = 1.0   ", 'epsilon = 1.0\nloss = "square"  ', "method: loss must be"),
        ("epsilon = 1.0   ", "epsilon = 1.0\nrounds = 0.5  ", "method.rounds: must be of the kind"),
        ("epsilon = 1.0   ", "epsilon = 1.0\nn_groups = 3  ", "method.n_groups: average does not"),
        ("epsilon = 1.0   ", "epsilon = 1.0\nledger = 3  ", "method.ledger: average does not know"),
        ("epsilon = 1.0   ", "epsilon = 1.0\nrandom_state = 3  ", "method.random_state"),
        ("epsilon = 1.0   ", "epsilon = 1.0\nalpha = -1  ", "method: alpha"),
        ('name = "branch-1"', 'name = "main"', "party.name: 'main' is there twice"),
        ('name = "branch-1"', 'name = "no spaces"', r"party\[1\].name: must be letters"),
        ('role = "source"', 'role = "boss"', r"party\[0\].role: must be one of"),
        ("cap = { epsilon = 3.0 }", "cap = 3.0", r"party\[0\].cap: must be a table"),
        ("cap = { epsilon = 3.0 }", "cap = { epsilon = 3.0, delta = 1.5 }", "delta"),
        ('name = "average"', 'name = "average"\nprior = "mine"', "method.prior"),
        ("cap = { epsilon = 3.0 }", "cap = { gamma = 1 }", r"\[party\[0\].cap\] does not know"),
        ('engine = "local"', 'engine = "smoke"', "federation.engine"),
        ("quorum = 1.0", "quorum = 1.5", "federation.quorum: must be 1 at most"),
        ("split_seed = 20261115", "split_seed = -1", "random.split_seed"),
        ("split_seed = 20261115", "noise_seed = 3", "random.noise_seed: needs study.mode"),
        ('rows = "clip"', 'rows = "all"', "encoding.rows: must be one of"),
    ],
)
def test_a_refusal_names_the_table_and_the_key(old, new, told):
    with pytest.raises(StudyError, match=told):
        read(changed(old, new))


def test_a_party_s_key_is_a_line_and_no_file_of_this_machine(tmp_path):
    """A study comes from elsewhere: what it names must not be opened."""
    public = generate_key(tmp_path / "a.key")
    line = public.read_text().strip()
    assert (
        read(changed('role = "source"', f'role = "source"\nkey = "{line}"')).parties[0].key == line
    )
    os.mkfifo(tmp_path / "pipe")  # would be waited for
    for path in (public, tmp_path / "pipe"):
        with pytest.raises(StudyError, match="key: must be a line"):
            read(changed('role = "source"', f'role = "source"\nkey = "{path}"'))


def test_a_key_that_is_misspelt_is_told_the_nearest_one():
    with pytest.raises(StudyError, match=r"did you mean 'unit_column'\?"):
        read(changed("unit_column =", "unit_colum ="))


@pytest.mark.parametrize("key", re.findall(r"(?m)^(\w+) *= ", TEMPLATE.split("[data")[0]))
def test_no_refusal_prints_a_value(key):
    text = re.sub(rf"(?m)^{key} *= .*$", f'{key} = ["S3CRET", {{ S3CRET = "S3CRET" }}]', TEMPLATE)
    with pytest.raises(StudyError, match=key) as refused:
        read(text)
    assert "S3CRET" not in str(refused.value)


def test_wrong_public_facts_are_refused_by_the_schema():
    with pytest.raises(SchemaError, match="data: column 'age'"):
        read(changed("bounds = [18, 100]", "bounds = [100, 18]"))


def test_a_transfer_needs_a_source_and_somebody_else():
    text = changed('name = "average"', 'name = "simcomb"')
    with pytest.raises(StudyError, match=r"party\.role: simcomb needs"):
        read(text.replace('role = "source"', 'role = "member"'))


def test_only_a_model_of_all_is_evaluated_by_all():
    text = changed("[encoding]\nrows", "[evaluation]\nepsilon = 0.5\n[encoding]\nrows")
    assert read(text).operations == ("size", "objective", "errors")
    with pytest.raises(StudyError, match="evaluation: plr makes no one model"):
        read(text.replace('name = "average"', 'name = "plr"'))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"= 1", b"a = [" * 5000, b"[study"])
def test_what_is_no_toml_is_refused(content):
    with pytest.raises(StudyError):
        study_from_bytes(content)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path):
    with pytest.raises(StudyError, match="cannot be read"):
        read_study(tmp_path / "no.toml")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * 2_000_000)
    with pytest.raises(StudyError, match="larger than"):
        read_study(large)
