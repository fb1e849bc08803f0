"""A real line in one process: TLS on the loopback interface, every party in a thread of its own."""

from __future__ import annotations

import threading
import time
import warnings
from contextlib import ExitStack, contextmanager

import pytest

from confrere.federation import answer
from tests.scenarios.deployment import free_ports
from tests.unit.federation.conftest import make_party

__all__ = ["make_party"]

with warnings.catch_warnings():
    # Flower imports names that protobuf and sqlalchemy have deprecated.
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation.flower.answering import run_party
    from confrere.federation.flower.carrying import carrying
    from confrere.federation.flower.keys import make_authority, make_node_key, read_node_key
    from confrere.federation.flower.progress import Progress

END = b"end"


class Served:
    """Answers for a party until it is told to end; ``replies`` stand in for what it would say."""

    def __init__(self, party, replies=()):
        self.party = party
        self.replies = list(replies)
        self.asked = []
        self.finished = False
        self.state = "waiting"

    def handle(self, question):
        self.asked.append(question)
        if question == END:
            self.finished, self.state = True, "released"
            return b"ended"
        self.state = "answered"
        return self.replies.pop(0) if self.replies else answer(question, self.party)


class Wire:
    """A coordinator that listens, and parties that can be sent to it."""

    def __init__(self, folder, names):
        self.folder = folder
        self.names = list(names)
        for name in names:
            make_node_key(folder / name)
        self.authority = make_authority(folder / "authority", ["127.0.0.1"])
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self.threads = {}
        self.errors = {}
        self.states = []

    @contextmanager
    def open(self, *, end=True):
        with carrying(
            nodes={name: self.folder / f"{name}.pem" for name in self.names},
            authority=self.authority,
            host="127.0.0.1",
            port=self.port,
            tell=self.states.append,
        ) as carrier:
            yield carrier
            if end:
                here = [name for name in self.names if name in self.threads]
                carrier.exchange(dict.fromkeys(here, END), 60)
                for thread in self.threads.values():
                    thread.join(60)

    def key(self, name):
        return read_node_key(self.folder / name)

    def send(self, name, session, *, patience=60.0):
        """Let a party connect and answer."""
        home = self.folder / f"home of {name}"
        home.mkdir(exist_ok=True)

        def work():
            try:
                run_party(
                    session,
                    coordinator=self.address,
                    authority=self.authority.certificate,
                    key=self.key(name),
                    progress=Progress(home),
                    patience=patience,
                )
            except Exception as error:
                self.errors[name] = error

        self.threads[name] = threading.Thread(target=work, daemon=True)
        self.threads[name].start()
        return home


@pytest.fixture
def wire(tmp_path):
    return Wire(tmp_path, ["a", "b", "c"])


@pytest.fixture
def connected(wire):
    """Return a way to have parties on the line; they end with the test."""
    with ExitStack() as stack:

        def connect(parties):
            carrier = stack.enter_context(wire.open())
            for party in parties:
                wire.send(party.name, Served(party))
            assert carrier.await_parties([p.name for p in parties], 60) == []
            return carrier

        yield connect


def until(ready, seconds=30.0):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
