"""A desk over invented patients, asked without a server."""

import importlib
import re
import shutil
import warnings

import pytest

from confrere.ledger import reset_witness
from confrere_federation.desk.gathered import ClerkProcess, Desk
from confrere_federation.desk.guarding import Doorkeeper
from confrere_federation.desk.screens import make_app
from tests.unit.desk.world import World, build

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another version of httpx
    from starlette.testclient import TestClient

HOST = "127.0.0.1:8765"


class ClerkHere(ClerkProcess):
    """Does the clerk's work in this process."""

    def _asked(self, function, args, facts):
        return getattr(importlib.import_module("confrere_federation.desk.clerk"), function)(
            *args, **facts
        )


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

    def __init__(self, desk, keeper, **facts):
        self.desk, self.keeper = desk, keeper
        super().__init__(make_app(desk, keeper), base_url=f"http://{HOST}", **facts)

    def enter(self):
        answer = self.get(f"/enter?token={self.keeper.token}", follow_redirects=False)
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


def visit(*folders, keeper=None, **facts) -> Visitor:
    desk = Desk(folders, clerk=ClerkHere(), **facts)
    return Visitor(desk, keeper or Doorkeeper(hosts=frozenset({HOST})))


@pytest.fixture
def visitor(world) -> Visitor:
    return visit(world.root).enter()
