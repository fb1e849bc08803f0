"""What stands on the screens: five questions answered, and what is wrong shown as what it is."""

import html
import re

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from tests.faces.dashboard.conftest import visit
from tests.faces.dashboard.world import WORDS, poison
from tests.world import Page

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)//</title><svg onload=alert(1)>",
)


def words(text):
    """What a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


#: What stands on a screen: the list that it is linked from, the pattern of the link, words.
SHOWN = {
    "what is left this year and what one patient has paid": (
        *("/", None, "2 a year", "1.5 this year", "ε 1.6 is what one patient has spent in all"),
        *("ε 0.5 of it in", "2024: 0.4 2025: 0.7"),
    ),
    "a ledger's years": (
        *("/", r"/ledger/\w+\?account=[^\"]+", "12 rows verified", "2024: ε 0.4, 2025: ε 0.7"),
    ),
    "how many people and which columns are in a release": (
        *("/releases", r"/releases/\w+", "6500 records of 3 organisations are in it"),
        "Columns age, bmi, Glu0, smoker",
    ),
    "a study that waits": (
        *("/studies", r"/studies/\w+/main", "This study is awaiting approval by main"),
        "how many records there are: free, a public number",
        *("one patient spends ε 2 in all, with 2 rows", "Would be left 0.4"),
        *("method.epsilon 0.5 1.0", "privacy.max_rows_per_unit 1 2"),
        'confrere approve study.toml --name "..."',
    ),
    "who was asked what in a run": (
        *("/runs", r"/runs/\w+", "paid ε 0.5, row 7", "branch-2 gone", "left for answers"),
        "a stranger was turned away",
    ),
}


def test_what_stands_on_the_screens(visitor):
    for name, (address, pattern, *told) in SHOWN.items():
        seen = words(visitor.text(visitor.link(address, pattern) if pattern else address))
        assert [text for text in told if text not in seen] == [], name
        assert "✓" not in seen  # signs are the style sheet's; the word stands in the text
        assert address != "/releases" or seen.count(" signed ") == 3


def test_which_release_a_row_paid_for_who_approved_it_and_why(visitor):
    ledger = visitor.link("/", r"/ledger/\w+\?account=[^\"]+")
    row = visitor.link(ledger, r"/ledger/\w+/row/7")
    seen = words(visitor.text(row))
    assert "Which release it paid for Diabetes, main hospital and two branches" in seen
    assert f"Approved by {WORDS['name']}" in seen
    assert f"Why this epsilon {WORDS['justification']}" in seen
    release = visitor.link(row, r"/releases/\w+")
    assert "row 7" in words(visitor.text(release))


# -- what is wrong is shown as what it is -------------------------------------------------------


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_study_runs_nothing(world, payload):
    poison(world.study, payload)
    visitor = visit(world.root).enter()
    for address in ("/", "/studies", visitor.link("/studies", r"/studies/\w+/main")):
        page = Page(visitor.text(address))
        assert page.tags.isdisjoint({"script", "img", "style", "iframe", "object", "embed", "base"})
        assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert page.text.count(payload) >= 6  # on the study's own page, as words


def test_a_study_that_cannot_be_read_is_told_so(world):
    world.study.write_text('[study]\nid = 1\n[[party]]\nname = "<b>x</b>"\n')
    seen = visit(world.root).enter().text("/studies")
    assert "is not a study that can be read" in seen
    assert "<b>x" not in seen


def test_a_ledger_that_does_not_verify_shows_nothing_else(world):
    content = world.ledger.read_bytes()
    world.ledger.write_bytes(content.replace(b"A. Reuter", b"B. Reuter"))
    visitor = visit(world.root).enter()
    seen = words(visitor.text("/"))
    assert "main.ledger does not verify" in seen
    assert "B. Reuter" not in seen
    assert "main/checkups-2010" not in seen
    assert "This ledger does not verify" in words(visitor.text(visitor.link("/", r"/ledger/\w+")))
    assert "confrere_ledgers_not_verified 1" in visitor.text("/metrics")


def test_a_ledger_that_was_put_back_is_against_its_witness(world):
    before = world.ledger.read_bytes()
    ledger = Ledger(world.ledger)
    ledger.charge("main/checkups-2010", Guarantee(0.1), purpose="more")
    draft = world.ledger.with_name("draft")
    draft.write_bytes(before)
    draft.replace(world.ledger)
    seen = words(visit(world.root).enter().text("/"))
    assert "main.ledger is not as it was left" in seen
    assert "speaks against it" in seen


def test_a_broken_release_and_signature_are_told_so(world):
    signature = world.release / "signatures" / "main.sig"
    (world.release / "signatures" / "branch-1.sig").write_bytes(signature.read_bytes())
    visitor = visit(world.root).enter()
    seen = words(visitor.text(visitor.link("/releases", r"/releases/\w+")))
    assert "branch-1 signed by another key than the study names: do not rely on it" in seen
    signature.write_bytes(signature.read_bytes().replace(b"A", b"B"))
    assert "does not verify" in words(visitor.text("/releases"))
    card = world.release / "card.json"
    card.write_text(card.read_text().replace("Diabetes", "<script>"))
    seen = visitor.text(visitor.link("/releases", r"/releases/\w+"))
    assert "does not verify: do not use it" in seen
    assert "<script>" not in seen


def test_hostile_folder_names_are_words_too(tmp_path):
    place = tmp_path / "<script>alert(1)<" / "x"
    place.mkdir(parents=True)
    Ledger(place / "<b>.ledger").open_account("<i>name</i>", epsilon=1.0, reason="<u>")
    visitor = visit(tmp_path).enter()
    shown = visitor.text("/") + visitor.text(visitor.link("/", r"/ledger/\w+"))
    assert "&lt;i&gt;name&lt;/i&gt;" in shown
    for tag in ("<b>.", "<i>", "<u>", "<script>"):
        assert tag not in shown
