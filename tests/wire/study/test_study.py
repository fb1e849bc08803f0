"""The study file: what is accepted, and that refusals print no value.

What they say is in tests/contracts/test_bad_inputs.py.
"""

import os
import re
import subprocess
import sys
from importlib.resources import files

import pytest

from confrere.errors import StudyError
from confrere.release import generate_key
from confrere_federation.studies.study_file import study_from_bytes

TEMPLATE = files("confrere_federation.studies").joinpath("templates", "study.toml").read_text()


def read(text):
    return study_from_bytes(text.encode())


def changed(old, new):
    assert old in TEMPLATE
    return TEMPLATE.replace(old, new)


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


@pytest.mark.parametrize("key", re.findall(r"(?m)^(\w+) *= ", TEMPLATE.split("[data")[0]))
def test_no_refusal_prints_a_value(key):
    text = re.sub(rf"(?m)^{key} *= .*$", f'{key} = ["S3CRET", {{ S3CRET = "S3CRET" }}]', TEMPLATE)
    with pytest.raises(StudyError, match=key) as refused:
        read(text)
    assert "S3CRET" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"= 1", b"a = [" * 5000, b"[study"])
def test_what_is_no_toml_is_refused(content):
    with pytest.raises(StudyError):
        study_from_bytes(content)


def test_a_study_is_read_where_nothing_of_a_run_was_imported(tmp_path):
    """As ``verify --study`` does: operations of a run are not known there."""
    place = tmp_path / "study.toml"
    place.write_text(changed('name = "average"', 'name = "plr"\npurpose = "inference"'))
    told = "import sys; from confrere_federation.studies.study_file import read_study as read; "
    told += "study = read(sys.argv[1]); assert study.has_intervals and not study.adds_up"
    subprocess.run([sys.executable, "-c", told, place], check=True)
