"""The table of all audits, and what is said when it holds bad news."""

import pytest

from confrere.assurance import audited as audits
from confrere.cli.commands import audit as command
from confrere_research.as_printed.faults import FAULTS


def found(name, value):
    return audits.Audited(
        name=name,
        title=name,
        sound=name in audits.IN_TABLE,
        claimed=1.0,
        confidence=0.999,
        sampled=None,
        whole=value,
        seconds=0.1,
        cpu_seconds=0.1,
    )


@pytest.fixture
def told(monkeypatch):
    """Make audits find what a test says; by default what they should."""
    values = dict.fromkeys(audits.IN_TABLE, 0.9) | dict.fromkeys(FAULTS, 2.0)

    def audit_all(names, **_):
        return (found(name, values[name]) for name in names)

    monkeypatch.setattr(command, "audit_all", audit_all)
    return values


def test_all_audits_make_one_table(line, told):
    text = line("audit", "--all").stdout
    assert "no promise of the library is refuted" in text
    assert all(name in text for name in told)
    answer = line.json("audit", "--all")
    assert [each["name"] for each in answer["data"]["audits"]] == [*audits.IN_TABLE, *FAULTS]


def test_a_refuted_method_and_a_missed_fault_are_bad_news(line, told):
    told["plr"] = 1.2
    told["half-noise"] = 0.9
    answer = line.json("audit", "--all", code=5)
    assert (answer["data"]["refuted"], answer["data"]["missed"]) == (["plr"], ["half-noise"])
    assert answer["error_code"] == "Refuted"


@pytest.mark.parametrize(
    "words", [[], ["plr", "--all"], ["--all", "--exact"], ["--all", "--whole-fits"]]
)
def test_one_method_or_all(line, words):
    line("audit", *words, code=2)
