import copy

import jsonschema
import pytest

from confrere.errors import InvalidParameter, InvalidRelease
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.release import (
    Adversary,
    Approval,
    Card,
    CardNotes,
    Curator,
    Utility,
    build_card,
    card_schema,
)

NOTES = CardNotes(
    title="Diabetes",
    purpose="Invite people at risk.",
    not_for=("denying care",),
    curators=(Curator("Main Hospital", "office@hospital.example"), Curator("Branch")),
    unit_detail="one patient",
    adversaries=(Adversary("the coordinator", "every party's message", False),),
    trust="each organisation computes on its own data",
    unprotected=("who the organisations are",),
    preprocessing=("missing values become the declared mean",),
    tuning="a public rule",
    post_processing=("averaging",),
    utility=(Utility("AUC", 0.81, "a public sample", "public data", 0.84, 0.5),),
    justification="useful by simulation",
    approvals=(Approval("A. Officer", "data-protection officer", "2026-11-10"),),
    study_sha256="ab" * 32,
    replaces="cd" * 16,
)


@pytest.fixture
def document(release, ledger):
    return build_card(release, NOTES, ledger=ledger).to_dict()


def test_the_schema_is_a_schema_and_names_every_field():
    jsonschema.Draft202012Validator.check_schema(card_schema())
    assert card_schema()["required"] == list(card_schema()["properties"])


def test_a_person_in_both_domains_is_priced_and_told(make_release, receipt):
    other = Ledger()
    other.open_account("source", epsilon=1.0)
    source = other.charge("source", Guarantee(0.25), purpose="source")
    release = make_release(parties={"source": source, "target": receipt})
    apart = build_card(release)
    assert apart.epsilon == 1.0
    assert any("epsilon is the sum, 1.25" in text for text in apart.unprotected)
    both = build_card(release, CardNotes(parties_per_unit=2))
    assert both.epsilon == 1.25
    assert both.guarantee.across_parties.parties_per_unit == 2
    assert "added" in both.guarantee.across_parties.assumption
    assert both.to_dict()["guarantee"]["per_party"] == [
        {"party": "source", "epsilon": 0.25, "delta": 0.0, "recorded": True},
        {"party": "target", "epsilon": 1.0, "delta": 0.0, "recorded": True},
    ]
    assert not any("sum" in text for text in both.unprotected)


def test_a_seeded_receipt_makes_a_simulation(make_release):
    own = Ledger()
    own.open_account("a")
    seeded = own.charge("a", Guarantee(1.0), purpose="x", simulated=True)
    with pytest.raises(InvalidParameter, match="seeded"):
        make_release(receipt=seeded)
    card = make_release(receipt=seeded, simulated=True).card
    assert card.status == "simulated"
    assert all(one.epsilon is None for one in card.guarantee.adversaries)


def edit(*path_and_value):
    *path, value = path_and_value

    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        # Those that a forger would make are among the forgeries of the scenarios.
        edit("guarantee", "definition", "approximate differential privacy"),
        edit("guarantee", "max_rows_per_unit", 2),
        edit("guarantee", "across_parties", "parties_per_unit", 2),
        edit("guarantee", "adversaries", 0, "epsilon", 0.1),
        edit(
            "guarantee", "per_party", [{"party": "a", "epsilon": 1, "delta": 0, "recorded": True}]
        ),
        edit("accounting", "receipt", None),
        edit("accounting", "receipt", "simulated", True),
        edit("accounting", "guarantee", "epsilon", 2.0),
        edit("risk_in_words", "text", "No risk at all."),
        edit("mechanism", "noise", "seeded"),
        edit("status", "simulated"),
        edit("status", "unrecorded"),
        edit("ledger_head", None),
        edit("prior_spend", "after", 0.2),
        edit("prior_spend", "cap", None),
        edit("accounting", "method", "by a person"),
        edit("guarantee", "scope", "everything that was ever released"),
        edit("accounting", "receipt", "guarantee", "unit", "party"),
    ],
)
def test_a_card_that_contradicts_itself_is_refused(document, change):
    change(document)
    with pytest.raises(InvalidRelease, match="contradicts itself"):
        Card.from_dict(document)


def test_errors_name_the_key_and_never_a_value(document):
    for path, junk in [
        (("guarantee", "unit"), "secret4711"),
        (("created",), "secret4711"),
        (("utility", 0, "value"), "secret4711"),
        (("files",), {"x": "secret4711"}),
        (("tuning",), ["secret4711"]),
    ]:
        spoiled = copy.deepcopy(document)
        edit(*path, junk)(spoiled)
        with pytest.raises(InvalidRelease, match="card." + r"\.".join(map(str, path))) as caught:
            Card.from_dict(spoiled)
        assert "secret4711" not in str(caught.value)
