"""The dashboard in a browser: five questions by clicking, live runs, approvals, hostile text."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import ChargeApproval, Ledger, reset_witness
from confrere.release import Approval, CardNotes, Curator, load_release
from confrere_federation.progress import Progress, read_progress
from tests.faces.dashboard.test_pages import PAYLOADS
from tests.faces.dashboard.world import World, build, poison

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def browser():
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no chromium here: `make test-browser` installs it where it may")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


class Served:
    """A dashboard in a process of its own, and a browser's window onto it."""

    def __init__(self, browser, folder, witness):
        self.browser = browser
        self.process = subprocess.Popen(
            [sys.executable, "-m", "confrere.cli", "dashboard", str(folder)],
            env=os.environ | {"CONFRERE_WITNESS": str(witness)},
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + self.process.stderr.read()
        self.base = address[0].split("/enter")[0]
        self.asked, self.dialogs = [], []
        first = self.window(enter=address[0])
        self.state = first.context.storage_state()
        first.context.close()

    def window(self, enter=None, **facts):
        """Open a window that notes every request and every dialog."""
        if enter is None:
            facts["storage_state"] = self.state
        page = self.browser.new_context(**facts).new_page()
        page.set_default_timeout(300_000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(enter or self.base)
        return page

    def end(self):
        self.process.terminate()
        self.process.communicate()


def follow(page, link):
    """Click, and wait until the next page is whole: its style decides where lines of text end."""
    with page.expect_navigation():
        page.click(link)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build(tmp_path_factory.mktemp("browser") / "hospital")


@pytest.fixture(scope="module")
def served(browser, world):
    dashboard = Served(browser, world.root, os.environ["CONFRERE_WITNESS"])
    yield dashboard
    dashboard.end()


def test_a_live_run_changes_without_a_reload(served, world):
    page = served.window()
    follow(page, "text=Runs")
    follow(page, "td a")
    page.wait_for_selector("text=gone: branch-2")
    page.evaluate("window.same = true")
    told = read_progress(world.live)
    told["steps"][1]["parties"]["branch-1"] = {"state": "answered", "epsilon": 0.5, "row": 9}
    del told["at"]
    Progress(world.live).say(**told | {"state": "answered: branch-1"})
    page.wait_for_selector("text=paid ε 0.5, row 9")
    assert page.evaluate("window.same") is True
    assert "answered: branch-1" in page.inner_text("main")
    page.context.close()


@pytest.fixture(scope="module")
def hostile(browser, world, tmp_path_factory):
    """A dashboard over five organisations, every text of which is an attack."""
    root = tmp_path_factory.mktemp("hostile")
    for number, payload in enumerate(PAYLOADS):
        _poison(World(root / f"w{number}"), world, payload)
    dashboard = Served(browser, root, os.environ["CONFRERE_WITNESS"])
    yield dashboard
    dashboard.end()


def _poison(place: World, world: World, payload: str) -> None:
    shutil.copytree(world.root, place.root, ignore=shutil.ignore_patterns(".elsewhere"))
    reset_witness(place.ledger, reason="a copy")
    poison(place.study, payload)
    said = ChargeApproval(payload, payload, "2026-11-16T00:00:00Z", payload)
    ledger = Ledger(place.party / "other.ledger")
    ledger.open_account(payload, epsilon=1.0, reason=payload)
    paid = ledger.charge(
        payload, Guarantee(0.1), purpose=payload, approval=said, study=(payload, "ab" * 32)
    )
    ledger.mark_released(paid)
    ledger.refuse((payload, "ab" * 32), name=payload, reason=payload)
    ledger.freeze(payload, reason=payload)
    told = {"study_id": payload, "parties": {payload: payload}}
    cell = {payload: {"state": payload, "code": payload, "epsilon": 1.0, "row": payload}}
    told["steps"] = [{"operation": payload, "step": payload, "parties": cell}]
    Progress(place.live, **told).say(payload)
    (place.live / "line.log").write_text(payload)
    notes = CardNotes(
        title=payload,
        purpose=payload,
        not_for=(payload,),
        curators=(Curator(payload, payload),),
        unit_detail=payload,
        unprotected=(payload,),
        tuning=payload,
        justification=payload,
        approvals=(Approval(payload, payload, "2026-11-16", payload, payload),),
    )
    release = replace(load_release(place.release), _card=None).describe(notes)
    shutil.rmtree(place.release)
    release.save(place.release)


def test_hostile_texts_run_nothing_on_any_screen(hostile):
    page = hostile.window()
    page.add_init_script("window.alert = (text) => { window.hacked = text; };")
    todo, seen, shown = ["/", "/studies", "/runs", "/releases"], set(), ""
    while todo:
        address = todo.pop()
        if address in seen:
            continue
        seen.add(address)
        page.goto(hostile.base + address)
        shown += page.inner_text("body")
        assert page.evaluate("window.hacked") is None, address
        assert page.evaluate("document.scripts.length") == (1 if "/runs/" in address else 0)
        assert page.evaluate("document.querySelectorAll('img, iframe, object, style').length") == 0
        inside = page.eval_on_selector_all("main a", "all => all.map(a => a.getAttribute('href'))")
        todo += [one for one in inside if re.match(r"/(ledger|studies|runs|releases)/", one)]
    assert len(seen) >= 30
    for payload in PAYLOADS:
        assert shown.count(payload) >= 20, payload
    assert hostile.dialogs == []
    page.context.close()


def test_nothing_was_asked_of_another_host(served, hostile):
    """Last: over all that the tests above have done."""
    for dashboard in (served, hostile):
        assert len(dashboard.asked) > 5
        assert [url for url in dashboard.asked if not url.startswith(dashboard.base)] == []
