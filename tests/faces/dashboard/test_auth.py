"""Who is let in to the dashboard, and what a browser is told to keep to."""

import pytest

from confrere_federation.dashboard.auth import LARGEST_BODY, POLICY, SECRET_HEADER, AccessControl
from tests.faces.dashboard.conftest import HOST, behind_a_front, visit
from tests.world import contents

ADDRESSES = ["/", "/studies", "/runs", "/releases", "/metrics", "/nothing", "/enter"]
OWN = {"origin": f"http://{HOST}"}


@pytest.fixture
def stranger(tmp_path):
    return visit(tmp_path)


@pytest.fixture
def guest(tmp_path):
    return visit(tmp_path).enter()


@pytest.mark.parametrize("address", ADDRESSES)
def test_without_the_token_nothing_is_shown(stranger, address):
    answer = stranger.get(address)
    assert answer.status_code == 401
    assert "<html" not in answer.text


def test_a_token_is_good_once_and_the_next_one_is_told(tmp_path):
    told = []
    access = AccessControl(hosts=frozenset({HOST}), renewed=told.append)
    first = access.token
    visitor = visit(tmp_path, access=access).enter()
    assert visitor.get("/").status_code == 200
    other = visit(tmp_path, access=access)
    assert other.get(f"/enter?token={first}").status_code == 401
    assert told == [access.token]
    other.enter()
    assert other.get("/").status_code == visitor.get("/").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:1", "127.0.0.1", "evil.example:8765", "localhost.evil:8765"]
)
def test_by_another_name_it_is_not_at_home(guest, host):
    """A page whose name was bound anew to this machine sends its own name, and is found out."""
    assert guest.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:1", f"http://{HOST}.evil", "file://"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_are_refused(guest, origin, method):
    assert guest.request(method, "/", headers={"origin": origin}).status_code == 403


def test_a_form_without_an_origin_is_refused_unless_the_browser_vouches(guest):
    assert guest.post("/studies/a/b", data={}).status_code == 403
    assert guest.post("/studies/a/b", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    vouched = {"sec-fetch-site": "same-origin"}
    answer = guest.post("/studies/a/b", data={"form_key": "no"}, headers=vouched)
    assert answer.status_code == 403
    assert "Nothing was done" in answer.text


def test_bodies_are_small_whatever_is_announced(guest):
    long = "x" * (LARGEST_BODY + 1)
    assert guest.post("/studies/a/b", content=long, headers=OWN).status_code == 413
    pieces = guest.post("/studies/a/b", content=(long.encode() for _ in range(1)), headers=OWN)
    assert pieces.status_code == 413
    lied = {**OWN, "content-length": "-1"}
    assert guest.post("/studies/a/b", content=b"", headers=lied).status_code == 413


@pytest.mark.parametrize("address", [*ADDRESSES, "/static/dashboard.css", "/static/../secret"])
def test_every_answer_binds_the_browser(guest, address):
    headers = guest.get(address).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


SECRET = "5f0c" * 16


@pytest.mark.parametrize("proof", [{"secret": SECRET}, {"by_socket": True}], ids=str)
def test_a_sign_in_s_header_counts_only_from_a_front_that_proves_itself(tmp_path, proof):
    named = {"x-remote-user": "dr.who@hospital"}
    assert visit(tmp_path).get("/", headers=named).status_code == 401
    unproven = behind_a_front()
    assert visit(tmp_path, access=unproven).get("/", headers=named).status_code == 401
    access = behind_a_front(**proof)
    shown = {SECRET_HEADER: SECRET} if "secret" in proof else {}
    answer = visit(tmp_path, access=access).get("/", headers=named | shown)
    assert answer.status_code == 200
    assert "dr.who@hospital" in answer.text
    assert visit(tmp_path, access=access).get("/", headers=shown).status_code == 401
    long = {"x-remote-user": "x" * 201} | shown
    assert visit(tmp_path, access=access).get("/", headers=long).status_code == 401
    # Nor is there another way in beside the front.
    entering = visit(tmp_path, access=access).get(f"/enter?token={access.token}", headers=shown)
    assert entering.status_code == 401


@pytest.mark.parametrize("guess", ["", SECRET[:-1], SECRET + "0", "é" * 32])
def test_another_local_user_is_not_the_officer(world, guess):
    """Whoever is on the machine reaches the port, and can write any header but the secret."""
    officer = {"x-remote-user": "Dr. Officer"}
    access = behind_a_front(secret=SECRET, approvers=frozenset({"Dr. Officer"}))
    before = contents(world.root)
    attacker = visit(world.root, access=access)
    wrong = officer | ({SECRET_HEADER.encode(): guess.encode()} if guess else {})
    assert attacker.get("/studies", headers=wrong).status_code == 401
    posted = attacker.post(
        "/studies/a/main",
        data={"decision": "approve", "form_key": access.form_key("Dr. Officer")},
        headers=wrong | OWN,
    )
    assert posted.status_code == 401
    assert contents(world.root) == before


def test_others_may_look_and_not_sign(world):
    access = behind_a_front(secret=SECRET, approvers=frozenset({"Dr. Officer"}))
    guest = visit(world.root, access=access)
    guest.headers.update({SECRET_HEADER: SECRET, "x-remote-user": "an operator"})
    study = guest.link("/studies", r"/studies/\w+/main")
    page = guest.text(study)
    assert "may look, and is not among those who decide" in page
    assert "Approve and sign" not in page
    before = contents(world.root)
    fields = {"form_key": access.form_key("an operator"), "decision": "refuse", "reason": "no"}
    answer = guest.post(study, data=fields, headers=OWN)
    assert (answer.status_code, contents(world.root)) == (403, before)
    guest.headers["x-remote-user"] = "Dr. Officer"
    assert "Approve and sign" in guest.text(study)


def test_a_program_reads_counts_with_its_own_token_and_nothing_else(stranger):
    bearer = {"authorization": f"Bearer {stranger.access.metrics_token}"}
    answer = stranger.get("/metrics", headers=bearer)
    assert answer.status_code == 200
    assert "confrere_ledgers 0" in answer.text
    assert stranger.get("/", headers=bearer).status_code == 401
    wrong = {"authorization": f"Bearer {stranger.access.token}"}
    assert stranger.get("/metrics", headers=wrong).status_code == 401


@pytest.mark.parametrize("host", [HOST, "10.0.0.7"])
def test_anybody_may_ask_whether_it_runs_and_learns_nothing_else(stranger, host):
    answer = stranger.get("/health", headers={"host": host})
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert stranger.post("/health", headers={"host": host}).status_code in (403, 421)
