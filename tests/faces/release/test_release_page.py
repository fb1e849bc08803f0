import re
from dataclasses import replace

import pytest

from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours, Unit
from confrere.release import Utility, card_page
from tests.faces.release.conftest import GUARANTEE
from tests.faces.release.test_release_card import NOTES
from tests.world import Page

SECTIONS = [
    *("The guarantee", "In words", "Protected against whom, who sees what", "Not protected"),
    *("Budget before and after", "How", "Limits", "Quality", "The model", "Approvals"),
    *("Why this ε", "How to check"),
]


def test_the_page_is_whole_and_needs_no_network_and_no_script(release):
    page = card_page(release)
    assert Page(page).titles == SECTIONS
    assert not re.search(r"https?:|<script|<img|<link|\bsrc=|\bhref=|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "anonym" not in page.lower()


def test_a_full_card_is_told_in_full(make_release, ledger):
    utility = Utility("AUC", 0.8123, "a public sample", "public data", 0.8431)
    title = "Diabetes <script>alert(1)</script> & more"
    notes = replace(NOTES, title=title, utility=(utility,))
    page = card_page(make_release().describe(notes, ledger=ledger))
    assert "<script" not in page
    text = Page(page).text
    for part in (
        *(title, "Main Hospital (office@hospital.example)", "ε = 1", "at most 3 of 100"),
        *("before ε 0.5", "this release ε 1", "left ε 1.5"),
        *("ε 1.5 spent after this release, of a cap of 3", "not given 0.8123 0.8431"),
        *("a public sample (public data)", "A. Officer data-protection officer 2026-11-10"),
        *(NOTES.justification, *NOTES.not_for, *NOTES.post_processing),
        *(NOTES.study_sha256, NOTES.replaces, GUARANTEE.theorem, *GUARANTEE.assumptions),
        *("ssh-keygen -Y verify", "sha256sum --check"),
    ):
        assert part in text, part
    assert "width:16.67%" in page
    assert "width:33.33%" in page


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_every_kind_of_promise_has_a_page(make_release, unit, neighbours):
    guarantee = Guarantee(0.5, 1e-6, unit=unit, neighbours=neighbours)
    text = Page(card_page(make_release(guarantee=guarantee, receipt=None))).text
    said = {
        Neighbours.REPLACE_ONE: "one unit been any other",
        Neighbours.ADD_REMOVE: "one unit not been in the data",
    }
    assert said[neighbours] in text
    assert "ε = 0.5, δ = 0.000001" in text
    assert "approximate differential privacy" in text
    assert ("of the data." in text) == (unit is Unit.RECORD)
