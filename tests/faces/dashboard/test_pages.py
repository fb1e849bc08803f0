"""What stands on the screens, and what is decided there: words, amount, key."""

import html
import json
import re
import shutil

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.release import load_release
from confrere_federation.studies.study_file import read_study
from tests.faces.dashboard.conftest import behind_a_front, visit
from tests.faces.dashboard.world import NAMES, WORDS, poison, run_all
from tests.world import Page, lock_key

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
        "Columns age, bmi, fasting glucose, mmol/l (Glu0), smoker",
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


SAID = {
    "name": "B. Kim, data protection",
    "reason": "board of 3 November",
    "justification": "twice last year's records, half the noise",
    "amount": "1",
}
STUDY = r"/studies/\w+/main"


def approval_of_world(world):
    return json.loads((world.party / "approval.json").read_bytes())["approval"]


def answer_all(world, out):
    """Run the study with the approval that is there."""
    aside = world.root / ".elsewhere"
    shutil.copy(world.study, aside)
    files = [world.party / "local.toml", *(aside / f"local/{name}.toml" for name in NAMES[1:])]
    return run_all(aside, out, files, main=world.party / "approval.json")


def test_approval_becomes_an_approval_the_approval_an_answer_and_the_words_reach_the_card(
    world, visitor, tmp_path
):
    study = visitor.link("/studies", STUDY)
    sha256 = read_study(world.study).sha256
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    told = approval_of_world(world)
    assert (told["approved_by"], told["reason"]) == (SAID["name"], SAID["reason"])
    assert (told["epsilon_per_run"], told["study_sha256"]) == (1.0, sha256)
    assert f"Approved by {SAID['name']}" in words(visitor.text(study))
    assert len(list(world.party.glob("approval-*.json"))) == 1  # the earlier one, put aside
    finished = answer_all(world, tmp_path / "run")
    (folder,) = finished.folders.values()
    card = load_release(folder).card
    own = next(one for one in card.approvals if "main/" in one.role)
    assert (own.name, own.justification) == (SAID["name"], SAID["justification"])
    (entry,) = [e for e in Ledger(world.ledger).entries() if e.study_sha256 == sha256]
    assert entry.approval.reason == SAID["reason"]
    assert "Approved, and answered" in words(visitor.text(study))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": " "}, "name: say it"),
        ({"reason": ""}, "reason: say it"),
        ({"justification": ""}, "justification: say it"),
        ({"amount": ""}, "amount: type"),
        ({"amount": "0.5"}, "amount: type"),
        ({"amount": "nan"}, "amount: type"),
        ({"reason": "they are anonymous"}, "reason: it calls something anonymous"),
        ({"name": "x" * 300}, "approval.name must be"),
        ({"sha256": "00"}, "the study has changed since it was shown"),
    ],
)
def test_nothing_is_signed_for_less_than_all_words_and_the_amount(world, visitor, wrong, why):
    study = visitor.link("/studies", STUDY)
    before = approval_of_world(world)
    fields = {**SAID, "decision": "approve", "sha256": read_study(world.study).sha256, **wrong}
    seen = words(visitor.fill(study, code=422, **fields).text)
    assert f"Nothing was done. {why}" in seen
    assert approval_of_world(world) == before


def test_what_the_policy_or_the_budget_does_not_allow_is_not_signed(world):
    text = world.study.read_text()
    world.study.write_text(text.replace("epsilon = 1.0   ", "epsilon = 2.9   "))
    visitor = visit(world.root).enter()
    study = visitor.link("/studies", STUDY)
    assert "The budget does not cover it" in words(visitor.text(study))
    fields = {**SAID, "amount": "2.9", "decision": "approve"}
    seen = visitor.fill(study, code=422, sha256=read_study(world.study).sha256, **fields).text
    assert "Nothing was done" in seen


def test_a_locked_key_is_opened_in_the_terminal_only(world, monkeypatch):
    lock_key(world.party / "main.key", "correct horse")
    fields = {**SAID, "decision": "approve", "sha256": read_study(world.study).sha256}
    asked, typed = [], [None, "wrong", "correct horse"]

    def ask(what):
        asked.append(what)
        return typed[len(asked) - 1]

    visitor = visit(world.root, ask_passphrase=ask).enter()
    study = visitor.link("/studies", STUDY)
    text = visitor.text(study)
    assert "asked for in the terminal that runs the dashboard, never here" in text
    assert 'type="password"' not in text
    assert "nobody typed it" in visitor.fill(study, code=422, **fields).text
    assert "passphrase" in visitor.fill(study, code=422, **fields).text
    visitor.fill(study, **{**fields, "name": "B. Kim\x1b[2J"}, code=422)
    assert "\x1b" not in "".join(asked)
    typed.append("correct horse")
    visitor.fill(study, **fields)
    assert approval_of_world(world)["approved_by"] == SAID["name"]
    assert "epsilon 1" in asked[0]


def test_what_was_approved_is_withdrawn_by_a_button_and_stops(world, visitor, tmp_path):
    study = visitor.link("/studies", STUDY)
    sha256 = read_study(world.study).sha256
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    assert 'value="refuse">Withdraw<' in visitor.text(study)
    no = {"name": "B. Kim", "reason": "the purpose has changed", "decision": "refuse"}
    visitor.fill(study, sha256=sha256, **no)
    assert not (world.party / "approval.json").exists()
    assert "Withdrawn by B. Kim" in words(visitor.text(study))
    assert "withdrawn" in words(visitor.text("/studies"))
    listed = words(visitor.text(visitor.link("/", r"/ledger/\w+")))
    assert "diabetes-2026 withdrawn by B. Kim" in listed
    account = words(visitor.text(visitor.link("/", r"/ledger/\w+\?account=[^\"]+")))
    assert "diabetes-2026 withdrawn by B. Kim" in account
    visitor.fill(study, decision="approve", sha256=sha256, **SAID)
    answer_all(world, tmp_path / "run")
    assert "cannot be called back" in words(visitor.text(study))


def test_who_signed_in_is_who_approves(world):
    access = behind_a_front(by_socket=True, approvers=frozenset({"b.kim@hospital"}))
    visitor = visit(world.root, access=access)
    visitor.headers["x-remote-user"] = "b.kim@hospital"
    study = visitor.link("/studies", STUDY)
    fields = {**SAID, "name": "somebody else", "decision": "approve"}
    visitor.fill(study, sha256=read_study(world.study).sha256, **fields)
    assert approval_of_world(world)["approved_by"] == "b.kim@hospital"
