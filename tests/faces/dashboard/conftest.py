"""A dashboard over invented patients, asked without a server."""

import re
import shutil
import warnings

import pytest

from confrere.ledger import reset_witness
from confrere_federation.dashboard.auth import AccessControl
from confrere_federation.dashboard.screens import make_app
from confrere_federation.dashboard.state import Dashboard
from tests.faces.dashboard.world import World, build

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another version of httpx
    from starlette.testclient import TestClient

HOST = "127.0.0.1:8765"


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> World:
    return build(tmp_path_factory.mktemp("world") / "w")


@pytest.fixture
def world(made, tmp_path) -> World:
    shutil.copytree(made.root, tmp_path / "w")
    copied = World(tmp_path / "w")
    reset_witness(copied.ledger, reason="a copy for a test")
    return copied


class Visitor(TestClient):
    """Somebody with a browser that has no window."""

    def __init__(self, dashboard, access, **facts):
        self.dashboard, self.access = dashboard, access
        super().__init__(make_app(dashboard, access), base_url=f"http://{HOST}", **facts)

    def enter(self):
        answer = self.get(f"/enter?token={self.access.token}", follow_redirects=False)
        assert answer.status_code == 303
        return self

    def text(self, address, code=200):
        answer = self.get(address)
        assert answer.status_code == code, answer.text
        return answer.text

    def fill(self, address, code=303, **fields):
        key = re.search(r'name="form_key" value="(\w+)"', self.text(address))
        fields.setdefault("form_key", key[1] if key else "")
        headers = {"origin": f"http://{HOST}"}
        answer = self.post(address, data=fields, headers=headers, follow_redirects=False)
        assert answer.status_code == code, answer.text
        return answer

    def link(self, address, pattern):
        """Follow the first link of a page whose address fits."""
        found = re.search(f'href="({pattern})"', self.text(address))
        assert found, f"no link {pattern} on {address}"
        return found[1].replace("&amp;", "&")


def visit(*folders, access=None, **facts) -> Visitor:
    dashboard = Dashboard(folders, **facts)
    return Visitor(dashboard, access or AccessControl(hosts=frozenset({HOST})))


def behind_a_front(**facts) -> AccessControl:
    """Who signs in elsewhere is named in a header."""
    return AccessControl(hosts=frozenset({HOST}), header="x-remote-user", **facts)


@pytest.fixture
def visitor(world) -> Visitor:
    return visit(world.root).enter()
